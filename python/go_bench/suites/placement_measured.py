"""Suite `placement-measured`: every method's plan run on the attached devices, in turn."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import tempfile
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence

import grappler_go
from go_bench import allocator, capture, fingerprint, measure, methods, stored_plan
from go_bench.attached import Attached, attach
from go_bench.baselines.method import Task
from go_bench.capture import PlannedStep
from go_bench.demo_lib import base_config
from go_bench.rows import Row
from go_bench.runner import Replayed, Settings, check_names
from go_bench.suites import placement
from go_bench.workloads import Workload, registry
from grappler_go import costs as costs_lib
from grappler_go.errors import BadInput

WORKLOADS = (
    "inception_v3-b32",
    "transformer_xl-2",
    "wavenet-2x9",
    "rnnlm-2",
    "gnmt-2",
    "amoebanet",
)
_ROUNDS = 10
_WARMUP = 2
_PROFILE_STEPS = 5
# A plan predicted to gain less than this is not worth a change (the pass's own default).
_MARGIN = 0.05


@dataclasses.dataclass(frozen=True)
class PlacementMeasuredSuite:
    """Which method's placement is fastest where it runs."""

    name: str = "placement-measured"
    description: str = "every method's plan measured on the attached devices, training graphs"

    def cases(self, settings: Settings) -> Sequence[str]:
        """A case a workload."""
        check_names("--workloads", settings.workloads, registry.names())
        check_names("--preset", (settings.preset,), registry.PRESETS)
        placement.method_names(settings)
        if settings.devices not in ("auto", "gpu", "cluster"):
            raise BadInput(f"--devices {settings.devices}: must be attached, to be measured")
        return settings.workloads or WORKLOADS

    def run(self, case: str, settings: Settings) -> Iterable[Row]:
        """Plans with every method, then measures all plans in turn."""
        with attach(settings.devices) as attached:  # type: ignore[arg-type]
            yield from _run(self.name, case, settings, attached)

    def summarize(self, rows: Sequence[Row]) -> Mapping[str, typing.Any]:
        """Step time over lower bound by method."""
        return {"over_bound": placement.bound_ratios(rows)}

    def replay(self, rows: Sequence[Row]) -> Iterable[Replayed]:
        """Measures the rows' plans again, those of a workload in turn."""
        groups: dict[tuple[str, str, str], list[Row]] = {}
        for row in rows:
            groups.setdefault((row.workload, row.preset, row.device_spec), []).append(row)
        for (name, preset, spec), members in groups.items():
            with attach(spec) as attached:  # type: ignore[arg-type]
                yield from _replay(registry.build(name, preset=preset), members, attached)


def _run(suite: str, case: str, settings: Settings, attached: Attached) -> Iterator[Row]:
    workload = registry.build(case, preset=settings.preset)
    config = base_config()
    profile = json.dumps(dict(attached.device_profile))
    with tempfile.TemporaryDirectory() as folder:
        costs = pathlib.Path(folder) / "costs.json"
        seen = attached.profile_ops(workload, config, _PROFILE_STEPS)
        costs_lib.write(costs, seen.op_us, device_type=attached.device_type)
        graph = capture.capture(workload, attached.target, config).open(
            profile=profile, costs=str(costs)
        )
        task = Task(
            graph=graph,
            priority=graph.priorities(),
            layer_of=workload.layer_of,
            layers=workload.layers,
            margin=_MARGIN,
        )
        names = placement.method_names(settings)
        placed = list(placement.place_all(task, names, settings.seeds, placement.BUDGET))
    plans = {f"{each.method}.{each.seed}": each for each in placed}
    measured = _measure(
        workload,
        attached,
        graph,
        {
            name: each.planned
            for name, each in plans.items()
            if each.method != methods.TF_DEFAULT and not _is_default(each, task)
        },
    )
    baseline = measured[_DEFAULT]
    print_now = fingerprint.fingerprint(graph)
    for name, each in plans.items():
        seen_now = measured.get(name, baseline)
        assert seen_now.trace is not None
        peaks = allocator.peak_bytes(seen_now.trace)
        yield Row(
            suite=suite,
            case=case,
            workload=case,
            preset=settings.preset,
            mode="train",
            fingerprint=print_now,
            nodes=graph.num_nodes,
            devices=tuple(graph.devices),
            device_spec=_spec(settings.devices),
            method=each.method,
            plan_source="" if name in measured else "default",
            seed=each.seed,
            step_s=seen_now.median_s,
            spread_s=seen_now.iqr_s,
            n=seen_now.n,
            peak_bytes=tuple(peaks.get(device, 0.0) for device in graph.devices),
            bound_s=placement.bound_s(graph),
            evaluations=each.found.evaluations,
            search_s=each.search_s,
            compile_s=max(0.0, seen_now.first_s - seen_now.median_s),
            plan=stored_plan.pack(each.found.placement, each.priority),
            curve=tuple((count, 1e-6 * us) for count, us in each.found.curve),
            extra={
                "budget": placement.BUDGET,
                "predicted_s": placement.simulate(graph, each.found.placement, each.priority),
                "output_difference": measure.output_difference(baseline.outputs, seen_now.outputs),
                "device_profile": dict(attached.device_profile),
            },
        )


_DEFAULT = "default"


def _is_default(placed: placement.Placed, task: Task) -> bool:
    """Whether GO left the graph as it is: then the pass writes nothing, no order either."""
    incoming = task.graph.heuristic("incoming")
    return placed.method == "go" and bool((placed.found.placement == incoming).all())


def _measure(
    workload: Workload,
    attached: Attached,
    graph: grappler_go.OpGraph,
    plans: Mapping[str, PlannedStep],
) -> dict[str, measure.Measurement]:
    """Measures the plans and, as "default", the step without the pass."""
    with tempfile.TemporaryDirectory() as folder:
        configs = {_DEFAULT: base_config()}
        for name, plan in plans.items():
            path = pathlib.Path(folder) / f"{name}.json"
            path.write_text(plan.to_json(graph, name))
            configs[name] = base_config(
                grappler_go.session_config(
                    plan=str(path),
                    profile=json.dumps(dict(attached.device_profile)),
                    fail_on_error=True,
                )
            )
        return measure.compare(
            workload,
            attached.target,
            configs,
            rounds=_ROUNDS,
            warmup=_WARMUP,
            checked=1,
            trace=True,
        )


def _replay(workload: Workload, rows: Sequence[Row], attached: Attached) -> Iterator[Replayed]:
    graph = capture.capture(workload, attached.target, base_config()).open(
        profile=json.dumps(dict(attached.device_profile)), costs=""
    )
    print_now = fingerprint.fingerprint(graph)
    fit = [row for row in rows if row.fingerprint == print_now]
    for row in rows:
        if row.fingerprint != print_now:
            yield Replayed(row=row, changed=f"the graph is {print_now}, was {row.fingerprint}")
    plans = {}
    for row in fit:
        assert row.plan is not None
        device, priority = stored_plan.unpack(row.plan)
        if row.method != methods.TF_DEFAULT and row.plan_source != "default":
            plans[f"{row.method}.{row.seed}"] = PlannedStep(placement=device, priority=priority)
    measured = _measure(workload, attached, graph, plans) if fit else {}
    for row in fit:
        now = measured.get(f"{row.method}.{row.seed}", measured[_DEFAULT])
        yield Replayed(row=row, step_s=now.median_s, spread_s=now.iqr_s, measured=True)


def _spec(devices: str) -> str:
    return "cluster" if devices == "auto" else devices
