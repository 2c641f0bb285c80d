"""Devices to train for: worker processes, and GPUs beside their host, with varied figures."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Devices:
    """Devices to place on.

    Attributes:
        kind: "workers" or "gpus".
        names: full device names.
        profile: device profile, JSON text.
    """

    kind: str
    names: tuple[str, ...]
    profile: str


_CORE = {  # One core of a server.
    "matmul_gflops": 60.0,
    "elementwise_gops": 2.0,
    "memory_gb_per_s": 8.0,
    "launch_us": 8.0,
}
_P100 = {  # What dense layers reach of it.
    "matmul_gflops": 7000.0,
    "elementwise_gops": 200.0,
    "memory_gb_per_s": 500.0,
    "launch_us": 6.0,
}
# gRPC copies on the processors at both ends; PCIe does not.
_GRPC = {"latency_us": 400.0, "gb_per_s": 2.0, "busy_us": 100.0, "busy_gb_per_s": 3.0}
_PCIE = {"latency_us": 20.0, "gb_per_s": 10.0}
_RATES = ("matmul_gflops", "elementwise_gops", "memory_gb_per_s")


def _vary(rng: np.random.Generator, figures: Mapping[str, float]) -> dict[str, float]:
    """Returns `figures`, each times at most 2 either way, to four digits."""
    return {
        name: float(f"{value * 2.0 ** rng.uniform(-1, 1):.4g}") for name, value in figures.items()
    }


def _profile(
    rng: np.random.Generator,
    *,
    devices: Mapping[str, Mapping[str, float]],
    links: Sequence[tuple[str, str, str, Mapping[str, float]]],
    slowest: float,
) -> str:
    """Returns a profile around the given figures, JSON text.

    All compute is up to `slowest` times slower: to a planner that is a graph as much heavier, so
    that a small graph stands for a large one, and some graphs gain from more devices, some lose.
    """
    slowdown = slowest ** rng.uniform(0, 1)
    varied = {kind: _vary(rng, figures) for kind, figures in devices.items()}
    for figures in varied.values():
        for name in _RATES:
            figures[name] /= slowdown
    return json.dumps(
        {
            "version": 1,
            "name": "training",
            "devices": varied,
            "links": [
                {"source": source, "target": target, "scope": scope, **_vary(rng, figures)}
                for source, target, scope, figures in links
            ],
        }
    )


def cpu_workers(count: int, rng: np.random.Generator) -> Devices:
    """Returns `count` single-core worker processes that talk over gRPC."""
    names = tuple(f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in range(count))
    profile = _profile(
        rng, devices={"CPU": _CORE}, links=[("CPU", "CPU", "remote", _GRPC)], slowest=64.0
    )
    return Devices("workers", names, profile)


def gpu_host(count: int, rng: np.random.Generator) -> Devices:
    """Returns a CPU and `count` P100-like GPUs in one process."""
    host = "/job:localhost/replica:0/task:0"
    gpus = (f"{host}/device:GPU:{i}" for i in range(count))
    ends = (("GPU", "GPU"), ("CPU", "GPU"), ("GPU", "CPU"))
    profile = _profile(
        rng,
        devices={"CPU": _CORE, "GPU": _P100},
        links=[(source, target, "local", _PCIE) for source, target in ends],
        slowest=16.0,
    )
    return Devices("gpus", (f"{host}/device:CPU:0", *gpus), profile)


def p100_host(count: int, rng: np.random.Generator) -> Devices:
    """Returns a CPU and `count` P100s as the package's profile has them, memory limits included."""
    from grappler_go import device_profiles  # Not needed to train on data that is there.

    del rng
    profile = device_profiles.load(f"p100:{count}")
    return Devices("p100", profile.devices, profile.json)


KINDS: Mapping[str, Callable[[int, np.random.Generator], Devices]] = {
    "workers": cpu_workers,
    "gpus": gpu_host,
    "p100": p100_host,
}


def parse(spec: str) -> tuple[str, int]:
    """Returns kind and count of "KIND:COUNT".

    Raises:
        ValueError: it is not of that form, or of no known kind.
    """
    kind, _, count = spec.partition(":")
    if kind not in KINDS or not count.isdecimal() or not 1 <= int(count) <= 16:
        raise ValueError(f"want {' or '.join(KINDS)}, then : and 1 to 16, got {spec!r}")
    return kind, int(count)


def make(spec: str, rng: np.random.Generator) -> Devices:
    """Returns the devices of "KIND:COUNT"; see `parse` for errors."""
    kind, count = parse(spec)
    return KINDS[kind](count, rng)


def memory_limits(devices: Devices) -> np.ndarray:
    """Returns the bytes that each device may hold, f64 [devices]; infinity without a limit."""
    figures = json.loads(devices.profile)["devices"]
    kinds = [name.rpartition("device:")[2].partition(":")[0] for name in devices.names]
    limits = [float(figures.get(kind, {}).get("memory_bytes", 0)) for kind in kinds]
    return np.array([limit if limit > 0 else np.inf for limit in limits])
