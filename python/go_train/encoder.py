"""The encoder: from the policy's inputs to a GraphTensor, then GraphSAGE to states.

GraphSAGE: Hamilton et al., https://arxiv.org/abs/1706.02216.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_gnn as tfgnn

from go_train.layers import RmsNorm, Standardize
from go_train.network_config import NetworkConfig
from go_train.table import Features

OP = "op"
DEVICE = "device"
FLOW = "flow"
FLOW_REVERSE = "flow_reverse"
LINK = "link"

_EDGE_STATE = "edge_state"


def _digest(values: tf.Tensor) -> tf.Tensor:
    """Returns an int64 for each row of float `values`, the same for equal rows.

    Integers, because a sum of floats may depend on the order in which it is taken.
    """
    bits = tf.cast(tf.bitcast(values + 0.0, tf.int32), tf.int64)  # + 0.0 makes -0.0 and 0.0 one.
    weights = tf.range(tf.shape(values, tf.int64)[1], dtype=tf.int64) * 31 % 1021 + 1
    return tf.reduce_sum(bits * weights, axis=1)


def _device_columns(node_device_features: tf.Tensor, node_device_mask: tf.Tensor) -> tf.Tensor:
    """Returns [devices, ops * (features + 1)]: all that the ops say about each device."""
    columns = tf.concat([node_device_features, node_device_mask[:, :, tf.newaxis]], axis=2)
    columns = tf.transpose(columns, [1, 0, 2])
    return tf.reshape(columns, [tf.shape(columns)[0], -1])


def device_rank(features: Features) -> tuple[tf.Tensor, tf.Tensor]:
    """Ranks each device among those that look exactly like it.

    A network that treats devices as a set gives look-alikes equal scores, so that it could never
    split work between two equal GPUs. Their order breaks the tie; devices that differ in anything
    have rank 0.

    Args:
        features: the policy's inputs.

    Returns:
        `rank` and `size` (int32, indexed by devices): the number of look-alikes before this device,
        and how many there are with itself.
    """
    links = features["link_features"]
    devices = tf.shape(links)[0]
    link_digest = tf.reshape(
        _digest(tf.reshape(links, [devices * devices, -1])), [devices, devices]
    )
    # Sums over the other end do not depend on the order of devices.
    digest = (
        _digest(features["device_features"])
        + 3
        * _digest(_device_columns(features["node_device_features"], features["node_device_mask"]))
        + 5 * tf.reduce_sum(link_digest, axis=0)
        + 7 * tf.reduce_sum(link_digest, axis=1)
        + 11 * tf.linalg.diag_part(link_digest)
    )
    same = tf.cast(tf.equal(digest[:, tf.newaxis], digest[tf.newaxis, :]), tf.int32)
    # Column `before` counts where its index is below the row's.
    before = tf.cast(tf.range(devices)[tf.newaxis, :] < tf.range(devices)[:, tf.newaxis], tf.int32)
    return tf.reduce_sum(same * before, axis=1), tf.reduce_sum(same, axis=1)


def op_graph_tensor(features: Features) -> tfgnn.GraphTensor:
    """Returns the policy's inputs as one graph.

    Node sets "op" and "device"; edge sets "flow" (producer to consumer), "flow_reverse" (consumer
    to producer) and "link" (every ordered pair of devices). Features keep the names of the inputs;
    "link" carries both directions of a pair, so that an edge knows the way there and back.
    """
    ops = tf.shape(features["node_features"])[0]
    devices = tf.shape(features["device_features"])[0]
    edges = tf.shape(features["edge_source"])[0]
    links = features["link_features"]
    pair = tf.range(devices * devices)
    both_ways = tf.concat([links, tf.transpose(links, [1, 0, 2])], axis=2)
    both_ways = tf.reshape(both_ways, [devices * devices, 2 * links.shape[2]])
    rank, rank_size = device_rank(features)

    def flow(source: str, target: str) -> tfgnn.EdgeSet:
        return tfgnn.EdgeSet.from_fields(
            sizes=edges[tf.newaxis],
            adjacency=tfgnn.Adjacency.from_indices((OP, features[source]), (OP, features[target])),
            features={"edge_features": features["edge_features"]},
        )

    return tfgnn.GraphTensor.from_pieces(
        node_sets={
            OP: tfgnn.NodeSet.from_fields(
                sizes=ops[tf.newaxis],
                features={name: features[name] for name in ("node_features", "op_type")},
            ),
            DEVICE: tfgnn.NodeSet.from_fields(
                sizes=devices[tf.newaxis],
                features={
                    "device_features": features["device_features"],
                    # What the ops together say of a device: its share of legal, incoming, ... ops.
                    "use": tf.reduce_mean(features["node_device_features"], axis=0),
                    "legal": tf.reduce_mean(features["node_device_mask"], axis=0)[:, tf.newaxis],
                    "rank": rank,
                    "rank_size": rank_size,
                },
            ),
        },
        edge_sets={
            FLOW: flow("edge_source", "edge_target"),
            FLOW_REVERSE: flow("edge_target", "edge_source"),
            LINK: tfgnn.EdgeSet.from_fields(
                sizes=(devices * devices)[tf.newaxis],
                adjacency=tfgnn.Adjacency.from_indices(
                    (DEVICE, pair // devices), (DEVICE, pair % devices)
                ),
                features={"link_features": both_ways},
            ),
        },
    )


class MaxPoolConvolution(tfgnn.keras.layers.AnyToAnyConvolutionBase):
    """GraphSAGE max-pool aggregation with an edge feature: max over edges of relu(W h + U e + b).

    W is applied to nodes before they are spread over edges, and relu after the maximum (both are
    monotone, so the result is the same): the work is that of nodes where it would be that of edges.
    A node without edges gets 0. Eq. (3) of https://arxiv.org/abs/1706.02216.
    """

    def __init__(self, units: int, **kwargs: Any):
        super().__init__(
            receiver_tag=tfgnn.TARGET,
            receiver_feature=None,
            sender_edge_feature=_EDGE_STATE,
            **kwargs,
        )
        self._node = tf.keras.layers.Dense(units, use_bias=False, name="node")
        self._edge = tf.keras.layers.Dense(units, name="edge")

    def convolve(  # The base class fixes these arguments.
        self,
        *,
        sender_node_input: tf.Tensor,
        sender_edge_input: tf.Tensor,
        receiver_input: None,
        broadcast_from_sender_node: Callable[[tf.Tensor], tf.Tensor],
        broadcast_from_receiver: Callable[[tf.Tensor], tf.Tensor],
        pool_to_receiver: Callable[..., tf.Tensor],
        training: bool,
    ) -> tf.Tensor:
        """Returns [receivers, units]; [senders, any] and [edges, any] come in."""
        del receiver_input, broadcast_from_receiver, training
        messages = broadcast_from_sender_node(self._node(sender_node_input))
        messages += self._edge(sender_edge_input)
        # The maximum over no edges is the lowest float, which relu turns into 0.
        return tf.nn.relu(pool_to_receiver(messages, reduce_type="max"))


class SageNextState(tf.keras.layers.Layer):
    """GraphSAGE's combination as a residual: h + relu(norm(W [h, pooled...]))."""

    def __init__(self, units: int, **kwargs: Any):
        super().__init__(**kwargs)
        self._dense = tf.keras.layers.Dense(units, name="combine")
        self._norm = RmsNorm(name="norm")

    def call(
        self, inputs: tuple[tf.Tensor, Mapping[str, tf.Tensor], Mapping[str, Any]]
    ) -> tf.Tensor:
        """Returns the next state [nodes, units] from (state, pooled by edge set, context)."""
        state, pooled, _ = inputs
        joined = tf.concat([state, *(pooled[name] for name in sorted(pooled))], axis=-1)
        return state + tf.nn.relu(self._norm(self._dense(joined)))


