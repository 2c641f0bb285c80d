"""HDP: its loss by hand, its budget, and that it finds a known optimum."""

import dataclasses

import _learned_baselines
import numpy as np
import pytest
import tensorflow as tf
from go_bench.baselines import hdp, hdp_network, reinforce

# The network is small so that tests are short; its shape is the same.
_SMALL = dataclasses.replace(hdp.TUNED, hidden=32, max_groups=6, learning_rate=0.01)


@pytest.fixture(scope="module", name="task")
def fixture_task():
    return _learned_baselines.two_chains()


@pytest.fixture(scope="module", name="optimum_us")
def fixture_optimum_us(task):
    return _learned_baselines.optimum_us(task)


def test_loss_gradient_by_hand():
    logits = tf.Variable([[0.0, np.log(3.0)], [0.0, 0.0]])
    with tf.GradientTape() as tape:
        log_probs = tf.gather(tf.nn.log_softmax(logits), [1, 0], batch_dims=1)
        loss = reinforce.policy_loss(log_probs, tf.constant([2.0, -1.0]))
    # -(2 ln 3/4 - 1 ln 1/2) / 2, and -advantage (chosen - probability) / 2.
    np.testing.assert_allclose(loss, -(2 * np.log(0.75) - np.log(0.5)) / 2, rtol=1e-6)
    want = [[0.25, -0.25], [0.25, -0.25]]
    np.testing.assert_allclose(tape.gradient(loss, logits), want, rtol=1e-6)


def test_failed_placements_get_the_failing_signal():
    got = reinforce.rewards(np.array([4.0, np.inf, 0.25]), 100.0)
    np.testing.assert_allclose(got, [-2, -10, -0.5])


def test_baseline_moves_after_the_advantages():
    baseline = reinforce.MovingBaseline(0.9, -10.0)
    np.testing.assert_allclose(baseline.advantages(np.array([-1.0, -3.0])), [9, 7])
    # 0.9 x -10 + 0.1 x -2 = -9.2.
    np.testing.assert_allclose(baseline.advantages(np.array([-9.2])), [0], atol=1e-12)


def test_first_adam_step_is_the_learning_rate_after_clipping():
    variable = tf.Variable([1.0, 1.0])
    reinforce.Adam([variable], 1.0).apply([tf.constant([30.0, -40.0])], tf.constant(0.1))
    np.testing.assert_allclose(variable, [0.9, 1.1], rtol=1e-5)


def test_sampling_by_inversion():
    got = reinforce.sample(np.array([[0.25, 0.5, 0.25]]), np.array([[0.0, 0.3, 0.75, 0.99]]))
    np.testing.assert_array_equal(got, [[0, 1, 2, 2]])


def test_published_settings():
    config = hdp.PUBLISHED
    assert (config.grouper_hidden, config.hidden, config.failing_signal) == (64, 512, 100)
    assert (config.baseline_decay, config.learning_rate, config.clip_norm) == (0.9, 0.1, 1.0)


def test_one_update_makes_a_rewarded_sample_likelier():
    random = np.random.default_rng(0)
    network = hdp_network.Network(
        random.random((5, 7)).astype(np.float32),
        group_width=4,
        num_groups=3,
        num_devices=2,
        config=_SMALL,
        random=random,
    )
    embedded = random.random((2, 3, 4)).astype(np.float32)
    noise = np.zeros((2, 3, 2), np.float32)
    devices = np.array([[0, 1, 0], [1, 0, 1]], np.int32)
    groups = np.array([[0, 1, 2, 0, 1], [2, 2, 1, 1, 0]])
    before = network.device_log_probs(tf.constant(embedded), noise, tf.constant(devices)).numpy()
    chance = np.log(network.group_probabilities()[np.arange(5), groups]).sum(axis=1)
    network.update(groups, embedded, noise, devices, np.array([1.0, -1.0]), 0.003)
    after = network.device_log_probs(tf.constant(embedded), noise, tf.constant(devices)).numpy()
    moved = np.log(network.group_probabilities()[np.arange(5), groups]).sum(axis=1)
    assert after[0] - before[0] > 0 > after[1] - before[1]
    assert moved[0] - chance[0] > 0 > moved[1] - chance[1]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_finds_the_optimum_legally_within_budget(task, optimum_us, seed):
    found = hdp.hdp(task, 400, seed, config=_SMALL)
    assert found.step_us == pytest.approx(optimum_us)
    assert found.evaluations <= 400
    assert task.graph.legal(found.placement) == ""


@pytest.mark.parametrize("budget", [1, 17])
def test_same_seed_same_result_and_budget_spent_to_the_last(task, budget):
    first, second = (hdp.hdp(task, budget, 3, config=_SMALL) for _ in range(2))
    np.testing.assert_array_equal(first.placement, second.placement)
    assert first.curve == second.curve
    assert first.evaluations == budget


def test_no_memory_anywhere_gives_the_failing_reward():
    rewards = []
    task = _learned_baselines.two_chains(memory_mb=1)
    found = hdp.hdp(task, 16, 0, config=_SMALL, watch=lambda _, reward: rewards.append(reward))
    assert found.step_us == np.inf
    assert rewards == [-10.0]
