"""What a `local_cluster` tells its workers, as the command line that carries it."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence

EXIT_PORT_TAKEN = 75  # EX_TEMPFAIL of sysexits.h: try again, on other ports.


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """What one worker is told.

    Attributes:
      ports: port of each worker of the cluster.
      task: which of them this one is.
      core: the core that it pins itself to.
      intra_op: threads that one op may use.
      inter_op: ops that may run at once.
      library: shared library to load, "" for none.
      parent: process id of the parent; the worker ends when it has another one.
    """

    ports: tuple[int, ...]
    task: int
    core: int
    intra_op: int
    inter_op: int
    library: str
    parent: int


def command(options: WorkerOptions) -> list[str]:
    """Returns the arguments that make a Python interpreter this worker."""
    arguments = dataclasses.asdict(options) | {"ports": ",".join(map(str, options.ports))}
    return [
        "-m",
        "grappler_go._worker",
        *(f"--{name}={value}" for name, value in arguments.items()),
    ]


def parse(arguments: Sequence[str] | None) -> WorkerOptions:
    """Reads the arguments after the module's name; None stands for those of this process."""
    parser = argparse.ArgumentParser(prog="grappler_go._worker")
    parser.add_argument("--ports", type=_ports, required=True)
    parser.add_argument("--library", required=True)
    for name in ("task", "core", "intra_op", "inter_op", "parent"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return WorkerOptions(**vars(parser.parse_args(arguments)))


def _ports(text: str) -> tuple[int, ...]:
    return tuple(int(port) for port in text.split(","))
