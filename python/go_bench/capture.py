"""The graph of a workload as the pass is given it, and plans for it that the pass executes."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

import grappler_go
from go_bench import measure
from go_bench.workloads import Workload

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Captured:
    """A graph at the point where the pass sees it, after TensorFlow's own optimizers.

    Attributes:
      graph_def: the graph.
      fetch, feed: what the step fetches and is fed.
      devices: full names of all devices that the pass was offered.
    """

    graph_def: graph_pb2.GraphDef
    fetch: tuple[str, ...]
    feed: tuple[str, ...]
    devices: tuple[str, ...]

    def open(self, *, profile: str, costs: str) -> grappler_go.OpGraph:
        """Opens the graph for planning with a device profile and a file of op costs."""
        return grappler_go.OpGraph(
            self.graph_def,
            self.devices,
            fetch=self.fetch,
            feed=self.feed,
            profile=profile,
            costs=costs,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """Where each op runs, and in which order.

    Attributes:
      placement: device indices, i32 [N].
      priority: higher goes first, i32 [N]; None = as TensorFlow does.
    """

    placement: np.ndarray
    priority: np.ndarray | None = None

    def to_json(self, graph: grappler_go.OpGraph, source: str) -> str:
        """Returns the plan as the option `plan` takes it from a file."""
        priority = np.zeros_like(self.placement) if self.priority is None else self.priority
        nodes = [
            {"name": name, "device": int(device), "priority": int(level)}
            for name, device, level in zip(graph.names, self.placement, priority, strict=True)
        ]
        return json.dumps(
            {"version": 1, "source": source, "devices": list(graph.devices), "nodes": nodes}
        )


def capture(workload: Workload, target: str, config: tf.compat.v1.ConfigProto) -> Captured:
    """Runs one step and returns the graph that the pass was given.

    Args:
      workload: what to run.
      target: where the session connects.
      config: of the session, without the pass.

    Raises:
      RuntimeError: if the pass did not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        own = v1.ConfigProto()
        own.CopyFrom(config)
        # Nothing is proposed, so that the graph stays as it is.
        own.MergeFrom(
            grappler_go.session_config(
                report=folder,
                save_graphs=True,
                candidates="single_device",
                policy="none",
                search=0,
                margin=0.99,
            )
        )
        with measure.open_session(workload, target, own) as session:
            session.run(workload.fetches, feed_dict=dict(workload.feeds))
        # The session has the initialiser optimised, too.
        wanted = set(workload.fetch_names)
        for path in sorted(pathlib.Path(folder).glob("*.pb")):
            report = json.loads(path.with_suffix(".json").read_text())
            if wanted <= {name.partition(":")[0] for name in report["fetch"]}:
                break
        else:
            raise RuntimeError(f"capture: the pass was not given {workload.name}")
        return Captured(
            graph_def=graph_pb2.GraphDef.FromString(path.read_bytes()),
            fetch=tuple(report["fetch"]),
            feed=tuple(report["feed"]),
            devices=tuple(report["devices"]),
        )
