"""Training from data to a policy that can ship: cloning, then PPO, scores, export.

One path for all regimes. `one`: PPO on a single example; `batch`: on many; `zero-shot`: a
checkpoint is scored on the held-out family, untouched; `finetune`: PPO goes on from a checkpoint on
the held-out family.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from go_train import checkpoint, clone, config, dataset, evaluate, export, ppo
from go_train.dataset import Example
from go_train.network import PolicyNetwork
from go_train.network_config import NetworkConfig
from go_train.table import Features, FeatureTable

REGIMES = ("one", "batch", "zero-shot", "finetune")
_OF_A_CHECKPOINT = ("zero-shot", "finetune")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Settings of a whole run.

    Attributes:
        regime: one of REGIMES.
        example: for `one`, the name of the example, as scores.jsonl has it.
        start: checkpoint to start from, of any way of training; needed by zero-shot and finetune,
            whose settings of the network it has.
        network: the network's settings, for both stages.
        data: the data's settings, for both stages.
        clone: of behaviour cloning; left out where there is a `start`.
        ppo: of PPO; left out for zero-shot.
    """

    regime: str = "batch"
    example: str = ""
    start: str = ""
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    data: dataset.DatasetConfig = dataclasses.field(default_factory=dataset.DatasetConfig)
    clone: clone.CloneConfig = dataclasses.field(default_factory=clone.CloneConfig)
    ppo: ppo.PpoConfig = dataclasses.field(default_factory=ppo.PpoConfig)

    def __post_init__(self) -> None:
        if self.regime not in REGIMES:
            raise ValueError(
                f"PretrainConfig.regime: want one of {', '.join(REGIMES)}, got {self.regime!r}"
            )
        if self.regime in _OF_A_CHECKPOINT and not (self.start and self.data.held_out):
            raise ValueError(f"PretrainConfig: regime {self.regime} needs start and data.held_out")
        if (self.regime == "one") != bool(self.example):
            raise ValueError("PretrainConfig.example: is for regime one, which needs it")
        for stage in (self.clone, self.ppo):
            if (stage.network, stage.data) != (NetworkConfig(), dataset.DatasetConfig()):
                raise ValueError(
                    "PretrainConfig: network and data are set beside the stages, not in them"
                )


def select(
    settings: PretrainConfig, examples: Mapping[str, list[Example]]
) -> dict[str, list[Example]]:
    """Returns what the regime trains on and is scored on.

    Raises:
        ValueError: it names an example that is not there.
    """
    if settings.regime == "one":
        found = [e for each in examples.values() for e in each if e.name == settings.example]
        if not found:
            raise ValueError(f"PretrainConfig.example: no example {settings.example!r}")
        return {dataset.TRAIN: found, dataset.VALIDATION: found}
    if settings.regime in _OF_A_CHECKPOINT:
        held_out = examples[dataset.HELD_OUT]
        return {dataset.TRAIN: held_out, dataset.VALIDATION: held_out}
    return dict(examples)


def run(
    settings: PretrainConfig,
    examples: Mapping[str, list[Example]],
    *,
    table: FeatureTable,
    out: pathlib.Path,
    on_step: Callable[[str, int, int], None] = lambda stage, step, steps: None,
) -> dict[str, Any]:
    """Runs the stages that the regime has, going on where an earlier call was broken off.

    Args:
        settings: effective settings; the stages log them and write them to their directories.
        examples: by split.
        table: the feature table of the examples.
        out: output directory: clone/, ppo/, policy/, scores.jsonl and summary.json.
        on_step: called with the stage, its updates done, and all of them.

    Returns:
        What summary.json holds: a summary of the policy alone by split.

    Raises:
        ValueError: settings or a checkpoint that do not fit.
    """
    chosen = select(settings, examples)
    out.mkdir(parents=True, exist_ok=True)
    start = checkpoint.load(pathlib.Path(settings.start)) if settings.start else None
    network = settings.network
    if start is not None:
        network = config.from_dict(NetworkConfig, start.config["network"], where=settings.start)
    trained: PolicyNetwork | None = None
    if start is None and settings.clone.steps:
        stage = dataclasses.replace(settings.clone, network=network, data=settings.data)
        clone.train(
            stage,
            chosen,
            table=table,
            out=out / "clone",
            on_step=lambda step, loss: on_step("clone", step, stage.steps),
        )
        start = checkpoint.load(out / "clone" / checkpoint.FILE_NAME)
    updates = 0 if settings.regime == "zero-shot" else settings.ppo.updates
    settings_ppo = dataclasses.replace(
        settings.ppo, network=network, data=settings.data, updates=updates
    )
    trained = ppo.train(
        settings_ppo,
        chosen,
        table=table,
        out=out / "ppo",
        start=start,
        on_step=lambda step, figures: on_step("ppo", step, updates),
    ).learner.network
    summary = _score(trained, chosen, out)
    export.export(trained, out / "policy")
    return summary


def _score(
    network: PolicyNetwork, examples: Mapping[str, list[Example]], out: pathlib.Path
) -> dict[str, Any]:
    """Scores the policy alone on all examples; writes a row each, and the summary by split."""
    policy = tf.function(network.call, reduce_retracing=True)

    def logits(features: Features) -> tf.Tensor:
        return policy({name: tf.convert_to_tensor(value) for name, value in features.items()})

    summary: dict[str, Any] = {}
    with (out / "scores.jsonl").open("w", encoding="utf-8") as rows:
        for split, each in examples.items():
            scores = [evaluate.score(example, logits) for example in each]
            for score in scores:
                rows.write(json.dumps({"split": split, **dataclasses.asdict(score)}) + "\n")
            if scores:
                summary[split] = dataclasses.asdict(evaluate.summarize(scores))
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    logging.info("policy alone: %s", summary)
    return summary


def read_settings(path: pathlib.Path | None) -> PretrainConfig:
    """Returns the settings of a JSON file; the defaults without one.

    Raises:
        ValueError: it is not a JSON object, or has an unknown key or a wrong value.
        OSError: it cannot be read.
    """
    if path is None:
        return PretrainConfig()
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON ({error})") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path}: want a JSON object, got {type(values).__name__}")
    return config.from_dict(PretrainConfig, values, where=str(path))
