"""All workloads by name: they train, repeat themselves, and have their papers' shapes."""

import numpy as np
import pytest
import tensorflow as tf
from go_bench.workloads import registry, variables
from go_bench.workloads.transformer_xl import _shift, _sinusoids

v1 = tf.compat.v1

_PAPER_DEVICES = {
    **{f"{family}-{n}": n for family in ("rnnlm", "gnmt", "transformer_xl") for n in (2, 4, 8)},
    "inception_v3-b32": 2,
    "inception_v3-b64": 2,
    "amoebanet": 4,
    "wavenet-2x9": 2,
    "wavenet-4x9": 4,
}
_TODAY = ("bert", "gpt", "moe", "resnet50", "unet")


def _losses(workload, steps):
    with v1.Session(graph=workload.graph) as session:
        session.run(workload.init_op)
        return [float(session.run(workload.fetches)["outputs"]["loss"]) for _ in range(steps)]


def _parameters(workload):
    with workload.graph.as_default():
        return sum(int(np.prod(v.shape)) for v in v1.trainable_variables())


def test_the_papers_rows_are_there():
    devices = {name: registry.entry(name).paper_devices for name in registry.names()}
    assert devices == {**_PAPER_DEVICES, **dict.fromkeys(_TODAY, 0)}
    assert registry.names("wavenet") == ("wavenet-2x9", "wavenet-4x9")


@pytest.mark.parametrize(
    "name", ["gnmt-4", "transformer_xl-2", "wavenet-2x9", "amoebanet", *_TODAY]
)
def test_training_lowers_the_loss_and_repeats_itself(name):
    train = registry.build(name, preset="tiny")
    losses = _losses(train, 4)
    assert np.isfinite(losses).all() and losses[-1] < losses[0]
    assert _losses(registry.build(name, preset="tiny"), 2) == losses[:2]
    assert set(train.layer_of.values()) == set(range(train.layers))
    forward = registry.build(name, preset="tiny", mode="forward")
    if name not in ("amoebanet", "resnet50"):  # Which normalise by other moments.
        assert _losses(forward, 1) == pytest.approx(losses[:1], rel=1e-6)


@pytest.mark.parametrize("preset", registry.PRESETS)
@pytest.mark.parametrize(
    "family",
    [
        "rnnlm",
        "gnmt",
        "transformer_xl",
        "wavenet",
        "amoebanet",
        "bert",
        "gpt",
        "moe",
        "resnet",
        "unet",
    ],
)
def test_presets_name_the_builders_arguments(family, preset):
    row = registry.entry(registry.names(family)[0])
    assert set(row.presets[preset]) <= set(row.build.__kwdefaults__)


def test_gnmt_parameters():
    d, v = 16, 50
    layers, depth = 4, 16  # The last encoder layer is of one direction.
    # Both directions, then the layer that reads both.
    encoder = 2 * (2 * d * 4 * d + 4 * d) + (2 * d + d) * 4 * d + 4 * d
    encoder += (layers - 2) * (2 * d * 4 * d + 4 * d)
    decoder = layers * ((d + depth + d) * 4 * d + 4 * d)
    attention = depth * d + d * d + d
    total = 2 * v * d + encoder + decoder + attention + d * v + v
    assert _parameters(registry.build("gnmt-4", preset="tiny")) == total


def test_transformer_xl_parameters():
    d, ff, v, layers = 16, 32, 50, 2
    layer = 5 * d * d + 2 * d + (d * ff + ff) + (ff * d + d) + 4 * d
    assert _parameters(registry.build("transformer_xl-2", preset="tiny")) == (
        v * d + layers * layer + d * v + v
    )


def test_wavenet_parameters():
    c, s, levels = 4, 8, 16
    causal = 2 * c * c + c
    layer = 2 * causal + (c * c + c) + (c * s + s)
    assert _parameters(registry.build("wavenet-2x9", preset="tiny")) == (
        levels * c + causal + 18 * layer + (s * s + s) + (s * levels + levels)
    )


def test_the_shift_puts_distances_in_their_columns():
    segment, length = 3, 5
    distance = np.arange(length - 1, -1, -1, dtype=np.float32)
    scores = np.tile(distance, (1, 1, segment, 1))
    shifted = _shift(tf.constant(scores)).numpy()[0, 0]
    for i in range(segment):
        for j in range(length - segment + i + 1):  # What token i may see.
            assert shifted[i, j] == (length - segment + i) - j


def test_sinusoids():
    table = _sinusoids(3, 4)
    np.testing.assert_allclose(table[-1], [0, 0, 1, 1])
    np.testing.assert_allclose(table[0, 0], np.sin(2.0), rtol=1e-6)


