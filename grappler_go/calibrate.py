"""Measures what the attached devices and the links between them can do, for the cost model.

Every figure is a slope: a graph with a long chain of one operation against one with a short chain,
so that the client, the session and the making of the inputs cancel out. The best of several runs
counts, where not said otherwise: it is the machine's own figure, whatever else ran at the time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from grappler_go import cluster as cluster_lib

v1 = tf.compat.v1

Progress = Callable[[], object]

_LAUNCH_CHAIN = (50, 550)
_MATMUL = (256, 1024)  # Rows of the activations, width: a dense layer.
_MATMUL_CHAIN = (1, 5)
_ELEMENTWISE_ELEMENTS = 1 << 16  # 256 KiB: within a core's cache.
_ELEMENTWISE_CHAIN = (10, 210)
_MEMORY_ELEMENTS = 1 << 24  # 64 MiB: beyond every cache.
_MEMORY_CHAIN = (1, 4)
# Bytes of a tensor -> hops from device to device: enough of them to stand out from the noise.
_LINK_CHAINS = {
    4: (2, 62),
    1 << 14: (2, 62),
    1 << 17: (2, 42),
    1 << 20: (2, 22),
    1 << 22: (2, 10),
    1 << 24: (1, 5),
}
# Bytes of a tensor -> chains at once and hops of each, beside a chain of matrix products at each
# end.
_DISPLACING_CHAINS = {4: (32, 8), 1 << 17: (24, 8), 1 << 20: (8, 6), 1 << 23: (3, 3)}
_DISPLACED_CHAIN = 30
_DISPLACED_REPEATS = 9
_SMALL_BYTES = 4
_LOADED_CHAIN = (2, 12)
_REPEATS = 5
_LINK_REPEATS = 6
_LOADED_REPEATS = 20
_LOAD_CHAIN = 20
_LOAD_WIDTH = 3
_DEVICE_STEPS = 4  # Measurements of a device,
_END_STEPS = 2  # and of the ends of a link.
# A share of the hop that always stays on the link: the model divides by the link's rate.
_MIN_LINK_SHARE = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """A straight line over the size of a tensor: `fixed_us + bytes * us_per_byte`."""

    fixed_us: float
    us_per_byte: float

    def at(self, size: float) -> float:
        """The time of a tensor of this size, in microseconds."""
        return self.fixed_us + size * self.us_per_byte


def calibrate(
    cluster: cluster_lib.LocalCluster, *, progress: Progress = lambda: None
) -> dict[str, typing.Any]:
    """Returns the device profile of a local cluster; takes some ten seconds.

    Args:
      cluster: with two workers or more; with one, the profile has no link.
      progress: called after each measurement, `num_steps(workers)` times.

    Returns:
      The profile, as `grappler_go.session_config(profile=json.dumps(...))` takes it.
    """
    profile = {
        "version": 1,
        "name": "local_cluster",
        "source": f"Measured on {len(cluster.devices)} workers, pinned to the cores "
        f"{', '.join(str(core) for core in cluster.cores)} of one machine; TensorFlow "
        f"{tf.__version__}.",
        "layout": "workers",
        "devices": {"CPU": device_figures(cluster.master, cluster.devices[0], progress=progress)},
        "links": [],
    }
    if len(cluster.devices) > 1:
        link = link_figures(
            cluster.master, cluster.devices[:2], copied_by_ends=True, progress=progress
        )
        profile["links"] = [{"source": "CPU", "target": "CPU", "scope": "remote", **link}]
    logging.info("device profile: %s", profile)
    return profile


def num_steps(workers: int) -> int:
    """How often `calibrate` reports progress for a cluster of that many workers."""
    return _DEVICE_STEPS + (len(_LINK_CHAINS) + _END_STEPS if workers > 1 else 0)


def calibrate_gpus(devices: Sequence[str]) -> dict[str, typing.Any]:
    """Returns the device profile of this process's GPUs, full names, and its first CPU."""
    cpu = tf.DeviceSpec.from_string(devices[0]).replace(device_type="CPU", device_index=0)
    ends = {"GPU": devices[0], "CPU": cpu.to_string()}
    links = [("GPU", "CPU", devices[0], ends["CPU"]), ("CPU", "GPU", ends["CPU"], devices[0])]
    if len(devices) > 1:
        links.append(("GPU", "GPU", devices[0], devices[1]))
    return {
        "version": 1,
        "name": "gpus",
        "layout": "gpus",
        "devices": {kind: device_figures("", device) for kind, device in ends.items()},
        # A copy engine moves the data: it takes no compute from either end.
        "links": [
            {"source": source, "target": target, "scope": "local", **link_figures("", ends_)}
            for source, target, *ends_ in links
        ],
    }


