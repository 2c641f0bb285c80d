"""Graphs of ops with known costs, as GraphDefs of the op GrapplerGoWork (cc/cost_graph.h)."""

from collections.abc import Mapping, Sequence

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import cost_graph_pb2, graph_pb2, node_def_pb2

from grappler_go.errors import BadInput, plain
from grappler_go.graph_input import GraphInput

OP = "GrapplerGoWork"
# The kernel label that keeps an op on devices of one type.
_LABEL = "_kernel"
LABELS = {"CPU": "cpu_only", "GPU": "gpu_only"}


def make_op(
    name: str,
    inputs: Sequence[str],
    *,
    us: Mapping[str, float],
    output_bytes: Sequence[float],
    persistent_bytes: int = 0,
    workspace_bytes: int = 0,
    colocate_with: str = "",
) -> node_def_pb2.NodeDef:
    """Makes an op with declared costs.

    Args:
      name: of the op.
      inputs: "op:port" and "^op" of what it waits for, data before control.
      us: compute time in microseconds by device type; an op with one type stays on such devices.
      output_bytes: size of each output.
      persistent_bytes: what it keeps across steps.
      workspace_bytes: what it needs beside its outputs while it runs.
      colocate_with: name of an op that it must share a device with; "" = none.
    """
    # An output that nobody reads lives as long as the op runs.
    sizes = [*output_bytes, *([workspace_bytes] if workspace_bytes else [])]
    node = node_def_pb2.NodeDef(name=name, op=OP, input=inputs)
    node.attr["num_inputs"].i = sum(not text.startswith("^") for text in inputs)
    node.attr["num_outputs"].i = len(sizes)
    node.attr["output_bytes"].list.f.extend(sizes)
    node.attr["us_cpu"].f = us.get("CPU", -1)
    node.attr["us_gpu"].f = us.get("GPU", -1)
    node.attr["persistent_bytes"].i = persistent_bytes
    if len(us) == 1:
        (kind,) = us
        node.attr[_LABEL].s = LABELS[kind].encode()
    if colocate_with:
        node.attr["_class"].list.s.append(f"loc:@{colocate_with}".encode())
    return node


def check_devices(graph: GraphInput, devices: Sequence[str]) -> None:
    """Checks that every op with declared costs has one for some device.

    Raises:
      BadInput: an op's costs are for a type that is not among the devices.
    """
    if not graph.declared:
        return
    present = {device.rpartition("device:")[2].partition(":")[0] for device in devices}
    absent = {LABELS[kind].encode(): kind for kind in LABELS if kind not in present}
    for node in graph.graph_def.node:
        # Asking a map of messages for a key that it lacks would add it.
        kind = absent.get(node.attr[_LABEL].s) if _LABEL in node.attr else None
        if kind:
            raise BadInput(
                f"{graph.source}: the time of op '{node.name}' is for a {kind}, and there is "
                f"none among the devices {', '.join(devices)}"
            )


def parse_cost_graph(source: str, text: str) -> GraphInput:
    """Reads a CostGraphDef, as TensorFlow's RunMetadata has it.

    An op takes its `compute_cost` or, without one, `compute_time` and `memory_time` together, on
    devices of the type that it was recorded on; without a device, on any. That an output may be an
    alias of an input is not used: it counts as memory of its own.

    Raises:
      BadInput: the text is no CostGraphDef, or one with a wrong field.
    """
    cost_graph = cost_graph_pb2.CostGraphDef()
    try:
        text_format.Parse(text, cost_graph)
    except text_format.ParseError as error:
        raise BadInput(f"{source}: not a CostGraphDef: {plain(str(error))}") from error
    by_id = _by_id(source, cost_graph)
    graph = graph_pb2.GraphDef()
    placement = {}
    for index, node in enumerate(cost_graph.node):
        where = f"{source}: node[{index}] '{node.name}'"
        device = _device(where, node)
        kind = device.device_type
        us = _time_us(where, node)
        op = make_op(
            node.name,
            _inputs(where, node, by_id),
            us={kind: us} if kind else dict.fromkeys(LABELS, us),
            # A size that TensorFlow does not know is below 0.
            output_bytes=[max(0, output.size) for output in node.output_info],
            persistent_bytes=max(
                0, node.persistent_memory_size, node.device_persistent_memory_size
            ),
            workspace_bytes=max(
                0,
                node.temporary_memory_size,
                node.host_temp_memory_size + node.device_temp_memory_size,
            ),
        )
        graph.node.append(op)
        if _is_full(device):
            placement[node.name] = device.to_string()
    return GraphInput(
        source=source,
        graph_def=graph,
        fetch=tuple(node.name for node in cost_graph.node if node.is_final),
        declared=True,
        devices=tuple(sorted(set(placement.values()))),
        placement=placement,
        node_ids={node.id: node.name for node in cost_graph.node},
    )


def _by_id(
    source: str, cost_graph: cost_graph_pb2.CostGraphDef
) -> dict[int, cost_graph_pb2.CostGraphDef.Node]:
    if not cost_graph.node:
        raise BadInput(f"{source}: a CostGraphDef without nodes")
    by_id: dict[int, cost_graph_pb2.CostGraphDef.Node] = {}
    names = set()
    for index, node in enumerate(cost_graph.node):
        if not node.name or node.name in names:
            raise BadInput(f"{source}: node[{index}].name is '{node.name}', must be one of its own")
        if node.id in by_id:
            raise BadInput(
                f"{source}: node[{index}].id is {node.id}, which '{by_id[node.id].name}' has too"
            )
        names.add(node.name)
        by_id[node.id] = node
    return by_id


def _inputs(
    where: str,
    node: cost_graph_pb2.CostGraphDef.Node,
    by_id: dict[int, cost_graph_pb2.CostGraphDef.Node],
) -> list[str]:
    inputs = []
    for info in node.input_info:
        source = by_id.get(info.preceding_node)
        if source is None:
            raise BadInput(f"{where}: preceding_node is {info.preceding_node}, the id of no node")
        if not 0 <= info.preceding_port < len(source.output_info):
            raise BadInput(
                f"{where}: preceding_port is {info.preceding_port}, and '{source.name}' has "
                f"{len(source.output_info)} outputs"
            )
        inputs.append(f"{source.name}:{info.preceding_port}")
    for number in node.control_input:
        if number not in by_id:
            raise BadInput(f"{where}: control_input is {number}, the id of no node")
        inputs.append(f"^{by_id[number].name}")
    return inputs


def _time_us(where: str, node: cost_graph_pb2.CostGraphDef.Node) -> int:
    for name in ("compute_cost", "compute_time", "memory_time"):
        if getattr(node, name) < 0:
            raise BadInput(f"{where}: {name} is {getattr(node, name)}, must be at least 0")
    return node.compute_cost or node.compute_time + node.memory_time


def _device(where: str, node: cost_graph_pb2.CostGraphDef.Node) -> tf.DeviceSpec:
    try:
        device = tf.DeviceSpec.from_string(node.device)
    except ValueError as error:
        raise BadInput(f"{where}: device is '{node.device}', no device name") from error
    if device.device_type not in (None, *LABELS):
        raise BadInput(f"{where}: device is '{node.device}', must be a CPU or a GPU")
    return device


def _is_full(device: tf.DeviceSpec) -> bool:
    parts = (device.job, device.replica, device.task, device.device_type, device.device_index)
    return None not in parts
