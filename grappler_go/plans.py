"""Plans: what was decided for one graph."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

from tensorflow.core.framework import graph_pb2

from grappler_go.op_graph import OpGraph


@dataclasses.dataclass(frozen=True)
class Plan:
    """The decisions for one graph and what was predicted of them.

    Attributes:
      json: the whole report as JSON text; the format is in cc/report.h.
    """

    json: str

    @property
    def report(self) -> dict[str, Any]:
        """The report as a dict."""
        return json.loads(self.json)

    @property
    def source(self) -> str:
        """The planner that made it, or "default" where the graph stays as it is."""
        return self.report["source"]

    @property
    def placement(self) -> dict[str, str]:
        """The device of each op by name."""
        report = self.report
        return {node["name"]: report["devices"][node["device"]] for node in report["nodes"]}


def plan(
    graph: graph_pb2.GraphDef,
    devices: Sequence[str],
    *,
    fetch: Iterable[str] = (),
    feed: Iterable[str] = (),
    **options: Any,
) -> Plan:
    """Plans a graph for devices that need not be attached.

    Args:
      graph: the GraphDef; ops without a device count as where TensorFlow's placer would put them.
      devices: full device names, such as "/job:worker/replica:0/task:1/device:CPU:0".
      fetch: names of fetched ops or tensors.
      feed: names of fed ops or tensors.
      **options: as for `enable`.

    Raises:
      tf.errors.InvalidArgumentError: a malformed graph, device name or option.
    """
    op_graph = OpGraph(
        graph,
        devices,
        fetch=fetch,
        feed=feed,
        profile=options.get("profile"),
        costs=options.get("costs", ""),
        override_user_devices=options.get("override_user_devices", False),
        move_state=options.get("move_state", False),
    )
    return Plan(op_graph.choose(**options))


def apply(
    graph: graph_pb2.GraphDef,
    plan: Plan,
    *,
    fetch: Iterable[str] = (),
    feed: Iterable[str] = (),
    override_user_devices: bool = False,
    move_state: bool = False,
) -> graph_pb2.GraphDef:
    """The graph with the plan written into it; the argument is not changed.

    Args:
      graph: the GraphDef that the plan was made for.
      plan: what `plan` returned, or one with other decisions.
      fetch: as for `plan`.
      feed: as for `plan`.
      override_user_devices: as for `enable`.
      move_state: as for `enable`.

    Raises:
      tf.errors.FailedPreconditionError: the plan is not legal for the graph; the message names op
      and rule.
      tf.errors.NotFoundError: the plan names an op that the graph does not have.
      tf.errors.InvalidArgumentError: the plan is malformed.
    """
    op_graph = OpGraph(
        graph,
        plan.report["devices"],
        fetch=fetch,
        feed=feed,
        override_user_devices=override_user_devices,
        move_state=move_state,
    )
    return op_graph.apply(plan.json)