def device_figures(
    target: str, device: str, *, progress: Progress = lambda: None
) -> dict[str, float]:
    """Measures one device: rates of arithmetic and memory, and the fixed cost of an op."""

    def slope(chains: tuple[int, int], build: Callable[[int], tf.Operation]) -> float:
        seconds = _slope(target, chains, build)
        progress()
        return seconds

    launch_us = 1e6 * slope(_LAUNCH_CHAIN, lambda n: _launch_chain(device, n))
    matmul_s = slope(_MATMUL_CHAIN, lambda n: _matmul_chain(device, n))
    rows, width = _MATMUL
    simple_s = slope(_ELEMENTWISE_CHAIN, lambda n: _negate_chain(device, n, _ELEMENTWISE_ELEMENTS))
    stream_s = slope(_MEMORY_CHAIN, lambda n: _negate_chain(device, n, _MEMORY_ELEMENTS))
    figures = {
        "matmul_gflops": 2e-9 * rows * width * width / matmul_s,
        "elementwise_gops": 1e-9 * _ELEMENTWISE_ELEMENTS / max(simple_s - 1e-6 * launch_us, 1e-9),
        # Each element is read and written.
        "memory_gb_per_s": 1e-9 * 8 * _MEMORY_ELEMENTS / stream_s,
        "launch_us": launch_us,
    }
    return {**_rounded(figures), "memory_bytes": 0}


def link_figures(
    target: str,
    devices: Sequence[str],
    *,
    copied_by_ends: bool = False,
    progress: Progress = lambda: None,
) -> dict[str, float]:
    """Measures the link between two devices by tensors that bounce between them.

    Args:
      target: where the session connects.
      devices: the two ends.
      copied_by_ends: whether copying takes compute from the ends, as it does between processes.
      progress: called after each measurement.

    Returns:
      latency_us and gb_per_s of the link itself, busy_us and busy_gb_per_s of each end: a tensor of
      b bytes takes latency_us + b / gb_per_s + 2 * (busy_us + b / busy_gb_per_s) in all between
      ends that do nothing else, and wake_us more where the receiver computes.
    """
    hop_us = []
    for size, chains in _LINK_CHAINS.items():
        hop_us.append(1e6 * _bounce(target, devices, size, chains))
        logging.info("%d bytes: %.0f us a hop", size, hop_us[-1])
        progress()
    busy = _displaced(target, devices) if copied_by_ends else Line(fixed_us=0.0, us_per_byte=0.0)
    progress()
    # A hop between idle ends is cheaper than one that takes the core and its caches from a matmul.
    shares = [
        max(hop - 2 * busy.at(size), _MIN_LINK_SHARE * hop)
        for size, hop in zip(_LINK_CHAINS, hop_us, strict=True)
    ]
    link = fit_line(list(_LINK_CHAINS), shares)
    loaded_us = 1e6 * _loaded_hop(target, devices)
    logging.info("%d bytes between busy ends: %.0f us a hop", _SMALL_BYTES, loaded_us)
    progress()
    return _rounded(
        {
            "latency_us": link.fixed_us,
            "gb_per_s": 1e-3 / max(link.us_per_byte, 1e-9),
            "busy_us": busy.fixed_us,
            "busy_gb_per_s": 1e-3 / busy.us_per_byte if busy.us_per_byte else 0.0,
            # Where both ends compute, a tensor that arrives waits for its turn.
            "wake_us": max(0.0, loaded_us - 2 * busy.fixed_us - link.fixed_us),
        }
    )


def fit_line(sizes: Sequence[float], times_us: Sequence[float]) -> Line:
    """Fits a line by least squares of the relative error, neither part of it negative.

    Relative, since the times span orders of magnitude and a small tensor matters as a large one.

    Raises:
      ValueError: for fewer than two sizes.
    """
    if len(sizes) < 2:
        raise ValueError(f"fit_line: sizes must be at least 2, got {len(sizes)}")
    times = np.maximum(np.asarray(times_us, np.float64), 1e-3)
    columns = np.stack([np.ones(len(sizes)), np.asarray(sizes, np.float64)], axis=1)
    columns /= times[:, np.newaxis]
    fixed, rate = np.linalg.lstsq(columns, np.ones(len(times)), rcond=None)[0]
    if rate < 0:
        fixed, rate = columns[:, 0].sum() / np.square(columns[:, 0]).sum(), 0.0
    elif fixed < 0:
        fixed, rate = 0.0, columns[:, 1].sum() / np.square(columns[:, 1]).sum()
    return Line(fixed_us=float(fixed), us_per_byte=float(rate))


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    """Returns the figures with the digits that a measurement has."""
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


def _bounce(target: str, devices: Sequence[str], size: int, chains: tuple[int, int]) -> float:
    """Returns the seconds of one hop between ends that do nothing else."""
    with _open(target, chains, lambda n: _hop_chain(devices, n, size)) as runs:
        wall = [[_timed(run) for run in runs] for _ in range(_LINK_REPEATS)]
    short_s, long_s = np.min(wall, axis=0)
    return max(long_s - short_s, 1e-7) / (chains[1] - chains[0])


