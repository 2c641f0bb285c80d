"""Step times of one workload under several session configurations, side by side."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import typing
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import step_stats_pb2

from go_bench.workloads import Workload

v1 = tf.compat.v1

Outputs = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """Step times and outputs of one configuration.

    Attributes:
      first_s: seconds of the first step, which optimises and compiles the graph.
      steps_s: seconds of each timed step, in order.
      outputs: what each of the steps that were compared returned, in order.
      trace: TensorFlow's report of one more step after all others; None unless asked for.
    """

    first_s: float
    steps_s: tuple[float, ...]
    outputs: tuple[Outputs, ...]
    trace: step_stats_pb2.StepStats | None = None

    @property
    def median_s(self) -> float:
        """Step time: the median, in seconds."""
        return float(np.median(self.steps_s))

    @property
    def iqr_s(self) -> float:
        """Spread: the distance between the quartiles."""
        low, high = np.percentile(self.steps_s, [25, 75])
        return float(high - low)

    @property
    def n(self) -> int:
        """Number of timed steps."""
        return len(self.steps_s)


def compare(
    workload: Workload | Mapping[str, Workload],
    target: str,
    configs: Mapping[str, tf.compat.v1.ConfigProto],
    *,
    rounds: int = 20,
    warmup: int = 3,
    checked: int = 3,
    trace: bool = False,
    progress: Callable[[], object] = lambda: None,
) -> dict[str, Measurement]:
    """Measures one step under each configuration, alternating between them step by step.

    Each configuration has a session of its own, which shares no variables with the others and
    starts from the same values. Whatever disturbs the machine so disturbs all alike.

    Args:
      workload: what to run; or one a configuration, the same model in other placements, say.
      target: where sessions connect, "" for this process.
      configs: the configurations by name; they are not changed.
      rounds: timed steps of each.
      warmup: steps of each before the first timed one, at least 1.
      checked: how many of the warm-up steps' outputs are kept, from the first on.
      trace: whether one more step of each is traced.
      progress: called after each timed step, so `(rounds + warmup) * len(configs)` times.

    Returns:
      The measurement of each configuration.

    Raises:
      ValueError: for a count out of range.
    """
    for name, value in (("rounds", rounds), ("warmup", warmup)):
        if value < 1:
            raise ValueError(f"compare: {name} must be at least 1, got {value}")
    workloads = {
        name: workload[name] if isinstance(workload, Mapping) else workload for name in configs
    }
    times: dict[str, list[float]] = {name: [] for name in configs}
    outputs: dict[str, list[Outputs]] = {name: [] for name in configs}
    with contextlib.ExitStack() as stack:
        sessions = {
            name: stack.enter_context(open_session(workloads[name], target, config))
            for name, config in configs.items()
        }
        for index in range(warmup + rounds):
            for name in _alternate(sessions, index):
                seconds, result = _step(sessions[name], workloads[name])
                times[name].append(seconds)
                if index < min(checked, warmup):
                    outputs[name].append(result)
                progress()
        traces = {name: traced_step(sessions[name], workloads[name]) for name in configs if trace}
    return {
        name: Measurement(
            first_s=times[name][0],
            steps_s=tuple(times[name][warmup:]),
            outputs=tuple(outputs[name]),
            trace=traces.get(name),
        )
        for name in configs
    }


def output_difference(left: Sequence[Outputs], right: Sequence[Outputs]) -> float:
    """Returns the largest relative difference between two runs' outputs.

    The difference of a tensor is its largest absolute difference over its largest magnitude: an
    element near zero next to large ones counts for what it is. A value that is not finite in one
    run and not equal in the other is an infinite difference.

    Raises:
      ValueError: if the runs do not have the same outputs.
    """
    if len(left) != len(right):
        raise ValueError(f"output_difference: {len(left)} against {len(right)} steps")
    worst = 0.0
    for ours, theirs in zip(left, right, strict=True):
        if ours.keys() != theirs.keys():
            raise ValueError(f"output_difference: {sorted(ours)} against {sorted(theirs)}")
        for key in ours:
            worst = max(worst, _tensor_difference(ours[key], theirs[key]))
    return worst


@contextlib.contextmanager
def open_session(
    workload: Workload, target: str, config: tf.compat.v1.ConfigProto
) -> typing.Iterator[tf.compat.v1.Session]:
    """Opens a session with variables of its own, initialised."""
    own = v1.ConfigProto()
    own.CopyFrom(config)
    own.isolate_session_state = True
    with v1.Session(target, graph=workload.graph, config=own) as session:
        session.run(workload.init_op)
        yield session


def traced_step(session: tf.compat.v1.Session, workload: Workload) -> step_stats_pb2.StepStats:
    """Runs one step and returns TensorFlow's report of it."""
    metadata = v1.RunMetadata()
    session.run(
        workload.fetches,
        feed_dict=dict(workload.feeds),
        options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE),
        run_metadata=metadata,
    )
    return metadata.step_stats


def _alternate(sessions: Mapping[str, object], index: int) -> list[str]:
    """Returns the order of a round: each second one is reversed, so that none is always first."""
    names = list(sessions)
    return names if index % 2 == 0 else names[::-1]


def _step(session: tf.compat.v1.Session, workload: Workload) -> tuple[float, Outputs]:
    start = time.perf_counter()
    result = session.run(workload.fetches, feed_dict=dict(workload.feeds))
    return time.perf_counter() - start, result["outputs"]


def _tensor_difference(left: np.ndarray, right: np.ndarray) -> float:
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        return float("inf")
    if np.array_equal(left, right, equal_nan=True):
        return 0.0
    difference = np.max(np.abs(np.subtract(left, right, dtype=np.float64)))
    scale = np.max(np.abs(left.astype(np.float64)))
    ratio = difference / scale if scale else np.inf
    return float(ratio) if np.isfinite(ratio) else float("inf")
