"""Tests of segment attention, of what a placement amounts to, and of the switches."""

from __future__ import annotations

import numpy as np
import pytest

try:
    import go_train  # noqa: F401  Settles Keras 2; before tensorflow.
except ImportError as error:
    if "TF_USE_LEGACY_KERAS" not in str(error):
        raise
    pytest.skip(f"needs a process of its own: {error}", allow_module_level=True)

import tensorflow as tf
from go_train import feedback, heads
from go_train.attention import SegmentAttention
from go_train.feedback import Setting
from go_train.network import PolicyNetwork
from go_train.network_config import NetworkConfig
from go_train.testing import TABLE, random_features


def _attention(segment: int, *, memory: bool) -> SegmentAttention:
    tf.keras.utils.set_random_seed(3)
    layer = SegmentAttention(8, 2, segment, memory=memory)
    layer(tf.zeros([2, 8]))
    return layer


def _states(ops: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ops, 8)).astype(np.float32)


@pytest.mark.parametrize("memory", [True, False])
def test_one_segment_is_plain_attention(memory):
    states = _states(12)
    layer = _attention(12, memory=memory)
    norm, query, key_value, output, wide_norm, wide, bias, narrow, narrow_bias = (
        w.numpy() for w in layer.weights
    )

    def rms(x, gain):
        return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-6) * gain

    normed = rms(states, norm)
    q, k, v = normed @ query, *np.split(normed @ key_value, 2, axis=1)
    taken = []
    for head in (slice(0, 4), slice(4, 8)):
        scores = q[:, head] @ k[:, head].T / 2.0
        weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        taken.append(weights @ v[:, head])
    expected = states + np.concatenate(taken, axis=1) @ output
    hidden = np.maximum(rms(expected, wide_norm) @ wide + bias, 0.0)
    expected += hidden @ narrow + narrow_bias
    np.testing.assert_allclose(layer(states), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", [True, False])
def test_a_segment_that_holds_the_graph_may_be_longer(memory):
    states = _states(12)
    np.testing.assert_allclose(
        _attention(12, memory=memory)(states),
        _attention(100, memory=memory)(states),
        rtol=1e-5,
        atol=1e-6,
    )


def test_the_segment_before_matters_and_later_ones_do_not():
    states, changed = _states(20), _states(20)
    changed[8:12] += 1.0  # The third of five segments of four.
    layer = _attention(4, memory=True)
    differs = np.abs(layer(states) - layer(changed)).max(axis=1).reshape(5, 4).min(axis=1) > 1e-6
    assert differs.tolist() == [False, False, True, True, False]
    alone = _attention(4, memory=False)
    differs = np.abs(alone(states) - alone(changed)).max(axis=1).reshape(5, 4).min(axis=1) > 1e-6
    assert differs.tolist() == [False, False, True, False, False]


def test_padding_of_the_last_segment_is_not_attended_to():
    layer = _attention(4, memory=True)
    whole = layer(_states(8)).numpy()
    cut = layer(_states(8)[:6]).numpy()
    np.testing.assert_allclose(cut[:4], whole[:4], rtol=1e-5, atol=1e-6)
    padded = layer(np.concatenate([_states(8)[:6], np.zeros([2, 8], np.float32)])).numpy()
    assert np.abs(cut[4:] - padded[4:6]).max() > 1e-4


def test_memory_has_no_gradient():
    states = tf.Variable(_states(8))
    layer = _attention(4, memory=True)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(states)[4:] ** 2)
    gradient = tape.gradient(total, states).numpy()
    assert (gradient[:4] == 0).all()
    assert np.abs(gradient[4:]).max() > 0


def _setting(ready, time, edges=()) -> Setting:
    ready = tf.constant(ready, tf.float32)
    order = tf.argsort(ready, stable=True)
    ends = np.array(edges, np.int32).reshape(-1, 3)
    return Setting(
        time=tf.constant(time, tf.float32),
        ready=ready,
        order=order,
        first=tf.searchsorted(tf.gather(ready, order), ready, side="left"),
        source=tf.constant(ends[:, 0]),
        target=tf.constant(ends[:, 1]),
        weight=tf.constant(ends[:, 2:], tf.float32),
        critical=tf.constant(1.0),
    )