def _graph_update(config: NetworkConfig, layer: int) -> tfgnn.keras.layers.GraphUpdate:
    """Returns one round of updates of ops and, in the first `device_layers` rounds, of devices."""

    def node_update(edge_sets: Sequence[str], units: int) -> tfgnn.keras.layers.NodeSetUpdate:
        return tfgnn.keras.layers.NodeSetUpdate(
            {name: MaxPoolConvolution(units, name=f"{name}_pool") for name in edge_sets},
            SageNextState(units, name="next"),
        )

    updates = {}
    if layer < config.layers:
        updates[OP] = node_update((FLOW, FLOW_REVERSE), config.width)
    if layer < config.device_layers:
        updates[DEVICE] = node_update((LINK,), config.device_width)
    return tfgnn.keras.layers.GraphUpdate(node_sets=updates, name=f"sage_{layer}")


class OpGraphEncoder(tf.keras.layers.Layer):
    """Embeds ops and devices: input states from features, then GraphSAGE updates along edges."""

    def __init__(self, config: NetworkConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self._rank_slots = config.rank_slots
        self.standardize = {
            name: Standardize(name=f"standard_{name}")
            for name in ("node_features", "edge_features", "device_features", "link_features")
        }
        self._op_type = tf.keras.layers.Embedding(
            config.op_type_buckets, config.op_type_width, name="op_type"
        )
        self._op = tf.keras.layers.Dense(config.width, activation="relu", name="op")
        self._device = tf.keras.layers.Dense(config.device_width, activation="relu", name="device")
        self._updates = [
            _graph_update(config, layer)
            for layer in range(max(config.layers, config.device_layers))
        ]
        self._summary = tf.keras.layers.Dense(config.width, name="summary")

    def _op_state(self, ops: tfgnn.NodeSet) -> tf.Tensor:
        """Returns the input state of ops [ops, width]."""
        features = self.standardize["node_features"](ops["node_features"])
        return self._op(tf.concat([features, self._op_type(ops["op_type"])], axis=-1))

    def _device_state(self, devices: tfgnn.NodeSet) -> tf.Tensor:
        """Returns the input state of devices [devices, device_width]."""
        share = tf.cast(devices["rank"] / devices["rank_size"], tf.float32)
        joined = [
            self.standardize["device_features"](devices["device_features"]),
            devices["use"],
            devices["legal"],
            tf.one_hot(tf.minimum(devices["rank"], self._rank_slots - 1), self._rank_slots),
            share[:, tf.newaxis],
        ]
        return self._device(tf.concat(joined, axis=-1))

    def call(self, graph: tfgnn.GraphTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the states of ops [ops, width] and of devices [devices, device_width]."""
        flow = self.standardize["edge_features"](graph.edge_sets[FLOW]["edge_features"])
        link = self.standardize["link_features"](graph.edge_sets[LINK]["link_features"])
        graph = graph.replace_features(
            node_sets={
                OP: {tfgnn.HIDDEN_STATE: self._op_state(graph.node_sets[OP])},
                DEVICE: {tfgnn.HIDDEN_STATE: self._device_state(graph.node_sets[DEVICE])},
            },
            edge_sets={
                FLOW: {_EDGE_STATE: flow},
                FLOW_REVERSE: {_EDGE_STATE: flow},
                LINK: {_EDGE_STATE: link},
            },
        )
        for update in self._updates:
            graph = update(graph)
        ops = graph.node_sets[OP][tfgnn.HIDDEN_STATE]
        devices = graph.node_sets[DEVICE][tfgnn.HIDDEN_STATE]
        # Every op sees a summary of the whole graph beside its neighbourhood.
        summary = tfgnn.pool_nodes_to_context(graph, OP, "mean|max", feature_value=ops)
        return ops + self._summary(summary), devices
