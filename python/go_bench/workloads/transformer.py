"""Transformers of today: BERT's encoder, GPT-2's decoder, and a decoder with switched experts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from go_bench.workloads import variables
from go_bench.workloads.step import Mode, check, complete, dense, layer_norm
from go_bench.workloads.workload import Workload, layer_scope

_INIT_SCALE = 0.05
_MASK = -1e9
# Room for so many times the tokens that an expert would get if all got alike.
_CAPACITY = 1.25

_TINY = {"layers": 2, "batch": 2, "width": 16, "heads": 2, "ff": 32, "tokens": 8, "vocab": 50}
_CPU = {
    "layers": 4,
    "batch": 4,
    "width": 384,
    "heads": 6,
    "ff": 1536,
    "tokens": 96,
    "vocab": 2000,
}
BERT_PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": _TINY,
    "cpu": _CPU,
    # BERT base, at the sequence length of nine tenths of its pre-training.
    "paper": {
        "layers": 12,
        "batch": 32,
        "width": 768,
        "heads": 12,
        "ff": 3072,
        "tokens": 128,
        "vocab": 30522,
    },
}
GPT_PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": _TINY,
    "cpu": _CPU,
    # GPT-2 small.
    "paper": {
        "layers": 12,
        "batch": 4,
        "width": 768,
        "heads": 12,
        "ff": 3072,
        "tokens": 1024,
        "vocab": 50257,
    },
}
MOE_PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": {**_TINY, "experts": 2},
    "cpu": {**_CPU, "layers": 2, "experts": 4},
    # Switch-Base with 8 experts, its encoder's sizes.
    "paper": {
        "layers": 12,
        "batch": 16,
        "width": 768,
        "heads": 12,
        "ff": 3072,
        "tokens": 512,
        "vocab": 32128,
        "experts": 8,
    },
}


def bert(
    *,
    layers: int = 4,
    batch: int = 4,
    width: int = 384,
    heads: int = 6,
    ff: int = 1536,
    tokens: int = 96,
    vocab: int = 2000,
    learning_rate: float = 0.1,
    mode: Mode = "train",
) -> Workload:
    """Builds BERT (arXiv 1810.04805) with its masked-language-model head, on one segment.

    Embeddings of words, positions and segments, normalised; layers that normalise after the sum,
    with GELU; the head's transform and the words' embedding again as its softmax. Every token's
    loss counts; there is no dropout. A human's placement: equal runs of layers, the embedding with
    the first and the head with the last.

    Args:
      layers: attention layers.
      batch: sequences.
      width: of the model; `heads` divides it.
      heads: attention heads of a layer.
      ff: width of the feed-forward layer.
      tokens: of a sequence.
      vocab: different tokens.
      learning_rate: of SGD.
      mode: "train" for a training step, "forward" for the loss alone.

    Raises:
      ValueError: for a size out of range or an unknown mode.
    """
    _check("bert", mode, layers, batch, width, heads, ff, tokens, vocab, experts=1)
    with tf.Graph().as_default():
        with layer_scope(0):
            ids = variables.tokens("tokens", [batch, tokens], vocab).read_value()
            labels = variables.tokens("labels", [batch, tokens], vocab).read_value()
            table, x = _embed(ids, vocab, width)
            segment = variables.uniform("segments", [2, width], _INIT_SCALE).read_value()[0]
            x = layer_norm(x + segment, "embedding_norm")
        for layer in range(layers):
            with layer_scope(layer):
                x = layer_norm(x + _attend(x, heads, causal=False), "attention_norm")
                x = layer_norm(x + _feed_forward(x, ff, approximate=False), "ff_norm")
        with layer_scope(layers - 1):
            flat = tf.reshape(x, [batch * tokens, width])
            flat = tf.nn.gelu(dense(flat, "transform", width), approximate=False)
            logits = tf.matmul(layer_norm(flat, "transform_norm"), table, transpose_b=True)
            logits += variables.filled("softmax_bias", [vocab]).read_value()
            loss = _cross_entropy(logits, labels)
        return complete("bert", loss, mode=mode, learning_rate=learning_rate, layers=layers)


def gpt(
    *,
    layers: int = 4,
    batch: int = 4,
    width: int = 384,
    heads: int = 6,
    ff: int = 1536,
    tokens: int = 96,
    vocab: int = 2000,
    learning_rate: float = 0.1,
    mode: Mode = "train",
) -> Workload:
    """Builds GPT-2: a causal decoder that normalises before each part.

    Words' and learned positions' embeddings; the words' embedding again as the softmax; GELU by its
    tangent form; no dropout. Architecture: Radford et al. 2019, "Language Models are Unsupervised
    Multitask Learners". A human's placement: equal runs of layers.

    Args: as for `bert`.

    Raises:
      ValueError: for a size out of range or an unknown mode.
    """
    return _decoder("gpt", layers, batch, width, heads, ff, tokens, vocab, 1, learning_rate, mode)


def moe(
    *,
    layers: int = 2,
    batch: int = 4,
    width: int = 384,
    heads: int = 6,
    ff: int = 1536,
    tokens: int = 96,
    vocab: int = 2000,
    experts: int = 4,
    learning_rate: float = 0.1,
    mode: Mode = "train",
) -> Workload:
    """Builds `gpt` with experts in place of every second feed-forward layer (arXiv 2101.03961).

    A token goes to the expert that the router likes best, as long as that has room: 1.25 times its
    even share. What finds none passes by. There is no loss for balance. A human's placement, as is
    practice: an expert a device, all else with the first.

    Args: as for `bert`; and
      experts: of each such layer.

    Raises:
      ValueError: for a size out of range or an unknown mode.
    """
    return _decoder(
        "moe", layers, batch, width, heads, ff, tokens, vocab, experts, learning_rate, mode
    )


def _decoder(
    name: str,
    layers: int,
    batch: int,
    width: int,
    heads: int,
    ff: int,
    tokens: int,
    vocab: int,
    experts: int,
    learning_rate: float,
    mode: Mode,
) -> Workload:
    _check(name, mode, layers, batch, width, heads, ff, tokens, vocab, experts)
    with tf.Graph().as_default():
        with layer_scope(0):
            ids = variables.tokens("tokens", [batch, tokens + 1], vocab).read_value()
            table, x = _embed(ids[:, :-1], vocab, width)
        # With experts, those are what is spread: their number stands for the layer.
        for layer in range(layers):
            scope = 0 if experts > 1 else layer
            with layer_scope(scope), tf.compat.v1.variable_scope(f"block_{layer}"):
                x += _attend(layer_norm(x, "attention_norm"), heads, causal=True)
                normal = layer_norm(x, "ff_norm")
                if experts == 1 or layer % 2 == 0:
                    x += _feed_forward(normal, ff, approximate=True)
                    continue
                routed = _route(normal, experts)
            x += _experts(normal, routed, ff, layer)
        last = 0 if experts > 1 else layers - 1
        with layer_scope(last):
            flat = tf.reshape(layer_norm(x, "final_norm"), [batch * tokens, width])
            loss = _cross_entropy(tf.matmul(flat, table, transpose_b=True), ids[:, 1:])
        spread = experts if experts > 1 else layers
        return complete(name, loss, mode=mode, learning_rate=learning_rate, layers=spread)


def _check(
    name: str,
    mode: str,
    layers: int,
    batch: int,
    width: int,
    heads: int,
    ff: int,
    tokens: int,
    vocab: int,
    experts: int,
) -> None:
    sizes = {"layers": layers, "batch": batch, "heads": heads, "ff": ff, "tokens": tokens}
    least = {key: (value, 1) for key, value in sizes.items()}
    least |= {"width": (width, heads), "vocab": (vocab, 2), "experts": (experts, 1)}
    check(name, mode, least)
    if width % heads:
        raise ValueError(f"{name}: width {width} is not a multiple of {heads} heads")


def _embed(ids: tf.Tensor, vocab: int, width: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the words' table, [vocab, width], and words and positions, [batch, tokens, width]."""
    table = variables.uniform("words", [vocab, width], _INIT_SCALE).read_value()
    positions = variables.uniform("positions", [ids.shape[1], width], _INIT_SCALE).read_value()
    return table, tf.nn.embedding_lookup(table, ids) + positions


