"""The devices that a measurement runs on: this process's GPUs, or workers on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf

import grappler_go
from go_bench import profiling
from go_bench.workloads import Workload
from grappler_go import calibrate

Choice = typing.Literal["auto", "gpu", "cluster"]

_MIN_GPUS = 2
_WORKERS = 2


class NoDevicesError(RuntimeError):
    """The devices that were asked for are not there."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attached:
    """Where to run, and what is known of it.

    Attributes:
      kind: in words, for people.
      target: where sessions connect, "" for this process.
      devices: full names of the devices to share the work.
      device_type: type of these devices.
      device_profile: their calibrated figures.
      profile_ops: profiles a workload where nothing disturbs an op's time.
    """

    kind: str
    target: str
    devices: tuple[str, ...]
    device_type: str
    device_profile: Mapping[str, typing.Any]
    profile_ops: Callable[..., profiling.Profile]


@contextlib.contextmanager
def attach(choice: Choice) -> Iterator[Attached]:
    """Attaches and calibrates devices.

    Args:
      choice: "gpu" for the GPUs of this process, "cluster" for single-core workers, "auto" for the
        GPUs where TensorFlow sees two or more and the workers elsewhere.

    Raises:
      ValueError: for another choice.
      NoDevicesError: if "gpu" was asked for and TensorFlow sees fewer than two.
      grappler_go.ClusterError: if a worker ends.
    """
    if choice not in ("auto", "gpu", "cluster"):
        raise ValueError(f"attach: choice must be 'auto', 'gpu' or 'cluster', got {choice!r}")
    gpus = [] if choice == "cluster" else _gpus()
    if choice == "gpu" and len(gpus) < _MIN_GPUS:
        raise NoDevicesError(
            f"--devices gpu: TensorFlow sees {len(gpus)} GPUs, at least {_MIN_GPUS} are needed"
        )
    with _attach_gpus(gpus) if len(gpus) >= _MIN_GPUS else _attach_cluster() as attached:
        yield attached


def _gpus() -> list[str]:
    """Returns the full names of this process's GPUs, as sessions call them."""
    # Not the eager runtime's list: making it would take the GPUs' memory from the sessions.
    physical = tf.config.list_physical_devices("GPU")
    return [
        f"/job:localhost/replica:0/task:0/device:GPU:{number}" for number in range(len(physical))
    ]


@contextlib.contextmanager
def _attach_gpus(gpus: list[str]) -> Iterator[Attached]:
    def profile_ops(
        workload: Workload, config: tf.compat.v1.ConfigProto, steps: int, **options: typing.Any
    ) -> profiling.Profile:
        return profiling.profile(workload, "", config, steps, **options)

    yield Attached(
        kind=f"{len(gpus)} GPUs of this process",
        target="",
        devices=tuple(gpus),
        device_type="GPU",
        device_profile=calibrate.calibrate_gpus(gpus),
        profile_ops=profile_ops,
    )


@contextlib.contextmanager
def _attach_cluster() -> Iterator[Attached]:
    def profile_ops(
        workload: Workload, config: tf.compat.v1.ConfigProto, steps: int, **options: typing.Any
    ) -> profiling.Profile:
        # Alone on its core with one thread: an op's time is its own.
        with grappler_go.local_cluster(1, inter_op=1) as single:
            return profiling.profile(workload, single.master, config, steps, **options)

    with grappler_go.local_cluster(_WORKERS) as cluster:
        yield Attached(
            kind=f"{_WORKERS} single-core workers on this machine",
            target=cluster.master,
            devices=cluster.devices,
            device_type="CPU",
            device_profile=calibrate.calibrate(cluster),
            profile_ops=profile_ops,
        )
