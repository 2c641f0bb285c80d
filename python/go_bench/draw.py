"""Pictures of a plan, drawn from the report that the pass writes."""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import figure
from matplotlib.axes import Axes

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
_SIZE_INCHES = (11.0, 6.0)
_DPI = 150
_BAR = 0.8

Report = Mapping[str, typing.Any]


def draw_plan(report: Report, path: str | os.PathLike[str], *, title: str) -> None:
    """Draws where each op goes, over the topological order, and when the simulator runs it.

    Args:
      report: what the pass wrote (`report` option), nodes in topological order.
      path: of the picture; its suffix says the format.
      title: above the picture.

    Raises:
      ValueError: if the report has no nodes.
    """
    nodes, devices = report["nodes"], report["devices"]
    if not nodes:
        raise ValueError("draw_plan: the report's field 'nodes' is empty")
    picture = figure.Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    order, timeline = picture.subplots(2, 1)
    picture.suptitle(title)
    _draw_order(order, nodes, devices)
    _draw_timeline(timeline, nodes, devices)
    picture.savefig(path)


def _draw_order(axes: Axes, nodes: Sequence[Report], devices: Sequence[str]) -> None:
    device = np.array([node["device"] for node in nodes])
    for index in range(len(devices)):
        runs = _runs(device == index)
        axes.broken_barh(runs, (index - _BAR / 2, _BAR), color=_colour(index), linewidth=0)
    axes.set_xlim(0, len(nodes))
    axes.set_xlabel("op, in topological order")
    counts = np.bincount(device, minlength=len(devices))
    _label_devices(
        axes, [f"{_short(name)}\n{count} ops" for name, count in zip(devices, counts, strict=True)]
    )


def _draw_timeline(axes: Axes, nodes: Sequence[Report], devices: Sequence[str]) -> None:
    for index in range(len(devices)):
        spans = [
            (node["start_us"] / 1e3, (node["end_us"] - node["start_us"]) / 1e3)
            for node in nodes
            if node["device"] == index
        ]
        axes.broken_barh(spans, (index - _BAR / 2, _BAR), color=_colour(index), linewidth=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("predicted time of the step [ms]")
    _label_devices(axes, [_short(name) for name in devices])


def _label_devices(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)


def _runs(chosen: np.ndarray) -> list[tuple[int, int]]:
    """Returns start and length of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(np.int8), [0]])))
    return [(int(start), int(end - start)) for start, end in edges.reshape(-1, 2)]


def _colour(device: int) -> str:
    return COLOURS[device % len(COLOURS)]


def _short(name: str) -> str:
    """Returns the parts of a device name that tell it from its neighbours."""
    return name.split("/replica:0/")[-1].replace("device:", "")
