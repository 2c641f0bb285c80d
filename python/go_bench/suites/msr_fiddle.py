"""Suite `msr-fiddle`: profiled graphs of others, with human experts' splits, simulated."""

from __future__ import annotations

import dataclasses
import pathlib
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

import grappler_go
from go_bench import fingerprint, methods
from go_bench.baselines.method import Task
from go_bench.rows import Row
from go_bench.runner import Replayed, Settings
from go_bench.suites import placement
from grappler_go import inputs
from grappler_go.errors import BadInput
from grappler_go.graph_input import GraphInput

_SPLITS = "human-experts"
_SUFFIX = "_expert"


@dataclasses.dataclass(frozen=True)
class MsrFiddleSuite:
    """Every method on the profiled graphs of a folder, on the devices that each speaks of."""

    name: str = "msr-fiddle"
    description: str = "profiled graphs of a folder (--workloads DIR) with human experts' splits"

    def cases(self, settings: Settings) -> Sequence[str]:
        """A case a graph file, below the folders that `--workloads` names."""
        placement.method_names(settings)
        if settings.devices != "auto":
            raise BadInput(
                f"--devices {settings.devices}: this suite takes the devices of the graphs, auto"
            )
        if not settings.workloads:
            raise BadInput("--workloads: must name a folder of graphs, or graph files")
        found: list[str] = []
        for name in settings.workloads:
            path = pathlib.Path(name)
            if path.is_dir():
                found += [str(each) for each in sorted(path.rglob("*.json")) if not _is_split(each)]
            elif path.is_file():
                found.append(name)
            else:
                raise BadInput(f"--workloads {name}: no such file or folder")
        if not found:
            raise BadInput(f"--workloads {','.join(settings.workloads)}: no graph there (*.json)")
        return found

    def run(self, case: str, settings: Settings) -> Iterable[Row]:
        """Runs every method on one graph."""
        read = inputs.read(case)
        graph = _open(case, read)
        human = _human(pathlib.Path(case), read, graph)
        task = Task(graph=graph, priority=graph.priorities(), human=human)
        names = [
            name
            for name in placement.method_names(settings)
            if human is not None or name != methods.HUMAN_EXPERT
        ]
        for placed in placement.place_all(task, names, settings.seeds, placement.BUDGET):
            yield placement.simulated_row(
                placed,
                graph,
                suite=self.name,
                case=case,
                workload=_label(case),
                preset="",
                mode="train" if "training" in case else "forward",
                fingerprint=fingerprint.fingerprint(graph),
                device_spec=f"{sum('GPU' in each for each in graph.devices)} accelerators",
                extra={"budget": placement.BUDGET, "path": case},
            )

    def summarize(self, rows: Sequence[Row]) -> Mapping[str, typing.Any]:
        """Step time over lower bound by method."""
        return {"over_bound": placement.bound_ratios(rows)}

    def replay(self, rows: Sequence[Row]) -> Iterable[Replayed]:
        """Simulates the rows' plans again; the graphs must be where they were."""
        groups: dict[str, list[Row]] = {}
        for row in rows:
            groups.setdefault(row.extra["path"], []).append(row)
        for path, members in groups.items():
            yield from placement.replay_simulated(members, _open(path, inputs.read(path)))


def _open(case: str, read: GraphInput) -> grappler_go.OpGraph:
    if not read.declared or not read.devices:
        raise BadInput(f"{case}: no profiled graph with devices")
    return grappler_go.OpGraph(
        read.graph_def,
        read.devices,
        fetch=read.fetch,
        feed=read.feed,
        profile=read.profile,
        move_state=True,
    )


def _human(path: pathlib.Path, read: GraphInput, graph: grappler_go.OpGraph) -> np.ndarray | None:
    """Returns the expert's placement where the collection has a split of the graph's model.

    A split for inference serves the training graph too.
    """
    model = path.stem.rpartition("_")[0]
    for folder in path.parents:
        for split in sorted((folder / _SPLITS).glob(f"{model}_*{_SUFFIX}.json")):
            device_of = inputs.read_split(split, read)
            index = {name: number for number, name in enumerate(graph.devices)}
            wanted = [index[device_of[name]] for name in graph.names]
            return graph.repair(np.asarray(wanted, np.int32))
    return None


def _is_split(path: pathlib.Path) -> bool:
    return path.parent.name == _SPLITS


def _label(case: str) -> str:
    """Returns the file's name with the folder that tells graphs of one model apart."""
    path = pathlib.Path(case)
    return f"{path.parent.parent.name.removesuffix('-inputs')}/{path.stem}"
