"""Training graphs of the benchmark's workload families, at sizes drawn at random.

Each is the step that the benchmark would run, pruned to what it fetches. Layers, batch and unrolled
steps vary; widths are such that some graphs gain from many devices and some from one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from go_bench.workloads import registry

from go_train.graphs import TrainingGraph, size


def _rnnlm(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "batch": size(rng, 16, 128),
        "width": size(rng, 256, 2048),
        "steps": int(rng.integers(3, 11)),
        "vocab": size(rng, 500, 32000),
    }


def _gnmt(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "batch": size(rng, 16, 128),
        "width": size(rng, 256, 1024),
        "source_steps": int(rng.integers(3, 8)),
        "target_steps": int(rng.integers(3, 8)),
        "vocab": size(rng, 500, 32000),
    }


def _transformer_xl(rng: np.random.Generator) -> dict[str, Any]:
    heads = int(rng.choice([4, 6, 8]))
    width = heads * size(rng, 32, 128)
    segment = size(rng, 48, 192)
    return {
        "batch": size(rng, 4, 48),
        "width": width,
        "heads": heads,
        "ff": 4 * width,
        "segment": segment,
        "memory": segment,
        "vocab": size(rng, 500, 32000),
    }


def _inception(rng: np.random.Generator) -> dict[str, Any]:
    return {"batch": size(rng, 4, 64), "image": size(rng, 99, 299)}


def _amoebanet(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "batch": size(rng, 8, 128),
        "image": size(rng, 96, 224),
        "cells": int(rng.integers(1, 3)) * 3,
        "filters": size(rng, 64, 256),
    }


def _wavenet(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "batch": size(rng, 1, 8),
        "samples": size(rng, 2048, 8192),
        "channels": size(rng, 32, 96),
        "skip": size(rng, 64, 256),
    }


_SIZES: Mapping[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "rnnlm": _rnnlm,
    "gnmt": _gnmt,
    "transformer_xl": _transformer_xl,
    "inception_v3": _inception,
    "amoebanet": _amoebanet,
    "wavenet": _wavenet,
}
FAMILIES = tuple(_SIZES)
_LAYERS = {"rnnlm": (1, 8), "gnmt": (2, 6), "transformer_xl": (1, 8)}


def draw(family: str, seed: int) -> dict[str, Any]:
    """Returns the builder's arguments of graph `seed` of `family`."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    arguments = _SIZES[family](rng)
    if family in _LAYERS:
        low, high = _LAYERS[family]
        arguments["layers"] = int(rng.integers(low, high + 1))
    if family == "wavenet":
        arguments["stacks"] = int(rng.integers(1, 4))
        arguments["layers_per_stack"] = int(rng.integers(5, 10))
    return arguments


def workload_graph(family: str, seed: int, *, training: bool) -> TrainingGraph:
    """Builds a graph of `family`.

    Args:
        family: one of FAMILIES.
        seed: equal seeds give equal graphs.
        training: whether gradients and updates follow the forward pass.

    Raises:
        ValueError: no such family.
    """
    if family not in FAMILIES:
        raise ValueError(f"family: want one of {', '.join(FAMILIES)}, got {family!r}")
    name = registry.names(family)[0]
    workload = registry.build(
        name, preset="cpu", mode="train" if training else "forward", **draw(family, seed)
    )
    return TrainingGraph(
        name=f"{family}-{seed}-{'train' if training else 'forward'}",
        family=family,
        graph_def=tf.compat.v1.graph_util.extract_sub_graph(
            workload.graph.as_graph_def(), list(workload.fetch_names)
        ),
        fetch=tuple(workload.fetch_names),
        feed=(),
    )
