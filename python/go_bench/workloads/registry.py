"""All workloads by name, with their sizes by preset."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping

from go_bench.workloads import (
    amoebanet,
    gnmt,
    inception,
    resnet,
    transformer,
    transformer_xl,
    unet,
    wavenet,
)
from go_bench.workloads.rnnlm import PRESETS as RNNLM_PRESETS
from go_bench.workloads.rnnlm import rnnlm
from go_bench.workloads.step import Mode
from go_bench.workloads.workload import Workload

PRESETS = ("tiny", "cpu", "paper")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """A row of the tables.

    Attributes:
      family: what is held out together when a policy is trained.
      build: the builder.
      presets: the builder's sizes, by preset.
      settings: the builder's arguments that make this row, in every preset.
      paper_devices: devices of this row in the paper's evaluation, 0 if it is not in it.
    """

    family: str
    build: Callable[..., Workload]
    presets: Mapping[str, Mapping[str, typing.Any]]
    settings: Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)
    paper_devices: int = 0


def _by_layers(
    family: str,
    build: Callable[..., Workload],
    presets: Mapping[str, Mapping[str, typing.Any]],
) -> dict[str, Entry]:
    """Returns the paper's rows of 2, 4 and 8 layers, a layer a device."""
    return {
        f"{family}-{layers}": Entry(
            family=family,
            build=build,
            presets=presets,
            settings={"layers": layers},
            paper_devices=layers,
        )
        for layers in (2, 4, 8)
    }


def _twice_the_batch(presets: Mapping[str, Mapping[str, typing.Any]]) -> dict[str, typing.Any]:
    return {name: {**sizes, "batch": 2 * sizes["batch"]} for name, sizes in presets.items()}


_ENTRIES: Mapping[str, Entry] = {
    **_by_layers("rnnlm", rnnlm, RNNLM_PRESETS),
    **_by_layers("gnmt", gnmt.gnmt, gnmt.PRESETS),
    **_by_layers("transformer_xl", transformer_xl.transformer_xl, transformer_xl.PRESETS),
    "inception_v3-b32": Entry(
        family="inception_v3",
        build=inception.inception_v3,
        presets=inception.PRESETS,
        paper_devices=2,
    ),
    "inception_v3-b64": Entry(
        family="inception_v3",
        build=inception.inception_v3,
        presets=_twice_the_batch(inception.PRESETS),
        paper_devices=2,
    ),
    "amoebanet": Entry(
        family="amoebanet",
        build=amoebanet.amoebanet,
        presets=amoebanet.PRESETS,
        paper_devices=4,
    ),
    "wavenet-2x9": Entry(
        family="wavenet",
        build=wavenet.wavenet,
        presets=wavenet.PRESETS,
        settings={"stacks": 2, "layers_per_stack": 9},
        paper_devices=2,
    ),
    "wavenet-4x9": Entry(
        family="wavenet",
        build=wavenet.wavenet,
        presets=wavenet.PRESETS,
        settings={"stacks": 4, "layers_per_stack": 9},
        paper_devices=4,
    ),
    # What people run today; not in the paper.
    "bert": Entry(family="bert", build=transformer.bert, presets=transformer.BERT_PRESETS),
    "gpt": Entry(family="gpt", build=transformer.gpt, presets=transformer.GPT_PRESETS),
    "moe": Entry(family="moe", build=transformer.moe, presets=transformer.MOE_PRESETS),
    "resnet50": Entry(family="resnet", build=resnet.resnet50, presets=resnet.PRESETS),
    "unet": Entry(family="unet", build=unet.unet, presets=unet.PRESETS),
}


def names(family: str | None = None) -> tuple[str, ...]:
    """Returns the names of all workloads, or of a family's."""
    return tuple(name for name, entry in _ENTRIES.items() if family in (None, entry.family))


def entry(name: str) -> Entry:
    """Returns a workload's row.

    Raises:
      ValueError: for an unknown name.
    """
    if name not in _ENTRIES:
        raise ValueError(f"unknown workload '{name}'; known are {', '.join(_ENTRIES)}")
    return _ENTRIES[name]


def build(
    name: str, *, preset: str = "cpu", mode: Mode = "train", **overrides: typing.Any
) -> Workload:
    """Builds a workload.

    Args:
      name: one of `names()`.
      preset: "tiny" for tests, "cpu" for this machine, "paper" for the paper's sizes.
      mode: "train" or "forward".
      **overrides: the builder's arguments that differ from the preset.

    Raises:
      ValueError: for an unknown name, preset or size.
    """
    row = entry(name)
    if preset not in row.presets:
        raise ValueError(f"unknown preset '{preset}'; known are {', '.join(row.presets)}")
    return row.build(**{**row.presets[preset], **row.settings, "mode": mode, **overrides})
