"""Transformer-XL: relative positions and a memory of the segment before (arXiv 1901.02860)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from go_bench.workloads import variables
from go_bench.workloads.step import Mode, check, complete, dense, layer_norm
from go_bench.workloads.workload import Workload, layer_scope

_INIT_SCALE = 0.05

PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": {"batch": 2, "width": 16, "heads": 2, "ff": 32, "segment": 8, "memory": 8, "vocab": 50},
    "cpu": {
        "batch": 8,
        "width": 384,
        "heads": 6,
        "ff": 1536,
        "segment": 96,
        "memory": 96,
        "vocab": 2000,
    },
    "paper": {
        "batch": 32,
        "width": 512,
        "heads": 8,
        "ff": 2048,
        "segment": 256,
        "memory": 256,
        "vocab": 32000,
    },
}


def transformer_xl(
    *,
    layers: int = 2,
    batch: int = 8,
    width: int = 256,
    heads: int = 4,
    ff: int = 1024,
    segment: int = 64,
    memory: int = 64,
    vocab: int = 2000,
    learning_rate: float = 0.1,
    mode: Mode = "train",
) -> Workload:
    """Builds the language model: embedding, layers with memory, projection, cross-entropy.

    Each layer attends to its segment and to what the layer below gave for the segment before,
    which a variable keeps from step to step without a gradient. Scores are the paper's: content
    and relative position, with the biases u and v shared by all layers' heads of one layer each.
    Normalisation follows the sum, as in the paper; there is no dropout. A human's placement: equal
    runs of layers, the embedding with the first and the softmax with the last.

    Args:
      layers: attention layers.
      batch: sequences.
      width: of the model; `heads` divides it.
      heads: attention heads of a layer.
      ff: width of the feed-forward layer.
      segment: tokens of a segment.
      memory: tokens that are remembered, at most a segment.
      vocab: different tokens.
      learning_rate: of SGD.
      mode: "train" for a training step, "forward" for the loss alone; both update the memory.

    Raises:
      ValueError: for a size out of range or an unknown mode.
    """
    sizes = {"layers": layers, "batch": batch, "heads": heads, "ff": ff, "memory": memory}
    check(
        "transformer_xl",
        mode,
        {
            **{name: (value, 1) for name, value in sizes.items()},
            "width": (width, heads),
            "segment": (segment, memory),
            "vocab": (vocab, 2),
        },
    )
    if width % heads:
        raise ValueError(f"transformer_xl: width {width} is not a multiple of {heads} heads")
    with tf.Graph().as_default():
        with layer_scope(0):
            tokens = variables.tokens("tokens", [batch, segment + 1], vocab).read_value()
            table = variables.uniform("embedding", [vocab, width], _INIT_SCALE)
            x = tf.nn.embedding_lookup(table, tokens[:, :-1])  # [batch, segment, width]
            labels = tokens[:, 1:]
            positions = tf.constant(_sinusoids(segment + memory, width))
        updates = []
        for layer in range(layers):
            with layer_scope(layer):
                past = variables.uniform(
                    "memory", [batch, memory, width], _INIT_SCALE, trainable=False
                )
                before = past.read_value()
                with tf.control_dependencies([before]):
                    updates.append(
                        past.assign(tf.stop_gradient(x[:, segment - memory :]), read_value=False)
                    )
                x = _attend(x, before, positions, heads)
                x = _feed_forward(x, ff)
        with layer_scope(layers - 1):
            flat = tf.reshape(x, [batch * segment, width])
            logits = dense(flat, "softmax", vocab)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=tf.reshape(labels, [batch * segment]), logits=logits
                )
            )
        return complete(
            f"transformer-xl-{layers}",
            loss,
            mode=mode,
            learning_rate=learning_rate,
            layers=layers,
            updates=updates,
        )


def _sinusoids(length: int, width: int) -> np.ndarray:
    """Returns the encodings of the distances length - 1 ... 0, [length, width]."""
    frequencies = 1.0 / 10000 ** (np.arange(0, width, 2) / width)
    angles = np.arange(length - 1, -1, -1)[:, np.newaxis] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :width].astype(np.float32)


def _attend(x: tf.Tensor, memory: tf.Tensor, positions: tf.Tensor, heads: int) -> tf.Tensor:
    """Relative attention over memory and segment, the sum with the input, and normalisation."""
    batch, segment, width = x.shape.as_list()
    length = memory.shape[1] + segment
    size = width // heads
    context = tf.concat([memory, x], axis=1)

    def project(name: str, values: tf.Tensor) -> tf.Tensor:
        """Returns [batch or 1, heads, tokens, size]."""
        rows = values.shape[-2] * (batch if values.shape.rank == 3 else 1)
        weights = variables.uniform(name, [width, width], _INIT_SCALE).read_value()
        flat = tf.matmul(tf.reshape(values, [rows, width]), weights)
        return tf.transpose(tf.reshape(flat, [-1, values.shape[-2], heads, size]), [0, 2, 1, 3])

    query, key, value = project("query", x), project("key", context), project("value", context)
    distance = project("position", positions)[0]  # [heads, length, size]
    u, v = (
        variables.uniform(f"bias_{name}", [heads, 1, size], _INIT_SCALE).read_value()
        for name in ("u", "v")
    )
    content = tf.matmul(query + u, key, transpose_b=True)  # [batch, heads, segment, length]
    position = _shift(tf.einsum("bhid,hjd->bhij", query + v, distance))
    # Token i sees the memory and the segment up to itself.
    seen = np.tri(segment, length, length - segment, dtype=np.float32)
    scores = (content + position) * size**-0.5 + tf.constant((seen - 1) * 1e9)
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    out = variables.uniform("out", [width, width], _INIT_SCALE).read_value()
    attended = tf.matmul(tf.reshape(mixed, [batch * segment, width]), out)
    return layer_norm(x + tf.reshape(attended, [batch, segment, width]), "attention_norm")


def _shift(scores: tf.Tensor) -> tf.Tensor:
    """Moves row i of [batch, heads, segment, length] by segment - 1 - i places to the left.

    Column j then holds the score of the distance from token i to token j, as in the paper's
    appendix B: a column of zeros in front, read in rows of another length.
    """
    batch, heads, segment, length = scores.shape.as_list()
    padded = tf.pad(scores, [[0, 0], [0, 0], [0, 0], [1, 0]])
    padded = tf.reshape(padded, [batch, heads, length + 1, segment])
    return tf.reshape(padded[:, :, 1:], [batch, heads, segment, length])


def _feed_forward(x: tf.Tensor, ff: int) -> tf.Tensor:
    batch, segment, width = x.shape.as_list()
    flat = tf.reshape(x, [batch * segment, width])
    out = dense(tf.nn.relu(dense(flat, "ff_in", ff)), "ff_out", width)
    return layer_norm(x + tf.reshape(out, [batch, segment, width]), "ff_norm")
