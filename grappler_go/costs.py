"""Measured op costs on disk: of one graph by op name, and of all graphs by what an op computes.

A file is JSON: `{"version": 2, "device_type": "CPU", "ops": {NAME: us}, "cache": {KEY: {"us", "n",
"size"}}}`, as the option `costs` takes it. Costs by key hold in every graph, and ops of other sizes
are interpolated between them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import pathlib
import typing
from collections.abc import Iterator, Mapping

from grappler_go import files
from grappler_go.errors import BadInput
from grappler_go.op_graph import OpGraph

VERSION = 2


def write(path: str | os.PathLike[str], op_us: Mapping[str, float], *, device_type: str) -> None:
    """Writes the costs of one graph's ops, by name, in microseconds.

    Raises:
      BadInput: the file cannot be written.
    """
    value = {"version": VERSION, "device_type": device_type, "ops": dict(op_us)}
    files.write_atomically(path, json.dumps(value, indent=1))


def remember(
    path: str | os.PathLike[str],
    graph: OpGraph,
    op_us: Mapping[str, float],
    *,
    device_type: str,
) -> int:
    """Adds measured costs to a cache file, which is made if there is none.

    A cost that is there already becomes the mean of all that were measured. Several processes may
    write one file at once.

    Args:
      path: the cache.
      graph: the graph that was measured.
      op_us: measured times by op name, in microseconds.
      device_type: of the devices that were measured, "CPU" or "GPU".

    Returns:
      How many ops were remembered.

    Raises:
      BadInput: the file is damaged, of another version or of another device type.
    """
    path = pathlib.Path(path)
    sums: dict[str, tuple[float, int, float]] = {}
    for name, key, size in zip(graph.names, graph.cost_keys, graph.work_size, strict=True):
        if key and name in op_us:
            total, count, _ = sums.get(key, (0.0, 0, 0.0))
            sums[key] = (total + op_us[name], count + 1, float(size))
    with _locked(path):
        cache = _read(path, device_type) if path.exists() else {}
        for key, (total, count, size) in sums.items():
            old = cache.get(key, {"us": 0.0, "n": 0})
            n = old["n"] + count
            cache[key] = {"us": (old["us"] * old["n"] + total) / n, "n": n, "size": size}
        value = {"version": VERSION, "device_type": device_type, "cache": cache}
        files.write_atomically(path, json.dumps(value, indent=1))
    return sum(count for _, count, _ in sums.values())


def _read(path: pathlib.Path, device_type: str) -> dict[str, dict[str, typing.Any]]:
    try:
        value = json.loads(files.read_text(path))
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{path}: not a JSON object")
    for field, want in (("version", VERSION), ("device_type", device_type)):
        if value.get(field) != want:
            raise BadInput(f"{path}: field '{field}' is {value.get(field)!r}, must be {want!r}")
    cache = value.get("cache")
    if not isinstance(cache, dict):
        raise BadInput(f"{path}: field 'cache' is not an object")
    for key, entry in cache.items():
        for field in ("us", "n", "size"):
            number = entry.get(field) if isinstance(entry, dict) else None
            if not isinstance(number, (int, float)) or not 0 <= number < math.inf:
                raise BadInput(f"{path}: cache['{key}'].{field} is not a number of at least 0")
    return cache


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    """Holds the lock file beside `path`, which stays."""
    try:
        lock = path.with_name(f".{path.name}.lock").open("a")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
