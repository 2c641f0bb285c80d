"""What every workload is: a graph, how to start it, one step of it, and its layers."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

_LAYER = re.compile(r"(?:^|[/_])layer_(\d+)(?:/|$)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """A model in a graph of its own, with deterministic weights and inputs held in variables.

    Attributes:
      name: for tables and file names.
      graph: the graph; it is not changed any more.
      init_op: sets every variable to the same values each time it runs.
      train_op: one training step; None for a forward pass.
      loss: scalar.
      outputs: values to compare between two ways of running the step. In training, variables in it
        are read after their update.
      layer_of: layer of each node by name, from 0 to layers - 1; a gradient or an update belongs
        to the layer of its weights.
      layers: number of layers.
      feeds: values to feed, by tensor name.
    """

    name: str
    graph: tf.Graph
    init_op: tf.Operation
    train_op: tf.Operation | None
    loss: tf.Tensor
    outputs: Mapping[str, tf.Tensor]
    layer_of: Mapping[str, int]
    layers: int
    feeds: Mapping[str, object] = dataclasses.field(default_factory=dict)

    @property
    def fetches(self) -> dict[str, object]:
        """What `session.run` takes for one step; `outputs` is what it returns of interest."""
        step = {} if self.train_op is None else {"train_op": self.train_op}
        return {"outputs": dict(self.outputs), **step}

    @property
    def fetch_names(self) -> tuple[str, ...]:
        """Names of the nodes that one step fetches or runs."""
        train = [] if self.train_op is None else [self.train_op.name]
        return tuple(dict.fromkeys([*(t.op.name for t in self.outputs.values()), *train]))


@contextlib.contextmanager
def layer_scope(layer: int) -> Iterator[None]:
    """Puts variables and operations into the scope `layer_N`, again if it was left before."""
    with (
        tf.compat.v1.variable_scope(f"layer_{layer}", auxiliary_name_scope=False),
        tf.name_scope(f"layer_{layer}/"),
    ):
        yield


def layers_by_name(graph: tf.Graph) -> dict[str, int]:
    """Returns the layer of each node: from the scope `layer_N` in its name, else of a neighbour.

    Gradients and updates carry the scope of what they belong to in their names. A sum of gradients
    (`AddN`) has none and takes the layer of its first input that has one; a node without such an
    input (a constant, say) takes that of its first consumer. The rest is in layer 0.
    """
    operations = graph.get_operations()  # In topological order: inputs are created first.
    layer: dict[str, int] = {}
    for operation in operations:
        match = _LAYER.search(operation.name)
        if match:
            layer[operation.name] = int(match.group(1))
            continue
        known = [layer[each.op.name] for each in operation.inputs if each.op.name in layer]
        if known:
            layer[operation.name] = known[0]
    for operation in reversed(operations):
        if operation.name in layer:
            for tensor in operation.inputs:
                layer.setdefault(tensor.op.name, layer[operation.name])
    return {operation.name: layer.get(operation.name, 0) for operation in operations}


def by_layer(workload: Workload, devices: Sequence[str]) -> dict[str, str]:
    """Returns a human's placement, device by node name: equal runs of layers, one a device."""
    return {
        node: devices[layer * len(devices) // workload.layers]
        for node, layer in workload.layer_of.items()
    }


def place(workload: Workload, device_of: Mapping[str, str]) -> Workload:
    """Returns the workload with these devices; nodes that `device_of` lacks keep theirs.

    Raises:
      ValueError: if `device_of` names a node that the graph does not have.
    """
    graph_def = workload.graph.as_graph_def()
    unknown = set(device_of) - {node.name for node in graph_def.node}
    if unknown:
        raise ValueError(f"place: {workload.name} has no node {min(unknown)!r}")
    for node in graph_def.node:
        node.device = device_of.get(node.name, node.device)
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    train = workload.train_op
    return dataclasses.replace(
        workload,
        graph=graph,
        init_op=graph.get_operation_by_name(workload.init_op.name),
        train_op=None if train is None else graph.get_operation_by_name(train.name),
        loss=graph.get_tensor_by_name(workload.loss.name),
        outputs={
            key: graph.get_tensor_by_name(tensor.name) for key, tensor in workload.outputs.items()
        },
    )
