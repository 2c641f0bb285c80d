"""The ops of one step of a workload, for devices that need not be attached."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import grappler_go
from go_bench.workloads import Workload
from grappler_go import device_profiles


def step_graph(workload: Workload) -> graph_pb2.GraphDef:
    """Returns what one step runs, without the ops that set its variables up."""
    return tf.compat.v1.graph_util.extract_sub_graph(
        workload.graph.as_graph_def(), list(workload.fetch_names)
    )


def open_on_paper(
    workload: Workload, devices: device_profiles.DeviceProfile
) -> grappler_go.OpGraph:
    """Opens a workload's step on devices known by their profile alone, with analytical costs.

    Nothing has run yet, so that variables move with the ops that use them.
    """
    return grappler_go.OpGraph(
        step_graph(workload),
        devices.devices,
        fetch=workload.fetch_names,
        feed=list(workload.feeds),
        profile=devices.json,
        move_state=True,
    )
