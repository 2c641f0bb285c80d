"""Proximal policy optimisation on simulated step time, on one graph or on many.

PPO: Schulman et al., https://arxiv.org/abs/1707.06347. For each graph of an update the network runs
once, many plans are drawn from its answer and simulated on all cores, and a few epochs of clipped
updates follow. Rewards are relative to the graph's best heuristic, and advantages have unit size in
each graph, so that graphs of all sizes pull alike.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from go_train import checkpoint, config, dataset, evaluate, losses, rollouts, schedules
from go_train.dataset import Example
from go_train.learner import Learner, check_same_run
from go_train.network_config import NetworkConfig
from go_train.records import Records
from go_train.rollouts import Choices, Drawn, Memory
from go_train.table import Features, FeatureTable, feature_moments, input_signature


@dataclasses.dataclass(frozen=True, kw_only=True)
class PpoConfig:
    """Settings of PPO.

    Attributes:
        updates: in all.
        graphs_per_update: graphs whose gradients are averaged.
        rollouts: plans drawn for a graph in an update.
        epochs: clipped steps on the rollouts of an update.
        drawn: choices that a plan draws, about; the others take the best option.
        learning_rate: Adam's, at its peak.
        warmup_updates: over which the rate rises from 0; then it falls to 0 along a cosine.
        gradient_norm: longer gradients are scaled down to it.
        clip: how far from 1 a choice's probability ratio may help.
        entropy: weight of the entropy at the start.
        last_entropy: at the end; it falls evenly.
        baseline_decay: of a graph's running mean of rewards; 0 = the mean of the update's own,
            which lags behind nothing and is exact enough with many rollouts.
        infeasible_penalty: taken from the reward of a plan that does not fit into memory, up to
            twice that.
        imitation: weight of imitating the best plan known of a graph, its label at first.
        scheduling: whether priorities are drawn too; without it, plans are simulated with the
            critical path's, as the pass does.
        checkpoint_every: updates between checkpoints.
        validate_every: updates between validations.
        seed: of the weights, the order of graphs and all draws.
        network: the network's settings.
        data: the training data's settings.
    """

    updates: int = 400
    graphs_per_update: int = 4
    rollouts: int = 32
    epochs: int = 3
    drawn: int = 16
    learning_rate: float = 3e-4
    warmup_updates: int = 5
    gradient_norm: float = 1.0
    clip: float = 0.2
    entropy: float = 0.01
    last_entropy: float = 0.001
    baseline_decay: float = 0.0
    infeasible_penalty: float = 0.5
    imitation: float = 0.05
    scheduling: bool = False
    checkpoint_every: int = 20
    validate_every: int = 100
    seed: int = 0
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    data: dataset.DatasetConfig = dataclasses.field(default_factory=dataset.DatasetConfig)

    def __post_init__(self) -> None:
        for name in ("graphs_per_update", "epochs", "drawn", "checkpoint_every", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"PpoConfig.{name}: want at least 1, got {getattr(self, name)}")
        if self.updates < 0:
            raise ValueError(f"PpoConfig.updates: want at least 0, got {self.updates}")
        if self.rollouts < 2:
            raise ValueError(f"PpoConfig.rollouts: want at least 2, got {self.rollouts}")


@dataclasses.dataclass(frozen=True)
class _Batch:
    """The rollouts of one graph in one update, as the update takes them."""

    features: Mapping[str, np.ndarray]
    choice_of_op: np.ndarray
    choice_weights: np.ndarray
    placement: Drawn
    levels: Drawn
    advantages: np.ndarray
    best: np.ndarray
    weights: np.ndarray

    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the compiled update before the weights of its terms."""
        return (
            dict(self.features),
            self.choice_of_op,
            self.choice_weights,
            *dataclasses.astuple(self.placement),
            *dataclasses.astuple(self.levels),
            self.advantages,
            self.best.astype(np.int32),
            self.weights,
        )


def _drawn_specs(name: str) -> list[tf.TensorSpec]:
    kinds = {"actions": tf.int32, "logs": tf.float32, "drawn": tf.float32}
    return [tf.TensorSpec([None, None], kind, f"{name}_{part}") for part, kind in kinds.items()]


