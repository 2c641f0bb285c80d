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

from absl import logging

from grappler_go import files
from grappler_go.errors import BadInput

VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One method on one workload.

    Attributes:
      suite: the suite that made it.
      case: what was run as one piece; `--resume` skips the cases that are complete.
      workload, preset, mode: the graph's name, its sizes, and "train" or "forward".
      nodes: ops of the graph.
      devices: full names.
      method: how the plan was made.
      seed: of the method.
      step_s: step time in seconds, the median; None where it was not taken.
      spread_s: distance between its quartiles.
      n: number of steps.
      peak_bytes: peak memory of each device's step, in the order of `devices`.
      bound_s: no placement can be faster in the simulator.
      extra: what else the suite says.
      versions: of the software.
      settings: of the run.
    """

    suite: str
    case: str
    workload: str
    preset: str
    mode: str
    nodes: int
    devices: tuple[str, ...]
    method: str
    seed: int = 0
    step_s: float | None = None
    spread_s: float | None = None
    n: int = 0
    peak_bytes: tuple[float, ...] = ()
    bound_s: float | None = None
    extra: Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=lambda: versions())
    settings: Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)


_NAMES = frozenset(field.name for field in dataclasses.fields(Row))


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
      BadInput: the file cannot be written.
    """
    line = json.dumps({"version": VERSION, **dataclasses.asdict(row)})
    try:
        with path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def read(path: pathlib.Path) -> list[Row]:
    """Returns the rows of a file; a last line that a kill cut short is left out, with a warning.

    Raises:
      BadInput: the file cannot be read, or a line is no row.
    """
    rows = []
    lines = files.read_text(path).split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):  # Complete lines end with a line break.
                logging.warning("%s:%d: cut short, left out", path, number)
                continue
            raise BadInput(f"{path}:{number}: not JSON: {error}") from error
        rows.append(_row(value, f"{path}:{number}"))
    return rows


def drop_torn_line(path: pathlib.Path) -> None:
    """Cuts off a last line without a line break, so that rows can be added."""
    text = files.read_text(path)
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        files.write_atomically(path, whole)


def _row(value: typing.Any, where: str) -> Row:
    if not isinstance(value, dict):
        raise BadInput(f"{where}: not a JSON object")
    if value.get("version") != VERSION:
        raise BadInput(
            f"{where}: field 'version' is {value.get('version')!r}, this program reads {VERSION}"
        )
    fields = {name: each for name, each in value.items() if name != "version"}
    for name in sorted(fields.keys() ^ _NAMES):
        raise BadInput(f"{where}: {'unknown' if name in fields else 'missing'} field '{name}'")
    for name in ("devices", "peak_bytes"):
        if not isinstance(fields[name], list):
            raise BadInput(f"{where}: field '{name}' is {fields[name]!r}, must be a list")
        fields[name] = tuple(fields[name])
    return Row(**fields)
