"""GNMT: LSTM encoder and decoder with attention, unrolled in time (arXiv 1609.08144)."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from go_bench.workloads import variables
from go_bench.workloads.step import Mode, check, complete, lstm_cell
from go_bench.workloads.workload import Workload, layer_scope

_INIT_SCALE = 0.1
# Layers from this one on add their input to their output.
_FIRST_RESIDUAL = 2

PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": {"batch": 4, "width": 16, "source_steps": 3, "target_steps": 3, "vocab": 50},
    "cpu": {"batch": 32, "width": 512, "source_steps": 10, "target_steps": 10, "vocab": 2000},
    "paper": {"batch": 128, "width": 1024, "source_steps": 50, "target_steps": 50, "vocab": 32000},
}


def gnmt(
    *,
    layers: int = 2,
    batch: int = 32,
    width: int = 256,
    source_steps: int = 10,
    target_steps: int = 10,
    vocab: int = 2000,
    learning_rate: float = 1.0,
    mode: Mode = "train",
) -> Workload:
    """Builds the translator: `layers` encoder layers, as many decoder layers, attention, softmax.

    The first encoder layer reads the source both ways; layers from the third on have residual
    connections. The attention is Bahdanau's over the encoder's last layer, asked by the first
    decoder layer; its context goes to all decoder layers. Each time step has its own ops. A
    human's placement: the encoder's and the decoder's layer k on device k, as in the paper,
    attention with the first decoder layer and the softmax with the last.

    Args:
      layers: of the encoder, and of the decoder.
      batch: sentence pairs.
      width: of embeddings, states and attention.
      source_steps: tokens of a source sentence.
      target_steps: tokens of its translation.
      vocab: different tokens, of either language.
      learning_rate: of SGD.
      mode: "train" for a training step, "forward" for the loss alone.

    Raises:
      ValueError: for a size below 1 or an unknown mode.
    """
    check(
        "gnmt",
        mode,
        {
            "layers": (layers, 1),
            "batch": (batch, 1),
            "width": (width, 1),
            "source_steps": (source_steps, 1),
            "target_steps": (target_steps, 1),
            "vocab": (vocab, 2),
        },
    )
    with tf.Graph().as_default():
        with layer_scope(0):
            source = _embed("source", [batch, source_steps], vocab, width)
            tokens = variables.tokens("target_tokens", [batch, target_steps + 1], vocab)
            table = variables.uniform("target_embedding", [vocab, width], _INIT_SCALE)
            embedded = tf.nn.embedding_lookup(table, tokens.read_value()[:, :-1])
            target = tf.unstack(embedded, axis=1)
            labels = tf.unstack(tokens.read_value()[:, 1:], axis=1)
        encoded = _encode(source, layers, width)
        decoded = _decode(target, encoded, layers, width)
        with layer_scope(layers - 1):
            loss = _loss(decoded, labels, vocab)
        return complete(
            f"gnmt-{layers}", loss, mode=mode, learning_rate=learning_rate, layers=layers
        )


def _embed(name: str, shape: list[int], vocab: int, width: int) -> list[tf.Tensor]:
    """Returns the embedded tokens, [batch, width] a step."""
    tokens = variables.tokens(f"{name}_tokens", shape, vocab).read_value()
    table = variables.uniform(f"{name}_embedding", [vocab, width], _INIT_SCALE)
    return tf.unstack(tf.nn.embedding_lookup(table, tokens), axis=1)


class _Lstm:
    """One layer's weights and its state, which the batch before left."""

    def __init__(self, name: str, batch: int, inputs: int, width: int):
        self.kernel = variables.uniform(
            f"{name}_kernel", [inputs + width, 4 * width], _INIT_SCALE
        ).read_value()
        self.bias = variables.filled(f"{name}_bias", [4 * width]).read_value()
        self.hidden, self.cell = (
            variables.uniform(
                f"{name}_{part}", [batch, width], _INIT_SCALE, trainable=False
            ).read_value()
            for part in ("hidden", "cell")
        )

    def step(self, inputs: tf.Tensor) -> tf.Tensor:
        self.hidden, self.cell = lstm_cell(inputs, self.hidden, self.cell, self.kernel, self.bias)
        return self.hidden


