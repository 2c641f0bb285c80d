"""Settings as frozen dataclasses: to and from JSON, unknown keys and wrong types refused."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def to_dict(config: Any) -> dict[str, Any]:
    """Returns the settings of dataclass `config` as JSON-ready values."""
    return dataclasses.asdict(config)


def from_dict(cls: type[T], values: Mapping[str, Any], *, where: str = "config") -> T:
    """Returns dataclass `cls` with `values` over its defaults.

    Args:
        cls: a dataclass; fields that are dataclasses take a mapping, tuples take a list.
        values: settings by name.
        where: what to call the settings in an error.

    Raises:
        ValueError: an unknown key, or a value of the wrong type.
    """
    types = typing.get_type_hints(cls)
    known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            raise ValueError(f"{where}: unknown key {key!r}; known keys are {', '.join(known)}")
    return cls(
        **{key: _convert(value, types[key], f"{where}.{key}") for key, value in values.items()}
    )


def _convert(value: Any, wanted: Any, where: str) -> Any:
    """Returns `value` as type `wanted`.

    Raises:
        ValueError: it is of another type.
    """
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        if isinstance(value, Mapping):
            return from_dict(wanted, value, where=where)
    elif typing.get_origin(wanted) is tuple:
        if isinstance(value, (list, tuple)):
            return tuple(_convert(v, typing.get_args(wanted)[0], where) for v in value)
    elif wanted is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    elif isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
        return value
    raise ValueError(f"{where}: want {getattr(wanted, '__name__', wanted)}, got {value!r}")


def difference(ours: Mapping[str, Any], theirs: Mapping[str, Any], *, where: str = "config") -> str:
    """Returns the first setting that differs, in words; "" if none does."""
    for key in sorted(ours.keys() | theirs.keys()):
        a, b = ours.get(key), theirs.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            if inner := difference(a, b, where=f"{where}.{key}"):
                return inner
        elif a != b:
            return f"{where}.{key} is {a!r} here and {b!r} there"
    return ""
