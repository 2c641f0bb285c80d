"""The program `grappler-go`."""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Sequence

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2


class BadInput(Exception):
    """An input that cannot be used; the message names the file, the field and the value."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit status: 0, 1 for a failed check, 2 for a bad input."""
    parser = argparse.ArgumentParser(
        prog="grappler-go", description="Learned op placement for TensorFlow."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser("doctor", help="check that the installation works")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run=_doctor)
    plan = commands.add_parser("plan", help="plan a GraphDef for given devices")
    plan.add_argument("graph", help="GraphDef or MetaGraphDef, .pb or .pbtxt")
    plan.add_argument(
        "--devices", required=True, help="full device names, comma-separated; need not be attached"
    )
    plan.add_argument("--fetch", default="", help="fetched ops, comma-separated")
    plan.add_argument("--profile", default="", help="file with a device profile, JSON")
    plan.add_argument("--costs", default="", help="file with measured op costs, JSON")
    plan.add_argument("--out", default="-", help="file for the plan, JSON; - = standard output")
    plan.set_defaults(run=_plan)
    arguments = parser.parse_args(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        return arguments.run(arguments)
    except BadInput as error:
        print(f"grappler-go: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT


def _doctor(arguments: argparse.Namespace) -> int:
    from grappler_go import doctor

    checks = doctor.diagnose()
    ok = all(check.ok for check in checks)
    if arguments.json:
        print(json.dumps({"ok": ok, "checks": [dataclasses.asdict(check) for check in checks]}))
    else:
        for check in checks:
            print(f"{'ok    ' if check.ok else 'FAILED'} {check.name}: {check.detail}")
    return 0 if ok else EXIT_FAILED


def _plan(arguments: argparse.Namespace) -> int:
    # TensorFlow takes seconds to import: not for `--help`.
    import tensorflow as tf

    import grappler_go

    graph = _read_graph(pathlib.Path(arguments.graph))
    profile = _read_text(pathlib.Path(arguments.profile)) if arguments.profile else ""
    try:
        plan = grappler_go.plan(
            graph,
            arguments.devices.split(","),
            fetch=[name for name in arguments.fetch.split(",") if name],
            profile=profile,
            costs=arguments.costs,
        )
    except tf.errors.OpError as error:
        raise BadInput(f"{arguments.graph}: {error.message}") from error
    if arguments.out == "-":
        print(plan.json, end="")
    else:
        _write(pathlib.Path(arguments.out), plan.json)
    return 0


def _read_graph(path: pathlib.Path):  # type: ignore[no-untyped-def]
    from google.protobuf import message, text_format
    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import meta_graph_pb2

    if path.suffix not in (".pb", ".pbtxt"):
        raise BadInput(f"{path}: the name must end in .pb or .pbtxt")
    data = _read_bytes(path)
    for proto in (graph_pb2.GraphDef(), meta_graph_pb2.MetaGraphDef()):
        try:
            if path.suffix == ".pbtxt":
                text_format.Parse(data.decode(), proto)
            else:
                proto.ParseFromString(data)
        except (message.DecodeError, text_format.ParseError, UnicodeDecodeError):
            continue
        graph = proto.graph_def if isinstance(proto, meta_graph_pb2.MetaGraphDef) else proto
        if graph.node:
            return graph
    raise BadInput(f"{path}: neither a GraphDef nor a MetaGraphDef with nodes")


def _read_bytes(path: pathlib.Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def _read_text(path: pathlib.Path) -> str:
    try:
        return _read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not text: {error.reason} at byte {error.start}") from error


def _write(path: pathlib.Path, text: str) -> None:
    """Writes aside and renames: a reader sees the old file or the new one."""
    aside = path.with_name(f"{path.name}.tmp")
    try:
        aside.write_text(text)
        aside.replace(path)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
