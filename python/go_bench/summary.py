"""Figures of a file of rows: speed-ups, and what the suite itself says of its rows."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import typing
from collections.abc import Mapping, Sequence

from go_bench import paper
from go_bench.groups import Group, Result, group, methods
from go_bench.rows import Row
from go_bench.runner import Suite
from grappler_go.errors import BadInput

DEFAULT_BASELINES = ("tf_default", "single_device", "human_expert")

Pairs = dict[str, dict[str, dict[str, typing.Any]]]


def summarize(suite: Suite, rows: Sequence[Row]) -> dict[str, typing.Any]:
    """Returns all that the rows amount to, in what JSON has.

    Keys, besides the suite's own figures:
      speedup: `[METHOD][BASELINE] = {"geomean", "min", "n"}`: the baseline's step time over the
        method's, both the median over seeds, in the groups of one workload, mode, preset and
        devices where both have one.
      detail: likewise `{"spread", "oom", "baseline_oom"}`: how far the geomean moves between seeds
        (the distance between its quartiles; null for one seed), and in how many of the groups that
        have both methods the method, or else the baseline alone, has no step time. Those are not
        in `speedup`.
      paper: likewise the paper's `{"geomean", "min", "n"}` on those groups that it has.
      steps: an entry a group and method.
      failures: where a method has no step time, by method.
      warnings: what makes the rows less than comparable, in words.
      rows: the rows.
    """
    groups = group(rows)
    own = dict(suite.summarize(rows))
    ours = {
        "suite": suite.name,
        "speedup": speedups(rows),
        "detail": details(rows),
        "paper": paper_speedups(rows),
        "steps": [_step(each, method) for each in groups for method in each.results],
        "failures": failures(rows),
        "warnings": warnings(rows),
    }
    for name in own.keys() & {*ours, "rows"}:
        raise ValueError(f"summarize: suite '{suite.name}' has a figure of its own called '{name}'")
    return {**ours, **own, "rows": [dataclasses.asdict(row) for row in rows]}


def own_figures(summary: Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    """Returns the figures that only the suite has."""
    return {name: value for name, value in summary.items() if name not in _SHARED}


_SHARED = ("suite", "speedup", "detail", "paper", "steps", "failures", "warnings", "rows")


def baseline_of(rows: Sequence[Row], wanted: str | None, where: str) -> str | None:
    """Returns the baseline to print speed-ups over; None where the rows have no step times.

    Args:
      rows: the rows.
      wanted: a method; None = the first of `DEFAULT_BASELINES` that there is, or the first method.
      where: the file, for the message.

    Raises:
      BadInput: no row is of this method.
    """
    known = methods(rows)
    if wanted is None:
        return next((name for name in (*DEFAULT_BASELINES, *known) if name in known), None)
    if wanted not in known:
        others = ", ".join(known) or "none"
        raise BadInput(f"--baseline {wanted}: no such method in {where}; there are {others}")
    return wanted


def speedups(rows: Sequence[Row]) -> Pairs:
    """Returns the speed-up of each method over each other, where any group has both."""
    table: Pairs = {}
    for method, baseline, groups in _pairs(rows):
        ratios = [ratio for each in groups if (ratio := _ratio(each, method, baseline))]
        if ratios:
            table.setdefault(method, {})[baseline] = _over(ratios)
    return table


def details(rows: Sequence[Row]) -> Pairs:
    """Returns the spread of each speed-up, and how many groups it leaves out for want of a time."""
    table: Pairs = {}
    for method, baseline, groups in _pairs(rows):
        lacking = [each for each in groups if each.results[method].step_s is None]
        lacking_baseline = [
            each for each in groups if each not in lacking and each.results[baseline].step_s is None
        ]
        table.setdefault(method, {})[baseline] = {
            "spread": _spread(groups, method, baseline),
            "oom": len(lacking),
            "baseline_oom": len(lacking_baseline),
        }
    return table


def paper_speedups(rows: Sequence[Row]) -> Pairs:
    """Returns the paper's speed-ups in the groups where both it and the rows have one."""
    table: Pairs = {}
    for method, baseline, groups in _pairs(rows):
        ratios = [
            theirs
            for each in groups
            if _ratio(each, method, baseline) is not None
            and isinstance(
                theirs := paper.speedup(each.workload, each.devices, method, baseline), float
            )
        ]
        if ratios:
            table.setdefault(method, {})[baseline] = _over(ratios)
    return table


