"""Heads of the three tasks: devices, priorities and fusion."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from go_train.attention import to_segments
from go_train.layers import Standardize
from go_train.network_config import NetworkConfig
from go_train.table import GROUP, Features

ILLEGAL_LOGIT = -1e9


def mask_logits(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Returns `logits` where `mask` is above 0 and ILLEGAL_LOGIT elsewhere; both of one shape."""
    return tf.where(mask > 0, logits, tf.constant(ILLEGAL_LOGIT, logits.dtype))


def pool_groups(logits: tf.Tensor, groups: tf.Tensor) -> tf.Tensor:
    """Returns [ops, any]: each op with the mean of its colocation group, as plans are drawn.

    Args:
        logits: [ops, any].
        groups: int32 [ops], numbered from 0.
    """
    count = tf.reduce_max(groups) + 1
    return tf.gather(tf.math.unsorted_segment_mean(logits, groups, count), groups)


def legal_shares(mask: tf.Tensor) -> tf.Tensor:
    """Returns equal probabilities of legal devices [ops, devices], from 1 where legal."""
    return mask / tf.maximum(tf.reduce_sum(mask, axis=1, keepdims=True), 1.0)


class PlacementHead(tf.keras.layers.Layer):
    """Scores every pair of an op and a device, from what the devices are and hold so far.

    A bilinear term matches an op with the ops that a device holds, in all and in the op's segment;
    a small network takes the pair's features, fixed ones and those of the round before.
    """

    def __init__(self, config: NetworkConfig, **kwargs: Any):
        super().__init__(**kwargs)
        dense = tf.keras.layers.Dense
        width = config.score_width
        self.standardize = Standardize(name="standard_node_device")
        self._segment = config.segment
        self._content = dense(width, name="content")
        self._query = dense(width, name="query")
        self._key = dense(width, name="key")
        self._op = dense(width, name="op")
        self._device = dense(width, use_bias=False, name="device")
        self._pair = dense(width, use_bias=False, name="pair")
        self._round = dense(width, use_bias=False, name="round")
        self._hidden = dense(width, activation="relu", name="hidden")
        self._score = dense(1, use_bias=False, name="score")
        self._scale = width**-0.5

    def prepare(self, features: Features) -> tf.Tensor:
        """Returns what the pairs' fixed features add, [ops, devices, score_width]."""
        return self._pair(self.standardize(features["node_device_features"]))

    def _match(self, ops: tf.Tensor, devices: tf.Tensor, probability: tf.Tensor) -> tf.Tensor:
        """Returns how well each op goes with what each device holds, [ops, devices]."""
        count = tf.shape(ops)[0]
        segment = tf.minimum(self._segment, count)
        content = to_segments(self._content(ops), segment)  # [segments, length, score_width]
        shares = tf.transpose(to_segments(probability, segment), [0, 2, 1])
        sums = tf.matmul(shares, content)  # [segments, devices, score_width]
        sizes = tf.reduce_sum(shares, axis=2, keepdims=True)
        whole = tf.reduce_sum(sums, axis=0) / (tf.reduce_sum(sizes, axis=0) + 1.0)
        held = tf.concat(
            [
                sums / (sizes + 1.0),
                tf.broadcast_to(whole, tf.shape(sums)),
                tf.broadcast_to(
                    devices, tf.concat([tf.shape(sums)[:2], [devices.shape[-1]]], axis=0)
                ),
            ],
            axis=2,
        )
        queries = to_segments(self._query(ops), segment)
        match = tf.matmul(queries, self._key(held), transpose_b=True) * self._scale
        return tf.reshape(match, [-1, tf.shape(devices)[0]])[:count]

    def call(
        self,
        ops: tf.Tensor,
        devices: tf.Tensor,
        prepared: tf.Tensor,
        pairs: tf.Tensor,
        probability: tf.Tensor,
    ) -> tf.Tensor:
        """Returns scores [ops, devices].

        Args:
            ops: states [ops, width].
            devices: states [devices, device_width].
            prepared: from `prepare`.
            pairs: features of the round before [ops, devices, features].
            probability: of the round before [ops, devices].
        """
        hidden = prepared + self._round(pairs)  # [ops, devices, score_width]
        hidden += self._op(ops)[:, tf.newaxis, :] + self._device(devices)[tf.newaxis, :, :]
        hidden = self._hidden(tf.nn.relu(hidden))
        score = tf.squeeze(self._score(hidden), axis=2)
        return score + self._match(ops, devices, probability)


class PriorityHead(tf.keras.layers.Layer):
    """Scores priority levels: a bell over them whose middle starts as the critical path's.

    An op's middle is the share of the step that is still to come when it starts, plus what is
    learned. Levels are ordered, so that neighbours of a good level score well too.
    """

    def __init__(self, levels: int, **kwargs: Any):
        super().__init__(**kwargs)
        self._levels = levels
        self._move = tf.keras.layers.Dense(2, kernel_initializer="zeros", name="move")

    def call(self, ops: tf.Tensor, remaining: tf.Tensor) -> tf.Tensor:
        """Returns scores [ops, levels].

        Args:
            ops: states [ops, width].
            remaining: time from an op's start to the end of the step over the longest, [ops].
        """
        move, sharpness = tf.split(self._move(ops), 2, axis=1)
        middle = (self._levels - 1) * (remaining[:, tf.newaxis] + tf.tanh(move))
        level = tf.range(self._levels, dtype=tf.float32)[tf.newaxis, :] + 0.5
        return -tf.square(level - middle) * tf.nn.softplus(sharpness)


class FusionHead(tf.keras.layers.Layer):
    """Scores each edge: whether its consumer is to be fused with its producer."""

    def __init__(self, config: NetworkConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self._producer = tf.keras.layers.Dense(config.score_width, name="producer")
        self._consumer = tf.keras.layers.Dense(config.score_width, name="consumer")
        self._edge = tf.keras.layers.Dense(config.score_width, name="edge")
        self._score = tf.keras.layers.Dense(1, name="score")

    def call(
        self, ops: tf.Tensor, features: Features, probability: tf.Tensor, control: int
    ) -> tf.Tensor:
        """Returns scores [edges]; only where data flows and the ends may share a device.

        Args:
            ops: states [ops, width].
            features: the policy's inputs.
            probability: of devices [ops, devices].
            control: the edge feature that says that only the order matters.
        """
        source, target = features["edge_source"], features["edge_target"]
        mask = features["node_device_mask"]
        together = tf.reduce_sum(
            tf.gather(probability, source) * tf.gather(probability, target), axis=1
        )
        common = tf.reduce_sum(tf.gather(mask, source) * tf.gather(mask, target), axis=1)
        edges = tf.concat([features["edge_features"], together[:, tf.newaxis]], axis=1)
        hidden = tf.gather(self._producer(ops), source) + tf.gather(self._consumer(ops), target)
        scores = tf.squeeze(self._score(tf.nn.relu(hidden + self._edge(edges))), axis=1)
        data = 1.0 - features["edge_features"][:, control]
        return mask_logits(scores, common * data)


def group_logits(logits: tf.Tensor, features: Features) -> tf.Tensor:
    """Returns placement logits [ops, devices] by group, masked to what is legal."""
    return mask_logits(pool_groups(logits, features[GROUP]), features["node_device_mask"])
