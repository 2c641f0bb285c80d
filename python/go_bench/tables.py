"""A summary as tables of text, whatever they are then printed as."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence

from go_bench import paper, summary
from go_bench.rows import OOM

_NONE = "-"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A table.

    Attributes:
      title: in words.
      head: of the columns; the first is of names, the others are of figures.
      body: the cells, row by row.
      note: what one must know to read it; "" = nothing.
    """

    title: str
    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    note: str = ""


def tables(result: Mapping[str, typing.Any], baseline: str | None) -> list[Table]:
    """Returns the tables of what `summary.summarize` returned, the most important first."""
    found = [] if baseline is None else [_speedups(result, baseline), *_steps(result, baseline)]
    found += _own(summary.own_figures(result))
    failures = result["failures"]
    if failures:
        body = [
            (method, where) for method, all_of in result["failures"].items() for where in all_of
        ]
        found.append(Table(title="without a step time", head=("method", "where"), body=tuple(body)))
    return [table for table in found if table.body]


def text(value: typing.Any) -> str:
    """Returns a figure for people: three digits, "-" for none."""
    if value is None:
        return _NONE
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _speedups(result: Mapping[str, typing.Any], baseline: str) -> Table:
    body = []
    for method, entries in result["detail"].items():
        detail = entries.get(baseline)
        if detail is None:
            continue
        over = result["speedup"].get(method, {}).get(baseline, {"n": 0})
        theirs = result["paper"].get(method, {}).get(baseline)
        body.append(
            (
                method,
                _ratio(over.get("geomean")),
                _ratio(over.get("min")),
                _ratio(detail["spread"]),
                str(over["n"]),
                str(detail["oom"]),
                str(detail["baseline_oom"]),
                f"{theirs['geomean']:.2f} (n {theirs['n']})" if theirs else _NONE,
            )
        )
    return Table(
        title=f"speed-up over {baseline}",
        head=("method", "geomean", "min", "spread", "n", OOM, f"{OOM} of baseline", "paper"),
        body=tuple(body),
        note=f"t_{baseline} / t_method, the median over seeds of each; n workloads, without those "
        f"where one of the two ran out of memory ({OOM}) or failed. Spread: of the geomean over "
        "seeds, between its quartiles. Paper: its own geomean on those of the n that it has.",
    )


def _steps(result: Mapping[str, typing.Any], baseline: str) -> list[Table]:
    """Returns a table a group: all methods, the fastest first."""
    groups: dict[str, list[Mapping[str, typing.Any]]] = {}
    for step in result["steps"]:
        groups.setdefault(step["group"], []).append(step)
    return [
        _without_empty_columns(
            Table(title=title, head=_STEP_HEAD, body=_step_body(steps, baseline), note=_note(steps))
        )
        for title, steps in groups.items()
    ]


_STEP_HEAD = (
    "method",
    "step [ms]",
    "spread [ms]",
    "seeds",
    "speed-up",
    "paper",
    "of bound",
    "peak [MB]",
    "evaluations",
    "search [s]",
    "compile [s]",
    "plan of",
)


def _step_body(
    steps: Sequence[Mapping[str, typing.Any]], baseline: str
) -> tuple[tuple[str, ...], ...]:
    ordered = sorted(steps, key=lambda step: (step["step_s"] is None, step["step_s"] or 0.0))
    return tuple(
        (
            step["method"],
            _failed(step["failed"]) if step["step_s"] is None else _ms(step["step_s"]),
            _ms(step["spread_s"]),
            f"{step['seeds']}" + (f" ({step['failed_seeds']} failed)" * bool(step["failed_seeds"])),
            _ratio(step["speedup"].get(baseline)),
            _ratio(step["paper"].get(baseline)),
            _ratio(step["over_bound"]),
            _NONE if step["peak_bytes"] is None else f"{step['peak_bytes'] / 1e6:.1f}",
            f"{step['evaluations']:g}" if step["evaluations"] else _NONE,
            text(step["search_s"] and float(step["search_s"])),
            text(step["compile_s"] and float(step["compile_s"])),
            ", ".join(step["plan_sources"]) or _NONE,
        )
        for step in ordered
    )


def _note(steps: Sequence[Mapping[str, typing.Any]]) -> str:
    theirs = paper.ROWS.get(steps[0]["workload"])
    if theirs is None or not any(step["paper"] for step in steps):
        return ""
    return "The paper's row has its label from its place in the table." * theirs.inferred


def _without_empty_columns(table: Table) -> Table:
    kept = [
        column
        for column in range(len(table.head))
        if column == 0 or any(row[column] != _NONE for row in table.body)
    ]
    return dataclasses.replace(
        table,
        head=tuple(table.head[column] for column in kept),
        body=tuple(tuple(row[column] for column in kept) for row in table.body),
    )


def _own(figures: Mapping[str, typing.Any]) -> list[Table]:
    """Returns the suite's figures: single ones, then each table of them."""
    single = [
        (name, text(value))
        for name, value in figures.items()
        if value is None or isinstance(value, (int, float, str))
    ]
    found = [Table(title="figures", head=("figure", "value"), body=tuple(single))]
    for name, value in figures.items():
        if not isinstance(value, Mapping) or not value:
            continue
        if all(isinstance(each, Mapping) for each in value.values()):
            columns = tuple(dict.fromkeys(column for each in value.values() for column in each))
            body = tuple(
                (str(key), *(text(each.get(column)) for column in columns))
                for key, each in value.items()
            )
            found.append(Table(title=name, head=(name, *columns), body=body))
        else:
            body = tuple((str(key), text(each)) for key, each in value.items())
            found.append(Table(title=name, head=(name, "value"), body=body))
    return found


def _failed(why: str) -> str:
    return why if why == OOM else f"failed: {why}"


def _ratio(value: float | str | None) -> str:
    return f"{value:.2f}" if isinstance(value, float) else value or _NONE


def _ms(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{1e3 * value:.1f}" if value >= 0.01 else f"{1e3 * value:.3f}"