def failures(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Returns where a method has no step time with some seed, in words, by method."""
    found: dict[str, list[str]] = {}
    for each in group(rows):
        for method, result in each.results.items():
            if result.failures:
                why = ", ".join(dict.fromkeys(result.failures.values()))
                seeds = len(result.by_seed) + len(result.failures)
                share = f" with {len(result.failures)} of {seeds} seeds" if seeds > 1 else ""
                found.setdefault(method, []).append(f"{each.label}: {why}{share}")
    return found


def warnings(rows: Sequence[Row]) -> list[str]:
    """Returns what makes the rows less than comparable, or less than all there should be."""
    found = [
        f"{each.label}: rows of {len(each.fingerprints)} graphs: {', '.join(each.fingerprints)}"
        for each in group(rows)
        if len(each.fingerprints) > 1
    ]
    for package in sorted({name for row in rows for name in row.versions}):
        seen = list(dict.fromkeys(row.versions.get(package, "none") for row in rows))
        if len(seen) > 1:
            found.append(f"rows of {len(seen)} versions of {package}: {', '.join(seen)}")
    complete = {row.case for row in rows if row.last}
    broken_off = dict.fromkeys(row.case for row in rows if row.case not in complete)
    return [*found, *(f"case {case}: broken off; --resume runs it again" for case in broken_off)]


def to_json(summary: Mapping[str, typing.Any]) -> str:
    """Returns the summary as one JSON object; a figure that is no number is null there."""
    return json.dumps(_finite(summary), indent=1, allow_nan=False)


def _pairs(rows: Sequence[Row]) -> list[tuple[str, str, list[Group]]]:
    """Returns each method with each other, and the groups that have both."""
    groups = group(rows)
    pairs = [
        (method, baseline, [each for each in groups if {method, baseline} <= each.results.keys()])
        for method in methods(rows)
        for baseline in methods(rows)
        if method != baseline
    ]
    return [pair for pair in pairs if pair[2]]


def _ratio(each: Group, method: str, baseline: str) -> float | None:
    ours, theirs = each.results[method].step_s, each.results[baseline].step_s
    return None if ours is None or theirs is None else theirs / ours


def _over(ratios: Sequence[float]) -> dict[str, typing.Any]:
    return {"geomean": _geomean(ratios), "min": min(ratios), "n": len(ratios)}


def _geomean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _spread(groups: Sequence[Group], method: str, baseline: str) -> float | None:
    """Returns the distance between the quartiles of the geomean over seeds; None for one seed."""
    pairs = [
        (ours, each.results[method].by_seed, theirs)
        for each in groups
        if (ours := each.results[method].step_s) is not None
        and (theirs := each.results[baseline].step_s) is not None
    ]
    if not pairs:
        return None
    seeds = sorted({seed for _, by_seed, _ in pairs for seed in by_seed})
    # A group without this seed (its method has none, or ran out of memory) stays at its median.
    geomeans = [
        _geomean([theirs / by_seed.get(seed, ours) for ours, by_seed, theirs in pairs])
        for seed in seeds
    ]
    if len(geomeans) < 2:
        return None
    low, _, high = statistics.quantiles(geomeans, n=4, method="inclusive")
    return high - low


def _step(each: Group, method: str) -> dict[str, typing.Any]:
    result: Result = each.results[method]
    return {
        "group": each.label,
        "workload": each.workload,
        "mode": each.mode,
        "preset": each.preset,
        "device_spec": each.device_spec,
        "devices": each.devices,
        "method": method,
        "step_s": result.step_s,
        "spread_s": result.spread_s,
        "seeds": len(result.by_seed) + len(result.failures),
        "failed": result.failed,
        "failed_seeds": len(result.failures),
        "speedup": {
            baseline: ratio
            for baseline in each.results
            if (ratio := _ratio(each, method, baseline)) is not None
        },
        "paper": {
            baseline: theirs
            for baseline in each.results
            if (theirs := paper.speedup(each.workload, each.devices, method, baseline)) is not None
        },
        "over_bound": result.step_s / each.bound_s if result.step_s and each.bound_s else None,
        "peak_bytes": result.peak_bytes,
        "evaluations": result.evaluations,
        "search_s": result.search_s,
        "compile_s": result.compile_s,
        "plan_sources": list(result.plan_sources),
    }


def _finite(value: typing.Any) -> typing.Any:
    if isinstance(value, Mapping):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
