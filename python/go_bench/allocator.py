"""Peak memory of a step, from what TensorFlow's allocators recorded of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tensorflow.core.framework import step_stats_pb2

from go_bench import profiling

_INPUTS = re.compile(r"= \w+\((.*)\)$")
_RECEIVED = re.compile(r"edge_\d+_(\S+) from ")
# What another worker sent has the name of its producer and a number.
_RECEIVER_SUFFIX = re.compile(r"_S\d+$")


def peak_bytes(report: step_stats_pb2.StepStats) -> dict[str, float]:
    """Returns the most memory that a traced step's own tensors took at once, by device.

    What the step's ops allocated and freed, as the allocators recorded it, and the tensors that
    came from other workers, which no op allocates: these live from their arrival until the last op
    that reads them has ended. Variables and constants, which outlive the step, are not in it.
    """
    received: dict[str, list[tuple[float, float]]] = {}
    for device in report.dev_stats:
        if profiling.is_device(device.device):
            received.setdefault(device.device, [])
    for device in report.dev_stats:
        for node in device.node_stats:
            if profiling.is_transfer(node):
                target = _target(node.timeline_label)
                if target in received:
                    received[target].extend(_lifetime(node, report, target))
    return {
        device.device: _peak([*_allocations(device), *received[device.device]])
        for device in report.dev_stats
        if device.device in received
    }


def _target(label: str) -> str:
    """Returns the device that a received tensor went to."""
    return label.rpartition(" to ")[2].strip()


def _allocations(device: step_stats_pb2.DeviceStepStats) -> Iterator[tuple[float, float]]:
    """Yields (microseconds, bytes) for each allocation, negative bytes for what was freed."""
    for node in device.node_stats:
        for memory in node.memory:
            for record in memory.allocation_records:
                yield record.alloc_micros, record.alloc_bytes


def _lifetime(
    node: step_stats_pb2.NodeExecStats, report: step_stats_pb2.StepStats, target: str
) -> list[tuple[float, float]]:
    """Returns a received tensor's arrival and end, as allocations."""
    match = _RECEIVED.search(node.timeline_label)
    size = sum(o.tensor_description.allocation_description.requested_bytes for o in node.output)
    if not match or not size:
        return []
    arrival = node.all_start_micros + node.all_end_rel_micros
    ends = [
        other.all_start_micros + other.all_end_rel_micros
        for device in report.dev_stats
        if device.device == target
        for other in device.node_stats
        if match.group(1) in _inputs(other)
    ]
    return [(arrival, size), (max([arrival, *ends]), -size)]


def _inputs(node: step_stats_pb2.NodeExecStats) -> set[str]:
    """Returns the names of the ops that an op reads, by its label."""
    match = _INPUTS.search(node.timeline_label)
    names = match.group(1).split(", ") if match else []
    return {_RECEIVER_SUFFIX.sub("", name.partition(":")[0]) for name in names}


def _peak(changes: list[tuple[float, float]]) -> float:
    """Returns the largest running sum; what is freed in a microsecond goes first."""
    live = peak = 0.0
    for _, size in sorted(changes):
        live += size
        peak = max(peak, live)
    return peak