def test_loads_by_hand():
    # All on device 0: ready at 0, 0.1, 0.1 and 0.9, each 0.3 long. The second and third see the
    # first's rest of 0.2; by 0.9 the device was idle at 0.9 exactly.
    setting = _setting([0.0, 0.1, 0.1, 0.95], np.full([4, 2], 0.3))
    probability = tf.constant([[1.0, 0.0]] * 4)
    before, wait, total = feedback.loads(setting, probability)
    np.testing.assert_allclose(before[:, 0], [0.0, 0.3, 0.3, 0.9], atol=1e-6)
    np.testing.assert_allclose(wait[:, 0], [0.0, 0.2, 0.2, 0.0], atol=2e-3)
    np.testing.assert_allclose(wait[:, 1], 0.0, atol=2e-3)
    np.testing.assert_allclose(total, [1.2, 0.0], atol=1e-6)


def test_neighbours_are_weighed_by_transfer_time():
    setting = _setting([0.0] * 3, np.ones([3, 2]), [(0, 2, 3), (1, 2, 1)])
    values = tf.constant([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    produced, consumed = feedback.neighbours(setting, values)
    np.testing.assert_allclose(produced, [[0, 0], [0, 0], [0.75, 0.25]])
    np.testing.assert_allclose(consumed, [[0.5, 0.5], [0.5, 0.5], [0, 0]])


def test_a_group_has_the_mean_of_its_ops():
    pooled = heads.pool_groups(tf.constant([[1.0], [5.0], [2.0]]), tf.constant([0, 1, 0]))
    np.testing.assert_allclose(pooled, [[1.5], [5.0], [1.5]])


def _network(**settings) -> PolicyNetwork:
    tf.keras.utils.set_random_seed(1)
    sizes = {"width": 8, "score_width": 8, "op_type_width": 4, "attention_heads": 2, "segment": 16}
    network = PolicyNetwork(NetworkConfig(**{**sizes, **settings}), TABLE)
    for variable in network.trainable_variables:  # Zeros would hide a part that is switched off.
        variable.assign_add(tf.random.normal(variable.shape, stddev=0.2))
    return network


FEATURES = random_features(40, 3)


@pytest.mark.parametrize(
    "settings",
    [
        {"modulation": False},
        {"segment_memory": False},
        {"rounds": 1},
        {"attention_layers": 0},
    ],
)
def test_each_switch_changes_the_placement(settings):
    base = _network(rounds=2).decide(FEATURES)
    other = _network(**{"rounds": 2, **settings}).decide(FEATURES)
    assert len(other.rounds) == settings.get("rounds", 2)
    legal = FEATURES["node_device_mask"] > 0
    assert np.abs(base.placement.numpy() - other.placement.numpy())[legal].max() > 1e-3


@pytest.mark.parametrize("recurrent", [True, False])
def test_scheduling_and_fusion_see_the_placement_only_with_task_recurrence(recurrent):
    network = _network(rounds=1, task_recurrence=recurrent)
    before = network.decide(FEATURES)
    network._placement._score.weights[0].assign_add(
        tf.ones_like(network._placement._score.weights[0])
    )
    after = network.decide(FEATURES)
    moved = np.abs(before.priority.numpy() - after.priority.numpy()).max() > 1e-4
    assert moved == recurrent


def test_later_rounds_see_the_earlier_decisions():
    network = _network(rounds=3)
    first, second, third = (r.numpy() for r in network.decide(FEATURES).rounds)
    legal = FEATURES["node_device_mask"] > 0
    assert np.abs(first - second)[legal].max() > 1e-3
    assert np.abs(second - third)[legal].max() > 1e-4


def test_fusion_is_asked_only_where_data_flows_between_ops_that_may_meet():
    features = dict(FEATURES)
    control = features["edge_features"][:, TABLE.column("edge/is_control")] == 1
    mask = features["node_device_mask"]
    apart = (mask[features["edge_source"]] * mask[features["edge_target"]]).sum(axis=1) == 0
    illegal = _network(rounds=1).decide(features).fusion.numpy() == np.float32(heads.ILLEGAL_LOGIT)
    assert control.any()
    assert (illegal == (control | apart)).all()


def test_priorities_start_as_the_critical_paths():
    tf.keras.utils.set_random_seed(1)
    network = PolicyNetwork(NetworkConfig(rounds=1, segment=16), TABLE)
    logits = network.decide(FEATURES).priority.numpy()
    upward = FEATURES["node_features"][:, TABLE.column("node/upward_rank")]
    expected = np.floor(upward / upward.max() * 19)
    assert np.abs(logits.argmax(axis=1) - expected).max() <= 1