def _displaced(target: str, devices: Sequence[str]) -> Line:
    """Measures the compute that a hop takes from each end, in microseconds.

    Both ends multiply matrices all the time, and tensors bounce between them meanwhile: what the
    step gets longer by is what the copying displaced, with the cache lines that it cost.
    """
    variants = [(0, 0, 0), *((size, *chains) for size, chains in _DISPLACING_CHAINS.items())]

    def build(variant: int) -> tf.Operation:
        size, count, hops = variants[variant]
        with v1.variable_scope(f"variant_{variant}", auxiliary_name_scope=False):
            load = [_matmul_chain(device, _DISPLACED_CHAIN) for device in devices]
            chains = [_hop_chain(devices, hops, size) for _ in range(count)]
        return tf.group(*load, *chains)

    with _open(target, range(len(variants)), build) as runs:
        seconds = [[_timed(run) for run in runs] for _ in range(_DISPLACED_REPEATS)]
    # Each beside the same repeat's load alone: a machine that slows down slows both.
    longer_s = np.median(np.asarray(seconds)[:, 1:] - np.asarray(seconds)[:, :1], axis=0)
    busy_us = []
    for (size, count, hops), each_s in zip(variants[1:], longer_s, strict=True):
        busy_us.append(1e6 * max(float(each_s), 0.0) / (count * hops))
        logging.info("%d bytes: %.0f us of compute displaced at each end", size, busy_us[-1])
    return fit_line(list(_DISPLACING_CHAINS), busy_us)


def _loaded_hop(target: str, devices: Sequence[str]) -> float:
    """Returns the seconds of one hop of a small tensor between ends with much to do.

    Three products at once leave one of a worker's four threads free, as a wide graph does: the
    hop waits for its share of the core more than for the link.
    """
    chains = _LOADED_CHAIN
    with (
        _load(target, devices),
        _open(target, chains, lambda n: _hop_chain(devices, n, _SMALL_BYTES)) as runs,
    ):
        seconds = [[_timed(run) for run in runs] for _ in range(_LOADED_REPEATS)]
    short_s, long_s = np.transpose(seconds)
    return max(float(np.median(long_s - short_s)), 0.0) / (chains[1] - chains[0])


@contextlib.contextmanager
def _load(target: str, devices: Sequence[str]) -> Iterator[None]:
    """Keeps the devices busy, from a thread of its own."""
    stop = threading.Event()

    def build(length: int) -> tf.Operation:
        chains = [_matmul_chain(device, length) for device in devices for _ in range(_LOAD_WIDTH)]
        return tf.group(*chains)

    with _open(target, (_LOAD_CHAIN,), build) as (run,):

        def work() -> None:
            while not stop.is_set():
                run()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _slope(target: str, chains: tuple[int, int], build: Callable[[int], tf.Operation]) -> float:
    """Returns the seconds of one more operation in the chain."""
    with _open(target, chains, build) as runs:
        seconds = [[_timed(run) for run in runs] for _ in range(_REPEATS)]
    short_s, long_s = np.min(seconds, axis=0)
    return max(long_s - short_s, 1e-9) / (chains[1] - chains[0])


@contextlib.contextmanager
def _open(
    target: str, chains: Sequence[int], build: Callable[[int], tf.Operation]
) -> Iterator[list[Callable[[], object]]]:
    """Opens a session on a graph with one chain of each length, and no optimizer.

    Yields one function a chain, which runs it; each has run once.
    """
    graph = tf.Graph()
    with graph.as_default():
        steps = [build(length) for length in chains]
        initializer = v1.global_variables_initializer()
    with v1.Session(target, graph=graph, config=_plain_config()) as session:
        session.run(initializer)
        runs = [session.make_callable(step) for step in steps]
        for run in runs:
            run()
        yield runs


def _timed(run: Callable[[], object]) -> float:
    """Returns the wall seconds of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _plain_config() -> tf.compat.v1.ConfigProto:
    """Returns a configuration under which the graph runs as it was built."""
    config = v1.ConfigProto(isolate_session_state=True)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = v1.OptimizerOptions.L0
    return config


def _launch_chain(device: str, length: int) -> tf.Operation:
    with tf.device(device):
        x = _input([], length)
        for _ in range(length):
            x = tf.add(x, x)
        return x.op


def _matmul_chain(device: str, length: int) -> tf.Operation:
    rows, width = _MATMUL
    with tf.device(device):
        x, weights = _input([rows, width], length), _input([width, width], length)
        for _ in range(length):
            x = tf.matmul(x, weights)
        return x.op


def _negate_chain(device: str, length: int, elements: int) -> tf.Operation:
    with tf.device(device):
        x = tf.fill([elements], _input([], length))
        for _ in range(length):
            x = tf.negative(x)
        return x.op


def _hop_chain(devices: Sequence[str], length: int, size: int) -> tf.Operation:
    with tf.device(devices[0]):
        x = tf.fill([size // 4], _input([], length))
    for hop in range(length):
        with tf.device(devices[(hop + 1) % 2]):
            x = tf.identity(x)
    return x.op


def _input(shape: Sequence[int], length: int) -> tf.Tensor:
    """Returns the value of a variable of small numbers, whose products do not overflow."""
    with v1.variable_scope(f"chain_{length}", auxiliary_name_scope=False):
        name = f"input_{len(v1.global_variables())}"
        scale = v1.constant_initializer(0.5 / max([1, *shape]))
        return v1.get_variable(name, shape, initializer=scale, use_resource=True).read_value()
