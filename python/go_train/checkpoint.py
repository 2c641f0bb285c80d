"""Checkpoints of training: one file, written aside and renamed.

A checkpoint is an .npz: "meta" holds JSON (format, step, settings, feature table), the other arrays
hold the variables in order, "network/0", "network/1", ..., "optimizer/0", ...
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

FILE_NAME = "checkpoint.npz"
_FORMAT = 1
_META = "meta"


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds.

    Attributes:
        step: updates done.
        config: effective settings, JSON-ready.
        table: rows of the feature table, the version last.
        arrays: values of the variables by group ("network", "optimizer"), in the order of creation.
    """

    step: int
    config: Mapping[str, Any]
    table: tuple[str, ...]
    arrays: Mapping[str, Sequence[np.ndarray]]


def save(path: pathlib.Path, checkpoint: Checkpoint) -> None:
    """Writes `checkpoint` to `path`; a reader sees the old file or the new one, never a part."""
    meta = {
        "format": _FORMAT,
        "step": checkpoint.step,
        "config": checkpoint.config,
        "table": checkpoint.table,
    }
    arrays = {
        f"{group}/{index}": value
        for group, values in checkpoint.arrays.items()
        for index, value in enumerate(values)
    }
    arrays[_META] = np.array(json.dumps(meta))
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(aside, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def load(path: pathlib.Path) -> Checkpoint:
    """Reads a checkpoint.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not a checkpoint, or of another format.
    """
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            meta = json.loads(str(file[_META]))
            arrays = {name: file[name] for name in file.files if name != _META}
    except FileNotFoundError:
        raise
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not a checkpoint ({error})") from error
    if meta.get("format") != _FORMAT:
        raise ValueError(f"{path}: field 'format' is {meta.get('format')!r}, want {_FORMAT}")
    groups: dict[str, list[np.ndarray]] = {}
    for name in sorted(arrays, key=_array_order):
        groups.setdefault(name.partition("/")[0], []).append(arrays[name])
    return Checkpoint(meta["step"], meta["config"], tuple(meta["table"]), groups)


def _array_order(name: str) -> tuple[str, int]:
    group, _, index = name.partition("/")
    return group, int(index)


def values_of(variables: Sequence[tf.Variable]) -> list[np.ndarray]:
    """Returns the values of `variables`."""
    return [variable.numpy() for variable in variables]


def assign(variables: Sequence[tf.Variable], values: Sequence[np.ndarray], *, what: str) -> None:
    """Sets `variables` to `values`.

    Raises:
        ValueError: they differ in number or in a shape; `what` says whose they are.
    """
    if len(variables) != len(values):
        raise ValueError(f"{what}: checkpoint has {len(values)} variables, want {len(variables)}")
    for variable, value in zip(variables, values, strict=True):
        if tuple(variable.shape) != value.shape:
            raise ValueError(
                f"{what}: variable {variable.name} has shape {value.shape} in the checkpoint,"
                f" want {tuple(variable.shape)}"
            )
        variable.assign(value)
