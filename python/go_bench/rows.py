"""Result rows: one JSON object a line, with all that is needed to understand and repeat it."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
import typing
from collections.abc import Mapping

import numpy as np
from absl import logging

from go_bench import row_fields, stored_plan
from go_bench.stored_plan import StoredPlan
from grappler_go import files
from grappler_go.errors import BadInput

VERSION = 2
_OLDEST = 1

OOM = "OOM"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One method on one workload.

    Attributes:
      suite: the suite that made it.
      case: what was run as one piece; `--resume` skips the cases that are complete.
      workload, preset, mode: the graph's name, its sizes, and "train" or "forward".
      fingerprint: of the graph (go_bench/fingerprint.py); "" where the suite has none.
      nodes: ops of the graph.
      devices: full names.
      device_spec: the devices as they were asked for, "p100:4" or "cluster". Rows are compared
        only where it is equal. "" = as in the run's settings.
      method: how the plan was made.
      plan_source: the planner whose plan the method took, where it had several.
      seed: of the method.
      step_s: step time in seconds, the median; None where the step ran out of memory or was not
        timed.
      spread_s: distance between its quartiles.
      n: number of steps.
      failure: why a step that was to be timed has no time, in words; "" = out of memory.
      timed: whether the row is about a step's time at all.
      peak_bytes: peak memory of each device's step, in the order of `devices`.
      bound_s: no placement can be faster in the simulator.
      evaluations: simulated or measured steps that the method asked for.
      search_s: what the method took to find its plan.
      compile_s: what the first step took longer than the others.
      plan: the plan that was measured, by which `replay` measures it again.
      curve: the search: evaluations so far, and the best step time in seconds then.
      extra: what else the suite says.
      versions: of the software.
      settings: of the run.
      last: the last row of its case, which is thereby complete. The runner sets it.
    """

    suite: str
    case: str
    workload: str
    preset: str
    mode: str
    fingerprint: str = ""
    nodes: int
    devices: tuple[str, ...]
    device_spec: str = ""
    method: str
    plan_source: str = ""
    seed: int = 0
    step_s: float | None = None
    spread_s: float | None = None
    n: int = 0
    failure: str = ""
    timed: bool = True
    peak_bytes: tuple[float, ...] = ()
    bound_s: float | None = None
    evaluations: int = 0
    search_s: float | None = None
    compile_s: float | None = None
    plan: StoredPlan | None = None
    curve: tuple[tuple[int, float], ...] = ()
    extra: Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=lambda: versions())
    settings: Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)
    last: bool = False

    @property
    def failed(self) -> str:
        """Why a step that was to be timed has no time; "" for a step with one."""
        return "" if self.step_s is not None or not self.timed else self.failure or OOM


