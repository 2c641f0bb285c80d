"""Suite `simulator`: predicted against measured steps and memory, and the simulator's speed."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import tempfile
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

import grappler_go
from go_bench import allocator, capture, fingerprint, layered, measure, plan_set, stored_plan
from go_bench.attached import Attached, attach
from go_bench.capture import PlannedStep
from go_bench.demo_lib import base_config
from go_bench.rows import Row
from go_bench.runner import Replayed, Settings, check_names
from go_bench.workloads import Workload, registry
from grappler_go import costs as costs_lib
from grappler_go.errors import BadInput

WORKLOADS = (
    "rnnlm-2",
    "gnmt-2",
    "transformer_xl-2",
    "wavenet-2x9",
    "amoebanet",
    "inception_v3-b32",
)
_ATTACHED = ("auto", "gpu", "cluster")
_SPEED = "speed"
_SPEED_NODES = (1_000, 10_000, 100_000)
_SPEED_EVENTS = 2_000_000
_ROUNDS = 6
_WARMUP = 2
_PROFILE_STEPS = 5


@dataclasses.dataclass(frozen=True)
class SimulatorSuite:
    """How well the simulator predicts what runs on the attached devices."""

    name: str = "simulator"
    description: str = "predicted against measured steps and memory, and simulated ops a second"

    def cases(self, settings: Settings) -> Sequence[str]:
        """A case a workload, and the speed."""
        check_names("--workloads", settings.workloads, (*registry.names(), _SPEED))
        check_names("--preset", (settings.preset,), registry.PRESETS)
        if settings.methods:
            raise BadInput(
                f"--methods {settings.methods[0]}: '{self.name}' has no methods to choose from"
            )
        if settings.devices not in _ATTACHED:
            raise BadInput(f"--devices {settings.devices}: must be attached, to be measured")
        return settings.workloads or (*WORKLOADS, _SPEED)

    def run(self, case: str, settings: Settings) -> Iterable[Row]:
        """Measures every plan of a workload, step by step in turn."""
        if case == _SPEED:
            yield from _speed(self.name)
            return
        with attach(settings.devices) as attached:  # type: ignore[arg-type]
            yield from _accuracy(self.name, case, settings.preset, attached)

    def replay(self, rows: Sequence[Row]) -> Iterable[Replayed]:
        """Measures the plans again, those of one workload step by step in turn."""
        specs = dict.fromkeys(row.device_spec for row in rows)
        for spec in specs:
            if spec not in _ATTACHED:
                raise BadInput(f"field 'device_spec' is '{spec}', must be attached, to be measured")
        for spec in specs:
            with attach(spec) as attached:  # type: ignore[arg-type]
                members = [row for row in rows if row.device_spec == spec]
                for name, preset in dict.fromkeys((row.workload, row.preset) for row in members):
                    alike = [row for row in members if (row.workload, row.preset) == (name, preset)]
                    yield from _again(alike, registry.build(name, preset=preset), attached)

    def summarize(self, rows: Sequence[Row]) -> Mapping[str, typing.Any]:
        """Spearman's rank correlation and errors within each workload, and the medians of them."""
        measured: dict[str, list[Row]] = {}
        for row in rows:
            if row.workload != _SPEED:
                measured.setdefault(row.workload, []).append(row)
        table = {name: workload_figures(group) for name, group in measured.items()}
        speed = {
            f"{row.nodes}x{len(row.devices)}": row.extra["node_events_per_s"]
            for row in rows
            if row.workload == _SPEED
        }
        result: dict[str, typing.Any] = {"workloads": table, "speed": speed}
        if table:
            worst = min(table, key=lambda name: table[name]["spearman"])
            result |= {
                "spearman_median": float(np.median([t["spearman"] for t in table.values()])),
                "abs_error_median": float(
                    np.median([abs(_error(row)) for group in measured.values() for row in group])
                ),
                "memory_error_median": float(
                    np.median(
                        [abs(_memory_error(row)) for group in measured.values() for row in group]
                    )
                ),
                "worst_workload": worst,
                "worst_spearman": table[worst]["spearman"],
            }
        if "10000x1" in speed:
            result["node_events_per_s"] = speed["10000x1"]
        return result


def workload_figures(rows: Sequence[Row]) -> dict[str, float]:
    """Returns plans, Spearman's correlation, and the median errors of the plans of one workload."""
    predicted = [row.extra["predicted_s"] for row in rows]
    measured = [row.step_s or 0.0 for row in rows]
    return {
        "plans": len(rows),
        "spearman": spearman(predicted, measured),
        "abs_error_median": float(np.median([abs(_error(row)) for row in rows])),
        "error_worst": float(max((_error(row) for row in rows), key=abs)),
        "memory_error_median": float(np.median([abs(_memory_error(row)) for row in rows])),
    }


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Returns the rank correlation; values that are equal share their mean rank."""
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, np.float64)
    below = (array[np.newaxis, :] < array[:, np.newaxis]).sum(axis=1)
    equal = (array[np.newaxis, :] == array[:, np.newaxis]).sum(axis=1)
    return below + (equal - 1) / 2


def _error(row: Row) -> float:
    return row.extra["predicted_s"] / row.step_s - 1 if row.step_s else float("inf")


def _memory_error(row: Row) -> float:
    """The error of the fullest device's peak."""
    return max(row.extra["predicted_peak_bytes"]) / max(*row.peak_bytes, 1.0) - 1


