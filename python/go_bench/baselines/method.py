"""What every placement method is given, and what it returns.

All methods see the same graph, costs and legality, and pay for each simulated step out of the same
budget.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

import grappler_go


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """One graph on one set of devices.

    Attributes:
      graph: the graph, opened with costs and device profile.
      priority: order of each device's ready ops in every simulated step, i32 [N], higher first;
        None = first come, first served.
      layer_of: layer of each op by name, for a human's placement; ops without one stay.
      layers: number of layers.
      human: a human's placement where it does not go by layers, i32 [N].
      margin: GO leaves the incoming placement unless a plan is predicted to gain this share.
    """

    graph: grappler_go.OpGraph
    priority: np.ndarray | None = None
    layer_of: Mapping[str, int] = dataclasses.field(default_factory=dict)
    layers: int = 1
    human: np.ndarray | None = None
    margin: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """What a method found.

    Attributes:
      placement: legal device indices, i32 [N].
      step_us: its simulated step time; infinite where it does not fit into memory.
      evaluations: simulated steps that the search spent.
      curve: the best step time (us) after so many evaluations, each time it improved.
    """

    placement: np.ndarray
    step_us: float
    evaluations: int
    curve: tuple[tuple[int, float], ...]


class Evaluator:
    """Simulates placements out of a budget, and remembers the best.

    Args:
      task: what is placed.
      budget: how many steps may be simulated, at least 1.
    """

    def __init__(self, task: Task, budget: int):
        if budget < 1:
            raise ValueError(f"Evaluator: budget must be at least 1, got {budget}")
        self.task = task
        self._left = budget
        self._spent = 0
        self._best: np.ndarray | None = None
        self._best_us = np.inf
        self._curve: list[tuple[int, float]] = []

    @property
    def left(self) -> int:
        """Evaluations that may still be spent."""
        return self._left

    def evaluate(self, placements: np.ndarray) -> np.ndarray:
        """Returns the step times in microseconds, f64 [plans], infinite where memory does not do.

        Args:
          placements: legal device indices, i32 [plans, N]; plans beyond the budget are not
            simulated and left out of the result.
        """
        plans = np.asarray(placements, np.int32)[: self._left]
        if not len(plans):
            return np.zeros(0)
        priority = self.task.priority
        step = self.task.graph.simulate(plans, None if priority is None else priority[np.newaxis])
        times = np.where(step.feasible, step.step_us, np.inf)
        for plan, us in zip(plans, times, strict=True):
            self._spent += 1
            if self._best is None or us < self._best_us:
                self._best, self._best_us = plan.copy(), float(us)
                self._curve.append((self._spent, float(us)))
        self._left -= len(plans)
        return times

    def found(self) -> Found:
        """Returns the best placement so far.

        Raises:
          ValueError: nothing was evaluated.
        """
        if self._best is None:
            raise ValueError("found: nothing was evaluated")
        return Found(
            placement=self._best,
            step_us=self._best_us,
            evaluations=self._spent,
            curve=tuple(self._curve),
        )


# Places a task: what to place, how many steps may be simulated, seed.
Method = Callable[[Task, int, int], Found]
