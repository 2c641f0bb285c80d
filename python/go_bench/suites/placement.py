"""What the placement suites share: methods run on a task, each a row."""

from __future__ import annotations

import dataclasses
import time
import typing
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

import grappler_go
from go_bench import fingerprint, methods, stored_plan
from go_bench.baselines.method import Found, Task
from go_bench.capture import PlannedStep
from go_bench.rows import Row
from go_bench.runner import Replayed, Settings, check_names

# Simulated steps that a method may spend.
BUDGET = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Placed:
    """What one method made of a task.

    Attributes:
      method: its name.
      seed: what it was seeded with.
      found: what it found.
      priority: order that goes with the placement, i32 [N]; None = TensorFlow's.
      search_s: seconds that it took.
      why_infeasible: the devices over their limit, in words; "" where it fits.
    """

    method: str
    seed: int
    found: Found
    priority: np.ndarray | None
    search_s: float
    why_infeasible: str

    @property
    def planned(self) -> PlannedStep:
        """The plan as the pass takes it."""
        return PlannedStep(placement=self.found.placement, priority=self.priority)


def place_all(task: Task, names: Sequence[str], seeds: int, budget: int) -> Iterator[Placed]:
    """Runs the methods; those that do not draw lots once, the others with each seed."""
    for name in names:
        # TensorFlow's own step is what it is: no order either.
        own = dataclasses.replace(task, priority=None) if name == methods.TF_DEFAULT else task
        for seed in range(seeds if methods.needs_search(name) else 1):
            start = time.perf_counter()
            found = methods.METHODS[name](own, budget, seed)
            seconds = time.perf_counter() - start
            yield Placed(
                method=name,
                seed=seed,
                found=found,
                priority=own.priority,
                search_s=seconds,
                why_infeasible=_why(task.graph, found.placement),
            )


def simulated_row(placed: Placed, graph: grappler_go.OpGraph, **fields: typing.Any) -> Row:
    """Returns the row of a simulated step; `fields` are the row's that the graph does not say."""
    step = simulate(graph, placed.found.placement, placed.priority)
    why = placed.why_infeasible if step is None else ""
    # Without words, a row without a time is one that ran out of memory; by how much is beside it.
    out_of_memory = " needs " in why and "never run" not in why
    extra = dict(fields.pop("extra", {})) | ({"why": why} if why else {})
    return Row(
        nodes=graph.num_nodes,
        devices=tuple(graph.devices),
        method=placed.method,
        seed=placed.seed,
        step_s=step,
        n=1,
        failure="" if out_of_memory else why,
        peak_bytes=peaks(graph, placed.found.placement, placed.priority),
        bound_s=bound_s(graph),
        evaluations=placed.found.evaluations,
        search_s=placed.search_s,
        plan=stored_plan.pack(placed.found.placement, placed.priority),
        curve=tuple((count, 1e-6 * us) for count, us in placed.found.curve if np.isfinite(us)),
        extra=extra,
        **fields,
    )


def replay_simulated(rows: Sequence[Row], graph: grappler_go.OpGraph) -> Iterator[Replayed]:
    """Simulates rows of one graph again, each from its plan."""
    print_now = fingerprint.fingerprint(graph)
    for row in rows:
        if row.fingerprint != print_now:
            yield Replayed(row=row, changed=f"the graph is {print_now}, was {row.fingerprint}")
            continue
        assert row.plan is not None
        yield Replayed(row=row, step_s=simulate(graph, *stored_plan.unpack(row.plan)))


def simulate(
    graph: grappler_go.OpGraph, placement: np.ndarray, priority: np.ndarray | None
) -> float | None:
    """Returns the simulated step in seconds, None where it does not fit into memory."""
    step = graph.simulate(placement[np.newaxis], None if priority is None else priority[np.newaxis])
    return 1e-6 * float(step.step_us[0]) if step.feasible[0] else None


def peaks(
    graph: grappler_go.OpGraph, placement: np.ndarray, priority: np.ndarray | None
) -> tuple[float, ...]:
    """Returns each device's simulated peak memory in bytes."""
    step = graph.simulate(placement[np.newaxis], None if priority is None else priority[np.newaxis])
    return tuple(float(each) for each in step.peak_bytes[0])


def bound_s(graph: grappler_go.OpGraph) -> float:
    """Returns what no placement can be faster than, in seconds."""
    return 1e-6 * max(graph.critical_path_us, graph.work_us, graph.fixed_us)


def method_names(settings: Settings) -> tuple[str, ...]:
    """Returns the methods asked for, or all that can be had of any graph.

    Raises:
      BadInput: for an unknown one.
    """
    check_names("--methods", settings.methods, tuple(methods.METHODS))
    return settings.methods or methods.DEFAULT


def bound_ratios(rows: Sequence[Row]) -> Mapping[str, float]:
    """Returns by method the geometric mean of step time over lower bound."""
    logs: dict[str, list[float]] = {}
    for row in rows:
        if row.step_s and row.bound_s:
            logs.setdefault(row.method, []).append(float(np.log(row.step_s / row.bound_s)))
    return {method: float(np.exp(np.mean(each))) for method, each in logs.items()}


def _why(graph: grappler_go.OpGraph, placement: np.ndarray) -> str:
    return graph.simulate(placement[np.newaxis]).why_infeasible[0]