def _attend(x: tf.Tensor, heads: int, *, causal: bool) -> tf.Tensor:
    """Attention of all heads to [batch, tokens, width], projected; likewise."""
    batch, tokens, width = x.shape.as_list()
    size = width // heads
    flat = tf.reshape(x, [batch * tokens, width])

    def project(name: str) -> tf.Tensor:
        """Returns [batch, heads, tokens, size]."""
        rows = tf.reshape(dense(flat, name, width), [batch, tokens, heads, size])
        return tf.transpose(rows, [0, 2, 1, 3])

    query, key, value = project("query"), project("key"), project("value")
    scores = tf.matmul(query, key, transpose_b=True) * size**-0.5
    if causal:
        scores += tf.constant((1 - np.tri(tokens, dtype=np.float32)) * _MASK)
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    out = dense(tf.reshape(mixed, [batch * tokens, width]), "out", width)
    return tf.reshape(out, [batch, tokens, width])


def _feed_forward(x: tf.Tensor, ff: int, *, approximate: bool) -> tf.Tensor:
    batch, tokens, width = x.shape.as_list()
    flat = tf.reshape(x, [batch * tokens, width])
    inside = tf.nn.gelu(dense(flat, "ff_in", ff), approximate=approximate)
    return tf.reshape(dense(inside, "ff_out", width), [batch, tokens, width])


