"""Runs a suite case by case, each row on the disk as soon as it is known."""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence

from go_bench import rows as rows_lib
from go_bench.rows import Row
from grappler_go.errors import BadInput


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is asked for.

    Attributes:
      workloads: names; empty = all of the suite.
      methods: names; empty = all of the suite.
      devices: "auto", "gpu", "cluster" or a device profile.
      seeds: how many.
      preset: sizes of the workloads.
    """

    workloads: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    devices: str = "auto"
    seeds: int = 3
    preset: str = "cpu"


class Suite(typing.Protocol):
    """A set of measurements with one question."""

    @property
    def name(self) -> str:
        """What `--suite` calls it."""

    @property
    def description(self) -> str:
        """Its question, for the list of suites."""

    def cases(self, settings: Settings) -> Sequence[str]:
        """Returns the pieces of the run in order; raises BadInput for settings out of place."""

    def run(self, case: str, settings: Settings) -> Iterable[Row]:
        """Runs one case."""

    def summarize(self, rows: Sequence[Row]) -> Mapping[str, typing.Any]:
        """Returns the suite's own figures."""


def run(
    suite: Suite,
    settings: Settings,
    out: pathlib.Path,
    *,
    resume: bool = False,
    progress: Callable[[str, int, int], object] = lambda case, done, all_cases: None,
) -> None:
    """Runs the suite's cases that the file does not have yet.

    Args:
      suite: what to run.
      settings: how.
      out: file of rows; they are added one by one.
      resume: go on with the file of an earlier run of the same settings. A case that it broke off
        is run again, whole.
      progress: called with the case, its number and the number of cases, before each.

    Raises:
      BadInput: the file exists without `resume`, or is of other settings.
    """
    done = _done(suite, settings, out, resume)
    cases = suite.cases(settings)
    for number, case in enumerate(cases):
        progress(case, number, len(cases))
        if case in done:
            continue
        # One row late, so that the last can say that it is: a case without it was broken off.
        held: Row | None = None
        for row in suite.run(case, settings):
            if held is not None:
                rows_lib.append(out, held)
            held = dataclasses.replace(row, case=case, settings=dataclasses.asdict(settings))
        if held is not None:
            rows_lib.append(out, dataclasses.replace(held, extra={**held.extra, "last": True}))


def _done(suite: Suite, settings: Settings, out: pathlib.Path, resume: bool) -> set[str]:
    if not out.exists():
        return set()
    if not resume:
        raise BadInput(f"{out}: exists; --resume goes on with it")
    rows_lib.drop_torn_line(out)
    wanted = _plain(dataclasses.asdict(settings))
    rows = rows_lib.read(out)
    for row in rows:
        if row.suite != suite.name:
            raise BadInput(f"{out}: field 'suite' is '{row.suite}', this run's is '{suite.name}'")
        for field, value in wanted.items():
            if _plain(row.settings).get(field) != value:
                raise BadInput(
                    f"{out}: field 'settings.{field}' is {row.settings.get(field)!r}, this run's "
                    f"is {value!r}"
                )
    # The last case may have been broken off between two of its rows.
    complete = {row.case for row in rows}
    if rows and not rows[-1].extra.get("last"):
        last = rows[-1].case
        complete.discard(last)
        _keep(out, [row for row in rows if row.case != last])
    return complete


def _keep(out: pathlib.Path, rows: Sequence[Row]) -> None:
    aside = out.with_name(f".{out.name}.kept")
    aside.unlink(missing_ok=True)
    aside.touch()
    for row in rows:
        rows_lib.append(aside, row)
    aside.replace(out)


def _plain(settings: Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    """Returns the settings as JSON has them: lists for tuples."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()
    }
