"""Chrome traces of a step, for https://ui.perfetto.dev: a process a device, a row a thread."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterable, Mapping, Sequence

from tensorflow.core.framework import step_stats_pb2

from go_bench import profiling

_TRANSFER = re.compile(r"edge_\d+_(?P<node>\S+) from (?P<source>\S+) to (?P<target>\S+)")
_COMPUTE_ROW = 1
_TRANSFER_ROW = 101

Event = dict[str, typing.Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """What one device did from a time to another, in microseconds since the step began."""

    device: str
    name: str
    op: str
    start_us: float
    end_us: float
    label: str
    transfer: bool


def chrome_trace(report: step_stats_pb2.StepStats) -> dict[str, typing.Any]:
    """Returns the trace: ops and received tensors of each device, and an arrow for each transfer.

    A received tensor is drawn from the time that it was asked for, so it includes the wait for the
    op that makes it; the arrow starts where that op ended.
    """
    spans = _spans(report)
    devices = {device: pid for pid, device in enumerate(sorted({s.device for s in spans}), 1)}
    events = [_named("process_name", pid, 0, device) for device, pid in devices.items()]
    made = {(span.device, span.name): span for span in spans if not span.transfer}
    where: dict[int, tuple[int, int]] = {}
    for device, pid in devices.items():
        for transfer, first, title in (
            (False, _COMPUTE_ROW, "ops"),
            (True, _TRANSFER_ROW, "received"),
        ):
            mine = [s for s in spans if s.device == device and s.transfer == transfer]
            for row, group in enumerate(_rows(mine), first):
                events.append(_named("thread_name", pid, row, f"{title} {row - first}"))
                for span in group:
                    where[id(span)] = (pid, row)
                    events.append(_duration(span, pid, row))
    events += _arrows(spans, made, where)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _spans(report: step_stats_pb2.StepStats) -> list[Span]:
    nodes = [(device.device, node) for device in report.dev_stats for node in device.node_stats]
    if not nodes:
        return []
    origin_us = min(node.all_start_micros for _, node in nodes)
    return [_span(device, node, origin_us) for device, node in nodes]


def _span(device: str, node: step_stats_pb2.NodeExecStats, origin_us: int) -> Span:
    start_us = node.all_start_micros - origin_us
    if profiling.is_transfer(node):
        match = _TRANSFER.search(node.timeline_label)
        return Span(
            device=device,
            name=match.group("node") if match else node.node_name,
            op=node.node_name,
            start_us=start_us,
            end_us=start_us + node.all_end_rel_micros,
            label=node.timeline_label,
            transfer=True,
        )
    return Span(
        device=device,
        name=node.node_name,
        op=profiling.op_type(node) or node.node_name,
        start_us=start_us + node.op_start_rel_nanos / 1e3,
        end_us=start_us + max(node.op_end_rel_nanos, node.op_start_rel_nanos) / 1e3,
        label=node.timeline_label,
        transfer=False,
    )


def _rows(spans: Iterable[Span]) -> list[list[Span]]:
    """Splits spans into as few rows as it takes for none to overlap within a row."""
    rows: list[list[Span]] = []
    for span in sorted(spans, key=lambda each: (each.start_us, each.end_us)):
        free = (row for row in rows if row[-1].end_us <= span.start_us)
        row = next(free, None)
        if row is None:
            rows.append([span])
        else:
            row.append(span)
    return rows


def _duration(span: Span, pid: int, row: int) -> Event:
    return {
        "ph": "X",
        "name": span.op,
        "cat": "transfer" if span.transfer else "op",
        "pid": pid,
        "tid": row,
        "ts": span.start_us,
        "dur": span.end_us - span.start_us,
        "args": {"node": span.name, "label": span.label},
    }


def _arrows(
    spans: Sequence[Span],
    made: Mapping[tuple[str, str], Span],
    where: Mapping[int, tuple[int, int]],
) -> list[Event]:
    """Returns an arrow from the op that made each received tensor, where the trace has it."""
    events: list[Event] = []
    for number, span in enumerate(spans):
        match = _TRANSFER.search(span.label) if span.transfer else None
        maker = made.get((match.group("source"), span.name)) if match else None
        if maker is None:
            continue
        common = {"name": "transfer", "cat": "transfer", "id": number}
        for kind, end in (("s", maker), ("f", span)):
            pid, row = where[id(end)]
            bind = {"bp": "e"} if kind == "f" else {}
            # An arrow binds to the slice that is open at its time.
            time_us = max(end.start_us, end.end_us - 1e-3)
            events.append({"ph": kind, "pid": pid, "tid": row, "ts": time_us, **bind, **common})
    return events


def _named(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
