"""Fitting a plan to one model by measuring: search on paper, measure the best, learn, repeat.

What is measured corrects the cost model: transfers are scaled to what predictions and measurements
agree on best, and the search starts again. The winner is measured once more against TensorFlow's
default in sessions of its own; unless it gains beyond doubt, the default is kept.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

import grappler_go
from go_bench import capture, fingerprint, measure
from go_bench.attached import Attached
from go_bench.demo_lib import base_config
from go_bench.workloads import Workload
from grappler_go import costs as costs_lib
from grappler_go import files
from grappler_go.errors import BadInput

_FORMAT = 1
# Transfers may take so many times what the calibration says.
_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
_LINK_FIELDS = ("latency_us", "busy_us", "wake_us")
_CANDIDATES = "policy,critical_path,m_etf,heft,celeritas,m_topo,single_device"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How a plan is fitted.

    Attributes:
      budget: plans that are measured at most.
      together: plans measured in turn in one run, beside the default.
      rounds: steps of each in such a run.
      final_rounds: steps of the winner and of the default at the end.
      profile_steps: traced steps that op times are taken from.
      confidence: of the winner's gain, or the default is kept.
      difference: largest relative difference of outputs that is allowed.
      seed: of all searches.
    """

    budget: int = 24
    together: int = 4
    rounds: int = 5
    final_rounds: int = 15
    profile_steps: int = 5
    confidence: float = 0.95
    difference: float = 1e-4
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """One measured plan.

    Attributes:
      key: of the plan's decisions.
      source: who proposed it.
      predicted: its speed-up over the default by the simulator, when it was proposed.
      speedup: measured, t_default / t_plan of one run; None where the run failed.
      default_s, step_s: the medians behind it.
      difference: of the outputs, relative.
      failure: why the run failed, "" if it did not.
    """

    key: str
    source: str
    predicted: float
    speedup: float | None
    default_s: float | None = None
    step_s: float | None = None
    difference: float | None = None
    failure: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a fitting ended with.

    Attributes:
      plan: the plan to use; None where the default is kept.
      reason: why, in words.
      speedup: of the last measurement, t_default / t_plan; its lower bound.
      low: the lower bound of the speed-up.
      measured: every plan measured, in order.
      factor: by how much transfers take longer than calibrated.
    """

    plan: grappler_go.Plan | None
    reason: str
    speedup: float
    low: float
    measured: tuple[Measured, ...]
    factor: float


def finetune(
    workload: Workload,
    attached: Attached,
    out: pathlib.Path,
    settings: Settings,
    *,
    progress: Callable[[str], object] = lambda line: None,
) -> Outcome:
    """Fits a plan; writes measurements.jsonl, plan.json and plan.html into the directory `out`.

    With the directory of an earlier run nothing is measured twice.

    Raises:
      BadInput: the directory is of another model or other devices, or cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    config = base_config()
    costs = out / "costs.json"
    progress("profiling")
    seen = attached.profile_ops(workload, config, settings.profile_steps)
    costs_lib.write(costs, seen.op_us, device_type=attached.device_type)
    captured = capture.capture(workload, attached.target, config)
    study = _Study(captured, attached, str(costs))
    log = _Log(out / "measurements.jsonl", study.fingerprint)
    with_plan = dict(log.plans)
    while len(log.measured) < settings.budget:
        wanted = min(settings.together, settings.budget - len(log.measured))
        proposals = study.propose(wanted, log, settings)
        if not proposals:
            progress("the search finds no more plans")
            break
        for each in _measure(workload, attached, proposals, out, settings):
            log.add(each, proposals[each.key][0])
            with_plan[each.key] = proposals[each.key][0]
            progress(_line(each, len(log.measured), settings.budget))
        study.correct(log.measured, with_plan)
    outcome = _guard(workload, attached, study, log, with_plan, out, settings)
    if outcome.plan is not None:
        files.write_atomically(out / "plan.json", outcome.plan.json)
        page = grappler_go.explain(outcome.plan).to_html()
        files.write_atomically(out / "plan.html", page)
    return outcome


