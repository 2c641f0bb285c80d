"""What to imitate: the best plan that heuristics or a local search find for a graph."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from go_train.table import FeatureTable

INCOMING = "incoming"  # The plan of the graph as it stands.
LIST_SCHEDULERS = ("m_etf", "critical_path")
TRANSFER_WEIGHTS = (1.0, 2.0, 4.0, 8.0)

_TIME_FEATURE = "node/log_time_share"  # log10(1e-6 + time / mean time) / 6


class PlacementGraph(Protocol):
    """The part of `grappler_go.OpGraph` that training uses."""

    groups: np.ndarray
    """Colocation group of each op [ops]; members share a device."""

    def features(self) -> Mapping[str, np.ndarray]:
        """The inputs of the policy but the groups."""

    def blocks(self) -> np.ndarray:
        """What is decided as one: the block of each op by level [levels, ops]."""

    def heuristic(self, name: str, *, seed: int = 0, transfer_weight: float = 1.0) -> np.ndarray:
        """Device indices [ops] of a heuristic plan."""

    def simulate(self, placements: np.ndarray, priorities: np.ndarray | None = None) -> Any:
        """Simulated `step_us`, `feasible` [plans] and `peak_bytes` of placements [plans, ops]."""

    def repair(self, placement: np.ndarray) -> np.ndarray:
        """The nearest legal placement [ops]."""

    def choose(self, **options: Any) -> str:
        """The pass's choice with these options, as JSON."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeacherConfig:
    """Who makes the plans to imitate.

    Attributes:
        heuristics: list schedulers; the fastest of their plans, or of the incoming one, is the
            label where there is no search.
        transfer_weights: how shy of transfers the list schedulers are made; each is tried.
        search: simulated steps of local search from the best of them; 0 = none.
        margin: by what share of the incoming step a plan must be faster to be preferred to it.
    """

    heuristics: tuple[str, ...] = LIST_SCHEDULERS
    transfer_weights: tuple[float, ...] = TRANSFER_WEIGHTS
    search: int = 4000
    margin: float = 0.02

    def __post_init__(self) -> None:
        for field in ("heuristics", "transfer_weights"):
            if not getattr(self, field):
                raise ValueError(f"TeacherConfig.{field}: want at least one")
        if self.search < 0:
            raise ValueError(f"TeacherConfig.search: want at least 0, got {self.search}")


def interchangeable(features: Mapping[str, np.ndarray], table: FeatureTable) -> np.ndarray:
    """Returns bool [devices, devices]: whether plans cost the same with two devices swapped.

    That is so where nothing tells them apart but what the incoming graph has on them.
    """
    device, link = features["device_features"].copy(), features["link_features"]
    pairs, mask = features["node_device_features"].copy(), features["node_device_mask"]
    for name, array in (("device/incoming_time_share", device), ("node_device/is_incoming", pairs)):
        if name in table.names:
            array[..., table.column(name)] = 0.0
    count = len(device)
    same = np.eye(count, dtype=bool)
    for a in range(count):
        for b in range(a):
            swap = np.arange(count)
            swap[[a, b]] = b, a
            same[a, b] = same[b, a] = (
                np.array_equal(device[a], device[b])
                and np.array_equal(mask[:, a], mask[:, b])
                and np.array_equal(pairs[:, a], pairs[:, b])
                and np.array_equal(link, link[np.ix_(swap, swap)])
            )
    return same


def canonical_labels(
    labels: np.ndarray, features: Mapping[str, np.ndarray], table: FeatureTable
) -> np.ndarray:
    """Renames interchangeable devices by when their work comes: the earliest is the first.

    Plans that differ only by such names cost the same; without this the labels of equal GPUs would
    be noise. Devices that anything tells apart (a pinned op, a link) keep their names.

    Args:
        labels: int32 [ops], device indices.
        features: inputs of the policy.
        table: the feature table.
    """
    same = interchangeable(features, table)
    times = 1e-9 + relative_times(features, table)
    ready = features["node_features"][:, table.column("node/downward_rank")]
    work = np.bincount(labels, times, minlength=len(same))
    middle = np.bincount(labels, times * ready, minlength=len(same)) / np.maximum(work, 1e-9)
    middle[work == 0] = np.inf  # Unused ones come last.
    renamed = np.full(len(same), -1, np.int32)
    taken: set[int] = set()
    for device in np.argsort(middle, kind="stable"):
        renamed[device] = next(int(d) for d in np.flatnonzero(same[device]) if d not in taken)
        taken.add(int(renamed[device]))
    return renamed[labels]


