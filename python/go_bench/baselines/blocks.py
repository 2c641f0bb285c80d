"""Blocks of groups that searches move as one: what is dear to part stays together."""

from __future__ import annotations

import numpy as np

from go_bench.baselines import metis
from go_bench.baselines.contracted import Contracted

_UFACTOR = 2000  # Blocks may be three times their share: locality counts, not balance.


def blocks(graph: Contracted, count: int, seed: int) -> np.ndarray:
    """Returns the block of each group, i32 [G]: about `count`, numbered in topological order."""
    if graph.num_groups <= 2 * count:  # METIS fails where parts are hardly fewer than vertices.
        parts = np.arange(graph.num_groups, dtype=np.int32)
    else:
        parts = metis.partition(
            graph,
            count,
            vertex_weights=graph.us.min(axis=1),
            pair_weights=graph.pair_bytes + graph.pair_bytes.mean() * graph.pair_tensors,
            ufactor=_UFACTOR,
            seed=seed,
        )
    sizes = np.maximum(np.bincount(parts), 1)
    first = np.bincount(parts, graph.position) / sizes
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[parts]