class Trainer:
    """The network, its optimizer, the compiled update, and what is remembered of each graph.

    Attributes:
        learner: the network with its optimizer.
        memories: of the training graphs, in their order.
    """

    def __init__(self, settings: PpoConfig, table: FeatureTable, training: Sequence[Example]):
        self._settings = settings
        self.learner = Learner(
            settings.network, table, seed=settings.seed, gradient_norm=settings.gradient_norm
        )
        self.memories = [Memory.of(example) for example in training]
        features = input_signature(table)
        vector = tf.TensorSpec([None], tf.float32)
        indices = tf.TensorSpec([None], tf.int32)
        scalar = tf.TensorSpec([], tf.float32)
        self._gradients = tf.function(
            self._loss_and_gradients,
            input_signature=[
                features,
                indices,
                vector,
                *_drawn_specs("placement"),
                *_drawn_specs("levels"),
                vector,
                indices,
                vector,
                scalar,
            ],
        )
        self._decide = tf.function(self._logits, input_signature=[features])

    def _logits(self, features: Features) -> tuple[tf.Tensor, tf.Tensor]:
        decisions = self.learner.network.decide(features)
        return decisions.placement, decisions.priority

    def _loss_and_gradients(
        self,
        features: Features,
        choice_of_op: tf.Tensor,
        choice_weights: tf.Tensor,
        actions: tf.Tensor,
        old_logs: tf.Tensor,
        drawn: tf.Tensor,
        levels: tf.Tensor,
        old_level_logs: tf.Tensor,
        drawn_levels: tf.Tensor,
        advantages: tf.Tensor,
        best: tf.Tensor,
        weights: tf.Tensor,
        entropy_weight: tf.Tensor,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Returns (loss, entropy, imitation loss) and the gradients."""
        settings = self._settings
        with tf.GradientTape() as tape:
            decisions = self.learner.network.decide(features)
            logits = tf.math.unsorted_segment_mean(
                decisions.placement, choice_of_op, tf.shape(choice_weights)[0]
            )
            logs = losses.log_probabilities(logits, actions)
            loss = losses.ppo_clip(logs, old_logs, advantages, drawn, clip=settings.clip)
            entropy = losses.mean_entropy(logits, choice_weights)
            if settings.scheduling:
                level_logs = losses.log_probabilities(decisions.priority, levels)
                loss += losses.ppo_clip(
                    level_logs, old_level_logs, advantages, drawn_levels, clip=settings.clip
                )
            imitation = losses.placement_cross_entropy(decisions.placement, best, weights)
            total = loss - entropy_weight * entropy + settings.imitation * imitation
        return tf.stack([loss, entropy, imitation]), self.learner.gradients(tape, total)

    def _roll_out(
        self, example: Example, memory: Memory, seed: Sequence[int]
    ) -> tuple[_Batch, dict]:
        """Draws and simulates plans; returns what the update needs, and figures to record."""
        settings, rng = self._settings, np.random.default_rng(list(seed))
        placement, priority = (values.numpy() for values in self._decide(dict(example.features)))
        # Blocks of any level, as the pass draws them: a few coarse choices or many fine ones.
        blocks = example.graph.blocks()
        block_of = blocks[int(rng.integers(len(blocks)))]
        choices = Choices.of(block_of, example.features["node_device_mask"], example.weights)
        draw = rollouts.draw(
            choices.logits(placement),
            rollouts=settings.rollouts,
            explore=min(1.0, settings.drawn / max(1, len(choices.weights))),
            rng=rng,
        )
        # Without scheduling nobody asks for levels: none are drawn.
        levels = rollouts.draw(
            priority if settings.scheduling else priority[:1],
            rollouts=settings.rollouts,
            explore=min(1.0, settings.drawn / len(priority)),
            rng=rng,
        )
        plans = choices.placements(draw.actions, placement.argmax(axis=1))
        schedule = levels.actions if settings.scheduling else example.priority[np.newaxis]
        result = example.graph.simulate(plans, schedule)
        step_us, feasible = np.asarray(result.step_us), np.asarray(result.feasible)
        reference = rollouts.reference_us(example)
        reward = rollouts.rewards(
            step_us,
            feasible,
            np.asarray(result.peak_bytes),
            reference_us=reference,
            limits=example.limits,
            penalty=settings.infeasible_penalty,
        )
        memory.offer(plans, step_us, feasible)
        baseline = memory.learn(reward, decay=settings.baseline_decay)
        batch = _Batch(
            features=example.features,
            choice_of_op=choices.of_op,
            choice_weights=choices.weights,
            placement=draw,
            levels=levels,
            advantages=rollouts.advantages(reward, baseline),
            best=memory.best,
            weights=example.weights,
        )
        figures = {
            "reward": float(reward.mean()),
            "greedy_speedup": float(reference / step_us[0]),
            "best_speedup": float(reference / step_us.min()),
            "known_speedup": float(reference / memory.best_us),
            "infeasible": float(1.0 - feasible.mean()),
        }
        return batch, figures

    def update(self, training: Sequence[Example], step: int) -> dict[str, float]:
        """Makes one update; returns figures to record, means over its graphs."""
        settings = self._settings
        indices = schedules.batch_indices(
            settings.seed, step=step, size=settings.graphs_per_update, examples=len(training)
        )
        rolled = [
            self._roll_out(training[i], self.memories[i], [settings.seed, step, k])
            for k, i in enumerate(indices)
        ]
        rate = schedules.learning_rate(
            settings.learning_rate,
            step=step,
            steps=settings.updates,
            warmup=settings.warmup_updates,
        )
        entropy = schedules.falling(
            settings.entropy, settings.last_entropy, step=step, steps=settings.updates
        )
        for _ in range(settings.epochs):
            results = [
                self._gradients(*batch.arguments(), tf.constant(entropy, tf.float32))
                for batch, _ in rolled
            ]
            self.learner.apply([gradients for _, gradients in results], rate)
        loss, entropy_now, imitation = np.mean([terms.numpy() for terms, _ in results], axis=0)
        figures = {
            name: float(np.mean([each[name] for _, each in rolled])) for name in rolled[0][1]
        }
        return {
            **figures,
            "loss": float(loss),
            "entropy": float(entropy_now),
            "imitation": float(imitation),
            "learning_rate": rate,
        }

    def state(self, step: int) -> checkpoint.Checkpoint:
        """Returns all that a later run needs to go on after `step` updates."""
        figures = np.array([[m.baseline, m.best_us] for m in self.memories])
        plans = [memory.best for memory in self.memories]
        return self.learner.state(step, self._settings, {"memory": [figures], "best": plans})

    def restore(self, state: checkpoint.Checkpoint, path: pathlib.Path) -> None:
        """Takes all that `state` has.

        Raises:
            ValueError: it is of other training graphs.
        """
        self.learner.restore(state)
        plans, figures = state.arrays["best"], state.arrays["memory"][0]
        if [len(plan) for plan in plans] != [len(memory.best) for memory in self.memories]:
            raise ValueError(f"{path}: was trained on other graphs")
        self.memories = [
            Memory(float(baseline), float(best_us), plan)
            for (baseline, best_us), plan in zip(figures, plans, strict=True)
        ]


def _validate(trainer: Trainer, examples: Sequence[Example]) -> dict[str, float]:
    """Returns figures of the policy alone on `examples`."""
    scores = [evaluate.score(e, lambda x: trainer.learner.policy(dict(x))) for e in examples]
    summary = dataclasses.asdict(evaluate.summarize(scores))
    return {f"validation/{name}": value for name, value in summary.items()}


def train(
    settings: PpoConfig,
    examples: Mapping[str, Sequence[Example]],
    *,
    table: FeatureTable,
    out: pathlib.Path,
    start: checkpoint.Checkpoint | None = None,
    on_step: Callable[[int, Mapping[str, float]], None] = lambda step, figures: None,
) -> Trainer:
    """Trains on `examples`, going on from the checkpoint in `out` if there is one.

    Args:
        settings: effective settings, logged and written to `out`.
        examples: training and validation examples by split.
        table: the feature table of the examples.
        out: output directory, made if need be.
        start: whose network to start from, of any way of training; None = a new one.
        on_step: called with the number of updates done and the figures of the last.

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
    trainer, first = Trainer(settings, table, training), 0
    if path.exists():
        state = checkpoint.load(path)
        check_same_run(state, settings, table, path)
        trainer.restore(state, path)
        first = state.step
        logging.info("resuming from %s after %d updates", path, first)
    elif start is not None:
        trainer.learner.restore_network(start)
    else:
        trainer.learner.network.set_moments(feature_moments([e.features for e in training]))
    effective = json.dumps(config.to_dict(settings), indent=2)
    logging.info("effective configuration: %s", effective)
    (out / "config.json").write_text(effective + "\n", encoding="utf-8")
    with Records(out) as records:
        for step in range(first, settings.updates):
            figures = trainer.update(training, step)
            done = step + 1
            last = done == settings.updates
            if validation and (done % settings.validate_every == 0 or last):
                figures |= _validate(trainer, validation)
            records.add(done, figures)
            if done % settings.checkpoint_every == 0 or last:
                checkpoint.save(path, trainer.state(done))
            on_step(done, figures)
    return trainer
