"""Several single-core TensorFlow workers on this machine, to measure placement without a GPU.

Each worker is a process of its own with a `tf.distribute.Server` in it, pinned to one core: two of
them are two real devices, with real transfers (loopback gRPC) between them. Logical devices of one
process are not: they share one thread pool.
"""

from __future__ import annotations

import os
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
import typing
import weakref
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
from absl import logging

from grappler_go import _library, _worker_options

_JOB = "worker"
_LOG_LINES = 8
_PORT_ATTEMPTS = 5
_STOP_TIMEOUT_S = 3.0
_PACKAGE_ROOT = pathlib.Path(__file__).resolve().parent.parent


class ClusterError(RuntimeError):
    """A worker process could not be started, or has ended."""


class _PortTaken(ClusterError):
    """Another process took a worker's port between our choosing it and the worker's binding it."""


class _Worker:
    """One worker process and the log that it writes."""

    def __init__(self, options: _worker_options.WorkerOptions):
        self.task = options.task
        # An unnamed file: nothing to clean up, whichever way the parent ends. `end` closes it.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, *_worker_options.command(options)],
            stdin=subprocess.PIPE,  # Its end of file tells the worker that this process has ended.
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=_worker_environment(),
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends its workers.
        )

    def end(self, deadline: float) -> None:
        """Waits for a process that was asked to end, kills it at the deadline, closes its files."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._log):
            if stream is not None:
                stream.close()

    def last_words(self) -> str:
        """Says how the worker ended and what it last logged."""
        return (
            f"worker {self.task} (pid {self.process.pid}) ended with "
            f"{_describe_exit(self.process.wait())}; last lines of its log: {self.log_tail()}"
        )

    def log_tail(self) -> str:
        """Returns the last lines of the log."""
        # pread leaves alone the offset, which the worker shares.
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), 1 << 14, max(0, size - (1 << 14)))
        lines = text.decode(errors="replace").strip().splitlines()[-_LOG_LINES:]
        return "\n  ".join(["", *lines]) if lines else "(empty)"


class LocalCluster:
    """Running workers; a context manager that ends them.

    Attributes:
      targets: `grpc://127.0.0.1:PORT` of each worker.
      devices: full name of each worker's CPU device.
      pids: process id of each worker.
      cores: the core that each worker is pinned to.
    """

    def __init__(self, workers: Sequence[_Worker], ports: Sequence[int], cores: Sequence[int]):
        self._workers = tuple(workers)
        self.targets = tuple(f"grpc://127.0.0.1:{port}" for port in ports)
        self.devices = tuple(
            f"/job:{_JOB}/replica:0/task:{task}/device:CPU:0" for task in range(len(ports))
        )
        self.pids = tuple(worker.process.pid for worker in workers)
        self.cores = tuple(cores)
        self._finalizer = weakref.finalize(self, _stop, self._workers)

    @property
    def master(self) -> str:
        """The target to open sessions on: worker 0, where Grappler runs."""
        return self.targets[0]

    def alive(self) -> bool:
        """Returns whether every worker still runs."""
        return all(worker.process.poll() is None for worker in self._workers)

    def check(self) -> None:
        """Raises ClusterError, in words, for each worker that has ended."""
        if not self._finalizer.alive:
            raise ClusterError("the local cluster has been closed")
        _check(self._workers)

    def close(self) -> None:
        """Ends the workers; a second call does nothing."""
        self._finalizer()

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        try:
            # What TensorFlow says of a dead worker is "socket closed": say which one and why.
            if isinstance(error, tf.errors.OpError) and self._finalizer.alive:
                try:
                    self.check()
                except ClusterError as cause:
                    raise cause from error
        finally:
            self.close()


def local_cluster(
    n: int,
    *,
    cores: Sequence[int] | None = None,
    intra_op: int = 1,
    inter_op: int = 4,
    library: str | None = None,
    start_timeout_s: float = 60.0,
) -> LocalCluster:
    """Starts `n` workers on this machine and waits until all of them answer.

    The workers end with the `with` block, with `close()`, and with this process, however it ends.

    Args:
      n: number of workers, at least 1.
      cores: cores to pin the workers to, in turn; those that this process may use by default.
        Workers share cores where there are fewer cores than workers.
      intra_op: threads that one op may use in a worker.
      inter_op: ops that run at once in a worker. With 1, sends wait behind compute and nothing
        overlaps; for the profile of op costs, 1 is right.
      library: the shared library to load in each worker; None is the one in this package and ""
        none.
      start_timeout_s: seconds to wait for the workers.

    Raises:
      ValueError: for an option out of range.
      FileNotFoundError: where `library` does not exist.
      ClusterError: if a worker ends, or does not answer in time.
    """
    for name, value in (("n", n), ("intra_op", intra_op), ("inter_op", inter_op)):
        if value < 1:
            raise ValueError(f"local_cluster: {name} must be at least 1, got {value}")
    allowed = os.sched_getaffinity(0)
    chosen = sorted(allowed) if cores is None else list(cores)
    if not chosen or not allowed.issuperset(chosen):
        raise ValueError(f"local_cluster: cores must be out of {sorted(allowed)}, got {chosen}")
    pinned = [chosen[task % len(chosen)] for task in range(n)]
    common = {"intra_op": intra_op, "inter_op": inter_op, "library": _library_path(library)}
    deadline = time.monotonic() + start_timeout_s
    for attempt in range(_PORT_ATTEMPTS):
        try:
            return _start(pinned, common, deadline)
        except _PortTaken as error:
            if attempt + 1 == _PORT_ATTEMPTS:
                raise
            logging.info("starting the workers again on other ports: %s", error)
    raise AssertionError("unreachable")


def _start(cores: Sequence[int], common: Mapping[str, typing.Any], deadline: float) -> LocalCluster:
    """Starts one worker a core on free ports, and ends them all if one of them fails."""
    ports = tuple(_free_ports(len(cores)))
    workers: list[_Worker] = []
    try:
        for task, core in enumerate(cores):
            workers.append(
                _Worker(
                    _worker_options.WorkerOptions(
                        ports=ports, task=task, core=core, parent=os.getpid(), **common
                    )
                )
            )
        _await_ready(workers, deadline)
        cluster = LocalCluster(workers, ports, cores)
        _await_devices(cluster, deadline)
        return cluster
    except BaseException:
        _stop(workers)
        raise


def _await_ready(workers: Sequence[_Worker], deadline: float) -> None:
    """Waits for the line that each worker writes once its server listens."""
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(_stdout(worker), selectors.EVENT_READ, worker)
        while selector.get_map():
            events = selector.select(timeout=max(0.0, deadline - time.monotonic()))
            if not events:
                _raise_late(key.data for key in selector.get_map().values())
            for key, _ in events:
                worker = typing.cast(_Worker, key.data)
                if not os.read(key.fd, 64):  # End of file: it has ended.
                    _raise_ended(worker)
                selector.unregister(key.fileobj)


def _await_devices(cluster: LocalCluster, deadline: float) -> None:
    """Asks the master for the devices: it answers once it has reached every worker."""
    timeout_ms = max(1, int(1000 * (deadline - time.monotonic())))
    config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=timeout_ms)
    graph = tf.Graph()
    with graph.as_default():
        nothing = tf.no_op()
    try:
        with tf.compat.v1.Session(cluster.master, graph=graph, config=config) as session:
            session.run(nothing)
            found = {device.name for device in session.list_devices()}
    except tf.errors.OpError as error:
        cluster.check()
        raise ClusterError(f"the master at {cluster.master} did not answer: {error}") from error
    missing = set(cluster.devices) - found
    if missing:
        raise ClusterError(f"the master at {cluster.master} lacks the devices {sorted(missing)}")


def _check(workers: Sequence[_Worker]) -> None:
    ended = [worker for worker in workers if worker.process.poll() is not None]
    if ended:
        raise ClusterError("; ".join(worker.last_words() for worker in ended))


def _raise_ended(worker: _Worker) -> typing.NoReturn:
    if worker.process.wait() == _worker_options.EXIT_PORT_TAKEN:
        raise _PortTaken(worker.last_words())
    raise ClusterError(worker.last_words())


def _raise_late(workers: Iterable[_Worker]) -> typing.NoReturn:
    raise ClusterError(
        "; ".join(
            f"worker {worker.task} (pid {worker.process.pid}) did not answer in time; "
            f"last lines of its log: {worker.log_tail()}"
            for worker in workers
        )
    )


def _stop(workers: Sequence[_Worker]) -> None:
    """Ends the workers: asks all, then kills those that are left."""
    for worker in workers:
        worker.process.terminate()
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    for worker in workers:
        worker.end(deadline)


def _stdout(worker: _Worker) -> typing.IO[bytes]:
    assert worker.process.stdout is not None
    return worker.process.stdout


def _library_path(library: str | None) -> str:
    """Returns the path of the library to load in the workers, or "" for none."""
    if library == "":
        return ""
    path = _library.LIBRARY_PATH if library is None else pathlib.Path(library)
    if not path.is_file():
        raise FileNotFoundError(f"local_cluster: library {path} does not exist")
    return str(path)


def _free_ports(n: int) -> list[int]:
    """Returns `n` different free ports; they are held together, so that none comes up twice."""
    sockets = []
    try:
        for _ in range(n):
            sockets.append(socket.socket())
            # All interfaces, as TensorFlow binds: a port can be free on loopback alone.
            sockets[-1].bind(("0.0.0.0", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _worker_environment() -> dict[str, str]:
    """Returns the environment of a worker: no GPU, and this package in front."""
    environment = dict(os.environ)
    environment["CUDA_VISIBLE_DEVICES"] = "-1"
    paths = [str(_PACKAGE_ROOT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    # gRPC would send loopback traffic through a proxy that the environment names.
    environment["no_proxy"] = "127.0.0.1"
    return environment


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
    return f"signal {-code} ({name})"
