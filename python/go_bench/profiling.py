"""What TensorFlow itself reports of a step: the cost of each op, and the whole for a trace."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import step_stats_pb2

from go_bench.measure import open_session, traced_step
from go_bench.workloads import Workload
from grappler_go import files

v1 = tf.compat.v1

_LABEL = re.compile(r"= (\w+)\(")
_TRANSFER_OPS = frozenset({"_Send", "_Recv", "_HostSend", "_HostRecv"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """Where the time of a step goes.

    Attributes:
      cost_us: compute time of each node in a step, by name, all its runs in a loop together; the
        median of the profiled steps.
      device_of: full name of the device that each node ran on.
      overhead_us: what a node costs beside its compute time, where one thread runs them all: the
        step without tracing, less all compute time, shared out evenly.
      step_us: time of a step without tracing, the median.
    """

    cost_us: Mapping[str, float]
    device_of: Mapping[str, str]
    overhead_us: float
    step_us: float

    @property
    def op_us(self) -> dict[str, float]:
        """What each node takes of its device in a step, by name, in microseconds.

        Tracing lengthens ops, too: where one thread runs them all, no more than the step without it
        is theirs.
        """
        computed_us = sum(self.cost_us.values())
        share = min(1.0, self.step_us / computed_us) if computed_us else 1.0
        return {name: share * us + self.overhead_us for name, us in self.cost_us.items()}


def profile(
    workload: Workload,
    target: str,
    config: tf.compat.v1.ConfigProto,
    steps: int,
    *,
    warmup: int = 2,
    progress: Callable[[], object] = lambda: None,
) -> Profile:
    """Runs traced steps and returns the compute time of each node.

    Take it from a cluster with `inter_op=1`: threads that share a core take turns in the middle of
    an op, and the time of the others counts as its own. The median leaves out the step in which
    another process took the core.

    Args:
      workload: what to run.
      target: where the session connects, "" for this process.
      config: of the session; Grappler's passes are in it, so nodes have the names they end up with.
      steps: traced steps; as many without tracing follow.
      warmup: steps before them.
      progress: called after each step, so `warmup + 2 * steps` times.

    Raises:
      ValueError: if `steps` is below 1.
    """
    if steps < 1:
        raise ValueError(f"profile: steps must be at least 1, got {steps}")
    reports, seconds = [], []
    with open_session(workload, target, config) as session:
        for _ in range(warmup):
            _timed_step(session, workload)
            progress()
        for _ in range(steps):
            reports.append(traced_step(session, workload))
            progress()
        for _ in range(steps):
            seconds.append(_timed_step(session, workload))
            progress()
    cost_us = _median_costs(reports)
    step_us = 1e6 * float(np.median(seconds))
    return Profile(
        cost_us=cost_us,
        device_of=devices_of(reports[-1]),
        overhead_us=max(0.0, step_us - sum(cost_us.values())) / max(1, len(cost_us)),
        step_us=step_us,
    )


def _median_costs(reports: Sequence[step_stats_pb2.StepStats]) -> dict[str, float]:
    """Returns the compute time of each node in microseconds, the median over steps."""
    samples: dict[str, list[float]] = collections.defaultdict(list)
    for report in reports:
        for name, us in step_costs(report).items():
            samples[name].append(us)
    return {name: float(np.median(values)) for name, values in samples.items()}


def trace_step(
    workload: Workload,
    target: str,
    config: tf.compat.v1.ConfigProto,
    *,
    warmup: int = 2,
    progress: Callable[[], object] = lambda: None,
) -> step_stats_pb2.StepStats:
    """Returns TensorFlow's report of one step; `progress` is called `warmup + 1` times."""
    with open_session(workload, target, config) as session:
        for _ in range(warmup):
            _timed_step(session, workload)
            progress()
        report = traced_step(session, workload)
        progress()
        return report


def step_costs(report: step_stats_pb2.StepStats) -> dict[str, float]:
    """Returns the compute time of each node in microseconds, all its runs in the step together."""
    costs: dict[str, float] = collections.defaultdict(float)
    for _, node in compute_events(report):
        costs[node.node_name] += compute_us(node)
    return dict(costs)


def devices_of(report: step_stats_pb2.StepStats) -> dict[str, str]:
    """Returns the full name of the device that each node ran on, by the node's name."""
    return {node.node_name: device for device, node in compute_events(report)}


def _timed_step(session: tf.compat.v1.Session, workload: Workload) -> float:
    """Runs a step and returns its seconds."""
    start = time.perf_counter()
    session.run(workload.fetches, feed_dict=dict(workload.feeds))
    return time.perf_counter() - start


def write_json(path: str | os.PathLike[str], value: object) -> None:
    """Writes a JSON file aside and renames it."""
    files.write_atomically(path, json.dumps(value, indent=1))


def compute_events(
    report: step_stats_pb2.StepStats,
) -> Iterator[tuple[str, step_stats_pb2.NodeExecStats]]:
    """Yields (device, node) for each op that computes, so for no transfer and no memory copy."""
    for device in report.dev_stats:
        if is_device(device.device):
            for node in device.node_stats:
                if op_type(node) not in _TRANSFER_OPS and not is_transfer(node):
                    yield device.device, node


def is_device(name: str) -> bool:
    """Returns whether this is a device, not a stream of a GPU, which repeats the device's ops."""
    return "stream" not in name and ":" in name


def is_transfer(node: step_stats_pb2.NodeExecStats) -> bool:
    """Returns whether the entry is the call that fetched a tensor from another worker."""
    return node.node_name in ("RecvTensor", "RecvBuf")


def op_type(node: step_stats_pb2.NodeExecStats) -> str:
    """Returns the op type out of the label `[...]name = Type(inputs)`, "" where there is none."""
    match = _LABEL.search(node.timeline_label)
    return match.group(1) if match else ""


def compute_us(node: step_stats_pb2.NodeExecStats) -> float:
    """Returns the time in the op's kernel, in microseconds."""
    return (node.op_end_rel_nanos - node.op_start_rel_nanos) / 1e3
