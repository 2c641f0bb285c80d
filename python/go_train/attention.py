"""Segment-level recurrent attention: ops attend to their segment and to the one before.

Ops stand in topological order, cut into segments of equal length. Keys and values of the segment
before come from its states at the input of the same layer and carry no gradient: the cached memory
of Transformer-XL (https://arxiv.org/abs/1901.02860), here without positional encoding. Since the
memory of a layer is known before the layer runs, all segments are computed at once; the work is
linear in ops.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from go_train.layers import RmsNorm

_MASKED = -1e9


def to_segments(values: tf.Tensor, length: int) -> tf.Tensor:
    """Returns [segments, length, width] of `values` [ops, width], the last one padded with 0."""
    ops = tf.shape(values)[0]
    segments = (ops + length - 1) // length
    padded = tf.pad(values, [[0, segments * length - ops], [0, 0]])
    return tf.reshape(padded, [segments, length, tf.shape(values)[1]])


def before(segments: tf.Tensor) -> tf.Tensor:
    """Returns each segment's predecessor, zeros for the first; same shape."""
    return tf.pad(segments, [[1, 0], [0, 0], [0, 0]])[:-1]


class SegmentAttention(tf.keras.layers.Layer):
    """One layer: attention and a feed-forward network, each with a residual connection."""

    def __init__(self, width: int, heads: int, segment: int, *, memory: bool, **kwargs: Any):
        super().__init__(**kwargs)
        self._width, self._heads, self._segment, self._memory = width, heads, segment, memory
        self._norm = RmsNorm(name="norm")
        self._query = tf.keras.layers.Dense(width, use_bias=False, name="query")
        self._key_value = tf.keras.layers.Dense(2 * width, use_bias=False, name="key_value")
        self._output = tf.keras.layers.Dense(width, use_bias=False, name="output")
        self._wide_norm = RmsNorm(name="wide_norm")
        self._wide = tf.keras.layers.Dense(2 * width, activation="relu", name="wide")
        self._narrow = tf.keras.layers.Dense(width, name="narrow")

    def _split(self, values: tf.Tensor) -> tf.Tensor:
        """Returns [segments, heads, length, head width] of [segments, length, width]."""
        shape = tf.shape(values)
        size = self._width // self._heads
        values = tf.reshape(values, [shape[0], shape[1], self._heads, size])
        return tf.transpose(values, [0, 2, 1, 3])

    def _attend(self, states: tf.Tensor) -> tf.Tensor:
        """Returns what each op [ops, width] takes from those it attends to."""
        ops = tf.shape(states)[0]
        # A graph below one segment is one of its own length.
        segment = tf.minimum(self._segment, ops)
        queries = to_segments(self._query(states), segment)
        seen = to_segments(self._key_value(states), segment)
        present = to_segments(tf.ones([ops, 1]), segment)
        if self._memory:
            seen = tf.concat([before(tf.stop_gradient(seen)), seen], axis=1)
            present = tf.concat([before(present), present], axis=1)
        keys, values = tf.split(seen, 2, axis=2)
        queries, keys, values = self._split(queries), self._split(keys), self._split(values)
        scale = (self._width // self._heads) ** -0.5
        scores = tf.matmul(queries, keys, transpose_b=True) * scale
        scores += _MASKED * (1.0 - tf.transpose(present, [0, 2, 1])[:, tf.newaxis])
        taken = tf.matmul(tf.nn.softmax(scores), values)  # [segments, heads, length, head width]
        taken = tf.reshape(tf.transpose(taken, [0, 2, 1, 3]), [-1, self._width])
        return self._output(taken[:ops])

    def call(self, states: tf.Tensor, gate: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the next states [ops, width].

        Args:
            states: [ops, width], ops in topological order.
            gate: [width] of the graph, what the inputs are multiplied with; None = nothing.
        """
        normed = self._norm(states)
        if gate is not None:
            normed *= gate
        states = states + self._attend(normed)
        return states + self._narrow(self._wide(self._wide_norm(states)))
