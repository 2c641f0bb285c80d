"""Examples: graphs on devices, with the best plan that the teachers find as label.

Features, labels, legality and step times all come from the C++ library through
`grappler_go.OpGraph`, so that training sees what the deployed pass sees. Graphs and plans take
minutes to make, so they are kept in a directory, from which a later run takes them.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from go_train import devices as devices_lib
from go_train import graphs, labels, splits, workload_graphs
from go_train.devices import Devices
from go_train.labels import PlacementGraph, Plan, TeacherConfig
from go_train.splits import HELD_OUT, TRAIN, VALIDATION
from go_train.table import GROUP, FeatureTable

PRIORITY_LEVELS = 20  # As the pass schedules, cc/planner.cc.
_OPEN_GRAPHS = 64
_SEED_STRIDE = 100_003


@dataclasses.dataclass(frozen=True)
class Example:
    """A graph on devices with the plan to imitate.

    Attributes:
        name: graph and devices.
        family: the graph's family.
        features: the inputs of the policy.
        labels: int32 [ops], device indices.
        weights: float32 [ops], how much an op's label counts; mean 1 over ops with a choice.
        priority: int32 [ops], the schedule to imitate and to simulate with.
        fusion: float32 [edges], 1 where the consumer is to join its producer.
        plan: the labels' step time, and what it is compared with; None where nothing is simulated.
        limits: bytes that each device may hold, f64 [devices]; None = no limits.
        open: opens what simulates placements; None where only imitation is judged.
    """

    name: str
    family: str
    features: Mapping[str, np.ndarray]
    labels: np.ndarray
    weights: np.ndarray
    priority: np.ndarray
    fusion: np.ndarray
    plan: Plan | None = None
    limits: np.ndarray | None = None
    open: Callable[[], PlacementGraph] | None = None

    @property
    def graph(self) -> PlacementGraph:
        """What simulates placements.

        Raises:
            ValueError: the example was made without.
        """
        if self.open is None:
            raise ValueError(f"{self.name}: the example was built without its graph")
        return self.open()


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """Settings of the training data.

    Attributes:
        workloads: families of the benchmark's workloads, out of workload_graphs.FAMILIES.
        graphs_per_workload: graphs of each, at sizes drawn at random, every other a training step.
        families: generated families, keys of graphs.FAMILIES.
        graphs_per_family: generated graphs of each family, half of them training steps.
        keras_models: small models, keys of graphs.KERAS_MODELS; each forward and as a training
            step.
        folder: profiled graphs (.json) anywhere below it are taken too, on their own devices.
        device_sets: what graphs are placed on, each "workers:N", "gpus:N" or "p100:N".
        sets_per_graph: so many of them for a graph, in turn; 0 = all.
        teacher: who makes the labels.
        held_out: a family out of splits.KIN that training must not see; "" = none.
        validation_every: every so many graphs of a family are for validation.
        max_nodes: graphs with more nodes are left out.
        seed: equal seeds give equal data.
    """

    workloads: tuple[str, ...] = workload_graphs.FAMILIES
    graphs_per_workload: int = 12
    families: tuple[str, ...] = tuple(graphs.FAMILIES)
    graphs_per_family: int = 12
    keras_models: tuple[str, ...] = tuple(graphs.KERAS_MODELS)
    folder: str = ""
    device_sets: tuple[str, ...] = (
        "p100:2",
        "workers:2",
        "p100:4",
        "gpus:4",
        "p100:8",
        "workers:4",
        "gpus:2",
    )
    sets_per_graph: int = 3
    teacher: TeacherConfig = dataclasses.field(default_factory=TeacherConfig)
    held_out: str = ""
    validation_every: int = 6
    max_nodes: int = 4000
    seed: int = 0

    def __post_init__(self) -> None:
        for field, known in (
            ("workloads", workload_graphs.FAMILIES),
            ("families", graphs.FAMILIES),
            ("keras_models", graphs.KERAS_MODELS),
        ):
            for name in getattr(self, field):
                if name not in known:
                    raise ValueError(
                        f"DatasetConfig.{field}: want names out of {', '.join(known)}, got {name!r}"
                    )
        if not self.device_sets:
            raise ValueError("DatasetConfig.device_sets: want at least one")
        for spec in self.device_sets:
            try:
                devices_lib.parse(spec)
            except ValueError as error:
                raise ValueError(f"DatasetConfig.device_sets: {error}") from error
        if self.held_out and self.held_out not in splits.KIN:
            raise ValueError(
                f"DatasetConfig.held_out: want one of {', '.join(splits.KIN)} or nothing,"
                f" got {self.held_out!r}"
            )
        if self.validation_every < 2:
            raise ValueError(
                f"DatasetConfig.validation_every: want at least 2, got {self.validation_every}"
            )


def make_example(
    *,
    name: str,
    family: str,
    features: Mapping[str, np.ndarray],
    plan: Plan,
    table: FeatureTable,
    limits: np.ndarray | None = None,
    opener: Callable[[], PlacementGraph] | None = None,
) -> Example:
    """Returns the example of a graph with this plan, devices renamed canonically."""
    placement = labels.canonical_labels(plan.placement, features, table).astype(np.int32)
    times = labels.relative_times(features, table)
    return Example(
        name=name,
        family=family,
        features=features,
        labels=placement,
        weights=labels.node_weights(times, features["node_device_mask"]),
        priority=labels.critical_path_priorities(features, table, PRIORITY_LEVELS),
        fusion=labels.fusion_labels(features, placement, table),
        plan=plan,
        limits=limits,
        open=opener,
    )


def features_of(graph: PlacementGraph) -> dict[str, np.ndarray]:
    """Returns the inputs of the policy, the groups with them."""
    return {**graph.features(), GROUP: np.asarray(graph.groups, np.int32)}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How to build one graph, and which side of the split it is on.

    Attributes:
        name: says all that it depends on.
        family: the graph's family.
        split: TRAIN, VALIDATION, HELD_OUT, or "" for a graph that is not used.
        build: makes it.
        seed: of the devices' figures.
        own_devices: the graph's own, which it is placed on alone.
    """

    name: str
    family: str
    split: str
    build: Callable[[], graphs.TrainingGraph]
    seed: int
    own_devices: Devices | None = None


