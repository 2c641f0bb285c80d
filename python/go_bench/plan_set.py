"""Plans of every kind for one graph: what a simulator has to put in the right order."""

from __future__ import annotations

import json
import zlib

import numpy as np

import grappler_go
from go_bench.baselines import direct
from go_bench.baselines.method import Task
from go_bench.capture import PlannedStep
from go_bench.workloads import Workload

_SEGMENTS = (2, 3, 5, 9)
_MOVED = (0.02, 0.1)
_SEARCH = 3000
_SHORT_SEARCH = 300


def plan_set(graph: grappler_go.OpGraph, workload: Workload) -> dict[str, PlannedStep]:
    """Returns 21 plans by name: default, human, random, of heuristics, the policy's, searched.

    Half of them are scheduled too. The random ones: legal devices drawn op by op, runs of ops in
    topological order on alternating devices, and the default with a few ops moved.
    """
    incoming = graph.heuristic("incoming")
    by_path = _choose(graph, candidates="critical_path", search=0)
    order = by_path.priority
    random = np.random.default_rng(zlib.crc32(workload.name.encode()))
    human = direct.by_layers(Task(graph=graph, layer_of=workload.layer_of, layers=workload.layers))
    plans = {
        "tf_default": PlannedStep(placement=incoming),
        "tf_default+order": PlannedStep(placement=incoming, priority=order),
        "human_expert": PlannedStep(placement=human),
        "human_expert+order": PlannedStep(placement=human, priority=order),
        "single_device": PlannedStep(placement=graph.heuristic("single_device", seed=1)),
        "random": PlannedStep(placement=graph.heuristic("random", seed=0)),
        "random+order": PlannedStep(placement=graph.heuristic("random", seed=1), priority=order),
    }
    for index, count in enumerate(_SEGMENTS):
        cuts = np.sort(random.integers(0, graph.num_nodes, count))
        segment = np.searchsorted(cuts, np.arange(graph.num_nodes), side="right") + index
        placement = graph.repair((segment % graph.num_devices).astype(np.int32))
        plans[f"segments-{count}"] = PlannedStep(
            placement=placement, priority=order if index % 2 else None
        )
    for share in _MOVED:
        moved = random.random(graph.num_nodes) < share
        other = (incoming + 1) % graph.num_devices
        placement = graph.repair(np.where(moved, other, incoming).astype(np.int32))
        plans[f"moved-{share:g}"] = PlannedStep(placement=placement)
    for weight in (1, 4):
        path = graph.heuristic("critical_path", transfer_weight=weight)
        etf = graph.heuristic("m_etf", transfer_weight=weight)
        plans[f"critical_path-{weight}"] = PlannedStep(
            placement=path, priority=order if weight > 1 else None
        )
        plans[f"m_etf-{weight}"] = PlannedStep(
            placement=etf, priority=order if weight == 1 else None
        )
    policy = _choose(graph, candidates="policy", samples=4, search=0)
    plans["go_policy"] = PlannedStep(placement=policy.placement)
    found = _choose(graph, candidates="critical_path,m_etf", search=_SEARCH)
    plans["search+order"] = found
    plans["search"] = PlannedStep(placement=found.placement)
    short = _choose(
        graph, candidates="critical_path", search=_SHORT_SEARCH, seed=3, tasks="placement"
    )
    plans["short_search"] = PlannedStep(placement=short.placement)
    return plans


def _choose(graph: grappler_go.OpGraph, **options: object) -> PlannedStep:
    report = json.loads(graph.choose(keep_default=False, **options))
    return PlannedStep(
        placement=np.asarray([node["device"] for node in report["nodes"]], np.int32),
        priority=np.asarray([node["priority"] for node in report["nodes"]], np.int32),
    )
