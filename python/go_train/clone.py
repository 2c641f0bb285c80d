"""Behaviour cloning: the policy learns to place as a heuristic does.

`python -m go_train.clone --out DIR --steps N` builds the data, trains, and writes to DIR
`config.json` (effective settings), `checkpoint.npz` (written aside and renamed; a second call goes
on from it), `log.jsonl` (a row per validation) and `scores.jsonl` (a row per held-out example at
the end).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from go_train import checkpoint, config, dataset, evaluate, losses, schedules
from go_train.dataset import Example
from go_train.learner import Learner, check_same_run
from go_train.network_config import NetworkConfig
from go_train.table import Features, FeatureTable, feature_moments, input_signature


@dataclasses.dataclass(frozen=True, kw_only=True)
class CloneConfig:
    """Settings of behaviour cloning.

    Attributes:
        steps: updates in all.
        graphs_per_step: graphs whose gradients are averaged for one update.
        learning_rate: Adam's, at its peak.
        warmup_steps: updates over which the rate rises from 0; then it falls to 0 along a cosine.
        gradient_norm: longer gradients are scaled down to it.
        early_rounds: weight of the mean loss of the rounds before the last.
        scheduling: weight of the loss of priorities.
        fusion: weight of the loss of fusion.
        checkpoint_every: updates between checkpoints.
        validate_every: updates between validations.
        seed: of the weights and of the order of graphs; equal seeds give equal results.
        network: the network's settings.
        data: the training data's settings.
    """

    steps: int = 3000
    graphs_per_step: int = 4
    learning_rate: float = 2e-3
    warmup_steps: int = 50
    gradient_norm: float = 1.0
    early_rounds: float = 0.5
    scheduling: float = 0.1
    fusion: float = 0.1
    checkpoint_every: int = 200
    validate_every: int = 200
    seed: int = 0
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    data: dataset.DatasetConfig = dataclasses.field(default_factory=dataset.DatasetConfig)

    def __post_init__(self) -> None:
        for name in ("steps", "graphs_per_step", "checkpoint_every", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"CloneConfig.{name}: want at least 1, got {getattr(self, name)}")


def learning_rate(settings: CloneConfig, step: int) -> float:
    """Returns the rate of update `step` (from 0)."""
    return schedules.learning_rate(
        settings.learning_rate, step=step, steps=settings.steps, warmup=settings.warmup_steps
    )


def batch_indices(settings: CloneConfig, step: int, examples: int) -> np.ndarray:
    """Returns the examples of update `step`."""
    return schedules.batch_indices(
        settings.seed, step=step, size=settings.graphs_per_step, examples=examples
    )


class Trainer:
    """The network, its optimizer and the compiled update."""

    def __init__(self, settings: CloneConfig, table: FeatureTable):
        self._settings = settings
        self.learner = Learner(
            settings.network, table, seed=settings.seed, gradient_norm=settings.gradient_norm
        )
        self.network, self.policy = self.learner.network, self.learner.policy
        signature = [
            input_signature(table),
            tf.TensorSpec([None], tf.int32, "labels"),
            tf.TensorSpec([None], tf.float32, "weights"),
            tf.TensorSpec([None], tf.int32, "priority"),
            tf.TensorSpec([None], tf.float32, "fusion"),
        ]
        self._gradients = tf.function(self._loss_and_gradients, input_signature=signature)

    def _loss_and_gradients(
        self,
        features: Features,
        labels: tf.Tensor,
        weights: tf.Tensor,
        priority: tf.Tensor,
        fusion: tf.Tensor,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        settings = self._settings
        with tf.GradientTape() as tape:
            decisions = self.network.decide(features)
            rounds = [
                losses.placement_cross_entropy(logits, labels, weights)
                for logits in decisions.rounds
            ]
            loss = rounds[-1]
            if len(rounds) > 1:
                loss += settings.early_rounds * tf.add_n(rounds[:-1]) / (len(rounds) - 1)
            everywhere = tf.ones_like(weights)
            loss += settings.scheduling * losses.placement_cross_entropy(
                decisions.priority, priority, everywhere
            )
            loss += settings.fusion * losses.binary_cross_entropy(decisions.fusion, fusion)
        return rounds[-1], self.learner.gradients(tape, loss)

    def update(self, examples: Sequence[Example], step: int) -> float:
        """Applies one update from the mean gradient over `examples`; returns the mean loss."""
        results = [
            self._gradients(
                dict(each.features), each.labels, each.weights, each.priority, each.fusion
            )
            for each in examples
        ]
        self.learner.apply([found for _, found in results], learning_rate(self._settings, step))
        return float(np.mean([float(loss) for loss, _ in results]))

    def validate(self, examples: Sequence[Example]) -> tuple[float, float]:
        """Returns mean loss and mean imitation accuracy over `examples`."""
        results = []
        for example in examples:
            logits = self.policy(dict(example.features))
            arguments = logits, tf.constant(example.labels), tf.constant(example.weights)
            results.append(
                (
                    float(losses.placement_cross_entropy(*arguments)),
                    float(losses.placement_accuracy(*arguments)),
                )
            )
        loss, accuracy = np.mean(results, axis=0)
        return float(loss), float(accuracy)

    def state(self, step: int) -> checkpoint.Checkpoint:
        """Returns all that a later run needs to go on after `step` updates."""
        return self.learner.state(step, self._settings)


def _append_row(path: pathlib.Path, row: dict[str, Any]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def train(
    settings: CloneConfig,
    examples: dict[str, list[Example]],
    *,
    table: FeatureTable,
    out: pathlib.Path,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> Trainer:
    """Trains on `examples`, going on from the checkpoint in `out` if there is one.

    Args:
        settings: effective settings, logged and written to `out`.
        examples: training and validation examples by split.
        table: the feature table of the examples.
        out: output directory, made if need be.
        on_step: called with the number of updates done and the last loss.

    Returns:
        The trainer with the trained network.

    Raises:
        ValueError: no training examples, or a checkpoint of another run.
    """
    training, validation = examples[dataset.TRAIN], examples.get(dataset.VALIDATION, [])
    if not training:
        raise ValueError("examples: no training examples")
    out.mkdir(parents=True, exist_ok=True)
    path = out / checkpoint.FILE_NAME
    trainer, start = Trainer(settings, table), 0
    if path.exists():
        state = checkpoint.load(path)
        check_same_run(state, settings, table, path)
        trainer.learner.restore(state)
        start = state.step
        logging.info("resuming from %s after %d steps", path, start)
    else:
        trainer.network.set_moments(feature_moments([e.features for e in training]))
    effective = json.dumps(config.to_dict(settings), indent=2)
    logging.info("effective configuration: %s", effective)
    (out / "config.json").write_text(effective + "\n", encoding="utf-8")

    recent: list[float] = []
    for step in range(start, settings.steps):
        batch = [training[i] for i in batch_indices(settings, step, len(training))]
        loss = trainer.update(batch, step)
        recent.append(loss)
        done = step + 1
        last = done == settings.steps
        if validation and (done % settings.validate_every == 0 or last):
            validation_loss, accuracy = trainer.validate(validation)
            row = {
                "step": done,
                "loss": float(np.mean(recent)),
                "validation_loss": validation_loss,
                "validation_accuracy": accuracy,
            }
            recent.clear()
            _append_row(out / "log.jsonl", row)
            logging.info("%s", row)
        if done % settings.checkpoint_every == 0 or last:
            checkpoint.save(path, trainer.state(done))
        on_step(done, loss)
    return trainer


def score_validation(
    trainer: Trainer, examples: Sequence[Example], *, out: pathlib.Path
) -> evaluate.Summary:
    """Scores the policy alone on `examples`; writes a row each to `out`/scores.jsonl."""
    path = out / "scores.jsonl"
    path.unlink(missing_ok=True)
    scores = []
    for example in examples:
        scores.append(evaluate.score(example, lambda x: trainer.policy(dict(x))))
        _append_row(path, dataclasses.asdict(scores[-1]))
    return evaluate.summarize(scores)


def settings_from_arguments(steps: int | None, config_file: pathlib.Path | None) -> CloneConfig:
    """Returns the settings of `config_file` (JSON) with `steps` over them.

    Raises:
        ValueError: the file is not a JSON object, or has an unknown key.
    """
    values: Any = {}
    if config_file is not None:
        try:
            values = json.loads(config_file.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise ValueError(f"{config_file}: not JSON ({error})") from error
        if not isinstance(values, dict):
            raise ValueError(f"{config_file}: want a JSON object, got {type(values).__name__}")
    if steps is not None:
        values["steps"] = steps
    return config.from_dict(CloneConfig, values, where=str(config_file or "config"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit code."""
    parser = argparse.ArgumentParser(prog="go_train.clone", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="output directory")
    parser.add_argument("--data", type=pathlib.Path, help="where graphs are kept; OUT/data")
    parser.add_argument("--steps", type=int, help="updates in all")
    parser.add_argument("--config", type=pathlib.Path, help="settings as JSON, see CloneConfig")
    options = parser.parse_args(arguments)
    try:
        settings = settings_from_arguments(options.steps, options.config)
    except (OSError, ValueError) as error:
        parser.error(str(error))

    import grappler_go  # Compiled: needed to build data, not to train on it.

    tf.config.experimental.enable_op_determinism()
    logging.set_verbosity(logging.INFO)
    table = FeatureTable.from_rows(grappler_go.feature_table())
    bar = tf.keras.utils.Progbar(dataset.count_graphs(settings.data), unit_name="graph")
    examples = dataset.load(
        settings.data,
        table=table,
        op_graph=grappler_go.OpGraph,
        folder=options.data or options.out / "data",
        on_graph=lambda: bar.add(1),
    )
    bar = tf.keras.utils.Progbar(settings.steps, stateful_metrics=["loss"])
    trainer = train(
        settings,
        examples,
        table=table,
        out=options.out,
        on_step=lambda step, loss: bar.update(step, [("loss", loss)]),
    )
    summary = score_validation(trainer, examples[dataset.VALIDATION], out=options.out)
    logging.info("policy alone on held-out graphs: %s", summary)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
