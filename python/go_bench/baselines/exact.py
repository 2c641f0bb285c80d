"""The exact optimum of a tiny graph: every legal placement of the groups is simulated."""

from __future__ import annotations

import numpy as np

from go_bench.baselines.contracted import contract
from go_bench.baselines.method import Evaluator, Found, Task
from grappler_go.errors import BadInput

MAX_PLANS = 2_000_000
_BATCH = 4096


def exact(task: Task, budget: int, seed: int) -> Found:
    """The best of all placements; it ignores the budget.

    Raises:
      BadInput: there are more than two million.
    """
    del budget, seed
    graph = contract(task.graph)
    choices = [np.flatnonzero(row).astype(np.int32) for row in graph.mask]
    sizes = np.asarray([len(each) for each in choices], np.float64)
    if np.log(sizes).sum() > np.log(MAX_PLANS):
        raise BadInput(
            f"--methods exact: the graph has 10^{np.log10(sizes).sum():.0f} placements, at most "
            f"{MAX_PLANS} are tried"
        )
    count = int(np.prod(sizes))
    evaluator = Evaluator(task, count)
    for first in range(0, count, _BATCH):
        number = np.arange(first, min(first + _BATCH, count))
        plans = np.empty((len(number), graph.num_groups), np.int32)
        for group, each in enumerate(choices):
            number, digit = np.divmod(number, len(each))
            plans[:, group] = each[digit]
        evaluator.evaluate(graph.expand(plans))
    return evaluator.found()
