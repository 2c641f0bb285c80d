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


def binary_cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns the mean over legal edges of the cross-entropy of a yes or no, in nats; 0 for none.

    Args:
        logits: float32 [edges]; illegal ones hold a very negative value.
        labels: float32 [edges], 0 or 1.
    """
    tf.debugging.assert_rank(logits, 1, "logits: want [edges]")
    tf.debugging.assert_rank(labels, 1, "labels: want [edges]")
    legal = tf.cast(logits > -1e8, tf.float32)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits * legal)
    return _weighted_mean(losses, legal)


def log_probabilities(logits: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Returns log p of each action, float32 [rollouts, choices].

    Args:
        logits: float32 [choices, options].
        actions: int32 [rollouts, choices].
    """
    tf.debugging.assert_rank(logits, 2, "logits: want [choices, options]")
    tf.debugging.assert_rank(actions, 2, "actions: want [rollouts, choices]")
    tf.debugging.assert_type(actions, tf.int32, "actions: want int32")
    logs = tf.nn.log_softmax(logits)
    return tf.transpose(tf.gather(logs, tf.transpose(actions), batch_dims=1))


def ppo_clip(
    logs: tf.Tensor,
    old_logs: tf.Tensor,
    advantages: tf.Tensor,
    drawn: tf.Tensor,
    *,
    clip: float,
) -> tf.Tensor:
    """Returns the clipped surrogate loss, a scalar: less is better.

    Every choice of a rollout has the rollout's advantage and a probability ratio of its own: the
    ratio of whole plans, a product over thousands of choices, would be outside any clip at once.
    The mean is over rollouts and, within one, over the choices that were drawn. Eq. (7) of
    https://arxiv.org/abs/1707.06347.

    Args:
        logs: log p of the actions now, float32 [rollouts, choices].
        old_logs: when they were drawn, likewise.
        advantages: float32 [rollouts].
        drawn: 1 where the action was drawn, 0 where there was no choice, float32 [rollouts,
            choices].
        clip: how far the ratio may help, 0.2 in the paper.
    """
    for name, value in (("logs", logs), ("old_logs", old_logs), ("drawn", drawn)):
        tf.debugging.assert_rank(value, 2, f"{name}: want [rollouts, choices]")
    tf.debugging.assert_rank(advantages, 1, "advantages: want [rollouts]")
    ratio = tf.exp(tf.where(drawn > 0, logs - old_logs, 0.0))
    gain = advantages[:, tf.newaxis]
    surrogate = tf.minimum(ratio * gain, tf.clip_by_value(ratio, 1 - clip, 1 + clip) * gain)
    share = tf.math.divide_no_nan(
        tf.reduce_sum(surrogate * drawn, axis=1), tf.reduce_sum(drawn, axis=1)
    )
    return -tf.reduce_mean(share)


def mean_entropy(logits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns the weighted mean over choices of the entropy, a scalar in nats.

    Args:
        logits: float32 [choices, options]; illegal options hold a very negative value.
        weights: float32 [choices], at least 0.
    """
    tf.debugging.assert_rank(logits, 2, "logits: want [choices, options]")
    tf.debugging.assert_rank(weights, 1, "weights: want [choices]")
    logs = tf.nn.log_softmax(logits)
    # p is 0 where log p is about -1e9: their product is taken as 0.
    return _weighted_mean(-tf.reduce_sum(tf.exp(logs) * tf.maximum(logs, -1e4), axis=1), weights)
