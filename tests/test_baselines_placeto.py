"""Placeto: its groups, its budget, and that it finds a known optimum."""

import _learned_baselines
import numpy as np
import pytest
from go_bench import layered
from go_bench.baselines import placeto, placeto_groups

import grappler_go


@pytest.fixture(scope="module", name="task")
def fixture_task():
    return _learned_baselines.two_chains()


@pytest.mark.parametrize("count", [1, 7, 40])
def test_groups_are_few_and_of_like_weight(count):
    graph = grappler_go.OpGraph(
        layered.layered_graph(300), _learned_baselines.DEVICES, fetch=[layered.last(300)]
    )
    parts = placeto_groups.coarsen(graph, count)
    assert len(set(parts.of_op[parts.movable[parts.of_op]])) == parts.movable.sum() <= count
    assert parts.weight.sum() == pytest.approx(graph.op_us.min(axis=1).sum(), rel=1e-4)
    assert parts.weight.max() <= 4 * parts.weight.sum() / count


def test_returns_by_hand():
    got = placeto._returns(np.array([[1.0], [2.0], [4.0]]), 0.5)
    np.testing.assert_allclose(got, [[3], [4], [4]])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_finds_the_optimum_legally_within_budget(task, seed):
    found = placeto.placeto(task, 400, seed)
    assert found.step_us == pytest.approx(_learned_baselines.optimum_us(task))
    assert found.evaluations <= 400
    assert task.graph.legal(found.placement) == ""


@pytest.mark.parametrize("budget", [1, 17])
def test_same_seed_same_result(task, budget):
    first, second = (placeto.placeto(task, budget, 3) for _ in range(2))
    np.testing.assert_array_equal(first.placement, second.placement)
    assert first.curve == second.curve
    assert first.evaluations <= budget


def test_no_memory_anywhere_is_no_reward():
    rewards = []
    task = _learned_baselines.two_chains(memory_mb=1)
    found = placeto.placeto(task, 16, 0, watch=lambda _, reward: rewards.append(reward))
    assert found.step_us == np.inf
    assert rewards and set(rewards) == {0.0}
