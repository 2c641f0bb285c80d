"""Figures of a run: a row a step in log.jsonl, and scalars for TensorBoard."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from types import TracebackType

import tensorflow as tf

LOG = "log.jsonl"
TENSORBOARD = "tensorboard"


class Records:
    """Writes figures to a directory; what a run that was broken off wrote stays."""

    def __init__(self, out: pathlib.Path):
        self._log = (out / LOG).open("a", encoding="utf-8")
        self._writer = tf.summary.create_file_writer(str(out / TENSORBOARD))

    def add(self, step: int, figures: Mapping[str, float]) -> None:
        """Adds the figures after `step` updates."""
        self._log.write(json.dumps({"step": step, **figures}) + "\n")
        self._log.flush()
        with self._writer.as_default(step=step):
            for name, value in figures.items():
                tf.summary.scalar(name, value)

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._log.close()
        self._writer.close()