def _run(name: str, inputs: list[tf.Tensor], width: int) -> list[tf.Tensor]:
    """Runs one LSTM layer over all steps."""
    layer = _Lstm(name, inputs[0].shape[0], inputs[0].shape[1], width)
    outputs = []
    for step, each in enumerate(inputs):
        with tf.name_scope(f"{name}_step_{step}"):
            outputs.append(layer.step(each))
    return outputs


def _encode(inputs: list[tf.Tensor], layers: int, width: int) -> tf.Tensor:
    """Returns the last encoder layer's states, [batch, source steps, width]."""
    for layer in range(layers):
        with layer_scope(layer):
            if layer == 0:
                forward = _run("encoder", inputs, width)
                backward = _run("encoder_back", inputs[::-1], width)[::-1]
                inputs = [tf.concat(pair, 1) for pair in zip(forward, backward, strict=True)]
                continue
            outputs = _run("encoder", inputs, width)
            if layer >= _FIRST_RESIDUAL:
                outputs = [a + b for a, b in zip(outputs, inputs, strict=True)]
            inputs = outputs
    with layer_scope(0):
        return tf.stack(inputs, axis=1)


class _Attention:
    """Bahdanau's attention over [batch, source steps, depth]."""

    def __init__(self, memory: tf.Tensor, width: int):
        batch, steps, depth = memory.shape.as_list()
        self._memory = memory
        project = variables.uniform("attention_memory", [depth, width], _INIT_SCALE).read_value()
        flat = tf.matmul(tf.reshape(memory, [batch * steps, depth]), project)
        self._keys = tf.reshape(flat, [batch, steps, width])
        self._query = variables.uniform("attention_query", [width, width], _INIT_SCALE).read_value()
        self._score = variables.uniform("attention_score", [width], _INIT_SCALE).read_value()

    def context(self, state: tf.Tensor) -> tf.Tensor:
        """Returns the weighted memory, [batch, depth], for a decoder state [batch, width]."""
        query = tf.expand_dims(tf.matmul(state, self._query), 1)
        scores = tf.reduce_sum(self._score * tf.tanh(self._keys + query), 2)
        weights = tf.expand_dims(tf.nn.softmax(scores), 1)  # [batch, 1, source steps]
        return tf.squeeze(tf.matmul(weights, self._memory), 1)


def _decode(inputs: list[tf.Tensor], memory: tf.Tensor, layers: int, width: int) -> list[tf.Tensor]:
    """Returns the last decoder layer's states, [batch, width] a step."""
    batch, depth = inputs[0].shape[0], memory.shape[2]
    with layer_scope(0):
        attention = _Attention(memory, width)
        layer = _Lstm("decoder", batch, width + depth, width)
        context = tf.zeros([batch, depth])
        outputs, contexts = [], []
        for step, each in enumerate(inputs):
            with tf.name_scope(f"decoder_step_{step}"):
                outputs.append(layer.step(tf.concat([each, context], 1)))
                context = attention.context(outputs[-1])
                contexts.append(context)
    for index in range(1, layers):
        with layer_scope(index):
            joined = [tf.concat(pair, 1) for pair in zip(outputs, contexts, strict=True)]
            states = _run("decoder", joined, width)
            if index >= _FIRST_RESIDUAL:
                states = [a + b for a, b in zip(states, outputs, strict=True)]
            outputs = states
    return outputs


def _loss(states: list[tf.Tensor], labels: list[tf.Tensor], vocab: int) -> tf.Tensor:
    """Returns the mean cross-entropy of a token; each step has a projection of its own."""
    width = states[0].shape[1]
    weights = variables.uniform("softmax", [width, vocab], _INIT_SCALE).read_value()
    bias = variables.filled("softmax_bias", [vocab]).read_value()
    losses = []
    for step, (state, label) in enumerate(zip(states, labels, strict=True)):
        with tf.name_scope(f"loss_{step}"):
            logits = tf.nn.bias_add(tf.matmul(state, weights), bias)
            losses.append(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
            )
    return tf.reduce_mean(tf.add_n(losses)) / len(losses)
