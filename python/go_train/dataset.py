"""Examples for behaviour cloning: graphs on devices, with the best heuristic's placement as label.

Features, labels, legality and step times all come from the C++ library through
`grappler_go.OpGraph`, so that training sees what the deployed pass sees.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from go_train import graphs
from go_train.network import FeatureTable

TRAIN = "train"
VALIDATION = "validation"
INCOMING = "incoming"  # The plan of the graph as it stands.
_KERAS = "keras"
_TIME_FEATURE = "node/log_time_share"  # log10(1e-6 + time / mean time) / 6


class PlacementGraph(Protocol):
    """The part of `grappler_go.OpGraph` that training uses."""

    groups: np.ndarray
    """Colocation group of each op [ops]; members share a device."""

    def features(self) -> Mapping[str, np.ndarray]:
        """The nine inputs of the policy."""

    def heuristic(self, name: str, *, seed: int = 0, transfer_weight: float = 1.0) -> np.ndarray:
        """Device indices [ops] of a heuristic plan."""

    def simulate(self, placements: np.ndarray) -> Any:
        """Simulated `step_us` and `feasible` [plans] of placements [plans, ops]."""

    def repair(self, placement: np.ndarray) -> np.ndarray:
        """The nearest legal placement [ops]."""


@dataclasses.dataclass(frozen=True)
class Devices:
    """Devices to place on.

    Attributes:
        kind: "workers" or "gpus".
        names: full device names.
        profile: device profile, JSON text.
    """

    kind: str
    names: tuple[str, ...]
    profile: str


@dataclasses.dataclass(frozen=True)
class Example:
    """A graph on devices with the placement to imitate.

    Attributes:
        name: graph and devices.
        family: the graph's family.
        features: the nine inputs of the policy.
        labels: int32 [ops], device indices.
        weights: float32 [ops], how much an op's label counts; mean 1 over ops with a choice.
        graph: what simulates placements of it; None where only imitation is judged.
    """

    name: str
    family: str
    features: Mapping[str, np.ndarray]
    labels: np.ndarray
    weights: np.ndarray
    graph: PlacementGraph | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """Settings of the training data.

    Attributes:
        families: generated families, keys of graphs.FAMILIES.
        graphs_per_family: generated graphs of each family, half of them training steps.
        keras_models: real models, keys of graphs.KERAS_MODELS; each forward and as a training step.
        device_counts: each graph is placed on so many workers, and on a CPU and so many GPUs.
        teachers: heuristics to imitate; the one with the fastest simulated step is the label.
        transfer_weights: how shy of transfers the teachers are made; each is tried.
        margin: by what share of the incoming step a plan must be faster to be preferred to it.
        validation_every: every so many graphs of a family (real models too) are held out.
        max_nodes: graphs with more nodes are left out.
        seed: equal seeds give equal data.
    """

    families: tuple[str, ...] = tuple(graphs.FAMILIES)
    graphs_per_family: int = 40
    keras_models: tuple[str, ...] = tuple(graphs.KERAS_MODELS)
    device_counts: tuple[int, ...] = (2, 4, 8)
    teachers: tuple[str, ...] = ("m_etf", "critical_path")
    transfer_weights: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    margin: float = 0.05
    validation_every: int = 6
    max_nodes: int = 4000
    seed: int = 0

    def __post_init__(self) -> None:
        for field, known in (("families", graphs.FAMILIES), ("keras_models", graphs.KERAS_MODELS)):
            for name in getattr(self, field):
                if name not in known:
                    raise ValueError(
                        f"DatasetConfig.{field}: want names out of {', '.join(known)}, got {name!r}"
                    )
        for field in ("teachers", "transfer_weights", "device_counts"):
            if not getattr(self, field):
                raise ValueError(f"DatasetConfig.{field}: want at least one")
        if self.validation_every < 2:
            raise ValueError(
                f"DatasetConfig.validation_every: want at least 2, got {self.validation_every}"
            )


_CORE = {  # One core of a server.
    "matmul_gflops": 60.0,
    "elementwise_gops": 2.0,
    "memory_gb_per_s": 8.0,
    "launch_us": 8.0,
}
_P100 = {  # What dense layers reach of it.
    "matmul_gflops": 7000.0,
    "elementwise_gops": 200.0,
    "memory_gb_per_s": 500.0,
    "launch_us": 6.0,
}
# gRPC copies on the processors at both ends; PCIe does not.
_GRPC = {"latency_us": 400.0, "gb_per_s": 2.0, "busy_us": 100.0, "busy_gb_per_s": 3.0}
_PCIE = {"latency_us": 20.0, "gb_per_s": 10.0}
_RATES = ("matmul_gflops", "elementwise_gops", "memory_gb_per_s")


def _vary(rng: np.random.Generator, figures: Mapping[str, float]) -> dict[str, float]:
    """Returns `figures`, each times at most 2 either way, to four digits."""
    return {
        name: float(f"{value * 2.0 ** rng.uniform(-1, 1):.4g}") for name, value in figures.items()
    }


def _profile(
    rng: np.random.Generator,
    *,
    devices: Mapping[str, Mapping[str, float]],
    links: Sequence[tuple[str, str, str, Mapping[str, float]]],
    slowest: float,
) -> str:
    """Returns a profile around the given figures, JSON text.

    All compute is up to `slowest` times slower: to a planner that is a graph as much heavier, so
    that a small graph stands for a large one, and some graphs gain from more devices, some lose.
    """
    slowdown = slowest ** rng.uniform(0, 1)
    varied = {kind: _vary(rng, figures) for kind, figures in devices.items()}
    for figures in varied.values():
        for name in _RATES:
            figures[name] /= slowdown
    return json.dumps(
        {
            "version": 1,
            "name": "training",
            "devices": varied,
            "links": [
                {"source": source, "target": target, "scope": scope, **_vary(rng, figures)}
                for source, target, scope, figures in links
            ],
        }
    )


def cpu_workers(count: int, rng: np.random.Generator) -> Devices:
    """Returns `count` single-core worker processes that talk over gRPC."""
    names = tuple(f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in range(count))
    profile = _profile(
        rng, devices={"CPU": _CORE}, links=[("CPU", "CPU", "remote", _GRPC)], slowest=64.0
    )
    return Devices("workers", names, profile)


def gpu_host(count: int, rng: np.random.Generator) -> Devices:
    """Returns a CPU and `count` P100-like GPUs in one process."""
    host = "/job:localhost/replica:0/task:0"
    gpus = (f"{host}/device:GPU:{i}" for i in range(count))
    ends = (("GPU", "GPU"), ("CPU", "GPU"), ("GPU", "CPU"))
    profile = _profile(
        rng,
        devices={"CPU": _CORE, "GPU": _P100},
        links=[(source, target, "local", _PCIE) for source, target in ends],
        slowest=16.0,
    )
    return Devices("gpus", (f"{host}/device:CPU:0", *gpus), profile)


def interchangeable(features: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns bool [devices, devices]: whether swapping two devices leaves all inputs the same."""
    device, link = features["device_features"], features["link_features"]
    pairs, mask = features["node_device_features"], features["node_device_mask"]
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


