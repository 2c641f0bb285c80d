"""Methods that need no search: what people and list schedulers do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from go_bench.baselines.contracted import compute_devices
from go_bench.baselines.method import Evaluator, Found, Method, Task

# How shy of transfers list schedulers are tried: what executes is coarser than their model.
TRANSFER_WEIGHTS = (1.0, 2.0, 4.0, 8.0)


def tf_default(task: Task, budget: int, seed: int) -> Found:
    """The placement that the graph comes with, TensorFlow's own where it has none."""
    del seed
    return _best(task, budget, [task.graph.heuristic("incoming")])


def single_device(task: Task, budget: int, seed: int) -> Found:
    """All that may move on one device, the best one."""
    del seed
    devices = range(task.graph.num_devices)
    return _best(task, budget, [task.graph.heuristic("single_device", seed=d) for d in devices])


def human_expert(task: Task, budget: int, seed: int) -> Found:
    """The layers in equal runs, one a device, as practice has it; or the task's own."""
    del seed
    human = by_layers(task) if task.human is None else task.human
    return _best(task, budget, [human])


def by_layers(task: Task) -> np.ndarray:
    """Returns equal runs of layers, one a device, i32 [N]; what has no layer stays."""
    graph = task.graph
    devices = compute_devices(graph)
    incoming = graph.heuristic("incoming")
    placement = [
        devices[task.layer_of[name] * len(devices) // task.layers]
        if name in task.layer_of
        else stays
        for name, stays in zip(graph.names, incoming, strict=True)
    ]
    return graph.repair(np.asarray(placement, np.int32))


def list_scheduler(name: str, *, weights: Sequence[float] = TRANSFER_WEIGHTS) -> Method:
    """Returns the method of a list scheduler of the library, the best of these weights."""

    def method(task: Task, budget: int, seed: int) -> Found:
        del seed
        plans = [task.graph.heuristic(name, transfer_weight=weight) for weight in weights[:budget]]
        return _best(task, budget, plans)

    return method


def _best(task: Task, budget: int, plans: Sequence[np.ndarray]) -> Found:
    evaluator = Evaluator(task, budget)
    evaluator.evaluate(np.stack(plans))
    return evaluator.found()