def relative_times(features: Mapping[str, np.ndarray], table: FeatureTable) -> np.ndarray:
    """Returns [ops]: compute time on the fastest legal device over the graph's mean."""
    logs = features["node_features"][:, table.column(_TIME_FEATURE)].astype(np.float64)
    return np.maximum(10.0 ** (6.0 * logs) - 1e-6, 0.0)


def node_weights(times: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Returns float32 [ops]: weights that grow with cost, with mean 1; 0 for ops without a choice.

    The logarithm keeps one huge op from outweighing the structure around it; the constant is there
    because a misplaced op of no cost still costs its transfers.

    Args:
        times: [ops], compute times over their mean.
        mask: [ops, devices], above 0 where legal.
    """
    weights = (0.5 + np.log2(1.0 + times)) * (mask.sum(axis=1) > 1)
    total = weights.sum()
    return (weights * (np.count_nonzero(weights) / total if total else 0.0)).astype(np.float32)


def critical_path_priorities(
    features: Mapping[str, np.ndarray], table: FeatureTable, levels: int
) -> np.ndarray:
    """Returns int32 [ops]: levels by the longest remaining path, as the pass schedules."""
    rank = features["node_features"][:, table.column("node/upward_rank")].astype(np.float64)
    longest = rank.max() if len(rank) else 0.0
    return np.floor(rank / max(longest, 1e-9) * (levels - 1)).astype(np.int32)


def fusion_labels(
    features: Mapping[str, np.ndarray], placement: np.ndarray, table: FeatureTable
) -> np.ndarray:
    """Returns float32 [edges]: 1 where a consumer without dense products joins its producer.

    A rule, not a search: the simulator prices clusters, but no planner proposes them yet.
    """
    source, target = features["edge_source"], features["edge_target"]
    data = features["edge_features"][:, table.column("edge/is_control")] == 0
    flops = features["node_features"][:, table.column("node/log_matmul_flops")]
    times = relative_times(features, table)
    together = placement[source] == placement[target]
    light = (flops[target] == 0) & (times[target] > 0) & (times[source] > 0)
    return (data & together & light).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan and what it is compared with; simulated step times in microseconds, as scheduled.

    Attributes:
        placement: int32 [ops].
        step_us: of it.
        list_us: of the best list schedule.
        single_us: of the best plan on one device.
        incoming_us: of the graph as it came.
    """

    placement: np.ndarray
    step_us: float
    list_us: float
    single_us: float
    incoming_us: float


def best_plan(
    graph: PlacementGraph, priority: np.ndarray, config: TeacherConfig, *, devices: int
) -> Plan:
    """Returns the fastest feasible plan of the teachers, or the incoming one.

    Args:
        graph: what to place.
        priority: the schedule of all plans, int32 [ops].
        config: the teachers.
        devices: how many there are.
    """
    lists = [
        graph.heuristic(teacher, transfer_weight=weight)
        for teacher in config.heuristics
        for weight in config.transfer_weights
    ]
    singles = [graph.heuristic("single_device", seed=device) for device in range(devices)]
    plans = [*lists, *singles, graph.heuristic(INCOMING)]
    if config.search:
        report = json.loads(
            graph.choose(
                candidates="critical_path,m_etf,single_device",
                policy="none",
                search=config.search,
                keep_default=False,
                margin=0.0,
                optimize_timeout_ms=0,
            )
        )
        plans.append(np.array([node["device"] for node in report["nodes"]], np.int32))
    result = graph.simulate(np.stack(plans), priority[np.newaxis])
    times = np.where(result.feasible, result.step_us, np.inf)
    at = len(lists) + len(singles)
    preferred = times.copy()
    preferred[np.arange(len(plans)) != at] /= 1.0 - config.margin
    best = int(np.argmin(preferred))
    return Plan(
        placement=np.asarray(plans[best], np.int32),
        step_us=float(result.step_us[best]),
        list_us=float(times[: len(lists)].min()),
        single_us=float(times[len(lists) : at].min()),
        incoming_us=float(result.step_us[at]),
    )
