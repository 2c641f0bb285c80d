"""What a learned baseline decides: ops that must share a device are one unit."""

from __future__ import annotations

import dataclasses

import numpy as np

import grappler_go
from go_bench.baselines.contracted import compute_devices


@dataclasses.dataclass(frozen=True, kw_only=True)
class Units:
    """N ops as U units in topological order of their first op.

    Attributes:
      of_op: unit of each op, i32 [N].
      movable: whether a unit has a choice, bool [U].
      allowed: devices where all of a unit's ops may be, of those that compute, bool [U, D].
      home: where an immovable unit is, i32 [U].
      weight: compute time of a unit on its fastest device in microseconds, f64 [U].
      edges: source and target unit, once each, none to itself, i32 [E, 2].
      edge_bytes: log-scaled bytes along each edge, f64 [E].
    """

    of_op: np.ndarray
    movable: np.ndarray
    allowed: np.ndarray
    home: np.ndarray
    weight: np.ndarray
    edges: np.ndarray
    edge_bytes: np.ndarray

    def __len__(self) -> int:
        return len(self.movable)


def units(graph: grappler_go.OpGraph) -> Units:
    """Returns the graph's units: its colocation groups."""
    return merge(graph, graph.groups)


def merge(graph: grappler_go.OpGraph, label: np.ndarray) -> Units:
    """Returns units of all ops with one label, i32 [N]."""
    features = graph.features()
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first))
    of_op = rank[inverse]
    count = len(first)
    allowed = np.ones((count, graph.num_devices), bool)
    np.logical_and.at(allowed, of_op, features["node_device_mask"] > 0)
    # Not the host of GPUs, where a unit has a choice.
    targets = np.isin(np.arange(graph.num_devices), compute_devices(graph))
    spread = allowed & targets
    allowed = np.where(spread.any(axis=1, keepdims=True), spread, allowed)
    incoming = graph.heuristic("incoming")
    home = np.zeros(count, np.int32)
    home[of_op[::-1]] = incoming[::-1]
    weight = np.bincount(of_op, graph.op_us.min(axis=1), minlength=count)
    edges, edge_bytes = _edges(features, of_op, count)
    return Units(
        of_op=of_op,
        movable=allowed.sum(axis=1) > 1,
        allowed=allowed,
        home=home,
        weight=weight,
        edges=edges,
        edge_bytes=edge_bytes,
    )


def _edges(
    features: dict[str, np.ndarray], of_op: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    source, target = of_op[features["edge_source"]], of_op[features["edge_target"]]
    outer = source != target
    key = source[outer].astype(np.int64) * count + target[outer]
    unique, inverse = np.unique(key, return_inverse=True)
    edge_bytes = np.zeros(len(unique))
    np.maximum.at(edge_bytes, inverse, features["edge_features"][outer, 0])
    edges = np.stack([unique // count, unique % count], axis=1).astype(np.int32)
    return edges, edge_bytes


def legal_placements(graph: grappler_go.OpGraph, parts: Units, devices: np.ndarray) -> np.ndarray:
    """Returns legal placements of ops, i32 [K, N], near the wanted devices of units, [K, U]."""
    wanted = np.where(parts.movable, devices, parts.home)[:, parts.of_op]
    return np.stack([graph.repair(plan) for plan in wanted.astype(np.int32)])
