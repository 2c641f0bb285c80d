"""Figures of a file of rows: speed-ups, and what the suite itself says of its rows."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import typing
from collections.abc import Mapping, Sequence

from go_bench.rows import Row
from go_bench.runner import Suite


def summarize(suite: Suite, rows: Sequence[Row]) -> dict[str, typing.Any]:
    """Returns `speedup[METHOD][BASELINE] = {"geomean", "min", "n"}`, `rows`, and the suite's own.

    A speed-up is the baseline's step time over the method's, on the same workload, mode and number
    of devices, both the median over seeds.
    """
    return {
        "suite": suite.name,
        "speedup": speedups(rows),
        **suite.summarize(rows),
        "rows": [dataclasses.asdict(row) for row in rows],
    }


def speedups(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """Returns the speed-up of each method over each other."""
    steps = _medians(rows)
    methods = list(dict.fromkeys(row.method for row in rows))
    table: dict[str, dict[str, dict[str, float]]] = {}
    for method in methods:
        for baseline in methods:
            ratios = [
                times[baseline] / times[method]
                for times in steps.values()
                if baseline in times and method in times and times[method] > 0
            ]
            if method == baseline or not ratios:
                continue
            table.setdefault(method, {})[baseline] = {
                "geomean": math.exp(statistics.fmean(map(math.log, ratios))),
                "min": min(ratios),
                "n": len(ratios),
            }
    return table


def _medians(rows: Sequence[Row]) -> dict[tuple, dict[str, float]]:
    """Returns the step time by method, by workload, mode and number of devices."""
    samples: dict[tuple, dict[str, list[float]]] = {}
    for row in rows:
        if row.step_s is not None and row.step_s > 0:
            key = (row.workload, row.mode, len(row.devices))
            samples.setdefault(key, {}).setdefault(row.method, []).append(row.step_s)
    return {
        key: {method: statistics.median(times) for method, times in methods.items()}
        for key, methods in samples.items()
    }


def to_json(summary: Mapping[str, typing.Any]) -> str:
    """Returns the summary as one JSON object."""
    return json.dumps(summary, indent=1)


def to_markdown(summary: Mapping[str, typing.Any], baseline: str) -> str:
    """Returns tables: the suite's figures, then each method's speed-up over the baseline."""
    figures = [
        [name, _text(value)]
        for name, value in summary.items()
        if isinstance(value, (int, float, str)) and name != "suite"
    ]
    lines = [f"## {summary['suite']}", "", *_table(["figure", "value"], figures)]
    for name, value in summary.items():
        if name in ("speedup", "rows") or not isinstance(value, Mapping) or not value:
            continue
        first = next(iter(value.values()))
        if isinstance(first, Mapping):
            body = [[key, *map(_text, each.values())] for key, each in value.items()]
            lines += ["", *_table([name, *first], body)]
        else:
            lines += ["", *_table([name, "value"], [[k, _text(v)] for k, v in value.items()])]
    over = [
        [method, *(_text(entry[key]) for key in ("geomean", "min", "n"))]
        for method, entries in summary["speedup"].items()
        for entry in [entries.get(baseline)]
        if entry is not None
    ]
    if over:
        lines += ["", *_table([f"speed-up over {baseline}", "geomean", "min", "n"], over)]
    return "\n".join(lines) + "\n"


def _text(value: typing.Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in [head, *body]) for k in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        return "| " + " | ".join(padded) + " |"

    return [line(head), "|" + "|".join("-" * (width + 2) for width in widths) + "|"] + [
        line(row) for row in body
    ]
