"""A graph with each colocation group as one vertex: what partitioners and blind searches move."""

from __future__ import annotations

import dataclasses

import numpy as np

import grappler_go


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contracted:
    """G groups of N ops on D devices, and the P pairs of groups between which tensors go.

    Attributes:
      group_of: group of each op, i32 [N].
      us: compute time of each group on each device, f64 [G, D].
      bytes: what each group holds: its persistent bytes and its outputs, f64 [G].
      mask: where each group may go, bool [G, D].
      incoming: where each group comes from, i32 [G].
      position: mean place of each group's ops in topological order, f64 [G].
      pairs: the two groups of each pair, lower first, i32 [P, 2].
      pair_bytes: bytes between them in a step, each tensor once, f64 [P].
      pair_tensors: number of tensors between them, f64 [P].
    """

    group_of: np.ndarray
    us: np.ndarray
    bytes: np.ndarray
    mask: np.ndarray
    incoming: np.ndarray
    position: np.ndarray
    pairs: np.ndarray
    pair_bytes: np.ndarray
    pair_tensors: np.ndarray

    @property
    def num_groups(self) -> int:
        """The number of groups."""
        return len(self.us)

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return self.us.shape[1]

    @property
    def movable(self) -> np.ndarray:
        """The groups with more than one legal device, i32 [movable]."""
        return np.flatnonzero(self.mask.sum(axis=1) > 1).astype(np.int32)

    def expand(self, devices: np.ndarray) -> np.ndarray:
        """Returns the placement of the ops, i32 [..., N], for that of the groups, i32 [..., G].

        A group that may not go where it is wanted stays where it came from.
        """
        wanted = np.asarray(devices, np.int32)
        legal = self.mask[np.arange(self.num_groups), wanted]
        return np.where(legal, wanted, self.incoming)[..., self.group_of].astype(np.int32)


def contract(graph: grappler_go.OpGraph) -> Contracted:
    """Returns the graph of the colocation groups."""
    flow = graph.dataflow()
    labels, group_of = np.unique(graph.groups, return_inverse=True)
    groups = len(labels)
    first = np.zeros(groups, np.int64)
    first[group_of[::-1]] = np.arange(graph.num_nodes)[::-1]
    held = np.bincount(group_of, graph.persistent_bytes, minlength=groups)
    held += np.bincount(group_of[flow.tensor_op], flow.tensor_bytes, minlength=groups)
    pairs, sizes, counts = _pairs(group_of, flow)
    return Contracted(
        group_of=group_of.astype(np.int32),
        us=np.stack([np.bincount(group_of, us, minlength=groups) for us in graph.op_us.T], axis=1),
        bytes=held,
        mask=flow.mask[first],
        incoming=graph.heuristic("incoming")[first].astype(np.int32),
        position=np.bincount(group_of, np.arange(graph.num_nodes), minlength=groups)
        / np.bincount(group_of, minlength=groups),
        pairs=pairs,
        pair_bytes=sizes,
        pair_tensors=counts,
    )


def compute_devices(graph: grappler_go.OpGraph) -> np.ndarray:
    """Returns the devices that a model is spread over: the GPUs where there are any, i32."""
    gpus = [index for index, name in enumerate(graph.devices) if "GPU:" in name]
    return np.asarray(gpus or range(graph.num_devices), np.int32)


def _pairs(
    group_of: np.ndarray, flow: grappler_go.Dataflow
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns pairs, bytes and tensors; a tensor that a group reads twice is sent to it once."""
    groups = int(group_of.max(initial=-1)) + 1
    reader = group_of[flow.target].astype(np.int64)
    once = np.unique(flow.tensor.astype(np.int64) * max(groups, 1) + reader)
    tensor, reader = once // max(groups, 1), once % max(groups, 1)
    writer = group_of[flow.tensor_op[tensor]].astype(np.int64)
    apart = writer != reader
    low = np.minimum(writer, reader)[apart]
    high = np.maximum(writer, reader)[apart]
    keys, index = np.unique(low * max(groups, 1) + high, return_inverse=True)
    sizes = np.bincount(index, flow.tensor_bytes[tensor[apart]], minlength=len(keys))
    counts = np.bincount(index, minlength=len(keys)).astype(np.float64)
    pairs = np.stack([keys // max(groups, 1), keys % max(groups, 1)], axis=1)
    return pairs.astype(np.int32), sizes, counts
