"""Placement methods without learning, on graphs with known answers."""

import itertools

import _cost_graphs
import numpy as np
import pytest
from go_bench.baselines import blocks, contracted, direct, exact, m_sct, metis, registry
from go_bench.baselines.method import Evaluator

from grappler_go.errors import BadInput

_QUICK = [name for name in registry.METHODS if name not in ("hdp", "placeto", "exact")]
_SEARCHES = ("random", "evolutionary", "annealing")


def _best_of_all(graph):
    """The best step time of all placements, one by one."""
    free = contracted.contract(graph)
    choices = [np.flatnonzero(row) for row in free.mask]
    plans = [free.expand(np.asarray(each)) for each in itertools.product(*choices)]
    step = graph.simulate(np.stack(plans))
    return step.step_us[step.feasible].min()


@pytest.fixture(scope="module", name="two_chains")
def fixture_two_chains():
    return _cost_graphs.open_graph(_cost_graphs.chains(2, 4))


class TestEvaluator:
    def test_counts_and_remembers_the_best(self, two_chains):
        evaluator = Evaluator(_cost_graphs.task_of(two_chains), 3)
        together = two_chains.heuristic("single_device", seed=0)
        apart = np.asarray([int(name[1]) for name in two_chains.names], np.int32)
        times = evaluator.evaluate(np.stack([together, apart]))
        np.testing.assert_allclose(times, [800, 400])
        # One is left of the budget: the second of these is not simulated.
        assert len(evaluator.evaluate(np.stack([together, together]))) == 1
        assert evaluator.left == 0
        found = evaluator.found()
        np.testing.assert_array_equal(found.placement, apart)
        assert (found.step_us, found.evaluations) == (400, 3)
        assert found.curve == ((1, 800.0), (2, 400.0))

    def test_refuses_what_cannot_be(self, two_chains):
        with pytest.raises(ValueError, match="budget must be at least 1, got 0"):
            Evaluator(_cost_graphs.task_of(two_chains), 0)
        with pytest.raises(ValueError, match="nothing was evaluated"):
            Evaluator(_cost_graphs.task_of(two_chains), 1).found()


@pytest.mark.parametrize("name", _QUICK)
class TestEveryMethod:
    def test_is_legal_within_budget_and_the_same_by_seed(self, name):
        for seed in range(3):
            graph = _cost_graphs.open_graph(_cost_graphs.random_ops(seed, 12), devices=3)
            task = _cost_graphs.task_of(graph)
            found = registry.METHODS[name](task, 40, seed)
            assert graph.legal(found.placement) == ""
            assert found.evaluations <= 40
            assert found.step_us == graph.simulate(found.placement[None]).step_us[0]
            again = registry.METHODS[name](task, 40, seed)
            np.testing.assert_array_equal(found.placement, again.placement)

    def test_is_never_better_than_the_optimum(self, name):
        for seed in range(3):
            graph = _cost_graphs.open_graph(_cost_graphs.random_ops(seed))
            found = registry.METHODS[name](_cost_graphs.task_of(graph), 30, 0)
            assert found.step_us >= _best_of_all(graph) - 1e-6


class TestKnownAnswers:
    @pytest.mark.parametrize(
        "name", ["m_etf", "m_sct", "critical_path", "heft", "metis", "random", "evolutionary"]
    )
    def test_chains_that_never_meet_are_parted(self, two_chains, name):
        found = registry.METHODS[name](_cost_graphs.task_of(two_chains), 300, 0)
        assert found.step_us == 400

    @pytest.mark.parametrize("name", ["critical_path", "heft", "m_sct", *_SEARCHES])
    def test_what_is_dear_to_part_stays_together(self, name):
        ops = [("a", [], 10.0, 1e7, 0)]
        ops += [(f"b{k}", ["a:0"], 10.0, 1e7, 0) for k in range(3)]
        ops += [("sum", [f"b{k}:0" for k in range(3)], 10.0, 1.0, 0)]
        graph = _cost_graphs.open_graph(ops)
        found = registry.METHODS[name](_cost_graphs.task_of(graph), 300, 0)
        assert found.step_us == 50

    # Annealing, cold at its end, may stay where no single move helps.
    @pytest.mark.parametrize(("name", "within"), [("evolutionary", 1.0), ("annealing", 1.05)])
    @pytest.mark.parametrize("seed", range(3))
    def test_searches_reach_the_optimum_of_small_graphs(self, name, within, seed):
        graph = _cost_graphs.open_graph(_cost_graphs.random_ops(seed))
        found = registry.METHODS[name](_cost_graphs.task_of(graph), 600, seed)
        assert found.step_us <= within * _best_of_all(graph) + 1e-6

    def test_human_places_layers_in_equal_runs(self):
        graph = _cost_graphs.open_graph(_cost_graphs.chains(1, 4))
        layers = {f"c0_{k}": k for k in range(4)}
        task = _cost_graphs.task_of(graph, layer_of=layers, layers=4)
        found = direct.human_expert(task, 1, 0)
        order = [graph.names.index(f"c0_{k}") for k in range(4)]
        np.testing.assert_array_equal(found.placement[order], [0, 0, 1, 1])

    def test_a_task_may_bring_its_own_human(self, two_chains):
        own = two_chains.heuristic("single_device", seed=1)
        found = direct.human_expert(_cost_graphs.task_of(two_chains, human=own), 1, 0)
        np.testing.assert_array_equal(found.placement, own)


