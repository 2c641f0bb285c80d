"""A graph's ops in few groups of like weight that talk little to each other."""

from __future__ import annotations

import heapq

import numpy as np

import grappler_go
from go_bench.baselines import reinforce_units

# Compute of a group at most, over its share: first this, then twice this.
_SLACK = 1.5
# What each unit weighs besides its compute, over the mean, so that ops of no cost spread as well.
_WEIGHT_OF_ANY = 0.1


def coarsen(graph: grappler_go.OpGraph, count: int) -> reinforce_units.Units:
    """Returns few movable groups, besides the units that cannot move.

    The edges of most bytes are contracted first, while the merged group weighs at most 1.5 times
    its share, then twice that; after that, the two lightest groups again and again. Only units with
    the same choice of devices merge.

    Args:
      graph: the graph.
      count: movable groups at most, but for one for each choice of devices.
    """
    parts = reinforce_units.units(graph)
    choice = [row.tobytes() if row.sum() > 1 else None for row in parts.allowed]
    root = list(range(len(parts)))
    weight = (parts.weight + _WEIGHT_OF_ANY * parts.weight.sum() / max(1, len(parts))).tolist()
    movable = np.flatnonzero(parts.movable).tolist()
    share = sum(weight[unit] for unit in movable) / count
    left = len(movable)

    def find(unit: int) -> int:
        while root[unit] != unit:
            root[unit] = root[root[unit]]
            unit = root[unit]
        return unit

    def join(one: int, other: int) -> int:
        keep, gone = min(one, other), max(one, other)
        root[gone] = keep
        weight[keep] += weight[gone]
        return keep

    heavy_first = np.argsort(-parts.edge_bytes, kind="stable")
    edges = [
        (a, b)
        for a, b in parts.edges[heavy_first].tolist()
        if choice[a] is not None and choice[a] == choice[b]
    ]
    for limit in (_SLACK * share, 2 * _SLACK * share):
        for a, b in edges:
            one, other = find(a), find(b)
            if left > count and one != other and weight[one] + weight[other] <= limit:
                join(one, other)
                left -= 1
    heaps: dict[bytes | None, list[tuple[float, int]]] = {}
    for unit in movable:
        if find(unit) == unit:
            heaps.setdefault(choice[unit], []).append((weight[unit], unit))
    for heap in heaps.values():
        heapq.heapify(heap)
    while left > count:
        mergeable = [heap for heap in heaps.values() if len(heap) > 1]
        if not mergeable:
            break
        lightest = min(mergeable, key=lambda heap: heap[0])
        keep = join(heapq.heappop(lightest)[1], heapq.heappop(lightest)[1])
        heapq.heappush(lightest, (weight[keep], keep))
        left -= 1
    label = np.array([find(unit) for unit in range(len(parts))])
    return reinforce_units.merge(graph, label[parts.of_op])