def _route(x: tf.Tensor, experts: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns each token's place with each expert, [rows, experts, capacity]; weights, [rows].

    A place is a 1 where the token goes; a token without one goes nowhere.
    """
    batch, tokens, width = x.shape.as_list()
    rows = batch * tokens
    capacity = max(1, int(_CAPACITY * rows / experts))
    router = variables.uniform("router", [width, experts], _INIT_SCALE).read_value()
    chances = tf.nn.softmax(tf.matmul(tf.reshape(x, [rows, width]), router))
    best = tf.one_hot(tf.argmax(chances, axis=1), experts)  # [rows, experts]
    before = tf.cumsum(best, axis=0, exclusive=True)  # Tokens that came to the expert earlier.
    place = tf.one_hot(tf.cast(tf.reduce_sum(before * best, axis=1), tf.int64), capacity)
    weight = tf.reduce_sum(chances * best, axis=1)
    return tf.multiply(best[:, :, tf.newaxis], place[:, tf.newaxis, :], name="places"), weight


def _experts(x: tf.Tensor, routed: tuple[tf.Tensor, tf.Tensor], ff: int, layer: int) -> tf.Tensor:
    """The experts' answers where the tokens came from, [batch, tokens, width]."""
    batch, tokens, width = x.shape.as_list()
    places, weight = routed
    flat = tf.reshape(x, [batch * tokens, width])
    answers = []
    for expert in range(places.shape[1]):
        with layer_scope(expert), tf.compat.v1.variable_scope(f"block_{layer}_expert"):
            mine = places[:, expert]  # [rows, capacity]
            given = tf.matmul(mine, flat, transpose_a=True)
            inside = tf.nn.gelu(dense(given, "ff_in", ff), approximate=True)
            answers.append(tf.matmul(mine, dense(inside, "ff_out", width)))
    with layer_scope(0):
        together = tf.add_n(answers) * weight[:, tf.newaxis]
        return tf.reshape(together, [batch, tokens, width])


def _cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns the mean over all tokens; logits [rows, vocab], labels of as many elements."""
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(labels, [-1]), logits=logits
        )
    )
