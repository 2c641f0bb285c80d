"""Tests of PPO: losses by hand, rollouts, a known optimum, and resuming."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

try:
    import go_train  # noqa: F401  Settles Keras 2; before tensorflow.
except ImportError as error:
    if "TF_USE_LEGACY_KERAS" not in str(error):
        raise
    pytest.skip(f"needs a process of its own: {error}", allow_module_level=True)

import tensorflow as tf
from go_train import checkpoint, dataset, labels, losses, ppo, rollouts, schedules
from go_train.network_config import NetworkConfig
from go_train.ppo import PpoConfig
from go_train.rollouts import Choices, Memory
from go_train.table import FeatureTable

import grappler_go

SMALL = PpoConfig(
    updates=4,
    graphs_per_update=1,
    rollouts=16,
    epochs=2,
    drawn=3,
    learning_rate=1e-2,
    warmup_updates=1,
    imitation=0.0,
    checkpoint_every=2,
    network=NetworkConfig(
        width=8,
        layers=1,
        op_type_width=4,
        device_width=4,
        score_width=8,
        attention_heads=2,
        rounds=2,
    ),
)
TABLE = FeatureTable.from_rows(grappler_go.feature_table())
_WORKERS = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)]


def _products() -> tf.compat.v1.GraphDef:
    """Two unlike products beside each other."""
    with tf.Graph().as_default() as graph:
        for size in (384, 512):
            x = tf.compat.v1.placeholder(tf.float32, [size, size], name=f"x{size}")
            tf.matmul(x, x, name=f"product{size}")
    return graph.as_graph_def()


@pytest.fixture(scope="module")
def example() -> dataset.Example:
    graph = grappler_go.OpGraph(_products(), _WORKERS, fetch=["product384", "product512"])
    features = dataset.features_of(graph)
    incoming = graph.heuristic("incoming")
    step_us = float(graph.simulate(incoming[None]).step_us[0])
    return dataset.make_example(
        name="products",
        family="products",
        features=features,
        plan=labels.Plan(incoming, step_us, np.inf, step_us, step_us),
        table=TABLE,
        opener=lambda: graph,
    )


def _optimum(example: dataset.Example) -> float:
    """The least step time of all plans, in microseconds."""
    mask = example.features["node_device_mask"]
    choices = Choices.of(example.features["op_group"], mask, example.weights)
    actions = np.array(list(itertools.product((0, 1), repeat=len(choices.weights))), np.int32)
    plans = choices.placements(actions, mask.argmax(axis=1))
    return float(example.graph.simulate(plans, example.priority[None]).step_us.min())


def test_log_probabilities_by_hand():
    logits = tf.constant([[0.0, np.log(3.0)], [5.0, -1e9]], tf.float32)
    logs = losses.log_probabilities(logits, tf.constant([[1, 0], [0, 0]]))
    np.testing.assert_allclose(logs, np.log([[0.75, 1.0], [0.25, 1.0]]), rtol=1e-6)


def test_clipped_surrogate_by_hand():
    # Rollout 0, advantage 2: ratios 1.5 (clipped to 1.2) and 0.5 -> (2.4 + 1.0) / 2 = 1.7.
    # Rollout 1, advantage -1: ratio 0.5 is clipped to 0.8 -> -0.8; the other was not drawn.
    logs = tf.math.log([[0.75, 0.2], [0.2, 0.9]])
    old = tf.math.log([[0.5, 0.4], [0.4, 0.1]])
    drawn = tf.constant([[1.0, 1.0], [1.0, 0.0]])
    loss = losses.ppo_clip(logs, old, tf.constant([2.0, -1.0]), drawn, clip=0.2)
    assert float(loss) == pytest.approx(-(1.7 - 0.8) / 2, rel=1e-6)


def test_a_clipped_ratio_has_no_gradient():
    logs = tf.Variable(tf.math.log([[0.75, 0.45]]))
    with tf.GradientTape() as tape:
        loss = losses.ppo_clip(
            logs, tf.math.log([[0.5, 0.5]]), tf.constant([1.0]), tf.ones([1, 2]), clip=0.2
        )
    gradient = tape.gradient(loss, logs).numpy()[0]
    assert gradient[0] == 0.0
    assert gradient[1] == pytest.approx(-0.9 / 2, rel=1e-6)


def test_entropy_by_hand():
    logits = tf.constant([[0.0, 0.0], [0.0, np.log(3.0)], [1.0, -1e9]], tf.float32)
    one = 0.75 * np.log(4 / 3) + 0.25 * np.log(4)
    entropy = losses.mean_entropy(logits, tf.constant([1.0, 2.0, 1.0]))
    assert float(entropy) == pytest.approx((np.log(2) + 2 * one) / 4, rel=1e-6)


def test_binary_cross_entropy_by_hand():
    logits = tf.constant([np.log(3.0), 0.0, -1e9], tf.float32)
    loss = losses.binary_cross_entropy(logits, tf.constant([1.0, 0.0, 1.0]))
    assert float(loss) == pytest.approx((np.log(4 / 3) + np.log(2)) / 2, rel=1e-6)
    assert float(losses.binary_cross_entropy(logits[2:], tf.constant([1.0]))) == 0.0


def test_advantages_are_over_the_baseline_in_units_of_their_spread():
    found = rollouts.advantages(np.array([-1.0, -2.0, -3.0]), -1.0)
    np.testing.assert_allclose(found, np.array([0.0, -1.0, -2.0]) / np.sqrt(2 / 3), rtol=1e-6)
    assert rollouts.advantages(np.full(3, -1.0), -1.0).tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(rollouts.advantages(np.full(3, -1.0), -1.0005), 0.5, rtol=1e-5)


def test_rewards_are_relative_and_an_infeasible_plan_costs_by_what_it_lacks():
    found = rollouts.rewards(
        np.array([100.0, 400.0, 100.0, 100.0]),
        np.array([True, True, False, False]),
        np.array([[5.0, 5.0], [5.0, 5.0], [5.0, 15.0], [90.0, 5.0]]),
        reference_us=100.0,
        limits=np.array([10.0, 10.0]),
        penalty=0.5,
    )
    np.testing.assert_allclose(found, [-1.0, -2.0, -1.75, -2.0])


def test_running_baseline_and_the_best_plan():
    memory = Memory(float("nan"), 100.0, np.zeros(2, np.int8))
    assert memory.learn(np.array([-1.0, -3.0]), decay=0.75) == -2.0
    assert memory.learn(np.array([-1.0]), decay=0.75) == -1.75
    plans = np.array([[0, 1], [1, 1], [1, 0]])
    memory.offer(plans, np.array([120.0, 50.0, 80.0]), np.array([True, False, True]))
    assert (memory.best_us, memory.best.tolist()) == (80.0, [1, 0])
    memory.offer(plans, np.array([120.0, 90.0, 80.0]), np.ones(3, bool))
    assert memory.best.tolist() == [1, 0]


def test_choices_are_blocks_with_more_than_one_device_for_all():
    block_of = np.array([0, 1, 0, 2, 3, 3])
    mask = np.array([[1, 1, 0], [0, 1, 0], [1, 1, 1], [1, 1, 1], [1, 1, 0], [0, 1, 1]])
    choices = Choices.of(block_of, mask, np.array([1.0, 0.0, 2.0, 4.0, 1.0, 1.0]))
    assert choices.of_op.tolist() == [0, -1, 0, 1, -1, -1]
    assert choices.weights.tolist() == [3.0, 4.0]
    otherwise = np.array([0, 1, 0, 0, 1, 2])
    assert choices.placements(np.array([[1, 0], [0, 2]], np.int32), otherwise).tolist() == [
        [1, 1, 1, 0, 1, 2],
        [0, 1, 0, 2, 1, 2],
    ]
    logits = np.arange(18, dtype=np.float32).reshape(6, 3)
    assert choices.logits(logits).tolist() == [[3.0, 4.0, 5.0], [9.0, 10.0, 11.0]]


def test_drawn_options_follow_their_probabilities():
    logits = np.log(np.array([[0.2, 0.8], [1.0, 1e-9]], np.float32))
    draw = rollouts.draw(logits, rollouts=4001, explore=0.5, rng=np.random.default_rng(0))
    assert draw.actions[0].tolist() == [1, 0] and not draw.drawn[0].any()
    assert draw.drawn[1:].mean() == pytest.approx(0.5, abs=0.02)
    drawn = draw.drawn[:, 0] == 1
    assert draw.actions[drawn, 0].mean() == pytest.approx(0.8, abs=0.02)
    assert (draw.actions[~drawn, 0] == 1).all()
    expected = np.where(draw.actions[:, 0] == 1, np.log(0.8), np.log(0.2))
    np.testing.assert_allclose(draw.logs[:, 0], expected, rtol=1e-5)


def test_entropy_weight_falls_evenly():
    found = [schedules.falling(0.3, 0.1, step=step, steps=3) for step in range(4)]
    np.testing.assert_allclose(found, [0.3, 0.2, 0.1, 0.1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rollouts": 1}, "PpoConfig.rollouts: want at least 2, got 1"),
        ({"drawn": 0}, "PpoConfig.drawn: want at least 1, got 0"),
        ({"epochs": 0}, "PpoConfig.epochs: want at least 1, got 0"),
        ({"updates": -1}, "PpoConfig.updates: want at least 0, got -1"),
    ],
)
def test_config_refuses(values, message):
    with pytest.raises(ValueError, match=message):
        PpoConfig(**values)


@pytest.fixture
def eager():
    """So few updates are quicker without compiling them."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def test_ppo_finds_the_optimum_of_a_tiny_graph(example, tmp_path):
    optimum = _optimum(example)
    assert optimum < 0.8 * example.plan.step_us  # There is something to find.
    settings = dataclasses.replace(
        SMALL,
        updates=25,
        rollouts=16,
        entropy=0.05,
        checkpoint_every=25,
        network=dataclasses.replace(SMALL.network, rounds=1),
    )
    figures = []
    trainer = ppo.train(
        settings,
        {"train": [example]},
        table=TABLE,
        out=tmp_path,
        on_step=lambda step, found: figures.append(found),
    )
    assert trainer.memories[0].best_us == pytest.approx(optimum)
    # The policy itself, not only its best draw.
    assert example.plan.step_us / figures[-1]["greedy_speedup"] == pytest.approx(optimum)
    assert list((tmp_path / "tensorboard").iterdir())
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 25


@pytest.mark.usefixtures("eager")
def test_resume_after_a_kill_in_mid_update_gives_the_same_weights(example, tmp_path, monkeypatch):
    settings = dataclasses.replace(SMALL, scheduling=True, epochs=2)

    def train(out):
        return ppo.train(settings, {"train": [example]}, table=TABLE, out=out)

    whole = train(tmp_path / "whole")
    applied = ppo.Learner.apply
    count = itertools.count()

    def kill(self, *arguments):
        if next(count) == 5:  # Between the two epochs of the third update.
            raise KeyboardInterrupt
        applied(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ppo.Learner, "apply", kill)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "broken")
    assert checkpoint.load(tmp_path / "broken" / checkpoint.FILE_NAME).step == 2
    resumed = train(tmp_path / "broken")
    ours, theirs = (t.state(4).arrays for t in (whole, resumed))
    for name in ("network", "optimizer", "memory", "best"):
        for a, b in zip(ours[name], theirs[name], strict=True):
            np.testing.assert_array_equal(a, b)
