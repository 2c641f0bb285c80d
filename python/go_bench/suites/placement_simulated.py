"""Suite `placement-simulated`: every method on the paper's rows, on devices known on paper."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence

from go_bench import fingerprint
from go_bench.baselines.method import Task
from go_bench.rows import Row
from go_bench.runner import Replayed, Settings, check_names
from go_bench.step_graph import open_on_paper
from go_bench.suites import placement
from go_bench.workloads import registry
from grappler_go import device_profiles
from grappler_go.errors import BadInput

_PAPER_DEVICE = "p100"


@dataclasses.dataclass(frozen=True)
class PlacementSimulatedSuite:
    """Which method places best, where all see the same costs, legality and budget."""

    name: str = "placement-simulated"
    description: str = "the paper's rows on 2, 4 and 8 P100-like devices, simulated, every method"

    def cases(self, settings: Settings) -> Sequence[str]:
        """A case a workload: by default those of the paper, on as many devices as there."""
        check_names("--workloads", settings.workloads, registry.names())
        check_names("--preset", (settings.preset,), registry.PRESETS)
        placement.method_names(settings)
        if settings.devices in ("gpu", "cluster"):
            raise BadInput(
                f"--devices {settings.devices}: this suite takes a device profile such as p100:4, "
                "or auto for the paper's number of them"
            )
        return settings.workloads or tuple(
            name for name in registry.names() if registry.entry(name).paper_devices
        )

    def run(self, case: str, settings: Settings) -> Iterable[Row]:
        """Runs every method on one workload."""
        spec = _spec(case, settings.devices)
        workload = registry.build(case, preset=settings.preset)
        graph = open_on_paper(workload, device_profiles.load(spec))
        task = Task(
            graph=graph,
            priority=graph.priorities(),
            layer_of=workload.layer_of,
            layers=workload.layers,
        )
        names = placement.method_names(settings)
        print_now = fingerprint.fingerprint(graph)
        for placed in placement.place_all(task, names, settings.seeds, placement.BUDGET):
            yield placement.simulated_row(
                placed,
                graph,
                suite=self.name,
                case=case,
                workload=case,
                preset=settings.preset,
                mode="train",
                fingerprint=print_now,
                device_spec=spec,
                extra={"budget": placement.BUDGET},
            )

    def summarize(self, rows: Sequence[Row]) -> Mapping[str, typing.Any]:
        """Step time over lower bound by method, and the rows where a heuristic beats GO."""
        return {"over_bound": placement.bound_ratios(rows)}

    def replay(self, rows: Sequence[Row]) -> Iterable[Replayed]:
        """Simulates the rows' plans again."""
        groups: dict[tuple[str, str, str], list[Row]] = {}
        for row in rows:
            groups.setdefault((row.workload, row.preset, row.device_spec), []).append(row)
        for (name, preset, spec), members in groups.items():
            workload = registry.build(name, preset=preset)
            graph = open_on_paper(workload, device_profiles.load(spec))
            yield from placement.replay_simulated(members, graph)


def _spec(workload: str, devices: str) -> str:
    if devices != "auto":
        return devices
    return f"{_PAPER_DEVICE}:{registry.entry(workload).paper_devices or 2}"
