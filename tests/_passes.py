"""Runs things with the pass on and off, and says what it did to them."""

import collections
import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

import grappler_go

ROOT = pathlib.Path(grappler_go.__file__).resolve().parent.parent
SEEDS = (0, 1, 2)
# One random legal plan, written whatever it costs: a seed is a plan.
RANDOM: dict[str, Any] = {
    "candidates": "random",
    "keep_default": False,
    "samples": 1,
    "search": 0,
    "fail_on_error": True,
}
# Copies between devices and the ends of a function say nothing of where work is done.
_NO_WORK = {"_Send", "_Recv", "_HostSend", "_HostRecv", "_Arg", "_Retval", "Const", "NoOp"}


def read_reports(directory: pathlib.Path) -> list[dict[str, Any]]:
    """The reports that the pass wrote into a directory, in order of their number."""
    paths = sorted(directory.glob("*.json"), key=lambda path: int(path.name.split(".")[-2]))
    return [json.loads(path.read_text()) for path in paths]


def placement(report: dict[str, Any]) -> dict[str, int]:
    """The device index of each op by name."""
    return {node["name"]: node["device"] for node in report["nodes"]}


@contextlib.contextmanager
def enabled(directory: pathlib.Path, **options: Any) -> Iterator[None]:
    """The pass is on inside, and reports to `directory`."""
    grappler_go.enable(report=str(directory), **options)
    try:
        yield
    finally:
        grappler_go.disable()


@contextlib.contextmanager
def executed() -> Iterator[collections.Counter]:
    """Afterwards holds how many ops each device was given, of all functions first called inside."""
    counts: collections.Counter = collections.Counter()
    context.context().enable_graph_collection()
    try:
        yield counts
    finally:
        metadata = context.context().export_run_metadata()
        context.context().disable_graph_collection()
        for graph in metadata.partition_graphs:
            counts.update(node.device for node in graph.node if node.op not in _NO_WORK)


def placed_ops(metadata: Any) -> dict[str, str]:
    """The device of each op by name, "CPU:1", of the graphs that were executed."""
    return {
        node.name: node.device.rpartition("device:")[2]
        for graph in metadata.partition_graphs
        for node in graph.node
        if node.op not in _NO_WORK
    }


def assert_same(got: Any, want: Any, *, rtol: float, what: str) -> None:
    """Compares nested results: floats within `rtol` of the largest value, all else exactly."""
    tf.nest.assert_same_structure(got, want, expand_composites=True)
    pairs = zip(
        tf.nest.flatten(got, expand_composites=True),
        tf.nest.flatten(want, expand_composites=True),
        strict=True,
    )
    for index, (one, other) in enumerate(pairs):
        a, b = np.asarray(one), np.asarray(other)
        assert a.shape == b.shape and a.dtype == b.dtype, f"{what}, output {index}"
        if a.dtype.kind == "f" and rtol > 0:
            atol = rtol * float(np.max(np.abs(b), initial=0.0))
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=f"{what}, {index}")
        else:
            np.testing.assert_array_equal(a, b, err_msg=f"{what}, output {index}")


def assert_pass_keeps(
    run: Callable[[], Any],
    directory: pathlib.Path,
    *,
    rtol: float = 0.0,
    seeds: tuple[int, ...] = SEEDS,
    min_devices: int = 2,
    default: bool = True,
    **options: Any,
) -> None:
    """Asserts that `run` returns the same without the pass, with it, and with random plans.

    Args:
      run: the program; calls functions that are traced already or not, and leaves no state behind.
      directory: for the reports.
      rtol: share of the largest value by which floats may differ.
      seeds: of the random plans. Each must have been written, and ops run apart.
      min_devices: devices that must have been given work under a random plan.
      default: whether to try the pass as it is by default, too.
      **options: options of all runs.
    """
    want = run()
    if default:
        with enabled(directory / "default", fail_on_error=True, **options):
            assert_same(run(), want, rtol=rtol, what="default options")
        assert read_reports(directory / "default"), "the pass did not run"
    for seed in seeds:
        reports_at = directory / f"seed{seed}"
        with enabled(reports_at, seed=seed, **RANDOM | options), executed() as devices:
            got = run()
        assert_same(got, want, rtol=rtol, what=f"random plan {seed}")
        reports = read_reports(reports_at)
        assert reports and all(report["applied"] for report in reports), reports_at
        assert {report["source"] for report in reports} == {"random"}
        planned = max(sum(n > 0 for n in report["ops_per_device"]) for report in reports)
        assert planned >= min_devices, [report["ops_per_device"] for report in reports]
        assert len(devices) >= min_devices, devices
    assert_same(run(), want, rtol=rtol, what="off again")


def run_python(
    code: str, *, timeout_s: float = 240.0, **environment: str
) -> subprocess.CompletedProcess:
    """Runs a program in a process of its own, with this checkout in front."""
    paths = [str(ROOT), str(ROOT / "python"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
