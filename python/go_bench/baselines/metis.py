"""METIS: devices as the parts of a balanced partition with least traffic between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pymetis
import scipy.optimize

from go_bench.baselines.contracted import Contracted, compute_devices, contract
from go_bench.baselines.method import Evaluator, Found, Task

# By how much a part may be above its share, in thousandths.
_UFACTORS = (10, 30, 100, 300, 1000)
_SEEDS = 4
# Share of a vertex's weight that is its memory; the rest is its compute time.
_MEMORY_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# METIS takes whole numbers: the heaviest vertex and the heaviest pair get this.
_SCALE = 100_000


def metis(task: Task, budget: int, seed: int) -> Found:
    """Parts of equal compute; the best of several tolerances and edge weights."""
    return _partition(task, budget, seed, memory_shares=(0.0,))


def metis_memory(task: Task, budget: int, seed: int) -> Found:
    """Parts that balance memory beside compute, from none of it to memory alone; the best."""
    return _partition(task, budget, seed, memory_shares=_MEMORY_SHARES)


def _partition(task: Task, budget: int, seed: int, memory_shares: tuple[float, ...]) -> Found:
    graph = contract(task.graph)
    devices = compute_devices(task.graph)
    evaluator = Evaluator(task, budget)
    trials = _trials(graph, devices, seed, memory_shares)
    for parts in itertools.islice(trials, budget):
        groups = on_devices(graph, parts, devices)
        evaluator.evaluate(graph.expand(groups)[np.newaxis])
    return evaluator.found()


def _trials(
    graph: Contracted, devices: np.ndarray, seed: int, memory_shares: tuple[float, ...]
) -> Iterator[np.ndarray]:
    times = _share(graph.us[:, devices].min(axis=1))
    held = _share(graph.bytes)
    traffic = {"bytes": graph.pair_bytes, "tensors": graph.pair_tensors}
    both = sum(_share(each) for each in traffic.values())
    for trial, ufactor, share, weights in itertools.product(
        range(_SEEDS), _UFACTORS, memory_shares, (graph.pair_bytes, both)
    ):
        yield partition(
            graph,
            len(devices),
            vertex_weights=(1 - share) * times + share * held,
            pair_weights=weights,
            ufactor=ufactor,
            seed=seed * _SEEDS + trial,
        )


def partition(
    graph: Contracted,
    parts: int,
    *,
    vertex_weights: np.ndarray,
    pair_weights: np.ndarray,
    ufactor: int,
    seed: int,
) -> np.ndarray:
    """Returns the part of each group, i32 [G].

    Args:
      graph: what to cut.
      parts: into how many.
      vertex_weights: what parts have equally much of, f64 [G].
      pair_weights: what is cut as little as can be, f64 [P].
      ufactor: by how many thousandths a part may be above its share.
      seed: of METIS.
    """
    if parts < 2 or graph.num_groups < parts:
        return np.arange(graph.num_groups, dtype=np.int32) % max(parts, 1)
    ends = np.concatenate([graph.pairs, graph.pairs[:, ::-1]])
    weights = np.tile(_whole(pair_weights), 2)
    order = np.argsort(ends[:, 0], kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(ends[:, 0], minlength=graph.num_groups))])
    options = pymetis.Options(ufactor=ufactor, seed=seed)
    _, membership = pymetis.part_graph(
        parts,
        pymetis.CSRAdjacency(
            adj_starts=starts.astype(np.int32), adjacent=ends[order, 1].astype(np.int32)
        ),
        vweights=(_whole(vertex_weights) - 1).tolist(),
        eweights=weights[order].tolist(),
        options=options,
        recursive=False,
    )
    return np.asarray(membership, np.int32)


def on_devices(graph: Contracted, parts: np.ndarray, devices: np.ndarray) -> np.ndarray:
    """Returns the device of each group, i32 [G]: parts go where most of their compute may."""
    affinity = np.zeros((len(devices), len(devices)))
    for column, device in enumerate(devices):
        # What must be on a device counts for it, what may be anywhere for all alike.
        fits = graph.mask[:, device] * graph.us.mean(axis=1) / graph.mask.sum(axis=1)
        affinity[:, column] = np.bincount(parts, fits, minlength=len(devices))
    rows, columns = scipy.optimize.linear_sum_assignment(affinity, maximize=True)
    device_of = np.empty(len(devices), np.int32)
    device_of[rows] = devices[columns]
    return device_of[parts]


def _share(weights: np.ndarray) -> np.ndarray:
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1 / max(1, len(weights)))


def _whole(weights: np.ndarray) -> np.ndarray:
    """Returns the weights as whole numbers from 1 on."""
    largest = weights.max(initial=0.0)
    if largest <= 0:
        return np.ones(len(weights), np.int64)
    return 1 + np.round(_SCALE * weights / largest).astype(np.int64)