def recipes(config: DatasetConfig) -> Iterator[Recipe]:
    """Yields the graphs of `config`; a graph is held out as a whole, on all its devices."""

    def make(family: str, index: int, build: Callable[..., graphs.TrainingGraph]) -> Recipe:
        # `training` alternates at another pace than the split, so that both sides have both.
        training = (index + index // config.validation_every) % 2 == 1
        seed = config.seed * _SEED_STRIDE + index
        return Recipe(
            name=f"{family}-{seed}-{'train' if training else 'forward'}",
            family=family,
            split=split(family, index),
            build=functools.partial(build, family, seed, training=training),
            seed=seed,
        )

    split = functools.partial(
        splits.split_of, held_out=config.held_out, validation_every=config.validation_every
    )
    for family in config.workloads:
        for index in range(config.graphs_per_workload):
            yield make(family, index, workload_graphs.workload_graph)
    for family in config.families:
        for index in range(config.graphs_per_family):
            yield make(family, index, graphs.random_graph)
    for index, (model, training) in enumerate(
        (model, training) for model in config.keras_models for training in (False, True)
    ):
        name = f"keras-{model}-{'train' if training else 'forward'}"
        build = functools.partial(graphs.keras_graph, model, training=training)
        family = f"keras/{model}"
        seed = config.seed * _SEED_STRIDE + 50_000 + index
        yield Recipe(name, family, split(family, index), build, seed)
    for index, path in enumerate(_profiled(config.folder)):
        family = "msr/" + path.stem.partition("_")[0].partition("-")[0]
        yield _profiled_recipe(path, family, split(family, index))


def _profiled(folder: str) -> list[pathlib.Path]:
    """Returns the profiled graphs below `folder`, in order; splits that lie there are no graphs."""
    if not folder:
        return []
    root = pathlib.Path(folder)
    if not root.is_dir():
        raise ValueError(f"DatasetConfig.folder: no such directory {folder!r}")
    return sorted(path for path in root.rglob("*.json") if "expert" not in path.stem)


def _profiled_recipe(path: pathlib.Path, family: str, split: str) -> Recipe:
    from grappler_go import inputs

    read = inputs.read(path)
    name = f"{family}-{path.stem}".replace("/", "-")
    graph = graphs.TrainingGraph(name, family, read.graph_def, read.fetch, read.feed)
    own = Devices("profiled", read.devices, read.profile)
    return Recipe(name, family, split, lambda: graph, 0, own)


def count_graphs(config: DatasetConfig) -> int:
    """Returns how many graphs `load` builds, before any is left out for its size."""
    return sum(1 for recipe in recipes(config) if recipe.split)


def _device_sets(
    config: DatasetConfig, recipe: Recipe, index: int
) -> Iterator[tuple[str, Devices]]:
    """Yields what graph number `index` is placed on, by name."""
    if recipe.own_devices is not None:
        yield "own", recipe.own_devices
        return
    count = config.sets_per_graph or len(config.device_sets)
    for turn in range(min(count, len(config.device_sets))):
        spec = config.device_sets[(index * count + turn) % len(config.device_sets)]
        rng = np.random.default_rng([recipe.seed, devices_lib.parse(spec)[1]])
        yield spec.replace(":", "-"), devices_lib.make(spec, rng)


@functools.lru_cache(maxsize=_OPEN_GRAPHS)
def _open(
    op_graph: Callable[..., PlacementGraph], path: pathlib.Path, devices: Devices
) -> PlacementGraph:
    """Opens a kept graph; so many stay open."""
    fields = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    graph_def = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    return op_graph(
        graph_def,
        list(devices.names),
        profile=devices.profile,
        fetch=fields["fetch"],
        feed=fields["feed"],
        move_state=devices.kind != "workers",
    )


def _write(path: pathlib.Path, write: Callable[[pathlib.Path], None]) -> None:
    """Has `write` make a file, which gets its name when it is whole."""
    aside = path.with_name(f"{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        write(aside)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _kept_graph(recipe: Recipe, folder: pathlib.Path) -> pathlib.Path:
    """Returns the file of the recipe's graph, made if need be."""
    path = folder / f"{recipe.name}.pb"
    if path.exists():
        return path
    built = recipe.build()
    fields = {
        "fetch": built.fetch,
        "feed": built.feed,
        "family": built.family,
        "nodes": len(built.graph_def.node),
    }
    _write(path.with_suffix(".json"), lambda p: _write_text(p, json.dumps(fields)))
    data = built.graph_def.SerializeToString(deterministic=True)
    _write(path, lambda p: _write_bytes(p, data))
    return path


def _write_text(path: pathlib.Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _write_bytes(path: pathlib.Path, data: bytes) -> None:
    path.write_bytes(data)


def _kept_plan(
    path: pathlib.Path,
    open_graph: Callable[[], PlacementGraph],
    table: FeatureTable,
    teacher: TeacherConfig,
) -> tuple[dict[str, np.ndarray], Plan]:
    """Returns features and plan of a graph on devices, from `path` or made and kept there."""
    if path.exists():
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        times = (float(value) for value in arrays.pop("plan_us"))
        return arrays, Plan(arrays.pop("plan"), *times)
    graph = open_graph()
    features = features_of(graph)
    priority = labels.critical_path_priorities(features, table, PRIORITY_LEVELS)
    count = len(features["device_features"])
    plan = labels.best_plan(graph, priority, teacher, devices=count)
    figures = np.array([plan.step_us, plan.list_us, plan.single_us, plan.incoming_us])
    arrays = {**features, "plan": plan.placement, "plan_us": figures}
    _write(path, lambda p: np.savez(p, **arrays))
    return features, plan


def load(
    config: DatasetConfig,
    *,
    table: FeatureTable,
    op_graph: Callable[..., PlacementGraph],
    folder: pathlib.Path,
    on_graph: Callable[[], None] = lambda: None,
) -> dict[str, list[Example]]:
    """Builds all graphs of `config` on all their devices, or takes them from `folder`.

    Args:
        config: what to build.
        table: the feature table of the library.
        op_graph: `grappler_go.OpGraph`.
        folder: where graphs, features and plans are kept; made if need be.
        on_graph: called after each graph, for a progress bar.

    Returns:
        Examples by split.

    Raises:
        ValueError: the profiled graphs' folder does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    examples: dict[str, list[Example]] = {TRAIN: [], VALIDATION: [], HELD_OUT: []}
    for index, recipe in enumerate(recipes(config)):
        if not recipe.split:
            continue
        path = _kept_graph(recipe, folder)
        nodes = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["nodes"]
        if nodes <= config.max_nodes:
            for set_name, devices in _device_sets(config, recipe, index):
                opener = functools.partial(_open, op_graph, path, devices)
                # The devices' figures, the features and the teacher are all part of the key.
                key = repr((devices, table.rows, config.teacher))
                digest = hashlib.sha256(key.encode()).hexdigest()[:12]
                kept = folder / f"{recipe.name}-{set_name}-{digest}.npz"
                features, plan = _kept_plan(kept, opener, table, config.teacher)
                examples[recipe.split].append(
                    make_example(
                        name=f"{recipe.name}/{set_name}",
                        family=recipe.family,
                        features=features,
                        plan=plan,
                        table=table,
                        limits=devices_lib.memory_limits(devices),
                        opener=opener,
                    )
                )
        on_graph()
    return examples
