"""Rows that may be compared, brought together: same workload, mode, preset and devices."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from go_bench.rows import Row

Key = tuple[str, str, str, str]


def key_of(row: Row) -> Key:
    """Returns what two rows must share to be compared."""
    return row.workload, row.mode, row.preset, row.device_spec


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What one method got in a group, over its seeds.

    Attributes:
      step_s: step time in seconds, the median over seeds, where a seed that failed counts as
        endless; None if that is endless.
      spread_s: distance between the quartiles over seeds; with one seed, that of its steps.
      by_seed: step time of each seed that has one.
      failures: of the other seeds, by seed: "OOM" or why in words.
      peak_bytes: of the fullest device, the median over seeds; None where it is not known.
      search_s, compile_s: the median over seeds; None where not known.
      evaluations: the median over seeds.
      plan_sources: the planners whose plans were taken, by seed.
    """

    step_s: float | None
    spread_s: float | None
    by_seed: Mapping[int, float]
    failures: Mapping[int, str]
    peak_bytes: float | None
    search_s: float | None
    compile_s: float | None
    evaluations: float
    plan_sources: tuple[str, ...]

    @property
    def failed(self) -> str:
        """Why the method has no step time; "" if it has one."""
        return "" if self.step_s is not None else next(iter(self.failures.values()))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """One workload on given devices.

    Attributes:
      workload, mode, preset, device_spec: what the group's rows have in common.
      devices: number of devices that compute: the GPUs where there are any.
      bound_s: no placement can be faster in the simulator; None where it is not known.
      fingerprints: of the rows' graphs; more than one means that unlike things are compared.
      results: by method.
    """

    workload: str
    mode: str
    preset: str
    device_spec: str
    devices: int
    bound_s: float | None
    fingerprints: tuple[str, ...]
    results: Mapping[str, Result]

    @property
    def key(self) -> Key:
        """What the group's rows have in common."""
        return self.workload, self.mode, self.preset, self.device_spec

    @property
    def label(self) -> str:
        """The group in words."""
        where = f"on {self.device_spec}" if self.device_spec else ""
        return " ".join(filter(None, (self.workload, self.mode, self.preset, where)))


def group(rows: Sequence[Row]) -> list[Group]:
    """Returns the groups of the rows that are about step times, in the order of the rows."""
    by_key: dict[Key, list[Row]] = {}
    for row in rows:
        if row.timed:
            by_key.setdefault(key_of(row), []).append(row)
    return [_group(members) for members in by_key.values()]


def methods(rows: Sequence[Row]) -> tuple[str, ...]:
    """Returns the methods of the rows that are about step times, in the order of the rows."""
    return tuple(dict.fromkeys(row.method for row in rows if row.timed))


def _group(rows: Sequence[Row]) -> Group:
    first = rows[0]
    gpus = sum("GPU:" in device for device in first.devices)
    bounds = [row.bound_s for row in rows if row.bound_s is not None]
    return Group(
        workload=first.workload,
        mode=first.mode,
        preset=first.preset,
        device_spec=first.device_spec,
        devices=gpus or len(first.devices),
        bound_s=min(bounds, default=None),
        fingerprints=tuple(dict.fromkeys(row.fingerprint for row in rows if row.fingerprint)),
        results={
            method: _result([row for row in rows if row.method == method])
            for method in methods(rows)
        },
    )


def _result(rows: Sequence[Row]) -> Result:
    times: dict[int, list[float]] = {}
    failures: dict[int, str] = {}
    for row in rows:
        if row.step_s is None:
            failures[row.seed] = row.failed
        else:
            times.setdefault(row.seed, []).append(row.step_s)
    by_seed = {
        seed: statistics.median(each) for seed, each in times.items() if seed not in failures
    }
    middle = statistics.median([*by_seed.values(), *(math.inf for _ in failures)])
    if len(by_seed) > 1:
        low, high = np.percentile(list(by_seed.values()), [25, 75])
        spread: float | None = float(high - low)
    else:
        spread = _median([row.spread_s for row in rows])
    return Result(
        step_s=middle if math.isfinite(middle) else None,
        spread_s=spread,
        by_seed=by_seed,
        failures=failures,
        peak_bytes=_median([max(row.peak_bytes, default=None) for row in rows]),
        search_s=_median([row.search_s for row in rows]),
        compile_s=_median([row.compile_s for row in rows]),
        evaluations=statistics.median([row.evaluations for row in rows]),
        plan_sources=tuple(dict.fromkeys(row.plan_source for row in rows if row.plan_source)),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