def _accuracy(suite: str, name: str, preset: str, attached: Attached) -> Iterable[Row]:
    workload = registry.build(name, preset=preset)
    with tempfile.TemporaryDirectory() as folder:
        costs = _profile(workload, attached, pathlib.Path(folder))
        graph = _capture(workload, attached, costs)
        plans = plan_set.plan_set(graph, workload)
        measured = _measure(workload, attached, graph, plans, costs)
        identity = fingerprint.fingerprint(graph)
        baseline = measured["tf_default"].outputs
        for method, plan in plans.items():
            report = measured[method].trace
            assert report is not None
            peaks = allocator.peak_bytes(report)
            seconds, predicted_peaks = predict(graph, plan)
            yield Row(
                suite=suite,
                case=name,
                workload=name,
                preset=preset,
                mode="train",
                fingerprint=identity,
                nodes=graph.num_nodes,
                devices=tuple(graph.devices),
                method=method,
                step_s=measured[method].median_s,
                spread_s=measured[method].iqr_s,
                n=measured[method].n,
                peak_bytes=tuple(peaks.get(device, 0.0) for device in graph.devices),
                bound_s=1e-6 * max(graph.critical_path_us, graph.work_us, graph.fixed_us),
                compile_s=max(0.0, measured[method].first_s - measured[method].median_s),
                plan=stored_plan.pack(plan.placement, plan.priority),
                extra={
                    "predicted_s": seconds,
                    "predicted_peak_bytes": predicted_peaks,
                    "output_difference": measure.output_difference(
                        baseline, measured[method].outputs
                    ),
                    "device_profile": dict(attached.device_profile),
                },
            )


def _again(rows: Sequence[Row], workload: Workload, attached: Attached) -> Iterable[Replayed]:
    """Measures rows of one workload again; ops are profiled anew, since their costs order steps."""
    with tempfile.TemporaryDirectory() as folder:
        costs = _profile(workload, attached, pathlib.Path(folder))
        graph = _capture(workload, attached, costs)
        identity = fingerprint.fingerprint(graph)
        plans = {}
        for number, row in enumerate(rows):
            if not _changed(row, identity, graph.devices) and row.plan is not None:
                placement, priority = stored_plan.unpack(row.plan)
                plans[f"{number}"] = PlannedStep(placement=placement, priority=priority)
        measured = _measure(workload, attached, graph, plans, costs) if plans else {}
        for number, row in enumerate(rows):
            seen = measured.get(f"{number}")
            if seen is None:
                yield Replayed(row=row, changed=_changed(row, identity, graph.devices))
            else:
                yield Replayed(row=row, step_s=seen.median_s, spread_s=seen.iqr_s, measured=True)


def _changed(row: Row, identity: str, devices: Sequence[str]) -> str:
    """Returns why a row's plan does not fit what there is now; "" if it does."""
    if row.devices != tuple(devices):
        return f"the devices are {', '.join(devices)} now"
    if row.fingerprint != identity:
        return f"the graph is '{identity}' now, was '{row.fingerprint}'"
    return ""


def _profile(workload: Workload, attached: Attached, folder: pathlib.Path) -> pathlib.Path:
    """Writes what each op costs into a file in the folder, and returns it."""
    path = folder / "costs.json"
    seen = attached.profile_ops(workload, base_config(), _PROFILE_STEPS)
    costs_lib.write(
        path,
        seen.op_us,
        device_type=attached.device_type,
    )
    return path


def _capture(workload: Workload, attached: Attached, costs: pathlib.Path) -> grappler_go.OpGraph:
    """Opens the graph as the pass is given it."""
    return capture.capture(workload, attached.target, base_config()).open(
        profile=json.dumps(dict(attached.device_profile)), costs=str(costs)
    )


def _measure(
    workload: Workload,
    attached: Attached,
    graph: grappler_go.OpGraph,
    plans: Mapping[str, PlannedStep],
    costs: pathlib.Path,
) -> dict[str, measure.Measurement]:
    """Measures a step with each plan, which the pass takes from a file beside the costs."""
    profile = json.dumps(dict(attached.device_profile))
    configs = {}
    for method, plan in plans.items():
        path = costs.with_name(f"{method}.plan.json")
        path.write_text(plan.to_json(graph, method))
        configs[method] = base_config(
            grappler_go.session_config(
                plan=str(path), profile=profile, costs=str(costs), fail_on_error=True
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


def predict(graph: grappler_go.OpGraph, plan: PlannedStep) -> tuple[float, list[float]]:
    """Returns the simulated step in seconds, and each device's peak of the step's own tensors."""
    priority = None if plan.priority is None else plan.priority[np.newaxis]
    step = graph.simulate(plan.placement[np.newaxis], priority)
    persistent = np.bincount(plan.placement, graph.persistent_bytes, minlength=graph.num_devices)
    return 1e-6 * float(step.step_us[0]), [float(b) for b in step.peak_bytes[0] - persistent]


def _speed(suite: str) -> Iterable[Row]:
    """Simulates generated graphs on one thread, on one device and on runs over two and eight."""
    for nodes in _SPEED_NODES:
        graph_def = layered.layered_graph(nodes)
        for count in (1, 2, 8):
            devices = [f"/job:worker/replica:0/task:{k}/device:CPU:0" for k in range(count)]
            graph = grappler_go.OpGraph(graph_def, devices, fetch=[layered.last(nodes)])
            runs = np.arange(graph.num_nodes) * count // graph.num_nodes
            placement = graph.repair(runs.astype(np.int32))
            plans = np.tile(placement, (max(2, _SPEED_EVENTS // nodes), 1))
            seconds = min(graph.simulate(plans, threads=1).seconds for _ in range(5))
            yield Row(
                suite=suite,
                case=_SPEED,
                workload=_SPEED,
                preset="",
                mode="",
                nodes=nodes,
                devices=tuple(devices),
                method="simulator",
                timed=False,
                extra={"node_events_per_s": plans.size / seconds, "plans": len(plans)},
            )