def canonical_labels(labels: np.ndarray, features: Mapping[str, np.ndarray]) -> np.ndarray:
    """Renames interchangeable devices by their first use in topological order.

    Plans that differ only by such names cost the same; without this the labels of two equal GPUs
    would be noise. Devices that anything tells apart (a pinned op, a link) keep their names.

    Args:
        labels: int32 [ops], device indices.
        features: the nine inputs.
    """
    same = interchangeable(features)
    free = features["node_device_mask"].sum(axis=1) > 1
    order = np.concatenate([np.flatnonzero(free), np.flatnonzero(~free)])
    used, first = np.unique(labels[order], return_index=True)
    by_first_use = used[np.argsort(first)]
    renamed = np.full(len(same), -1, np.int32)
    taken: set[int] = set()
    unused = [device for device in range(len(same)) if device not in by_first_use]
    for device in [*by_first_use, *unused]:
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


def best_plan(graph: PlacementGraph, config: DatasetConfig) -> np.ndarray:
    """Returns the fastest feasible plan [ops] of the teachers, or the incoming one.

    With one teacher and one weight there is nothing to choose: its plan is the result.
    """
    plans = [
        graph.heuristic(teacher, transfer_weight=weight)
        for teacher in config.teachers
        for weight in config.transfer_weights
    ]
    if len(plans) == 1:
        return plans[0]
    plans.append(graph.heuristic(INCOMING))
    result = graph.simulate(np.stack(plans))
    times = np.where(result.feasible, result.step_us, np.inf)
    times[:-1] /= 1.0 - config.margin
    return plans[int(np.argmin(times))]


