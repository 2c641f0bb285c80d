"""WaveNet: stacks of dilated causal convolutions with gates (arXiv 1609.03499)."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from go_bench.workloads import variables
from go_bench.workloads.step import Mode, check, complete, dense
from go_bench.workloads.workload import Workload, layer_scope

PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": {"batch": 1, "samples": 64, "channels": 4, "skip": 8, "levels": 16},
    "cpu": {"batch": 1, "samples": 8192, "channels": 48, "skip": 128, "levels": 256},
    "paper": {"batch": 8, "samples": 8192, "channels": 64, "skip": 256, "levels": 256},
}


def wavenet(
    *,
    stacks: int = 2,
    layers_per_stack: int = 9,
    batch: int = 1,
    samples: int = 2048,
    channels: int = 48,
    skip: int = 128,
    levels: int = 256,
    learning_rate: float = 0.1,
    mode: Mode = "train",
) -> Workload:
    """Builds the model of quantised sound: causal input, gated layers, skips, softmax.

    Layer k of a stack looks 2**k samples back. A convolution of width 2 is the sum of two products,
    one of the samples and one of the earlier samples, which is exact and runs on every device in
    both directions, where dilated convolutions do not. A human's placement: equal runs of layers.

    Args:
      stacks: runs of dilations 1, 2, 4, ...
      layers_per_stack: layers of each.
      batch: pieces of sound.
      samples: of a piece.
      channels: of the residual path.
      skip: channels of the skip path.
      levels: values of a sample.
      learning_rate: of SGD.
      mode: "train" for a training step, "forward" for the loss alone.

    Raises:
      ValueError: for a size out of range or an unknown mode.
    """
    check(
        "wavenet",
        mode,
        {
            "stacks": (stacks, 1),
            "layers_per_stack": (layers_per_stack, 1),
            "batch": (batch, 1),
            "samples": (samples, 2),
            "channels": (channels, 1),
            "skip": (skip, 1),
            "levels": (levels, 2),
        },
    )
    layers = stacks * layers_per_stack
    with tf.Graph().as_default():
        with layer_scope(0):
            sound = variables.tokens("sound", [batch, samples + 1], levels).read_value()
            table = variables.uniform("embedding", [levels, channels], 0.1)
            x = _causal(tf.nn.embedding_lookup(table, sound[:, :-1]), "input", 1, channels)
        skips = []
        for layer in range(layers):
            with layer_scope(layer):
                x, out = _layer(x, 2 ** (layer % layers_per_stack), skip)
                skips.append(out)
        with layer_scope(layers - 1):
            mixed = tf.nn.relu(tf.add_n(skips))
            mixed = tf.nn.relu(dense(mixed, "head", skip))
            logits = dense(mixed, "softmax", levels)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=tf.reshape(sound[:, 1:], [batch * samples]), logits=logits
                )
            )
        return complete(
            f"wavenet-{stacks}x{layers_per_stack}",
            loss,
            mode=mode,
            learning_rate=learning_rate,
            layers=layers,
        )


def _causal(x: tf.Tensor, name: str, dilation: int, width: int) -> tf.Tensor:
    """A convolution of width 2 over [batch, samples, depth] that sees no later sample."""
    batch, samples, depth = x.shape.as_list()
    reach = min(dilation, samples)
    earlier = tf.pad(x[:, : samples - reach], [[0, 0], [reach, 0], [0, 0]])
    limit = (6.0 / (2 * depth + width)) ** 0.5
    now, before = (
        variables.uniform(f"{name}_{tap}", [depth, width], limit).read_value()
        for tap in ("now", "before")
    )
    bias = variables.filled(f"{name}_bias", [width]).read_value()
    flat = tf.matmul(tf.reshape(x, [batch * samples, depth]), now)
    flat += tf.matmul(tf.reshape(earlier, [batch * samples, depth]), before)
    return tf.reshape(tf.nn.bias_add(flat, bias), [batch, samples, width])


def _layer(x: tf.Tensor, dilation: int, skip: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the residual path, [batch, samples, channels], and the skip, [rows, skip]."""
    batch, samples, channels = x.shape.as_list()
    gate = tf.sigmoid(_causal(x, "gate", dilation, channels))
    value = tf.tanh(_causal(x, "filter", dilation, channels))
    flat = tf.reshape(gate * value, [batch * samples, channels])
    residual = tf.reshape(dense(flat, "residual", channels), [batch, samples, channels])
    return x + residual, dense(flat, "skip", skip)
