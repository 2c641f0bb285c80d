"""What the workloads are, counted: ops and parameters beside what their papers say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import tensorflow as tf

from go_bench.step_graph import step_graph
from go_bench.tables import Table
from go_bench.workloads import Workload, registry

v1 = tf.compat.v1

# Millions of parameters as published, of the size that the preset "paper" has or comes nearest to.
_PUBLISHED: Mapping[str, str] = {
    "inception_v3-b32": "23.8 (Keras, without auxiliary head)",
    "inception_v3-b64": "23.8 (Keras, without auxiliary head)",
    "bert": "110 (base: 512 positions, a pooler, no head)",
    "gpt": "124 (GPT-2 small)",
    "resnet50": "25.6",
    "unet": "31.0",
}


def table(preset: str, names: Iterable[str]) -> Table:
    """Builds the workloads' training graphs and counts.

    Args:
      preset: their size.
      names: which ones.

    Raises:
      ValueError: for an unknown name or preset.
    """
    body = []
    for name in names:
        workload = registry.build(name, preset=preset)
        row = registry.entry(name)
        body.append(
            (
                name,
                row.family,
                f"{len(step_graph(workload).node):,}",
                f"{parameters(workload) / 1e6:.3g}",
                _PUBLISHED.get(name, "-") if preset == "paper" else "-",
                str(workload.layers),
                str(row.paper_devices or "-"),
            )
        )
    return Table(
        title=f"Workloads, preset {preset}",
        head=(
            "workload",
            "family",
            "ops of a training step",
            "parameters [M]",
            "published [M]",
            "layers to place",
            "devices in the paper",
        ),
        body=tuple(body),
    )


def parameters(workload: Workload) -> int:
    """Returns the number of trained numbers."""
    with workload.graph.as_default():
        return sum(math.prod(weight.shape) for weight in v1.trainable_variables())
