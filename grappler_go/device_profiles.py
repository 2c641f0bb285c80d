"""Device profiles: what given devices and the links between them can do, as JSON files.

A file has the figures that `enable(profile=...)` takes (cc/device_set.cc) and a field `layout`,
which says what a number of devices means: "gpus" are the GPUs of one process beside its CPU,
"workers" are processes with a CPU each.
"""

import dataclasses
import json
import pathlib
import re
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from grappler_go import files
from grappler_go.errors import BadInput, plain
from grappler_go.op_graph import OpGraph

DIRECTORY = pathlib.Path(__file__).parent / "profiles"
LAYOUTS = ("gpus", "workers")
DEFAULT_COUNT = 2
MAX_COUNT = 63  # cc/device_set.h has room for 64 devices, and one may be the host.

_SPEC = re.compile(r"(?P<which>.+?)(:(?P<count>[^:/]*))?", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class DeviceProfile:
    """Devices with their figures.

    Attributes:
      name: what the file calls them.
      devices: full device names.
      json: the file's text, which `plan`, `OpGraph` and `enable` take as `profile`.
    """

    name: str
    devices: tuple[str, ...]
    json: str


def names() -> tuple[str, ...]:
    """The profiles that come with the package."""
    return tuple(sorted(path.stem for path in DIRECTORY.glob("*.json")))


def is_spec(text: str) -> bool:
    """Whether the text asks for a profile; full device names, with commas or not, do not."""
    return bool(text) and not text.startswith("/job:") and "," not in text


def load(spec: str) -> DeviceProfile:
    """Reads a profile and lays out devices.

    Args:
      spec: a name out of `names()` or the path of a JSON file, then ":" and the number of GPUs or
        workers; without it, 2.

    Raises:
      BadInput: no such profile, or one with a wrong field; a number of devices out of range.
    """
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise BadInput(f"device profile '{spec}': empty; known are {', '.join(names())}")
    path = _find(match["which"])
    count = _count(spec, match["count"])
    text = files.read_text(path)
    profile = _parse(path, text)
    devices = layout(_layout_of(path, profile), count)
    _check_figures(path, text, devices)
    return DeviceProfile(name=str(profile.get("name", path.stem)), devices=devices, json=text)


def layout(kind: str, count: int) -> tuple[str, ...]:
    """The full names of `count` GPUs and their host ("gpus"), or of `count` workers ("workers")."""
    if kind == "gpus":
        task = "/job:localhost/replica:0/task:0/device"
        return (f"{task}:CPU:0", *(f"{task}:GPU:{number}" for number in range(count)))
    if kind == "workers":
        return tuple(f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(count))
    raise ValueError(f"layout: kind must be one of {LAYOUTS}, got {kind!r}")


def _find(which: str) -> pathlib.Path:
    if which in names():
        return DIRECTORY / f"{which}.json"
    path = pathlib.Path(which)
    if not path.is_file():
        raise BadInput(f"device profile '{which}': no such file, and none of {', '.join(names())}")
    return path


def _count(spec: str, text: str | None) -> int:
    if text is None:
        return DEFAULT_COUNT
    if not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= MAX_COUNT:
        raise BadInput(
            f"device profile '{spec}': the number of devices is '{text}', must be a whole number "
            f"in 1..{MAX_COUNT}"
        )
    return int(text)


def _parse(path: pathlib.Path, text: str) -> dict[str, Any]:
    try:
        profile = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}: not JSON: {error.msg} in line {error.lineno}") from error
    if not isinstance(profile, dict):
        raise BadInput(f"{path}: not a JSON object")
    return profile


def _layout_of(path: pathlib.Path, profile: dict[str, Any]) -> str:
    """The layout that the file names; without one, GPUs where it has figures of GPUs."""
    devices = profile.get("devices")
    has_gpus = isinstance(devices, dict) and "GPU" in devices
    kind = profile.get("layout", "gpus" if has_gpus else "workers")
    if kind not in LAYOUTS:
        raise BadInput(f"{path}: field 'layout' is {kind!r}, must be one of {', '.join(LAYOUTS)}")
    return kind


def _check_figures(path: pathlib.Path, text: str, devices: tuple[str, ...]) -> None:
    """Has the C++ library read the profile: it knows the fields and their ranges."""
    try:
        OpGraph(graph_pb2.GraphDef(), devices, profile=text)
    except tf.errors.InvalidArgumentError as error:
        raise BadInput(f"{path}: {plain(error.message)}") from error
