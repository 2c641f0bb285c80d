"""GO as a placement method: the policy alone, and with heuristics and search beside it."""

from __future__ import annotations

import json

import numpy as np

import grappler_go
from go_bench.baselines.method import Evaluator, Found, Task

SAMPLES = 16
HEURISTICS = ("critical_path", "m_etf", "heft", "celeritas", "m_topo", "single_device")
_WEIGHTS = 4  # Transfer weights that the four list schedulers are tried with.


def go_policy(task: Task, budget: int, seed: int) -> Found:
    """The policy alone: the best of 16 placements drawn from it."""
    samples = min(SAMPLES, budget)
    placement, tried = _choose(
        task.graph,
        candidates="policy",
        samples=samples,
        search=0,
        seed=seed,
        tasks=_tasks(task),
    )
    return _found(task, placement, tried)


def go(task: Task, budget: int, seed: int) -> Found:
    """What the pass does: the policy, list schedulers beside it, local search with what is left.

    Where nothing gains the task's margin, the incoming placement stays.
    """
    candidates = ",".join(("policy", *HEURISTICS))
    proposals = SAMPLES + 4 * _WEIGHTS + 1 + task.graph.num_devices
    placement, tried = _choose(
        task.graph,
        candidates=candidates,
        samples=SAMPLES,
        search=max(0, budget - proposals),
        seed=seed,
        tasks=_tasks(task),
        keep_default=True,
        margin=task.margin,
    )
    return _found(task, placement, tried)


def _tasks(task: Task) -> str:
    return "placement" if task.priority is None else "placement,scheduling"


def _found(task: Task, placement: np.ndarray, tried: int) -> Found:
    evaluator = Evaluator(task, 1)
    (step_us,) = evaluator.evaluate(placement[np.newaxis])
    return Found(
        placement=placement,
        step_us=float(step_us),
        evaluations=tried,
        curve=((tried, float(step_us)),),
    )


def _choose(
    graph: grappler_go.OpGraph, *, keep_default: bool = False, **options: object
) -> tuple[np.ndarray, int]:
    """Returns the placement that the pass would take, and how many it tried."""
    report = json.loads(graph.choose(keep_default=keep_default, **options))
    nodes = report["nodes"]
    return (
        np.asarray([node["device"] for node in nodes], np.int32),
        sum(candidate["tried"] for candidate in report["candidates"]),
    )
