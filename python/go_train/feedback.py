"""What a placement amounts to: the inputs of the next round, by op and by op-device pair.

A network that decides all ops at once cannot see where their neighbours go or how full a device is
when an op gets ready. Here a round's device probabilities are turned into just that: where an op's
producers and consumers are, how much work each device has before it, and how long it would wait
there. All of it is differentiable nowhere: it is an input, as the actions of a round before are.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from go_train.table import Features, FeatureTable

# Sharpness of the soft minimum over the past, per share of the total time.
_SHARPNESS = 1000.0
_HOPS = 4
_LIMIT = 8.0
PAIR_WIDTH = 8
OP_WIDTH = 6


@dataclasses.dataclass(frozen=True)
class Columns:
    """Where the feature table has what the feedback is computed from."""

    time: int
    ready: int
    transfer: int
    control: int
    relative_time: int
    parallelism: int

    @classmethod
    def of(cls, table: FeatureTable) -> Columns:
        """Returns the columns of `table`.

        Raises:
            ValueError: it lacks one.
        """
        return cls(
            time=table.column("node/log_time_share"),
            ready=table.column("node/downward_rank"),
            transfer=table.column("edge/log_transfer_time"),
            control=table.column("edge/is_control"),
            relative_time=table.column("node_device/log_relative_time"),
            parallelism=table.column("device/parallelism"),
        )


@dataclasses.dataclass(frozen=True)
class Setting:
    """What of a graph the feedback needs, the same in all rounds.

    Attributes:
        time: of each op on each device, a share of the sum over ops on their fastest device,
            [ops, devices].
        ready: when each op is ready if nothing ever waits, in the same unit, [ops].
        order: ops by that time, [ops].
        first: for each op, the first position in `order` with its time, [ops].
        source, target: ends of edges, [edges].
        weight: of edges: transfer time over mean op time, [edges, 1].
        critical: the longest path in the same unit, scalar.
    """

    time: tf.Tensor
    ready: tf.Tensor
    order: tf.Tensor
    first: tf.Tensor
    source: tf.Tensor
    target: tf.Tensor
    weight: tf.Tensor
    critical: tf.Tensor


def unlog(values: tf.Tensor) -> tf.Tensor:
    """Returns x of log10(1e-6 + x) / 6, as the feature table writes ratios."""
    return tf.nn.relu(10.0 ** (6.0 * values) - 1e-6)


def setting_of(features: Features, columns: Columns) -> Setting:
    """Returns the setting of a graph from the policy's inputs."""
    nodes = features["node_features"]
    fastest = unlog(nodes[:, columns.time])
    slower = 10.0 ** features["node_device_features"][:, :, columns.relative_time]
    total = tf.maximum(tf.reduce_sum(fastest), 1e-6)
    devices = tf.cast(tf.shape(features["device_features"])[0], tf.float32)
    parallelism = features["device_features"][0, columns.parallelism] * devices
    critical = 1.0 / tf.maximum(parallelism, 1e-3)
    ready = nodes[:, columns.ready] * critical
    order = tf.argsort(ready, stable=True)
    edges = features["edge_features"]
    return Setting(
        time=fastest[:, tf.newaxis] * slower / total,
        ready=ready,
        order=order,
        first=tf.searchsorted(tf.gather(ready, order), ready, side="left"),
        source=features["edge_source"],
        target=features["edge_target"],
        weight=tf.clip_by_value(unlog(edges[:, columns.transfer]), 1e-3, 1e3)[:, tf.newaxis],
        critical=critical,
    )


def neighbours(setting: Setting, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns means of `values` [ops, width] over producers and over consumers, by transfer time.

    An op without any has 0.
    """
    ops = tf.shape(values)[0]

    def mean(here: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
        weighted = tf.gather(values, there) * setting.weight
        joined = tf.concat([weighted, setting.weight], axis=1)
        sums = tf.math.unsorted_segment_sum(joined, here, ops)
        return tf.math.divide_no_nan(sums[:, :-1], sums[:, -1:])

    return mean(setting.target, setting.source), mean(setting.source, setting.target)


def loads(setting: Setting, probability: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns what each device has to do, as shares of the total time.

    Args:
        setting: of the graph.
        probability: of each device for each op, [ops, devices].

    Returns:
        `before`: work of ops that are ready earlier than an op, [ops, devices]; `wait`: how long an
        op would wait for the device when it gets ready, if the device worked off what arrives
        without a pause, [ops, devices]; `total`: all work, [devices].
    """
    work = tf.gather(probability * setting.time, setting.order)
    arrived = tf.cumsum(work, exclusive=True)  # By position in `order`.
    # The queue at a time is what arrived since the device was last idle, less the time since: a
    # maximum over all earlier times (Lindley's recursion, solved).
    level = arrived - tf.gather(setting.ready, setting.order)[:, tf.newaxis]
    lowest = -tf.math.cumulative_logsumexp(-_SHARPNESS * level) / _SHARPNESS
    waiting = tf.nn.relu(level - lowest)
    # Ops that get ready at the same time see the same, whatever their order.
    return (
        tf.gather(arrived, setting.first),
        tf.gather(waiting, setting.first),
        tf.reduce_sum(work, axis=0),
    )


def feedback(
    setting: Setting, probability: tf.Tensor, legal: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns what a placement means to each op-device pair and to each op.

    Args:
        setting: of the graph.
        probability: of each device for each op, [ops, devices].
        legal: 1 where legal, else 0, [ops, devices].

    Returns:
        Pair features [ops, devices, PAIR_WIDTH] and op features [ops, OP_WIDTH], no gradients.
    """
    produced, consumed = neighbours(setting, probability)
    around = probability
    for _ in range(_HOPS):
        a, b = neighbours(setting, around)
        around = 0.5 * around + 0.25 * (a + b)
    before, wait, total = loads(setting, probability)
    devices = tf.cast(tf.shape(probability)[1], tf.float32)
    least = tf.reduce_min(tf.where(legal > 0, wait, 1e9), axis=1, keepdims=True)
    ahead = before - tf.reduce_mean(before, axis=1, keepdims=True)
    pairs = tf.stack(
        [
            2.0 * probability - 1.0,
            2.0 * produced - 1.0,
            2.0 * consumed - 1.0,
            2.0 * around - 1.0,
            devices * ahead,
            tf.zeros_like(before) + (devices * total - 1.0),
            wait / setting.critical,
            (wait - least) / setting.critical,
        ],
        axis=2,
    )

    def expected(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(probability * values, axis=1)

    ops = tf.stack(
        [
            tf.reduce_max(probability, axis=1),
            expected(produced),
            expected(consumed),
            expected(around),
            expected(wait) / setting.critical,
            tf.reduce_sum(before, axis=1),
        ],
        axis=1,
    )
    clip = tf.clip_by_value
    return (
        tf.stop_gradient(clip(pairs, -_LIMIT, _LIMIT)),
        tf.stop_gradient(clip(ops, -_LIMIT, _LIMIT)),
    )
