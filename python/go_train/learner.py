"""The network with its optimizer: what every way of training shares."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from go_train import checkpoint, config
from go_train.network import PolicyNetwork
from go_train.network_config import NetworkConfig
from go_train.table import Features, FeatureTable, input_signature

Gradients = list[tf.Tensor]


class Learner:
    """A network, Adam, and compiled functions around them.

    Attributes:
        network: the policy.
        policy: placement logits of all inputs, compiled.
    """

    def __init__(
        self, settings: NetworkConfig, table: FeatureTable, *, seed: int, gradient_norm: float
    ):
        tf.keras.utils.set_random_seed(seed)
        self.network = PolicyNetwork(settings, table)
        self.policy = tf.function(self.network.call, input_signature=[input_signature(table)])
        self._gradient_norm = gradient_norm
        self._optimizer = tf.keras.optimizers.Adam()
        self._optimizer.build(self.network.trainable_variables)
        self._apply = tf.function(self._apply_gradients)

    def gradients(self, tape: tf.GradientTape, loss: tf.Tensor) -> Gradients:
        """Returns the gradients of `loss` for all trainable variables, 0 where it has none."""
        found = tape.gradient(
            loss,
            self.network.trainable_variables,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return [tf.convert_to_tensor(gradient) for gradient in found]

    def _apply_gradients(self, gradients: Gradients, rate: tf.Tensor) -> None:
        gradients, _ = tf.clip_by_global_norm(gradients, self._gradient_norm)
        self._optimizer.learning_rate.assign(rate)
        self._optimizer.apply_gradients(
            zip(gradients, self.network.trainable_variables, strict=True)
        )

    def apply(self, each: Sequence[Gradients], rate: float) -> None:
        """Applies one update from the mean of `each` graph's gradients, cut to the norm.

        Raises:
            ValueError: there are none.
        """
        if not each:
            raise ValueError("apply: no gradients")
        mean = [sum(parts) / len(each) for parts in zip(*each, strict=True)]
        self._apply(mean, tf.constant(rate, tf.float32))

    def state(
        self, step: int, settings: Any, extra: Mapping[str, Sequence[np.ndarray]] | None = None
    ) -> checkpoint.Checkpoint:
        """Returns all that a later run needs to go on after `step` updates."""
        return checkpoint.Checkpoint(
            step=step,
            config=config.to_dict(settings),
            table=self.network.table.rows,
            arrays={
                "network": checkpoint.values_of(self.network.variables),
                "optimizer": checkpoint.values_of(self._optimizer.variables),
                **(extra or {}),
            },
        )

    def restore(self, state: checkpoint.Checkpoint) -> None:
        """Takes the variables of `state`."""
        self.restore_network(state)
        checkpoint.assign(self._optimizer.variables, state.arrays["optimizer"], what="optimizer")

    def restore_network(self, state: checkpoint.Checkpoint) -> None:
        """Takes the network's variables of `state`, not the optimizer's: a fresh start from it."""
        checkpoint.assign(self.network.variables, state.arrays["network"], what="network")


def check_same_run(
    state: checkpoint.Checkpoint, settings: Any, table: FeatureTable, path: pathlib.Path
) -> None:
    """Raises ValueError unless `state` was written by a run with these settings and features."""
    ours = json.loads(json.dumps(config.to_dict(settings)))
    if change := config.difference(ours, state.config):
        raise ValueError(f"{path}: cannot resume with other settings: {change}")
    if state.table != table.rows:
        odd = sorted(set(state.table) ^ set(table.rows)) or ["order of rows"]
        raise ValueError(f"{path}: cannot resume with another feature table: {odd[0]!r} differs")


def load_network(path: pathlib.Path) -> PolicyNetwork:
    """Returns the network of a checkpoint file of any way of training.

    Raises:
        FileNotFoundError, ValueError: no such file, or not a checkpoint of this network.
    """
    state = checkpoint.load(path)
    if "network" not in state.config:
        raise ValueError(f"{path}: field 'config.network' is missing")
    settings = config.from_dict(NetworkConfig, state.config["network"], where=str(path))
    network = PolicyNetwork(settings, FeatureTable.from_rows(state.table))
    checkpoint.assign(network.variables, state.arrays["network"], what=str(path))
    return network


def tensors(features: Features) -> dict[str, tf.Tensor]:
    """Returns the inputs as tensors."""
    return {name: tf.convert_to_tensor(value) for name, value in features.items()}
