"""Entry point of one `local_cluster` worker: `python -m grappler_go._worker`.

It pins itself to a core, loads the library, serves until its standard input closes (the parent has
then ended, even by SIGKILL), and writes one line to standard output once it listens.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import typing
from collections.abc import Sequence

from grappler_go import _worker_options

_PARENT_POLL_S = 2.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves until the parent ends."""
    options = _worker_options.parse(arguments)
    # Standard output is for the one line to the parent: what libraries print goes to the log.
    ready = os.dup(1)
    os.dup2(2, 1)
    _end_with_parent(options.parent)
    _pin(options.core)
    server = _serve(options)
    _refuse_other_machines()
    os.write(ready, b"ready\n")
    server.join()


def _end_with_parent(parent: int) -> None:
    """Ends this process as soon as the parent does, from a thread of its own.

    PR_SET_PDEATHSIG would not do: it fires when the parent's *thread* ends. The poll is for a
    parent whose other children hold the pipe open.
    """

    def watch() -> None:
        while os.getppid() == parent:
            readable, _, _ = select.select([0], [], [], _PARENT_POLL_S)
            if readable and not os.read(0, 1):
                break
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _pin(core: int) -> None:
    """Pins every thread so far to the core; later threads inherit it."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {core})


def _serve(options: _worker_options.WorkerOptions) -> typing.Any:
    """Starts the server of this task."""
    import tensorflow as tf  # Only now: its thread pools count the cores that they may use.

    if options.library:
        tf.load_library(options.library)
    port = options.ports[options.task]
    try:
        return tf.distribute.Server(
            {"worker": [f"127.0.0.1:{each}" for each in options.ports]},
            job_name="worker",
            task_index=options.task,
            config=tf.compat.v1.ConfigProto(
                intra_op_parallelism_threads=options.intra_op,
                inter_op_parallelism_threads=options.inter_op,
                device_count={"GPU": 0},
            ),
        )
    except tf.errors.OpError as error:
        if _is_taken(port):
            sys.stderr.write(f"port {port} is taken: {error}\n")
            sys.stderr.flush()
            os._exit(_worker_options.EXIT_PORT_TAKEN)
        raise


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return True
    return False


def _refuse_other_machines() -> None:
    """Restricts the listening sockets to the loopback interface.

    TensorFlow listens on all interfaces whatever address it is given, and runs any graph for
    anybody. A kernel or sandbox that refuses the option is reported, not fatal.
    """
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # The descriptor of this listing is gone by now.
            _restrict_listener(os.dup(int(entry)))


def _restrict_listener(descriptor: int) -> None:
    """Restricts the socket, if it is one that listens, and closes this descriptor of it."""
    try:
        listener = socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        return
    with listener:
        if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
        except OSError as error:
            sys.stderr.write(f"the worker listens on all interfaces: {error}\n")


if __name__ == "__main__":
    main()
