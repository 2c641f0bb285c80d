"""Losses and scores of placement logits: small pure functions."""

from __future__ import annotations

import tensorflow as tf


def _check(logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> None:
    tf.debugging.assert_rank(logits, 2, "logits: want [ops, devices]")
    tf.debugging.assert_rank(labels, 1, "labels: want [ops]")
    tf.debugging.assert_rank(weights, 1, "weights: want [ops]")
    tf.debugging.assert_type(logits, tf.float32, "logits: want float32")
    tf.debugging.assert_type(labels, tf.int32, "labels: want int32")
    tf.debugging.assert_type(weights, tf.float32, "weights: want float32")


def _weighted_mean(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns the mean of `values` by `weights`; 0 where all weights are 0."""
    return tf.math.divide_no_nan(tf.reduce_sum(values * weights), tf.reduce_sum(weights))


def placement_cross_entropy(logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns the weighted mean over ops of -log p(label), a scalar in nats.

    Args:
        logits: float32 [ops, devices]; illegal devices hold a very negative value, so that they
            have no probability and no gradient.
        labels: int32 [ops], the device to imitate.
        weights: float32 [ops], at least 0; ops of weight 0 have no say.
    """
    _check(logits, labels, weights)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    # An op without a legal label would cost 1e9; it is weighed out by multiplication with 0.
    return _weighted_mean(losses, weights)


def placement_accuracy(logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns the weighted share of ops whose best device is the label; arguments as above."""
    _check(logits, labels, weights)
    hits = tf.equal(tf.argmax(logits, axis=1, output_type=tf.int32), labels)
    return _weighted_mean(tf.cast(hits, tf.float32), weights)