class _Study:
    """A captured graph, its costs as corrected so far, and the searches on it."""

    def __init__(self, captured: capture.Captured, attached: Attached, costs: str):
        self._captured, self._costs = captured, costs
        self._profile = dict(attached.device_profile)
        self._round = 0
        self.factor = 1.0
        self.graph = self._open(1.0)
        self.fingerprint = fingerprint.fingerprint(self.graph)

    def _open(self, factor: float) -> grappler_go.OpGraph:
        profile = json.dumps(scaled_links(self._profile, factor))
        return self._captured.open(profile=profile, costs=self._costs)

    def propose(self, count: int, log: _Log, settings: Settings) -> dict[str, tuple[str, float]]:
        """Returns up to `count` plans not measured yet: JSON and predicted speed-up, by key."""
        found: dict[str, tuple[str, float]] = {}
        for attempt in range(3 * count):
            if len(found) == count:
                break
            options: dict[str, typing.Any] = {
                "candidates": _CANDIDATES,
                "seed": settings.seed + self._round,
                "keep_default": False,
                # One in four without an order: edges cost, too.
                "tasks": "placement" if self._round % 4 == 3 else "placement,scheduling",
            }
            if attempt >= 2 * count:  # Nothing new: the list schedulers' own, one by one.
                names = _CANDIDATES.split(",")
                options |= {"candidates": names[attempt % len(names)], "search": 0}
            self._round += 1
            text = self.graph.choose(**options)
            report = json.loads(text)
            key = plan_key(report)
            if not report["applied"] or key in found or key in log.keys:
                continue
            found[key] = (text, report["incoming_step_us"] / report["predicted_step_us"])
        return found

    def correct(self, measured: Sequence[Measured], plans: Mapping[str, str]) -> None:
        """Scales transfers to where predictions are nearest to what was measured."""
        known = [each for each in measured if each.speedup is not None]
        if len(known) < 3:
            return
        seen = np.log([typing.cast(float, each.speedup) for each in known])
        errors = {}
        for factor in _FACTORS:
            graph = self._open(factor)
            predicted = np.log([predicted_speedup(graph, plans[each.key]) for each in known])
            errors[factor] = float(np.median(np.abs(predicted - seen)))
        best = min(errors, key=lambda factor: (errors[factor], abs(np.log(factor))))
        if best != self.factor:
            self.factor = best
            self.graph = self._open(best)


def scaled_links(profile: Mapping[str, typing.Any], factor: float) -> dict[str, typing.Any]:
    """Returns a device profile whose transfers take `factor` times as long."""
    links = []
    for link in profile.get("links", []):
        scaled = {
            name: value * factor if name in _LINK_FIELDS else value for name, value in link.items()
        }
        for name in link:
            if name.endswith("gb_per_s"):
                scaled[name] = link[name] / factor
            elif name.endswith("us_per_byte"):
                scaled[name] = link[name] * factor
        links.append(scaled)
    return {**profile, "links": links}


def predicted_speedup(graph: grappler_go.OpGraph, plan: str) -> float:
    """Returns the simulated step of the incoming graph over that of a plan of this graph."""
    report = json.loads(plan)
    index = {name: number for number, name in enumerate(graph.names)}
    device_of = [graph.devices.index(name) for name in report["devices"]]
    placement = graph.heuristic("incoming").copy()
    priority = np.zeros(graph.num_nodes, np.int32)
    for node in report["nodes"]:
        placement[index[node["name"]]] = device_of[node["device"]]
        priority[index[node["name"]]] = node["priority"]
    own = graph.simulate(placement[None], priority[None] if priority.any() else None)
    incoming = graph.simulate(graph.heuristic("incoming")[None])
    return float(incoming.step_us[0] / own.step_us[0])