def test_memory_is_the_segment_before():
    workload = registry.build("transformer_xl-2", preset="tiny", mode="forward")
    with workload.graph.as_default():
        memory = [v for v in v1.global_variables() if v.op.name == "layer_0/memory"]
    with v1.Session(graph=workload.graph) as session:
        session.run(workload.init_op)
        before = session.run(memory)[0]
        session.run(workload.fetches)
        after = session.run(memory)[0]
        session.run(workload.fetches)
        again = session.run(memory)[0]
    assert not np.array_equal(before, after)
    np.testing.assert_array_equal(after, again)  # Layer 0 sees the embedding alone.


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("gnmt-3", {}, "unknown workload 'gnmt-3'; known are rnnlm-2"),
        ("gnmt-2", {"preset": "huge"}, "unknown preset 'huge'; known are tiny, cpu, paper"),
        ("gnmt-2", {"mode": "eval"}, "gnmt: mode must be 'train' or 'forward', got 'eval'"),
        ("gnmt-2", {"batch": 0}, "gnmt: batch must be at least 1, got 0"),
        ("transformer_xl-2", {"width": 15, "heads": 2}, "width 15 is not a multiple of 2 heads"),
        ("transformer_xl-2", {"segment": 4}, "transformer_xl: segment must be at least 8, got 4"),
        ("amoebanet", {"cells": 4}, "amoebanet: cells must be a multiple of 3, got 4"),
        ("wavenet-2x9", {"samples": 1}, "wavenet: samples must be at least 2, got 1"),
    ],
)
def test_wrong_sizes_are_named(name, overrides, message):
    with pytest.raises(ValueError, match=message):
        registry.build(name, **{"preset": "tiny", **overrides})


def test_variables_do_not_depend_on_the_graph():
    with tf.Graph().as_default(), v1.Session() as session:
        first = variables.uniform("w", [4], 1.0)
        session.run(first.initializer)
        value = session.run(first)
    with tf.Graph().as_default(), v1.Session() as session:
        variables.uniform("other", [4], 1.0)
        second = variables.uniform("w", [4], 1.0)
        session.run(second.initializer)
        np.testing.assert_array_equal(session.run(second), value)


def _transformer_layer(d, ff):
    """Four projections, two dense layers, two normalisations."""
    return 4 * (d * d + d) + (d * ff + ff) + (ff * d + d) + 4 * d


def test_bert_parameters():
    d, ff, v, t, layers = 16, 32, 50, 8, 2
    embedding = v * d + t * d + 2 * d + 2 * d
    head = (d * d + d) + 2 * d + v
    assert _parameters(registry.build("bert", preset="tiny")) == (
        embedding + layers * _transformer_layer(d, ff) + head
    )


@pytest.mark.parametrize(
    ("name", "millions"),
    # BERT base is given as 110 with 512 positions and the pooler, GPT-2 small as 124, ResNet-50 as
    # 25.6, U-Net as 31.0.
    [("bert", 110 - (512 - 128) * 768e-6 - (768 + 1) * 768e-6 + 0.6), ("gpt", 124.4)],
)
def test_published_sizes_of_transformers(name, millions):
    workload = registry.build(name, preset="paper", mode="forward")
    assert _parameters(workload) / 1e6 == pytest.approx(millions, rel=0.01)


@pytest.mark.parametrize(("name", "parameters"), [("resnet50", 25_557_032), ("unet", 31_030_658)])
def test_published_sizes_of_convolutional_networks(name, parameters):
    workload = registry.build(name, preset="paper", mode="forward", batch=1)
    published = {"resnet50": parameters, "unet": parameters}[name]
    assert _parameters(workload) == published


def test_experts():
    d, ff, experts = 16, 32, 2
    dense = _parameters(registry.build("gpt", preset="tiny"))
    feed_forward = (d * ff + ff) + (ff * d + d)
    assert _parameters(registry.build("moe", preset="tiny")) == (
        dense + (experts - 1) * feed_forward + d * experts
    )


def test_an_expert_takes_no_more_than_it_has_room_for():
    workload = registry.build("moe", preset="tiny", mode="forward")
    with v1.Session(graph=workload.graph) as session:
        session.run(workload.init_op)
        places = [
            op.outputs[0]
            for op in workload.graph.get_operations()
            if op.type == "Mul" and op.name.endswith("/places")
        ]
        assert places
        for taken in session.run(places):
            # Each place holds one token at most, each token has one place at most.
            assert taken.sum(axis=0).max() <= 1
            assert taken.sum(axis=(1, 2)).max() <= 1
