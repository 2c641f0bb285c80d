"""Random, evolutionary and annealing search: what a blind search finds for the same budget."""

from __future__ import annotations

import dataclasses

import numpy as np

from go_bench.baselines.blocks import blocks
from go_bench.baselines.contracted import Contracted, compute_devices, contract
from go_bench.baselines.method import Evaluator, Found, Task

_BATCH = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvolutionConfig:
    """Settings of the evolutionary search.

    Attributes:
      population: plans that live at once.
      children: plans made in a generation.
      tournament: plans of which the best becomes a parent.
      mutation: mean number of blocks that a child moves.
      blocks: blocks at first, and after half of the budget.
    """

    population: int = 32
    children: int = 32
    tournament: int = 3
    mutation: float = 2.0
    blocks: tuple[int, int] = (64, 256)


def random(task: Task, budget: int, seed: int) -> Found:
    """The best of as many random plans: op by op, block by block, and contiguous runs."""
    rng = np.random.default_rng(seed)
    graph = contract(task.graph)
    devices = compute_devices(task.graph)
    coarse = blocks(graph, EvolutionConfig().blocks[0], seed)
    evaluator = Evaluator(task, budget)
    while evaluator.left:
        plans = [_draw(kind % 3, graph, coarse, devices, rng) for kind in range(_BATCH)]
        evaluator.evaluate(graph.expand(np.stack(plans)))
    return evaluator.found()


def evolutionary(
    task: Task, budget: int, seed: int, config: EvolutionConfig | None = None
) -> Found:
    """A population of plans over blocks: tournaments, uniform crossover, mutation, elitism."""
    config = config or EvolutionConfig()
    rng = np.random.default_rng(seed)
    graph = contract(task.graph)
    devices = compute_devices(task.graph)
    evaluator = Evaluator(task, budget)
    block_of = blocks(graph, config.blocks[0], seed)
    genes = np.stack(
        [
            _of_blocks(_draw(1 + k % 2, graph, block_of, devices, rng), block_of)
            for k in range(config.population)
        ]
    )
    # What anybody would start from: all on one device.
    genes[: len(devices)] = devices[: len(genes), np.newaxis]
    times = _evaluate(evaluator, graph, genes, block_of)
    genes = genes[: len(times)]
    refined = False
    while evaluator.left:
        if not refined and evaluator.left <= budget // 2:
            refined = True
            finer = blocks(graph, config.blocks[1], seed)
            genes = np.stack([_of_blocks(each[block_of], finer) for each in genes])
            block_of = finer
        parents = _tournament(times, (2, config.children), config.tournament, rng)
        cross = rng.random((config.children, genes.shape[1])) < 0.5
        children = np.where(cross, genes[parents[0]], genes[parents[1]])
        moved = rng.random(children.shape) < config.mutation / children.shape[1]
        children = np.where(moved, rng.choice(devices, children.shape), children)
        born = _evaluate(evaluator, graph, children, block_of)
        genes = np.concatenate([genes, children[: len(born)]])
        times = np.concatenate([times, born])
        fittest = np.argsort(times, kind="stable")[: config.population]
        genes, times = genes[fittest], times[fittest]
    return evaluator.found()


def _tournament(
    times: np.ndarray, shape: tuple[int, ...], size: int, rng: np.random.Generator
) -> np.ndarray:
    """Returns the winners' indices of tournaments of `size`, of the given shape."""
    entrants = rng.integers(0, len(times), (*shape, size))
    best = np.argmin(times[entrants], axis=-1)
    return np.take_along_axis(entrants, best[..., np.newaxis], axis=-1)[..., 0]


def _draw(
    kind: int,
    graph: Contracted,
    block_of: np.ndarray,
    devices: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Returns a random plan of the groups, i32 [G]: by group (0), by block (1), in runs (2)."""
    if kind == 0:
        return rng.choice(devices, graph.num_groups).astype(np.int32)
    if kind == 1:
        return rng.choice(devices, int(block_of.max(initial=0)) + 1)[block_of].astype(np.int32)
    order = np.argsort(graph.position, kind="stable")
    cuts = np.sort(rng.random(len(devices) - 1)) * graph.us.min(axis=1).sum()
    done = np.cumsum(graph.us.min(axis=1)[order])
    plan = np.empty(graph.num_groups, np.int32)
    plan[order] = rng.permutation(devices)[np.searchsorted(cuts, done)]
    return plan


def _of_blocks(plan: np.ndarray, block_of: np.ndarray) -> np.ndarray:
    """Returns the device of each block: that of its first group."""
    first = np.zeros(int(block_of.max(initial=0)) + 1, np.int64)
    first[block_of[::-1]] = np.arange(len(block_of))[::-1]
    return plan[first]


def _evaluate(
    evaluator: Evaluator, graph: Contracted, genes: np.ndarray, block_of: np.ndarray
) -> np.ndarray:
    return evaluator.evaluate(graph.expand(genes[:, block_of]))