def plan_key(report: Mapping[str, typing.Any]) -> str:
    """Returns a digest of a plan's decisions."""
    decisions = [
        (node["name"], node["device"], node["fusion"], node["priority"]) for node in report["nodes"]
    ]
    text = json.dumps([report["devices"], sorted(decisions)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class _Log:
    """The measurements of a run, on disk after each."""

    def __init__(self, path: pathlib.Path, graph: str):
        self._path, self._graph = path, graph
        self.measured: list[Measured] = []
        self.plans: dict[str, str] = {}
        self._lines: list[str] = []
        if path.exists():
            for number, line in enumerate(files.read_text(path).splitlines(), 1):
                self._read(line, number)

    @property
    def keys(self) -> set[str]:
        return {each.key for each in self.measured}

    def add(self, measured: Measured, plan: str) -> None:
        self.measured.append(measured)
        self.plans[measured.key] = plan
        fields = dataclasses.asdict(measured)
        self._lines.append(
            json.dumps({"format": _FORMAT, "graph": self._graph, **fields, "plan": plan})
        )
        files.write_atomically(self._path, "\n".join(self._lines) + "\n")

    def _read(self, line: str, number: int) -> None:
        where = f"{self._path}: line {number}"
        try:
            fields = json.loads(line)
            version, graph = fields.pop("format"), fields.pop("graph")
            plan = fields.pop("plan")
            measured = Measured(**fields)
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{where}: not a measurement: {error}") from error
        if version != _FORMAT:
            raise BadInput(f"{where}: field 'format' is {version}, this program reads {_FORMAT}")
        if graph != self._graph:
            raise BadInput(
                f"{where}: field 'graph' is {graph}, the model's graph on these devices is "
                f"{self._graph}; take another directory"
            )
        self.measured.append(measured)
        self.plans[measured.key] = plan
        self._lines.append(line)


def _measure(
    workload: Workload,
    attached: Attached,
    proposals: Mapping[str, tuple[str, float]],
    out: pathlib.Path,
    settings: Settings,
) -> list[Measured]:
    """Measures plans in turn; where that fails, each by itself, so that one fault stays one."""
    try:
        return _in_turn(workload, attached, proposals, out, settings.rounds)
    except (tf.errors.OpError, grappler_go.ClusterError) as error:
        if len(proposals) == 1:
            (key,) = proposals
            text, predicted = proposals[key]
            return [
                Measured(
                    key=key,
                    source=json.loads(text)["source"],
                    predicted=predicted,
                    speedup=None,
                    failure=" ".join(str(error).split())[:200],
                )
            ]
    results = []
    for key, proposal in proposals.items():
        results += _measure(workload, attached, {key: proposal}, out, settings)
    return results


def _in_turn(
    workload: Workload,
    attached: Attached,
    proposals: Mapping[str, tuple[str, float]],
    out: pathlib.Path,
    rounds: int,
) -> list[Measured]:
    measured = _compare(workload, attached, {k: v[0] for k, v in proposals.items()}, out, rounds)
    default = measured[_DEFAULT]
    return [
        Measured(
            key=key,
            source=json.loads(text)["source"],
            predicted=predicted,
            speedup=default.median_s / measured[key].median_s,
            default_s=default.median_s,
            step_s=measured[key].median_s,
            difference=measure.output_difference(default.outputs, measured[key].outputs),
        )
        for key, (text, predicted) in proposals.items()
    ]


_DEFAULT = "default"


def _compare(
    workload: Workload,
    attached: Attached,
    plans: Mapping[str, str],
    out: pathlib.Path,
    rounds: int,
) -> dict[str, measure.Measurement]:
    """Measures plans and, as "default", the step without the pass."""
    configs = {_DEFAULT: base_config()}
    folder = out / "plans"
    folder.mkdir(exist_ok=True)
    for key, text in plans.items():
        path = folder / f"{key}.json"
        files.write_atomically(path, text)
        configs[key] = base_config(
            grappler_go.session_config(
                plan=str(path.resolve()),
                profile=json.dumps(dict(attached.device_profile)),
                fail_on_error=True,
            )
        )
    return measure.compare(workload, attached.target, configs, rounds=rounds, warmup=2, checked=1)


def _guard(
    workload: Workload,
    attached: Attached,
    study: _Study,
    log: _Log,
    plans: Mapping[str, str],
    out: pathlib.Path,
    settings: Settings,
) -> Outcome:
    """Measures the winner and the default afresh; keeps the default where a gain is in doubt."""
    known = [
        each
        for each in log.measured
        if each.speedup is not None and (each.difference or 0.0) <= settings.difference
    ]
    outcome = functools.partial(Outcome, measured=tuple(log.measured), factor=study.factor)
    if not known or max(typing.cast(float, each.speedup) for each in known) <= 1:
        reason = "no plan was measured to be faster than the default"
        return outcome(plan=None, reason=reason, speedup=1.0, low=1.0)
    best = max(known, key=lambda each: typing.cast(float, each.speedup))
    again = _compare(workload, attached, {best.key: plans[best.key]}, out, settings.final_rounds)
    default, ours = again[_DEFAULT], again[best.key]
    speedup = default.median_s / ours.median_s
    low = lower_bound(default.steps_s, ours.steps_s, settings.confidence, settings.seed)
    words = (
        f"{1e3 * default.median_s:.4g} -> {1e3 * ours.median_s:.4g} ms a step, {speedup:.2f}x, "
        f"above {low:.2f}x with {settings.confidence:.0%} confidence"
    )
    if low <= 1:
        reason = f"the default is kept: the gain of the best plan is in doubt ({words})"
        return outcome(plan=None, reason=reason, speedup=speedup, low=low)
    plan = grappler_go.Plan(plans[best.key])
    return outcome(plan=plan, reason=words, speedup=speedup, low=low)


def lower_bound(
    default_s: Sequence[float], ours_s: Sequence[float], confidence: float, seed: int = 0
) -> float:
    """Returns what the ratio of the medians is above with this confidence, by bootstrap."""
    random = np.random.default_rng(seed)
    default, ours = np.asarray(default_s), np.asarray(ours_s)
    draws = 2000
    a = np.median(random.choice(default, (draws, len(default))), axis=1)
    b = np.median(random.choice(ours, (draws, len(ours))), axis=1)
    return float(np.quantile(a / b, 1 - confidence))


def _line(each: Measured, done: int, budget: int) -> str:
    seen = f"failed: {each.failure}" if each.speedup is None else f"{each.speedup:.2f}x measured"
    return f"{done}/{budget}: {each.source}: {each.predicted:.2f}x predicted, {seen}"
