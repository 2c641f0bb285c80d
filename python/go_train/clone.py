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

from go_train import checkpoint, config, dataset, evaluate, losses
from go_train.dataset import Example
from go_train.network import (
    Features,
    FeatureTable,
    NetworkConfig,
    PolicyNetwork,
    feature_moments,
    input_signature,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CloneConfig:
    """Settings of behaviour cloning.

    Attributes:
        steps: updates in all.
        graphs_per_step: graphs whose gradients are averaged for one update.
        learning_rate: Adam's, at its peak.
        warmup_steps: updates over which the rate rises from 0; then it falls to 0 along a cosine.
        gradient_norm: longer gradients are scaled down to it.
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
    """Returns the rate of update `step` (from 0): a linear rise, then a cosine to 0."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    done = (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
    return settings.learning_rate * 0.5 * (1.0 + float(np.cos(np.pi * done)))


def batch_indices(settings: CloneConfig, step: int, examples: int) -> np.ndarray:
    """Returns the examples of update `step`; each epoch has all of them, in its own order.

    A function of the step alone, so that a resumed run sees what an unbroken one would have seen.
    """
    first = step * settings.graphs_per_step
    positions = np.arange(first, first + settings.graphs_per_step)
    orders = {
        epoch: np.random.default_rng([settings.seed, epoch]).permutation(examples)
        for epoch in np.unique(positions // examples)
    }
    return np.array([orders[p // examples][p % examples] for p in positions])


class Trainer:
    """The network, its optimizer and the compiled update."""

    def __init__(self, settings: CloneConfig, table: FeatureTable):
        tf.keras.utils.set_random_seed(settings.seed)
        self._settings = settings
        self.network = PolicyNetwork(settings.network, table)
        self._optimizer = tf.keras.optimizers.Adam(settings.learning_rate)
        self._optimizer.build(self.network.trainable_variables)
        features = input_signature(table)
        labels = tf.TensorSpec([None], tf.int32, "labels")
        weights = tf.TensorSpec([None], tf.float32, "weights")
        self.policy = tf.function(self.network.call, input_signature=[features])
        self._gradients = tf.function(
            self._loss_and_gradients, input_signature=[features, labels, weights]
        )
        self._apply = tf.function(self._apply_gradients)

    def _loss_and_gradients(
        self, features: Features, labels: tf.Tensor, weights: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = losses.placement_cross_entropy(self.network(features), labels, weights)
        gradients = tape.gradient(
            loss,
            self.network.trainable_variables,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _apply_gradients(self, gradients: list[tf.Tensor], rate: tf.Tensor) -> None:
        gradients, _ = tf.clip_by_global_norm(gradients, self._settings.gradient_norm)
        self._optimizer.learning_rate.assign(rate)
        self._optimizer.apply_gradients(
            zip(gradients, self.network.trainable_variables, strict=True)
        )

    def update(self, examples: Sequence[Example], step: int) -> float:
        """Applies one update from the mean gradient over `examples`; returns the mean loss."""
        total, total_loss = None, 0.0
        for example in examples:
            loss, gradients = self._gradients(
                dict(example.features), example.labels, example.weights
            )
            total_loss += float(loss)
            total = (
                gradients
                if total is None
                else [a + b for a, b in zip(total, gradients, strict=True)]
            )
        if total is None:
            raise ValueError("update: examples is empty")
        rate = tf.constant(learning_rate(self._settings, step), tf.float32)
        self._apply([gradient / len(examples) for gradient in total], rate)
        return total_loss / len(examples)

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
        return checkpoint.Checkpoint(
            step=step,
            config=config.to_dict(self._settings),
            table=self.network.table.rows,
            arrays={
                "network": checkpoint.values_of(self.network.variables),
                "optimizer": checkpoint.values_of(self._optimizer.variables),
            },
        )

    def restore(self, state: checkpoint.Checkpoint) -> None:
        """Takes the variables of `state`."""
        checkpoint.assign(self.network.variables, state.arrays["network"], what="network")
        checkpoint.assign(self._optimizer.variables, state.arrays["optimizer"], what="optimizer")


def _append_row(path: pathlib.Path, row: dict[str, Any]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _check_same_run(
    state: checkpoint.Checkpoint, settings: CloneConfig, table: FeatureTable, path: pathlib.Path
) -> None:
    """Raises ValueError unless `state` was written by a run with these settings and features."""
    ours = json.loads(json.dumps(config.to_dict(settings)))
    if change := config.difference(ours, state.config):
        raise ValueError(f"{path}: cannot resume with other settings: {change}")
    if state.table != table.rows:
        odd = sorted(set(state.table) ^ set(table.rows)) or ["order of rows"]
        raise ValueError(f"{path}: cannot resume with another feature table: {odd[0]!r} differs")


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
        _check_same_run(state, settings, table, path)
        trainer.restore(state)
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
        settings.data, table=table, op_graph=grappler_go.OpGraph, on_graph=lambda: bar.add(1)
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
