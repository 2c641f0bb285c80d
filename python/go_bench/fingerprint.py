"""A graph's fingerprint: equal where what is computed is equal, whatever the ops are called."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

import grappler_go

_DIGITS = 16
_CONTROL = "edge/is_control"


def fingerprint(graph: grappler_go.OpGraph) -> str:
    """Returns 16 hexadecimal digits that are the same in every process.

    They depend on each op's type, attributes, and the types and shapes of its inputs and outputs
    (`cost_keys`), on its persistent bytes, on which ops it reads in which order and which it waits
    for, and on which ops must share a device. They do not depend on names, on the order of nodes in
    the GraphDef, on the devices or on costs.

    Each op is hashed with the ops it reads, in topological order, then with its readers, backwards;
    the fingerprint is the hash of all these in order of size. Known weakness: the values of
    constants and which of an op's outputs is read do not count, and graphs whose unlike parts look
    alike from every op may share a fingerprint.
    """
    features = graph.features()
    source, target = features["edge_source"].tolist(), features["edge_target"].tolist()
    control = _control_column(features["edge_features"])
    own = [
        _digest(op, key, repr(float(held)))
        for op, key, held in zip(
            graph.op_types, graph.cost_keys, graph.persistent_bytes, strict=True
        )
    ]
    inputs = _edges_of(target, graph.num_nodes)
    upstream: list[str] = []
    for node, edges in enumerate(inputs):
        data = [upstream[source[e]] for e in edges if not control[e]]
        waits = sorted(upstream[source[e]] for e in edges if control[e])
        upstream.append(_digest(own[node], *data, "^", *waits))
    outputs = _edges_of(source, graph.num_nodes)
    whole = list(upstream)
    for node in range(graph.num_nodes - 1, -1, -1):
        readers = [_digest(whole[target[e]], "^" if control[e] else "") for e in outputs[node]]
        whole[node] = _digest(upstream[node], *sorted(readers))
    members: dict[int, list[str]] = {}
    for group, text in zip(graph.groups.tolist(), whole, strict=True):
        members.setdefault(group, []).append(text)
    return _digest(*sorted(_digest(*sorted(texts)) for texts in members.values()))[:_DIGITS]


def _control_column(edge_features: np.ndarray) -> list[bool]:
    names = [name for name in grappler_go.feature_table() if name.startswith("edge/")]
    return (edge_features[:, names.index(_CONTROL)] > 0).tolist()


def _edges_of(ends: Sequence[int], nodes: int) -> list[list[int]]:
    """Returns the edges of each node, in their own order."""
    edges: list[list[int]] = [[] for _ in range(nodes)]
    for edge, node in enumerate(ends):
        edges[node].append(edge)
    return edges


def _digest(*texts: str) -> str:
    digest = hashlib.sha256()
    for text in texts:
        raw = text.encode()
        digest.update(len(raw).to_bytes(4, "little"))
        digest.update(raw)
    return digest.hexdigest()
