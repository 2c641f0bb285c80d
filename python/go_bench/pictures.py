"""Pictures of a file of rows: speed-ups, searches and memory, a panel a workload."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence

from matplotlib import figure, ticker
from matplotlib.axes import Axes

from go_bench import paper
from go_bench.draw import COLOURS
from go_bench.groups import Group, group, key_of, methods
from go_bench.rows import OOM, Row

_COLUMNS = 3
_PANEL_INCHES = 4.2
_LINE_INCHES = 0.2
_CURVE_INCHES = 3.0
_DPI = 130
_OURS = ("go", "go_policy")
_OURS_COLOUR, _OTHER_COLOUR = COLOURS[0], "#b8c4d0"
_STYLES = ("-", "--", ":")


def speedups(rows: Sequence[Row], baseline: str) -> bytes | None:
    """Returns a PNG of each method's speed-up over the baseline; None where there is none.

    The paper's own speed-up on the same row is a diamond. A method without a step time is named.
    """
    shown = [
        each
        for each in group(rows)
        if baseline in each.results and each.results[baseline].step_s is not None
    ]
    names = [name for name in methods(rows) if name != baseline]
    if not shown or not names:
        return None

    def draw(axes: Axes, each: Group) -> None:
        theirs = each.results[baseline].step_s
        assert theirs is not None
        _bars(
            axes,
            each,
            names,
            lambda name: None if (ours := each.results[name].step_s) is None else theirs / ours,
        )
        axes.axvline(1, color="black", linewidth=0.8)
        for line, name in enumerate(names):
            known = paper.speedup(each.workload, each.devices, name, baseline)
            if isinstance(known, float):
                axes.plot(known, line, "D", markersize=5, color="none", markeredgecolor="black")

    note = f"speed-up over {baseline} (t_{baseline} / t_method); ◇ in the paper"
    return _png(_panels(shown, draw, note, _LINE_INCHES * len(names)))


def peaks(rows: Sequence[Row]) -> bytes | None:
    """Returns a PNG of the fullest device's peak memory by method; None where none is known."""
    shown = [
        each
        for each in group(rows)
        if any(result.peak_bytes is not None for result in each.results.values())
    ]
    names = list(methods(rows))
    if not shown:
        return None

    def draw(axes: Axes, each: Group) -> None:
        _bars(
            axes,
            each,
            names,
            lambda name: None if (peak := each.results[name].peak_bytes) is None else peak / 1e6,
        )

    return _png(
        _panels(shown, draw, "peak memory of the fullest device [MB]", _LINE_INCHES * len(names))
    )


def searches(rows: Sequence[Row]) -> bytes | None:
    """Returns a PNG of the best step time over evaluations, a line a seed; None without any."""
    searched = [row for row in rows if row.curve]
    names = list(methods(searched))
    if not names:
        return None

    def draw(axes: Axes, each: Group) -> None:
        seen = set()
        for row in searched:
            if key_of(row) != each.key:
                continue
            number = names.index(row.method)
            # The best holds until the search ends; the axis, logarithmic, starts at 1.
            last, best_s = row.curve[-1]
            best = {max(count, 1): 1e3 * step_s for count, step_s in row.curve}
            best.setdefault(max(row.evaluations, last, 1), 1e3 * best_s)
            axes.step(
                list(best),
                list(best.values()),
                where="post",
                linewidth=1.2,
                color=COLOURS[number % len(COLOURS)],
                linestyle=_STYLES[number // len(COLOURS) % len(_STYLES)],
                label=None if row.method in seen else row.method,
            )
            seen.add(row.method)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
        axes.set_xlabel("evaluations")
        axes.set_ylabel("best step [ms]")
        axes.legend(fontsize="x-small", frameon=False)

    return _png(_panels(group(searched), draw, "best step found", _CURVE_INCHES))


def _panels(
    groups: Sequence[Group], draw: Callable[[Axes, Group], None], title: str, height: float
) -> figure.Figure:
    """Draws a panel a group; `height` in inches is that of what is in it."""
    columns = min(_COLUMNS, len(groups))
    lines = math.ceil(len(groups) / columns)
    picture = figure.Figure(
        figsize=(_PANEL_INCHES * columns + 1.0, (height + 0.9) * lines + 0.5),
        dpi=_DPI,
        layout="constrained",
    )
    picture.suptitle(title, fontsize="medium")
    grid = picture.subplots(lines, columns, squeeze=False)
    for axes in grid.flat[len(groups) :]:
        axes.set_visible(False)
    for axes, each in zip(grid.flat, groups, strict=False):
        axes.set_title(each.label, fontsize="small")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize="small")
        draw(axes, each)
    return picture


def _bars(
    axes: Axes, each: Group, names: Sequence[str], value: Callable[[str], float | None]
) -> None:
    """Draws a bar a method, from 0 on, with its figure; names those without a step time."""
    for line, name in enumerate(names):
        if name not in each.results:
            continue
        length = value(name)
        failed = each.results[name].failed
        if length is not None:
            axes.barh(line, length, 0.75, color=_OURS_COLOUR if name in _OURS else _OTHER_COLOUR)
        words = [] if length is None else [f"{length:.2f}" if length < 100 else f"{length:.0f}"]
        words += [OOM if failed == OOM else "failed"] if failed else []
        axes.text(
            1.01,
            line,
            " ".join(words),
            transform=axes.get_yaxis_transform(),
            verticalalignment="center",
            fontsize="x-small",
            color=COLOURS[1] if failed else "black",
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.08)


def _png(picture: figure.Figure) -> bytes:
    out = io.BytesIO()
    picture.savefig(out, format="png")
    return out.getvalue()
