"""Placeto: a policy visits one group of ops after another and says where it goes.

Addanki et al., "Placeto: Learning Generalizable Device Placement Algorithms for Distributed
Machine Learning", NeurIPS 2019. What differs from it: each graph is learned from scratch, groups
are as many as the budget has episodes for, half of the episodes start from the best placement so
far, and a visit that moves nothing costs no simulated step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from go_bench.baselines import placeto_groups, placeto_network, reinforce, reinforce_units
from go_bench.baselines.method import Evaluator, Found, Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlacetoConfig:
    """Settings.

    Attributes:
      max_groups: groups at most.
      groups_per_root: groups at most = this times the square root of the budget, at least
        `min_groups`.
      min_groups: see there.
      episodes: that run side by side, and make one update.
      width: of the embeddings.
      rounds: of message passing, each both ways.
      learning_rate: of Adam.
      clip_norm: bound of the gradients' global norm.
      discount: of later visits' rewards.
      baseline_decay: weight of the past in the moving average of returns.
      entropy: weight of the policy's entropy in the loss.
      failing_signal: a placement without enough memory counts as this many times the first.
    """

    max_groups: int = 100
    groups_per_root: float = 1.2
    min_groups: int = 8
    episodes: int = 8
    width: int = 32
    rounds: int = 3
    learning_rate: float = 0.003
    clip_norm: float = 1.0
    discount: float = 0.9
    baseline_decay: float = 0.9
    entropy: float = 0.01
    failing_signal: float = 100.0


# Called after each update with its number and its mean reward an episode.
Watch = Callable[[int, float], None]


def placeto(
    task: Task,
    budget: int,
    seed: int,
    *,
    config: PlacetoConfig | None = None,
    watch: Watch | None = None,
) -> Found:
    """Searches for a placement.

    Args:
      task: what is placed.
      budget: simulated steps.
      seed: of the weights, the starts and all samples.
      config: settings; None = the defaults.
      watch: sees the learning curve.
    """
    config = config or PlacetoConfig()
    evaluator = Evaluator(task, budget)
    random = np.random.default_rng(seed)
    count = int(min(config.max_groups, config.groups_per_root * np.sqrt(budget)))
    parts = placeto_groups.coarsen(task.graph, max(count, config.min_groups))
    times = _Times(task, parts, evaluator, config.failing_signal)
    best = parts.home.copy()
    best_us = times.of(best[np.newaxis])[0]
    if not parts.movable.any():
        return evaluator.found()
    network = placeto_network.Network(parts, config=config, random=random)
    order = np.flatnonzero(parts.movable)
    baselines = [reinforce.MovingBaseline(config.baseline_decay) for _ in order]
    update, idle = 0, 0
    # A policy that moves nothing more spends nothing: then the search is over.
    while evaluator.left and idle < 50:
        before = evaluator.left
        placements = _starts(parts, best, config.episodes, random)
        now = times.of(placements)
        states, choices, rewards = [], [], []
        for visit, group in enumerate(order):
            if not evaluator.left:
                break
            state = network.state(placements, visited=order[:visit], group=int(group))
            chosen = network.sample(state, random.random(config.episodes))
            placements = placements.copy()
            placements[:, group] = chosen
            after = times.of(placements)
            if after.min() < best_us:
                best, best_us = placements[np.argmin(after)].copy(), after.min()
            if not evaluator.left:
                break  # Some of these may not have been simulated: nothing to learn from.
            states.append(state)
            choices.append(chosen)
            rewards.append(np.log(now) - np.log(after))
            now = after
        if states:
            returns = _returns(np.stack(rewards), config.discount)
            advantages = np.stack(
                [base.advantages(row) for base, row in zip(baselines, returns, strict=False)]
            )
            if watch is not None:
                watch(update, float(np.sum(rewards, axis=0).mean()))
            network.update(states, np.stack(choices), reinforce.scaled(advantages))
        update += 1
        idle = idle + 1 if evaluator.left == before else 0
    return evaluator.found()


def _starts(
    parts: reinforce_units.Units, best: np.ndarray, episodes: int, random: np.random.Generator
) -> np.ndarray:
    """Where episodes start, i32 [episodes, U]: half at the best so far, half on one device."""
    starts = np.tile(best, (episodes, 1))
    for row in range(episodes // 2):
        device = random.integers(parts.allowed.shape[1])
        starts[row] = np.where(parts.movable & parts.allowed[:, device], device, parts.home)
    return starts


def _returns(rewards: np.ndarray, discount: float) -> np.ndarray:
    """Discounted sums of the rewards from each visit on, f64 [visits, episodes]."""
    returns = rewards.astype(np.float64).copy()
    for visit in range(len(rewards) - 2, -1, -1):
        returns[visit] += discount * returns[visit + 1]
    return returns


class _Times:
    """Step times of groups' placements; each one is simulated once, while the budget lasts."""

    def __init__(
        self,
        task: Task,
        parts: reinforce_units.Units,
        evaluator: Evaluator,
        failing_signal: float,
    ):
        self._task = task
        self._parts = parts
        self._evaluator = evaluator
        self._failing_signal = failing_signal
        self._first: float | None = None
        self._known: dict[bytes, float] = {}

    def of(self, placements: np.ndarray) -> np.ndarray:
        """Step times in microseconds, f64 [K]; a failure's where the budget is spent."""
        new = {plan.tobytes(): plan for plan in placements if plan.tobytes() not in self._known}
        new = dict(list(new.items())[: self._evaluator.left])
        if new:
            plans = np.stack(list(new.values()))
            legal = reinforce_units.legal_placements(self._task.graph, self._parts, plans)
            self._known.update(zip(new, self._evaluator.evaluate(legal).tolist(), strict=True))
        found = np.array([self._known.get(plan.tobytes(), np.inf) for plan in placements])
        if self._first is None:
            self._first = float(found[0]) if np.isfinite(found[0]) else None
        failing = self._failing_signal * (self._first or self._task.graph.work_us or 1.0)
        return np.where(np.isfinite(found), np.maximum(found, 1e-9), failing)