def make_example(
    *,
    name: str,
    family: str,
    graph: PlacementGraph,
    table: FeatureTable,
    config: DatasetConfig,
    keep_graph: bool,
) -> Example:
    """Returns the example of `graph`: features, canonical labels of the best plan, weights."""
    features = graph.features()
    labels = canonical_labels(best_plan(graph, config), features)
    return Example(
        name=name,
        family=family,
        features=features,
        labels=labels.astype(np.int32),
        weights=node_weights(relative_times(features, table), features["node_device_mask"]),
        graph=graph if keep_graph else None,
    )


@dataclasses.dataclass(frozen=True)
class _Recipe:
    """How to build one graph, and which side of the split it is on."""

    family: str
    split: str
    build: Callable[[], graphs.TrainingGraph]
    seed: int


def _recipes(config: DatasetConfig) -> Iterator[_Recipe]:
    """Yields the graphs of `config`; a graph is held out as a whole, on all its devices."""

    def split(index: int) -> str:
        return VALIDATION if index % config.validation_every == 0 else TRAIN

    for family in config.families:
        for index in range(config.graphs_per_family):
            seed = config.seed * 100_003 + index
            # `training` alternates at another pace than the split, so that both sides have both.
            training = (index + index // config.validation_every) % 2 == 1

            build = functools.partial(graphs.random_graph, family, seed, training=training)
            yield _Recipe(family, split(index), build, seed)
    for index, (model, training) in enumerate(
        (model, training) for model in config.keras_models for training in (False, True)
    ):
        build = functools.partial(graphs.keras_graph, model, training=training)
        yield _Recipe(_KERAS, split(index), build, config.seed * 100_003 + 50_000 + index)


def count_graphs(config: DatasetConfig) -> int:
    """Returns how many graphs `load` builds, before any is left out for its size."""
    return sum(1 for _ in _recipes(config))


def load(
    config: DatasetConfig,
    *,
    table: FeatureTable,
    op_graph: Callable[..., PlacementGraph],
    on_graph: Callable[[], None] = lambda: None,
) -> dict[str, list[Example]]:
    """Builds all graphs of `config` on all their devices.

    Args:
        config: what to build.
        table: the feature table of the library.
        op_graph: `grappler_go.OpGraph`.
        on_graph: called after each graph, for a progress bar.

    Returns:
        Examples by split; those of VALIDATION can be simulated.
    """
    examples: dict[str, list[Example]] = {TRAIN: [], VALIDATION: []}
    for recipe in _recipes(config):
        built = recipe.build()
        if len(built.graph_def.node) <= config.max_nodes:
            for count, make_devices in itertools.product(
                config.device_counts, (cpu_workers, gpu_host)
            ):
                devices = make_devices(count, np.random.default_rng([recipe.seed, count]))
                graph = op_graph(
                    built.graph_def,
                    list(devices.names),
                    profile=devices.profile,
                    fetch=built.fetch,
                    feed=built.feed,
                )
                examples[recipe.split].append(
                    make_example(
                        name=f"{built.name}/{devices.kind}-{count}",
                        family=recipe.family,
                        graph=graph,
                        table=table,
                        config=config,
                        keep_graph=recipe.split == VALIDATION,
                    )
                )
        on_graph()
    return examples
