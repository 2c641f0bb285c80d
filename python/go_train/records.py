"""Figures of a run: a row a step in log.jsonl, and scalars for TensorBoard."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from types import TracebackType

import tensorflow as tf
from tensorflow.core.framework import summary_pb2

LOG = "log.jsonl"
TENSORBOARD = "tensorboard"

# What `tf.summary.scalar` writes, which needs TensorBoard installed to be called.
_SCALAR = summary_pb2.SummaryMetadata(
    plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="scalars"),
    data_class=summary_pb2.DATA_CLASS_SCALAR,
)


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
                tf.summary.write(name, tf.constant(value, tf.float32), metadata=_SCALAR)

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
