"""Simulated annealing over blocks of groups (Kirkpatrick et al., 1983)."""

from __future__ import annotations

import dataclasses

import numpy as np

from go_bench.baselines.blocks import blocks
from go_bench.baselines.contracted import compute_devices, contract
from go_bench.baselines.method import Evaluator, Found, Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnealingConfig:
    """Settings of the annealing.

    Attributes:
      chains: searches side by side, each with its share of the budget; two keep both cores busy.
      start, end: temperature as a share of the current step time; it falls geometrically.
      blocks: blocks by stage, each with an equal part of the budget.
    """

    chains: int = 2
    start: float = 0.03
    end: float = 0.0003
    blocks: tuple[int, ...] = (32, 128, 512)


def annealing(task: Task, budget: int, seed: int, config: AnnealingConfig | None = None) -> Found:
    """Chains that move a block at a time, from coarse blocks to fine ones."""
    config = config or AnnealingConfig()
    rng = np.random.default_rng(seed)
    graph = contract(task.graph)
    devices = compute_devices(task.graph)
    evaluator = Evaluator(task, budget)
    start = graph.incoming.copy()
    plans = np.stack([start] * min(config.chains, budget))
    times = evaluator.evaluate(graph.expand(plans))
    best, best_us = plans[0].copy(), float(times[0])
    for stage, count in enumerate(config.blocks):
        block_of = blocks(graph, count, seed)
        if stage:
            plans = np.stack([best] * len(plans))
            times = np.full(len(plans), best_us)
        steps = max(1, budget // len(config.blocks) // len(plans))
        for step in range(steps):
            if not evaluator.left:
                break
            cold = (config.end / config.start) ** (step / steps)
            moved = plans.copy()
            for chain in range(len(plans)):
                block = rng.integers(int(block_of.max(initial=0)) + 1)
                moved[chain, block_of == block] = rng.choice(devices)
            born = evaluator.evaluate(graph.expand(moved))
            for chain, us in enumerate(born):
                if us < best_us:
                    best, best_us = moved[chain].copy(), float(us)
                if _accepts(times[chain], us, config.start * cold, rng):
                    plans[chain], times[chain] = moved[chain], us
    while evaluator.left:  # What rounding left of the budget: single groups.
        moved = best.copy()
        moved[rng.integers(graph.num_groups)] = rng.choice(devices)
        (us,) = evaluator.evaluate(graph.expand(moved)[np.newaxis])
        if us < best_us:
            best, best_us = moved, float(us)
    return evaluator.found()


def _accepts(old_us: float, new_us: float, temperature: float, rng: np.random.Generator) -> bool:
    """Metropolis' rule, the change as a share of the old step; what fits beats what does not."""
    if new_us <= old_us or not np.isfinite(old_us):
        return True
    return bool(np.isfinite(new_us)) and rng.random() < np.exp(-(new_us / old_us - 1) / temperature)
