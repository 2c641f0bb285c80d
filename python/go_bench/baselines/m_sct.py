"""m-SCT of Baechi: list scheduling in which an op's favourite child follows it to its device.

Which child is the favourite comes from the linear programme of Hanen and Munier for small
communication times ("An approximation algorithm for scheduling dependent tasks on m processors with
small communication delays", 1995), relaxed and rounded as in Baechi (SoCC 2020).
"""

from __future__ import annotations

import dataclasses
import heapq

import numpy as np
import scipy.optimize
import scipy.sparse

import grappler_go
from go_bench.baselines.contracted import compute_devices
from go_bench.baselines.method import Evaluator, Found, Task

# Relaxed variables below this make a favourite child (Baechi).
_THRESHOLD = 0.1
# Beyond it, or past the time limit, favourites are taken greedily, the dearest transfers first.
MAX_EDGES = 20_000
_SECONDS = 60.0
TRANSFER_WEIGHTS = (1.0, 2.0, 4.0, 8.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Flow:
    """What matters of the graph: E edges between ops of unlike groups, each pair of ops once.

    Attributes:
      source, target: ops, i32 [E], in topological order of the targets.
      transfer_us: what the edge takes between two devices, f64 [E].
      us: compute time of each op on its fastest device, f64 [N].
    """

    source: np.ndarray
    target: np.ndarray
    transfer_us: np.ndarray
    us: np.ndarray


def m_sct(task: Task, budget: int, seed: int) -> Found:
    """The best schedule over several weights of transfers."""
    del seed
    graph = task.graph
    flow = graph.dataflow()
    edges = _edges(graph, flow)
    evaluator = Evaluator(task, budget)
    for weight in TRANSFER_WEIGHTS[:budget]:
        weighted = dataclasses.replace(edges, transfer_us=weight * edges.transfer_us)
        favourite = favourites(weighted)
        placement = _schedule(graph, flow, weighted, favourite)
        evaluator.evaluate(graph.repair(placement)[np.newaxis])
    return evaluator.found()


def _edges(graph: grappler_go.OpGraph, flow: grappler_go.Dataflow) -> _Flow:
    fixed_us, us_per_byte = _mean_link(graph, flow)
    pair = flow.source.astype(np.int64) * graph.num_nodes + flow.target
    keys, index = np.unique(pair, return_inverse=True)
    size = np.zeros(len(keys))
    np.maximum.at(size, index, flow.tensor_bytes[flow.tensor])
    source, target = keys // graph.num_nodes, keys % graph.num_nodes
    order = np.lexsort((source, target))
    return _Flow(
        source=source[order].astype(np.int32),
        target=target[order].astype(np.int32),
        transfer_us=(fixed_us + us_per_byte * size)[order],
        us=np.where(flow.mask, graph.op_us, np.inf).min(axis=1).astype(np.float64),
    )


def _mean_link(graph: grappler_go.OpGraph, flow: grappler_go.Dataflow) -> tuple[float, float]:
    among = compute_devices(graph)
    links = flow.transfer_us[np.ix_(among, among)]
    apart = ~np.eye(len(among), dtype=bool)
    if not apart.any():
        return 0.0, 0.0
    fixed_us, us_per_byte = links[apart].mean(axis=0)
    return float(fixed_us), float(us_per_byte)


def favourites(edges: _Flow) -> np.ndarray:
    """Returns the favourite child of each op, i32 [N], -1 = none; a child is that of one op."""
    chosen = _solve(edges) if 0 < len(edges.source) <= MAX_EDGES else None
    if chosen is None:
        chosen = edges.transfer_us
    else:
        chosen = np.where(chosen < _THRESHOLD, 1 - chosen, -1.0)
    favourite = np.full(len(edges.us), -1, np.int32)
    taken = np.zeros(len(edges.us), bool)
    for edge in np.argsort(-chosen, kind="stable"):
        if chosen[edge] < 0:
            break
        source, target = edges.source[edge], edges.target[edge]
        if favourite[source] < 0 and not taken[target]:
            favourite[source] = target
            taken[target] = True
    return favourite


def _solve(edges: _Flow) -> np.ndarray | None:
    """Returns x of each edge, 0 = its transfer is spared, f64 [E]; None past the time limit.

    Minimise the makespan w over starts s: s_j >= s_i + p_i + c_ij x_ij, w >= s_i + p_i; of an op's
    children all but one have x = 1, and of its parents.
    """
    count, nodes = len(edges.source), len(edges.us)
    first_start, makespan = count, count + nodes
    row = np.arange(count)
    one = np.ones(count)
    precedence = scipy.sparse.coo_array(
        (
            np.concatenate([one, -one, edges.transfer_us]),
            (
                np.concatenate([row, row, row]),
                np.concatenate([first_start + edges.source, first_start + edges.target, row]),
            ),
        ),
        shape=(count, makespan + 1),
    )
    node = np.arange(nodes)
    ends = scipy.sparse.coo_array(
        (
            np.concatenate([np.ones(nodes), -np.ones(nodes)]),
            (np.tile(node, 2), np.concatenate([first_start + node, np.full(nodes, makespan)])),
        ),
        shape=(nodes, makespan + 1),
    )
    children = scipy.sparse.coo_array((-one, (edges.source, row)), shape=(nodes, makespan + 1))
    parents = scipy.sparse.coo_array((-one, (edges.target, row)), shape=(nodes, makespan + 1))
    out_degree = np.bincount(edges.source, minlength=nodes)
    in_degree = np.bincount(edges.target, minlength=nodes)
    scale = max(float(edges.us.sum()), 1e-9)
    # Times as shares of the whole work, so that the solver's tolerances fit.
    precedence.data[2 * count :] /= scale
    result = scipy.optimize.linprog(
        np.concatenate([np.zeros(makespan), [1.0]]),
        A_ub=scipy.sparse.vstack([precedence, ends, children, parents], format="csr"),
        b_ub=np.concatenate(
            [
                -edges.us[edges.source] / scale,
                -edges.us / scale,
                1 - np.maximum(out_degree, 1),
                1 - np.maximum(in_degree, 1),
            ]
        ),
        bounds=np.concatenate(
            [np.tile([0.0, 1.0], (count, 1)), np.tile([0.0, np.inf], (nodes + 1, 1))]
        ),
        method="highs",
        options={"time_limit": _SECONDS},
    )
    return result.x[:count] if result.status == 0 else None


def _schedule(
    graph: grappler_go.OpGraph,
    flow: grappler_go.Dataflow,
    edges: _Flow,
    favourite: np.ndarray,
) -> np.ndarray:
    """Returns the placement, i32 [N]: the earliest start next, favourites on their parent's device.

    A device waits for the favourite child of the op that it ran last until that child can start
    there; other ops take it only if they would be done before.
    """
    devices = compute_devices(graph)
    in_edges = np.searchsorted(edges.target, np.arange(graph.num_nodes + 1))
    readers: list[list[int]] = [[] for _ in range(graph.num_nodes)]
    for edge, source in enumerate(edges.source):
        readers[source].append(edge)
    placement = graph.heuristic("incoming")
    group_device = np.full(int(graph.groups.max(initial=-1)) + 1, -1, np.int32)
    held = np.bincount(graph.groups, graph.persistent_bytes, minlength=len(group_device))
    used = np.zeros(graph.num_devices)
    free = np.zeros(graph.num_devices)
    end = np.zeros(graph.num_nodes)
    parent_of = np.full(graph.num_nodes, -1, np.int32)
    parent_of[favourite[favourite >= 0]] = np.flatnonzero(favourite >= 0)
    reserved = np.full(graph.num_devices, -1, np.int32)  # The favourite that a device waits for.
    pending = np.diff(in_edges)
    ready: list[tuple[float, int]] = [(0.0, int(n)) for n in np.flatnonzero(pending == 0)]
    heapq.heapify(ready)

    def choices(node: int) -> np.ndarray:
        chosen = group_device[graph.groups[node]]
        if chosen >= 0:
            return np.asarray([chosen])
        legal = devices[flow.mask[node, devices]]
        if not len(legal):
            return np.asarray([placement[node]])
        bytes_after = used[legal] + held[graph.groups[node]]
        room = (flow.memory_bytes[legal] <= 0) | (bytes_after <= flow.memory_bytes[legal])
        return legal[room] if room.any() else legal

    def data_ready(node: int, device: int) -> float:
        latest = 0.0
        for edge in range(in_edges[node], in_edges[node + 1]):
            source = edges.source[edge]
            away = edges.transfer_us[edge] if placement[source] != device else 0.0
            latest = max(latest, end[source] + away)
        return latest

    while ready:
        _, node = heapq.heappop(ready)
        best, best_start = -1, np.inf
        for device in choices(node):
            start = max(free[device], data_ready(node, device))
            waits_for = reserved[device]
            if waits_for >= 0 and waits_for != node:
                # Not yet there: the device is kept for it as long as that costs nothing.
                parent_end = end[parent_of[waits_for]]
                start = max(start, parent_end + edges.us[waits_for])
            if parent_of[node] >= 0 and placement[parent_of[node]] == device:
                start -= 1e-6  # Between equals, with the parent.
            if start < best_start:
                best, best_start = int(device), start
        start = max(free[best], data_ready(node, best))
        group = graph.groups[node]
        if group_device[group] < 0:
            group_device[group] = best
            used[best] += held[group]
        placement[node] = best
        end[node] = start + float(graph.op_us[node, best])
        free[best] = end[node]
        reserved[best] = favourite[node]
        for edge in readers[node]:
            target = int(edges.target[edge])
            pending[target] -= 1
            if pending[target] == 0:
                earliest = min(data_ready(target, int(device)) for device in choices(target))
                heapq.heappush(ready, (earliest, target))
    return placement
