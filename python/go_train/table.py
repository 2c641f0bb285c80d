"""The policy's inputs: the rows of the C++ feature table, names, shapes and moments."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

TABLE_VERSION = "version/1"
GROUP = "op_group"

_GROUPS = ("node", "edge", "device", "node_device", "link")

Features = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class FeatureTable:
    """The rows of the C++ feature table, the single source of the network's input widths.

    Attributes:
        names: rows "group/name" in table order, without the version row; groups are node, edge,
            device, node_device and link.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.names:
            if name.partition("/")[0] not in _GROUPS or not name.partition("/")[2]:
                raise ValueError(f"feature table: row {name!r} is not one of {_GROUPS} / name")
        repeated = [name for name, n in collections.Counter(self.names).items() if n > 1]
        if repeated:
            raise ValueError(f"feature table: row {repeated[0]!r} appears more than once")

    @classmethod
    def from_rows(cls, rows: Sequence[str]) -> FeatureTable:
        """Returns the table of `rows` as the C++ side lists them, the version row last.

        Raises:
            ValueError: the version row is missing or of another version, or a row is malformed.
        """
        version = rows[-1] if rows else None
        if version != TABLE_VERSION:
            raise ValueError(f"feature table: last row is {version!r}, want {TABLE_VERSION!r}")
        return cls(tuple(rows[:-1]))

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows as the C++ side lists them."""
        return (*self.names, TABLE_VERSION)

    def width(self, group: str) -> int:
        """Returns how many features `group` has."""
        return sum(name.startswith(group + "/") for name in self.names)

    def column(self, name: str) -> int:
        """Returns the index of row `name` within its group.

        Raises:
            ValueError: there is no such row.
        """
        if name not in self.names:
            raise ValueError(f"feature table: no row {name!r}; rows are {', '.join(self.names)}")
        prefix = name.partition("/")[0] + "/"
        return [row for row in self.names if row.startswith(prefix)].index(name)


def input_signature(table: FeatureTable) -> dict[str, tf.TensorSpec]:
    """Returns the ten inputs by name; ops, edges and devices are free dimensions."""
    shapes = {
        "node_features": [None, table.width("node")],
        "edge_features": [None, table.width("edge")],
        "device_features": [None, table.width("device")],
        "node_device_features": [None, None, table.width("node_device")],
        "node_device_mask": [None, None],
        "link_features": [None, None, table.width("link")],
    }
    specs = {name: tf.TensorSpec(shape, tf.float32, name) for name, shape in shapes.items()}
    for name in ("op_type", "edge_source", "edge_target", GROUP):
        specs[name] = tf.TensorSpec([None], tf.int32, name)
    return specs


def feature_moments(
    examples: Sequence[Features],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns mean and deviation of each float input's last dimension over all `examples`.

    Raises:
        ValueError: there are no examples.
    """
    if not examples:
        raise ValueError("feature_moments: examples is empty")
    moments = {}
    for name in (
        "node_features",
        "edge_features",
        "device_features",
        "node_device_features",
        "link_features",
    ):
        rows = [np.asarray(e[name], np.float64).reshape(-1, e[name].shape[-1]) for e in examples]
        joined = np.concatenate(rows)
        if not len(joined):
            joined = np.zeros((1, joined.shape[1]))
        moments[name] = joined.mean(axis=0), joined.std(axis=0)
    return moments


def smallest_input(table: FeatureTable) -> dict[str, tf.Tensor]:
    """Returns the inputs of one op on one device with an edge to itself, all zero."""
    return {
        name: tf.zeros([1 if size is None else size for size in spec.shape], spec.dtype)
        for name, spec in input_signature(table).items()
    }
