"""The demo: real models by TensorFlow's default and with the pass, on attached devices."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import shutil
import typing
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

import grappler_go
from go_bench import draw, measure, profiling, trace
from go_bench.attached import Attached
from go_bench.workloads import Workload, inception_v3, rnnlm
from grappler_go import costs as costs_lib

v1 = tf.compat.v1

DEFAULT = "default"
PASS = "pass"

Progress = Callable[[], object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A model to show.

    Attributes:
      title: the model's name in the output.
      build: makes the workload.
      rounds: timed steps of each side.
      warmup: steps of each side before them, whose outputs are compared.
      profile_steps: traced steps to take op costs from.
    """

    title: str
    build: Callable[[], Workload]
    rounds: int
    warmup: int = 3
    profile_steps: int = 5

    @property
    def steps(self) -> int:
        """Steps that the case runs in all, for a progress bar."""
        profiled = _PROFILE_WARMUP + 2 * self.profile_steps
        traced = 2 * (_TRACE_WARMUP + 1)
        return profiled + 2 * (self.warmup + self.rounds) + traced


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What was seen of one model.

    Attributes:
      title: the model's name.
      workload: the workload's name.
      nodes: nodes of the graph that the pass was given.
      default_ms, pass_ms: step time, the median.
      default_iqr_ms, pass_iqr_ms: its spread, the distance between the quartiles.
      rounds: timed steps of each.
      speedup: default_ms / pass_ms.
      optimise_s: seconds that the first step with the pass took longer than the default's.
      output_difference: largest relative difference of any output in the compared steps.
      compared_steps: how many steps' outputs were compared.
      ops_per_device: ops that ran on each device in a step with the pass, by full device name.
      source: the planner whose plan was taken.
      applied: whether the plan was written into the graph; if not, the default was kept.
      reason: why.
      predicted_ms: step time of the plan in the simulator, and of the default's placement.
      bound_ms: no placement on these devices can be faster in the simulator.
      costs, report, picture, traces: files that were written.
    """

    title: str
    workload: str
    nodes: int
    default_ms: float
    default_iqr_ms: float
    pass_ms: float
    pass_iqr_ms: float
    rounds: int
    speedup: float
    optimise_s: float
    output_difference: float
    compared_steps: int
    ops_per_device: Mapping[str, int]
    source: str
    applied: bool
    reason: str
    predicted_ms: float
    predicted_default_ms: float
    bound_ms: float
    costs: str
    report: str
    picture: str
    traces: Mapping[str, str]


_PROFILE_WARMUP = 2
_TRACE_WARMUP = 2

CASES: Mapping[str, Case] = {
    "rnnlm": Case(title="RNNLM", build=rnnlm, rounds=30),
    "inception": Case(
        title="Inception-v3", build=inception_v3, rounds=15, warmup=2, profile_steps=2
    ),
}


def run_case(
    case: Case, attached: Attached, out: pathlib.Path, *, progress: Progress = lambda: None
) -> Result:
    """Profiles, measures and draws one model; writes its files into the directory `out`.

    Args:
      case: the model.
      attached: the devices.
      out: an existing directory.
      progress: called after each step, `case.steps` times.

    Returns:
      What was seen.

    Raises:
      RuntimeError: if the pass wrote no report, so did not run.
    """
    workload = case.build()
    stem = out.resolve() / workload.name
    default = base_config()
    costs = _profile_costs(case, workload, attached, default, stem, progress)
    reports = _fresh_directory(stem.with_name(f"{stem.name}.reports"))
    configs = {
        DEFAULT: default,
        PASS: base_config(
            grappler_go.session_config(
                profile=json.dumps(attached.device_profile),
                costs=str(costs),
                report=str(reports),
            )
        ),
    }
    measured = measure.compare(
        workload,
        attached.target,
        configs,
        rounds=case.rounds,
        warmup=case.warmup,
        checked=case.warmup,
        progress=progress,
    )
    report, report_path = read_report(reports)
    traces, ran_on = {}, {}
    for name, config in configs.items():
        seen = profiling.trace_step(
            workload, attached.target, config, warmup=_TRACE_WARMUP, progress=progress
        )
        path = stem.with_name(f"{stem.name}.{name}.trace.json")
        profiling.write_json(path, trace.chrome_trace(seen))
        traces[name], ran_on[name] = str(path), profiling.devices_of(seen)
    picture = stem.with_suffix(".placement.png")
    draw.draw_plan(report, picture, title=f"{case.title}: plan of {report['source']}")
    ours, theirs = measured[PASS], measured[DEFAULT]
    return Result(
        title=case.title,
        workload=workload.name,
        nodes=len(report["nodes"]),
        default_ms=1e3 * theirs.median_s,
        default_iqr_ms=1e3 * theirs.iqr_s,
        pass_ms=1e3 * ours.median_s,
        pass_iqr_ms=1e3 * ours.iqr_s,
        rounds=ours.n,
        speedup=theirs.median_s / ours.median_s,
        optimise_s=ours.first_s - theirs.first_s,
        output_difference=measure.output_difference(theirs.outputs, ours.outputs),
        compared_steps=len(ours.outputs),
        ops_per_device=dict(collections.Counter(ran_on[PASS].values())),
        source=report["source"],
        applied=report["applied"],
        reason=report["reason"],
        predicted_ms=report["predicted_step_us"] / 1e3,
        predicted_default_ms=report["incoming_step_us"] / 1e3,
        bound_ms=report["lower_bound_us"] / 1e3,
        costs=str(costs),
        report=str(report_path),
        picture=str(picture),
        traces=traces,
    )


def describe(result: Result) -> str:
    """Returns the lines to print for a result; the last one is the speed-up."""
    kept = "" if result.applied else f"; the default was kept: {result.reason}"
    devices = ", ".join(
        f"{device}: {count}" for device, count in sorted(result.ops_per_device.items())
    )
    return "\n".join(
        [
            f"{result.title} ({result.workload}, {result.nodes} nodes)",
            f"  step by default    {_with_spread(result.default_ms, result.default_iqr_ms)}",
            f"  step with the pass {_with_spread(result.pass_ms, result.pass_iqr_ms)}"
            f"   (medians and quartile distances of {result.rounds} alternating steps each)",
            f"  bound              {result.bound_ms:9.1f} ms: no placement can be faster",
            f"  plan               from {result.source}, predicted {result.predicted_ms:.1f} ms "
            f"against {result.predicted_default_ms:.1f} ms by default{kept}",
            f"  ops that ran       {devices}",
            f"  outputs            differ by {result.output_difference:.1e} relative at most, "
            f"over {result.compared_steps} steps",
            f"  first step         {result.optimise_s:+.1f} s with the pass",
            f"  files              {result.picture}",
            *(f"                     {path}" for path in result.traces.values()),
            f"{result.title} speed-up over TF default: {result.speedup:.2f}x",
        ]
    )


def write_results(path: pathlib.Path, attached: Attached, results: Sequence[Result]) -> None:
    """Writes all that was seen, and on what, as JSON."""
    profiling.write_json(
        path,
        {
            "version": 1,
            "tensorflow": tf.__version__,
            "devices": list(attached.devices),
            "device_profile": dict(attached.device_profile),
            "results": [dataclasses.asdict(result) for result in results],
        },
    )


def base_config(config: tf.compat.v1.ConfigProto | None = None) -> tf.compat.v1.ConfigProto:
    """Returns what both sides have in common: TensorFlow's defaults, and room for two sessions."""
    result = v1.ConfigProto(allow_soft_placement=True)
    result.gpu_options.allow_growth = True
    if config is not None:
        result.MergeFrom(config)
    return result


