"""Rows run again from the plans that they hold: which of them still say what they said."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Sequence

from go_bench.rows import OOM, Row
from go_bench.runner import Replayed, Suite
from go_bench.tables import Table

SIMULATED_TOLERANCE = 1e-6
MEASURED_TOLERANCE = 0.10

NO_PLAN = "no plan stored"
NOT_RUN = "the suite did not run it"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a row is worth now.

    Attributes:
      replayed: the row, and what it is now.
      differs: why the two do not agree, in words; "" if they do, or if the row was not run again.
    """

    replayed: Replayed
    differs: str


def replay(suite: Suite, rows: Sequence[Row], tolerance: float | None = None) -> Iterator[Verdict]:
    """Runs the rows again that have a plan, and judges each as soon as it is known.

    A simulated step time must be the same but for rounding. A measured one may differ by the
    tolerance and by both spreads together: it is another run on another day.

    Args:
      suite: the rows' own.
      rows: of one suite.
      tolerance: how far a step time may be from the stored one, as a share of it; None = 1e-6 for
        a simulated and 0.10 for a measured one.

    Returns:
      A verdict a row; those that the suite does not run come last.

    Raises:
      BadInput: the suite cannot replay.
    """
    with_plan = [row for row in rows if row.plan is not None]
    seen: set[int] = set()
    for replayed in suite.replay(with_plan) if with_plan else ():
        seen.add(id(replayed.row))
        yield Verdict(replayed=replayed, differs=differs(replayed, tolerance))
    for row in rows:
        if id(row) not in seen:
            why = NO_PLAN if row.plan is None else NOT_RUN
            yield Verdict(replayed=Replayed(row=row, skipped=why), differs="")


def differs(replayed: Replayed, tolerance: float | None = None) -> str:
    """Returns why a row does not say any more what it said, in words; "" if it does."""
    if replayed.skipped:
        return ""
    if replayed.changed:
        return replayed.changed
    before, now = replayed.row.step_s, replayed.step_s
    if before is None or now is None:
        return "" if before == now else f"{_step(before)} before, {_step(now)} now"
    if tolerance is None:
        tolerance = MEASURED_TOLERANCE if replayed.measured else SIMULATED_TOLERANCE
    allowed = tolerance * before
    if replayed.measured:
        allowed += (replayed.row.spread_s or 0.0) + (replayed.spread_s or 0.0)
    if abs(now - before) <= allowed:
        return ""
    return f"{_step(before)} before, {_step(now)} now ({now / before - 1:+.2%})"


def table(verdicts: Sequence[Verdict]) -> Table:
    """Returns a line a row."""
    return Table(
        title="replay",
        head=("workload", "devices", "method", "seed", "stored", "now", "verdict"),
        body=tuple(
            (
                verdict.replayed.row.workload,
                verdict.replayed.row.device_spec,
                verdict.replayed.row.method,
                str(verdict.replayed.row.seed),
                _step(verdict.replayed.row.step_s),
                "-" if verdict.replayed.skipped else _step(verdict.replayed.step_s),
                _verdict(verdict),
            )
            for verdict in verdicts
        ),
    )


def describe(verdicts: Sequence[Verdict]) -> str:
    """Returns the outcome in one line."""
    skipped = sum(bool(verdict.replayed.skipped) for verdict in verdicts)
    different = sum(bool(verdict.differs) for verdict in verdicts)
    text = f"{len(verdicts) - skipped} rows replayed, {different} differ"
    text += f", {skipped} not run again" * bool(skipped)
    ratios = [
        each.step_s / each.row.step_s
        for each in (verdict.replayed for verdict in verdicts)
        if each.measured and each.step_s and each.row.step_s
    ]
    # A machine that is slower today shows in all rows alike.
    return text + (
        f"; measured steps take {statistics.median(ratios):.2f} of what they took" if ratios else ""
    )


def _verdict(verdict: Verdict) -> str:
    if verdict.replayed.skipped:
        return f"not run again: {verdict.replayed.skipped}"
    if verdict.differs:
        return f"differs: {verdict.differs}"
    return "agrees" if verdict.replayed.measured else "same"


def _step(step_s: float | None) -> str:
    return OOM if step_s is None else f"{1e3 * step_s:.6g} ms"
