"""What each field of a row must be, for both those who write rows and those who read them."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Mapping

from grappler_go.errors import BadInput

Check = Callable[[typing.Any], bool]


def check(fields: Mapping[str, typing.Any], where: str) -> None:
    """Checks the fields of a row as JSON has them.

    Raises:
      BadInput: one is unknown, missing, of another type, out of range, or at odds with another; the
        message starts with `where`.
    """
    for name in sorted(fields.keys() ^ _FIELDS.keys()):
        raise BadInput(f"{where}: {'unknown' if name in fields else 'missing'} field '{name}'")
    for name, (is_right, wanted) in _FIELDS.items():
        if not is_right(fields[name]):
            raise BadInput(f"{where}: field '{name}' is {_short(fields[name])}, must be {wanted}")
    peaks, devices = fields["peak_bytes"], fields["devices"]
    if peaks and len(peaks) != len(devices):
        raise BadInput(
            f"{where}: field 'peak_bytes' has {len(peaks)} values, field 'devices' {len(devices)}"
        )
    if fields["failure"] and fields["step_s"] is not None:
        raise BadInput(
            f"{where}: field 'failure' is {_short(fields['failure'])}, but 'step_s' has a value"
        )


def _short(value: typing.Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_text(value: typing.Any) -> bool:
    return isinstance(value, str)


def _is_name(value: typing.Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: typing.Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_figure(value: typing.Any) -> bool:
    """Whether it is a number from 0 on."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    )


def _is_time(value: typing.Any) -> bool:
    return value is None or (_is_figure(value) and value > 0)


def _is_list(of: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(of, value))


def _is_point(value: typing.Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and _is_count(value[0])
        and _is_figure(value[1])
        and value[1] > 0
    )


def _is_plan(value: typing.Any) -> bool:
    return value is None or (
        isinstance(value, dict)
        and value.keys() == {"nodes", "device", "priority", "checksum"}
        and _is_count(value["nodes"])
        and _is_text(value["device"])
        and (value["priority"] is None or _is_text(value["priority"]))
        and _is_text(value["checksum"])
    )


_NAME = (_is_name, "a text that is not empty")
_TEXT = (_is_text, "a text")
_COUNT = (_is_count, "a whole number from 0 on")
_SOME = (lambda value: _is_count(value, 1), "a whole number from 1 on")
_TIME = (_is_time, "a number of seconds above 0, or null")
_SPAN = (
    lambda value: value is None or _is_figure(value),
    "a number of seconds from 0 on, or null",
)
_FLAG = (lambda value: isinstance(value, bool), "true or false")
_OBJECT = (lambda value: isinstance(value, dict), "a JSON object")

_FIELDS: Mapping[str, tuple[Check, str]] = {
    "suite": _NAME,
    "case": _TEXT,
    "workload": _NAME,
    "preset": _TEXT,
    "mode": _TEXT,
    "fingerprint": _TEXT,
    "nodes": _SOME,
    "devices": (_is_list(_is_name), "a list of device names"),
    "device_spec": _TEXT,
    "method": _NAME,
    "plan_source": _TEXT,
    "seed": _COUNT,
    "step_s": _TIME,
    "spread_s": _SPAN,
    "n": _COUNT,
    "failure": _TEXT,
    "timed": _FLAG,
    "peak_bytes": (_is_list(_is_figure), "a list of numbers from 0 on"),
    "bound_s": _SPAN,
    "evaluations": _COUNT,
    "search_s": _SPAN,
    "compile_s": _SPAN,
    "plan": (_is_plan, "null, or an object of nodes, device, priority and checksum"),
    "curve": (_is_list(_is_point), "a list of pairs of evaluations and seconds"),
    "extra": _OBJECT,
    "versions": (
        lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
        "an object of texts",
    ),
    "settings": _OBJECT,
    "last": _FLAG,
}