def versions() -> dict[str, str]:
    """Returns the versions of what made a row."""
    packages = {"python": platform.python_version()}
    for package in ("tensorflow", "numpy", "grappler-go"):
        try:
            packages[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            packages[package] = "checkout"
    return packages


def append(path: pathlib.Path, row: Row) -> None:
    """Adds a row to the file and has it on the disk before it returns.

    Raises:
      BadInput: the file cannot be written, or could not be read again for what the row has.
    """
    line = _line(row)
    parse(line, f"row {row.workload}/{row.method}")
    try:
        with path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def mark_last(path: pathlib.Path) -> None:
    """Sets `last` of the file's last row, in place: no moment has a damaged line.

    Raises:
      BadInput: the file cannot be written.
    """
    try:
        with path.open("r+b") as file:
            file.seek(-len(_NOT_LAST), os.SEEK_END)
            if file.read() != _NOT_LAST:
                raise ValueError(f"mark_last: {path} does not end with a row that is not the last")
            file.seek(-len(_NOT_LAST), os.SEEK_END)
            file.write(_LAST)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


# A row ends with its field `last`; both ends are of one length.
_NOT_LAST = b'"last": false}\n'
_LAST = b'"last": true }\n'


def read(path: pathlib.Path) -> list[Row]:
    """Returns the rows of a file; a last line that a kill cut short is left out, with a warning.

    Raises:
      BadInput: the file cannot be read, or a line is no row.
    """
    return [row for _, row in read_lines(path)]


def read_lines(path: pathlib.Path) -> list[tuple[str, Row]]:
    """Returns each row's own line, without its end, and the row; else as `read`."""
    rows = []
    lines = files.read_text(path).split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        if number == len(lines) and not _is_whole(line):  # Complete lines end with a line break.
            logging.warning("%s: cut short, left out", where)
            continue
        rows.append((line, parse(line, where)))
    return rows


def read_suite(path: pathlib.Path) -> list[Row]:
    """Returns the rows of a file of one suite, at least one.

    Raises:
      BadInput: as `read`; or no rows; or rows of several suites.
    """
    rows = read(path)
    if not rows:
        raise BadInput(f"{path}: no rows")
    for number, row in enumerate(rows, 1):
        if row.suite != rows[0].suite:
            raise BadInput(
                f"{path}: row {number}: field 'suite' is '{row.suite}', the first row's is "
                f"'{rows[0].suite}'"
            )
    return rows


def parse(line: str, where: str) -> Row:
    """Returns the row of a line.

    Raises:
      BadInput: it is none; the message starts with `where`.
    """
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{where}: not a JSON object")
    version = value.pop("version", None)
    if version not in range(_OLDEST, VERSION + 1) or isinstance(version, bool):
        raise BadInput(
            f"{where}: field 'version' is {version!r}, this program reads {_OLDEST} to {VERSION}"
        )
    fields = _from_version_1(value, where) if version == 1 else value
    row_fields.check(fields, where)
    plan = fields["plan"] and StoredPlan(**fields["plan"])
    row = Row(
        **{
            **fields,
            "devices": tuple(fields["devices"]),
            "peak_bytes": tuple(fields["peak_bytes"]),
            "curve": tuple((count, step_s) for count, step_s in fields["curve"]),
            "plan": plan,
        }
    )
    if plan is not None:
        _check_plan(plan, row, where)
    return row


def _check_plan(plan: StoredPlan, row: Row, where: str) -> None:
    if plan.nodes != row.nodes:
        raise BadInput(f"{where}: field 'plan.nodes' is {plan.nodes}, 'nodes' is {row.nodes}")
    try:
        placement, _ = stored_plan.unpack(plan)
    except ValueError as error:
        raise BadInput(f"{where}: field 'plan': {error}") from error
    if placement.size and int(placement.max()) >= len(row.devices):
        raise BadInput(
            f"{where}: field 'plan.device' has index {placement.max()}, but there are "
            f"{len(row.devices)} devices"
        )


def _from_version_1(fields: Mapping[str, typing.Any], where: str) -> dict[str, typing.Any]:
    """Returns the fields as version 2 has them; wrong ones stay, for the check to name them."""
    for name in sorted(fields.keys() & _NEW_IN_2.keys()):
        raise BadInput(f"{where}: unknown field '{name}'; version 1 does not have it")
    fields = dict(fields)
    extra, settings = fields.get("extra"), fields.get("settings")
    new: dict[str, typing.Any] = dict(_NEW_IN_2)
    if isinstance(extra, dict):
        new["last"] = extra.get("last", False)
        fields["extra"] = {name: value for name, value in extra.items() if name != "last"}
    if isinstance(settings, dict):
        new["device_spec"] = settings.get("devices", "")
    new["timed"] = fields.get("step_s") is not None
    return {**fields, **new}


_NEW_IN_2: Mapping[str, typing.Any] = {
    "fingerprint": "",
    "device_spec": "",
    "plan_source": "",
    "failure": "",
    "timed": True,
    "evaluations": 0,
    "search_s": None,
    "compile_s": None,
    "plan": None,
    "curve": [],
    "last": False,
}


def _line(row: Row) -> str:
    fields = dataclasses.asdict(row)
    last = fields.pop("last")
    return json.dumps({"version": VERSION, **fields, "last": last}, default=_plain)


def _plain(value: typing.Any) -> typing.Any:
    """Returns what JSON has for NumPy's numbers and arrays."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"a row cannot hold a {type(value).__name__}: {value!r}")


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except json.JSONDecodeError:
        return False
    return True