class TestExact:
    @pytest.mark.parametrize("seed", range(5))
    def test_is_the_best_of_all(self, seed):
        graph = _cost_graphs.open_graph(_cost_graphs.random_ops(seed), devices=2)
        found = exact.exact(_cost_graphs.task_of(graph), 1, 0)
        assert found.step_us == pytest.approx(_best_of_all(graph))

    def test_refuses_large_graphs(self):
        graph = _cost_graphs.open_graph(_cost_graphs.chains(2, 20))
        with pytest.raises(BadInput, match=r"exact: the graph has 10\^12 placements"):
            exact.exact(_cost_graphs.task_of(graph), 1, 0)


class TestMetis:
    def test_finds_the_planted_cut(self):
        rng = np.random.default_rng(0)
        ops = []
        for k in range(40):
            side = k % 2
            reads = [f"n{j}:0" for j in range(max(0, k - 8), k) if j % 2 == side][:3]
            ops.append((f"n{k}", reads, 10.0 + float(rng.random()), 50_000.0, 0))
        ops.append(("sum", ["n38:0", "n39:0"], 1.0, 1.0, 0))
        graph = _cost_graphs.open_graph(ops)
        free = contracted.contract(graph)
        parts = metis.partition(
            free,
            2,
            vertex_weights=free.us.min(axis=1),
            pair_weights=free.pair_bytes,
            ufactor=30,
            seed=0,
        )
        of = {name: parts[free.group_of[k]] for k, name in enumerate(graph.names)}
        for side in range(2):
            assert len({of[f"n{k}"] for k in range(side, 40, 2)}) == 1
        assert of["n0"] != of["n1"]

    def test_memory_aware_parts_fit_where_equal_compute_does_not(self):
        # Much memory in cheap ops: equal compute puts all of it on one device.
        ops = [(f"big{k}", [], 1.0, 10.0, 100) for k in range(4)]
        ops += [(f"slow{k}", [f"big{k % 4}:0"], 100.0, 10.0, 0) for k in range(4)]
        graph = _cost_graphs.open_graph(ops, memory_bytes=350, latency_us=1.0)
        task = _cost_graphs.task_of(graph)
        assert np.isfinite(metis.metis_memory(task, 200, 0).step_us)
        assert not np.isfinite(direct.single_device(task, 2, 0).step_us)


class TestSct:
    def test_the_favourite_child_is_the_one_on_the_critical_path(self):
        # Of a's two children, sparing the transfer to the long one pays.
        ops = [
            ("a", [], 10.0, 20_000.0, 0),
            ("long", ["a:0"], 100.0, 1.0, 0),
            ("short", ["a:0"], 20.0, 1.0, 0),
        ]
        graph = _cost_graphs.open_graph(ops)
        edges = m_sct._edges(graph, graph.dataflow())
        favourite = m_sct.favourites(edges)
        assert graph.names[favourite[graph.names.index("a")]] == "long"

    def test_no_op_has_two_favourites_and_no_child_two_parents(self):
        graph = _cost_graphs.open_graph(_cost_graphs.random_ops(3, 30))
        favourite = m_sct.favourites(m_sct._edges(graph, graph.dataflow()))
        children = favourite[favourite >= 0]
        assert len(children) == len(set(children.tolist())) > 0


class TestContracted:
    def test_a_tensor_counts_once_for_each_group_that_reads_it(self):
        ops = [
            ("a", [], 1.0, 700.0, 5),
            ("b", ["a:0", "a:0"], 2.0, 30.0, 0),
            ("c", ["a:0"], 4.0, 1.0, 0),
        ]
        free = contracted.contract(_cost_graphs.open_graph(ops))
        assert free.num_groups == 3
        assert sorted(zip(free.pair_bytes, free.pair_tensors, strict=True)) == [(700, 1)] * 2
        assert free.us.sum(axis=0).tolist() == [7, 7]
        assert sorted(free.bytes.tolist()) == [1, 30, 705]

    def test_blocks_are_numbered_in_topological_order(self):
        graph = _cost_graphs.open_graph(_cost_graphs.chains(1, 64))
        free = contracted.contract(graph)
        block_of = blocks.blocks(free, 8, 0)
        order = np.argsort(free.position)
        assert (np.diff(block_of[order]) >= 0).all()
        assert 4 <= len(np.unique(block_of)) <= 16
