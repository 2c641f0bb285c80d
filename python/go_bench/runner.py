"""Runs a suite case by case, each row on the disk as soon as it is known."""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence

from go_bench import rows as rows_lib
from go_bench.rows import Row
from grappler_go import files
from grappler_go.errors import BadInput


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is asked for.

    Attributes:
      workloads: names; empty = all of the suite.
      methods: names; empty = all of the suite.
      devices: "auto", "gpu", "cluster" or a device profile.
      seeds: how many, at least 1.
      preset: sizes of the workloads.

    Raises:
      BadInput: no seeds, or a name given twice.
    """

    workloads: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    devices: str = "auto"
    seeds: int = 3
    preset: str = "cpu"

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise BadInput(f"--seeds {self.seeds}: must be at least 1")
        for flag, given in (("--workloads", self.workloads), ("--methods", self.methods)):
            for name in given:
                if given.count(name) > 1:
                    raise BadInput(f"{flag} {name}: given twice")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Replayed:
    """A row measured or simulated again from its plan.

    Attributes:
      row: the row as it stands in the file.
      step_s: the step time now; None where it runs out of memory.
      spread_s: of a measurement, the distance between its quartiles now.
      measured: whether the time was measured; a simulated one must be the same.
      skipped: why the row was not run again, in words; "" where it was.
      changed: what else is not as it was, in words: another graph, say. "" = nothing.
    """

    row: Row
    step_s: float | None = None
    spread_s: float | None = None
    measured: bool = False
    skipped: str = ""
    changed: str = ""


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

    def replay(self, rows: Sequence[Row]) -> Iterable[Replayed]:
        """Measures or simulates rows again, each from its plan; all of them have one.

        Raises BadInput with the suite's name where it cannot.
        """


def check_names(flag: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Refuses names that a suite does not know; `flag` is where they are from.

    Raises:
      BadInput: for the first of them.
    """
    for name in given:
        if name not in known:
            raise BadInput(f"{flag} {name}: unknown; known are {', '.join(known)}")


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
        is run again, whole. The file stays as it is until the first new row is known.
      progress: called with the case, its number and the number of cases, before each.

    Raises:
      BadInput: the file exists without `resume`, or is of other settings.
    """
    cases = suite.cases(settings)
    done, kept = _earlier(suite, settings, out, resume)
    for number, case in enumerate(cases):
        progress(case, number, len(cases))
        if case in done:
            continue
        added = False
        for row in suite.run(case, settings):
            if kept is not None:
                files.write_atomically(out, kept)
                kept = None
            rows_lib.append(
                out,
                dataclasses.replace(
                    row,
                    case=case,
                    device_spec=row.device_spec or settings.devices,
                    settings=dataclasses.asdict(settings),
                    last=False,
                ),
            )
            added = True
        if added:
            rows_lib.mark_last(out)


def _earlier(
    suite: Suite, settings: Settings, out: pathlib.Path, resume: bool
) -> tuple[set[str], str | None]:
    """Returns the cases that the file has whole, and its text without the others' rows.

    The text is None where the file may be added to as it is.
    """
    if not out.exists():
        return set(), None
    if not resume:
        raise BadInput(f"{out}: exists; --resume goes on with it")
    lines = rows_lib.read_lines(out)
    wanted = _plain(dataclasses.asdict(settings))
    for _, row in lines:
        if row.suite != suite.name:
            raise BadInput(f"{out}: field 'suite' is '{row.suite}', this run's is '{suite.name}'")
        for field, value in wanted.items():
            if row.settings.get(field) != value:
                raise BadInput(
                    f"{out}: field 'settings.{field}' is {row.settings.get(field)!r}, this run's "
                    f"is {value!r}"
                )
    complete = {row.case for _, row in lines if row.last}
    kept = "".join(f"{line}\n" for line, row in lines if row.case in complete)
    return complete, None if kept == files.read_text(out) else kept


def _plain(settings: Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    """Returns the settings as JSON has them: lists for tuples."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()
    }