def read_report(directory: pathlib.Path) -> tuple[dict[str, typing.Any], pathlib.Path]:
    """Returns the pass's first report on the largest graph in the directory, and its path.

    The pass reports on every graph that it is given: the initialiser and the step, and each of
    them again in TensorFlow's second round, where the plan is found to be in place.

    Raises:
      RuntimeError: if there is none.
    """
    paths = sorted(directory.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    if not paths:
        raise RuntimeError(f"the pass wrote no report into {directory}: it did not run")
    reports = [(json.loads(path.read_text()), path) for path in paths]
    return max(reports, key=lambda each: len(each[0]["nodes"]))


def _profile_costs(
    case: Case,
    workload: Workload,
    attached: Attached,
    config: tf.compat.v1.ConfigProto,
    stem: pathlib.Path,
    progress: Progress,
) -> pathlib.Path:
    """Writes what each op costs by default, and returns the file."""
    seen = attached.profile_ops(
        workload, config, case.profile_steps, warmup=_PROFILE_WARMUP, progress=progress
    )
    path = stem.with_name(f"{stem.name}.costs.json")
    costs_lib.write(path, seen.op_us, device_type=attached.device_type)
    return path


def _fresh_directory(path: pathlib.Path) -> pathlib.Path:
    """Returns the directory, empty: an earlier run's reports are not ours."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def _with_spread(median_ms: float, iqr_ms: float) -> str:
    return f"{median_ms:9.1f} ms, spread {iqr_ms:.1f} ms"
