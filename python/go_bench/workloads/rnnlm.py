"""RNNLM: an LSTM language model, unrolled in time, as the paper's 2-, 4- and 8-layer rows."""

from __future__ import annotations

import typing
from collections.abc import Mapping

import tensorflow as tf

from go_bench.workloads import variables
from go_bench.workloads.step import lstm_cell
from go_bench.workloads.workload import Workload, layer_scope, layers_by_name

v1 = tf.compat.v1

_INIT_SCALE = 0.1

PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": {"batch": 4, "width": 16, "steps": 4, "vocab": 50},
    "cpu": {"batch": 64, "width": 512, "steps": 20, "vocab": 2000},
    "paper": {"batch": 64, "width": 2048, "steps": 40, "vocab": 32000},
}


def rnnlm(
    *,
    layers: int = 2,
    batch: int = 64,
    width: int = 512,
    steps: int = 20,
    vocab: int = 2000,
    learning_rate: float = 1.0,
    mode: typing.Literal["train", "forward"] = "train",
) -> Workload:
    """Builds the model: embedding, LSTM layers, projection to the vocabulary, cross-entropy.

    Every time step has its own operations, the projection too, as in a hand-unrolled model. The
    cell is that of https://arxiv.org/abs/1409.2329 without dropout; the optimizer is plain SGD.

    Args:
      layers: LSTM layers.
      batch: sequences in a batch.
      width: of the embedding and of each layer's state.
      steps: tokens of a sequence.
      vocab: different tokens.
      learning_rate: of SGD.
      mode: "train" for a training step, "forward" for the loss alone.

    Raises:
      ValueError: for a size below 1 or an unknown mode.
    """
    for name, value in (("layers", layers), ("batch", batch), ("width", width), ("steps", steps)):
        if value < 1:
            raise ValueError(f"rnnlm: {name} must be at least 1, got {value}")
    if vocab < 2:
        raise ValueError(f"rnnlm: vocab must be at least 2, got {vocab}")
    if mode not in ("train", "forward"):
        raise ValueError(f"rnnlm: mode must be 'train' or 'forward', got {mode!r}")
    graph = tf.Graph()
    with graph.as_default():
        loss = _loss(layers=layers, batch=batch, width=width, steps=steps, vocab=vocab)
        outputs = {"loss": loss}
        train_op = None
        if mode == "train":
            weights = v1.trainable_variables()
            optimizer = v1.train.GradientDescentOptimizer(learning_rate)
            train_op = optimizer.minimize(loss, var_list=weights)
            outputs |= variables.probes(weights, [train_op])
        init_op = v1.global_variables_initializer()
    return Workload(
        name=f"rnnlm-{layers}-{mode}",
        graph=graph,
        init_op=init_op,
        train_op=train_op,
        loss=loss,
        outputs=outputs,
        layer_of=layers_by_name(graph),
        layers=layers,
    )


def _loss(*, layers: int, batch: int, width: int, steps: int, vocab: int) -> tf.Tensor:
    """Returns the mean cross-entropy of a token."""
    with layer_scope(0):
        tokens = variables.tokens("tokens", [batch, steps + 1], vocab).read_value()
        embedding = variables.uniform("embedding", [vocab, width], _INIT_SCALE)
        embedded = tf.nn.embedding_lookup(embedding, tokens[:, :-1])  # [batch, steps, width]
        inputs = tf.unstack(embedded, axis=1)  # steps times [batch, width]
    for layer in range(layers):
        with layer_scope(layer):
            inputs = _lstm(inputs)
    with layer_scope(layers - 1):
        targets = tf.unstack(tokens[:, 1:], axis=1)  # steps times [batch]
        losses = _projection(inputs, targets, vocab)
        return tf.reduce_mean(tf.add_n(losses)) / steps


def _lstm(inputs: list[tf.Tensor]) -> list[tf.Tensor]:
    """Runs one layer over [batch, width] a step and returns its states, likewise."""
    batch, width = inputs[0].shape.as_list()
    kernel = variables.uniform("kernel", [2 * width, 4 * width], _INIT_SCALE).read_value()
    bias = variables.filled("bias", [4 * width]).read_value()
    # The state that the batch before left; not zeros, which Grappler would fold away.
    hidden = variables.uniform("hidden", [batch, width], _INIT_SCALE, trainable=False).read_value()
    cell = variables.uniform("cell", [batch, width], _INIT_SCALE, trainable=False).read_value()
    outputs = []
    for step, each in enumerate(inputs):
        with tf.name_scope(f"step_{step}"):
            hidden, cell = lstm_cell(each, hidden, cell, kernel, bias)
            outputs.append(hidden)
    return outputs


def _projection(inputs: list[tf.Tensor], targets: list[tf.Tensor], vocab: int) -> list[tf.Tensor]:
    """Returns the cross-entropy of each sequence, [batch], a step."""
    width = inputs[0].shape[1]
    weights = variables.uniform("softmax", [width, vocab], _INIT_SCALE).read_value()
    bias = variables.filled("softmax_bias", [vocab]).read_value()
    losses = []
    for step, (each, target) in enumerate(zip(inputs, targets, strict=True)):
        with tf.name_scope(f"loss_{step}"):
            logits = tf.nn.bias_add(tf.matmul(each, weights), bias)  # [batch, vocab]
            losses.append(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
            )
    return losses
