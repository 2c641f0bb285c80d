"""Placeto's policy: message passing over the groups, then a softmax over devices for one group."""

from __future__ import annotations

import typing
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from go_bench.baselines import reinforce, reinforce_units

if typing.TYPE_CHECKING:
    from go_bench.baselines.placeto import PlacetoConfig

_NEVER = -1e9
_FIXED_FEATURES = 3


class Network:
    """The policy of one graph of U groups on D devices, with its optimiser.

    Args:
      parts: the groups.
      config: settings.
      random: draws the weights.
    """

    def __init__(
        self,
        parts: reinforce_units.Units,
        *,
        config: PlacetoConfig,
        random: np.random.Generator,
    ):
        count, devices = parts.allowed.shape
        self._parts = parts
        self._devices = devices
        self._entropy = config.entropy
        self._learning_rate = config.learning_rate
        with tf.init_scope():
            inputs = np.zeros((count, count), np.float32)
            outputs = np.zeros((count, count), np.float32)
            source, target = parts.edges.T
            scale = max(1e-9, float(parts.edge_bytes.max(initial=0)))
            inputs[target, source] = outputs[source, target] = parts.edge_bytes / scale
            self._adjacent = tf.constant(np.stack([_rows_to_one(inputs), _rows_to_one(outputs)]))
            width = config.width
            self._first = reinforce.glorot(random, _FIXED_FEATURES + devices, width)
            self._rounds = [
                tuple(reinforce.glorot(random, width, width) for _ in range(3))
                for _ in range(config.rounds)
            ]
            # The group itself, what feeds it, what it feeds, all groups.
            self._hidden = reinforce.glorot(random, 4 * width, width)
            self._last = reinforce.glorot(random, width, devices)
            self._bias = tf.Variable(tf.zeros([devices]))
            self._stay = tf.Variable(0.0)
            self.variables = [
                self._first,
                *(weight for triple in self._rounds for weight in triple),
                self._hidden,
                self._last,
                self._bias,
                self._stay,
            ]
            self._adam = reinforce.Adam(self.variables, config.clip_norm)
        share = parts.weight / max(1e-9, parts.weight.sum()) * count
        self._share = share.astype(np.float32)
        features = tf.TensorSpec([None, count, _FIXED_FEATURES + devices], tf.float32)
        group = tf.TensorSpec([None], tf.int32)
        mask = tf.TensorSpec([None, devices], tf.float32)
        vector = tf.TensorSpec([None], tf.float32)
        self._probabilities = tf.function(
            lambda *state: tf.nn.softmax(self._logits(*state)), [features, group, mask]
        )
        self._update_function = tf.function(self._update, [features, group, mask, group, vector])

    def state(
        self, placements: np.ndarray, *, visited: np.ndarray, group: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the policy sees: features of all groups, the group, its forbidden devices' logits.

        Args:
          placements: of the groups, i32 [K, U].
          visited: groups visited in this episode.
          group: the one to place.
        """
        samples, count = placements.shape
        features = np.zeros((samples, count, _FIXED_FEATURES + self._devices), np.float32)
        features[:, :, 0] = self._share
        features[:, visited, 1] = 1
        features[:, group, 2] = 1
        features[:, :, _FIXED_FEATURES:] = np.eye(self._devices, dtype=np.float32)[placements]
        mask = np.where(self._parts.allowed[group], 0.0, _NEVER).astype(np.float32)
        return features, np.full(samples, group, np.int32), np.tile(mask, (samples, 1))

    def sample(
        self, state: tuple[np.ndarray, np.ndarray, np.ndarray], uniform: np.ndarray
    ) -> np.ndarray:
        """Draws a device for the group in each state, i32 [K], with numbers in [0, 1), [K]."""
        probabilities = self._probabilities(*state).numpy()
        drawn = reinforce.sample(probabilities, uniform[:, np.newaxis])[:, 0]
        # Rounding may leave a forbidden last device a sliver.
        allowed = probabilities[np.arange(len(drawn)), drawn] > 0
        return np.where(allowed, drawn, probabilities.argmax(axis=1)).astype(np.int32)

    def update(
        self,
        states: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
        choices: np.ndarray,
        advantages: np.ndarray,
    ) -> None:
        """Takes one step for all visits' states, choices and advantages, [visits, K]."""
        features, groups, masks = (np.concatenate(each) for each in zip(*states, strict=True))
        flat = advantages.reshape(-1).astype(np.float32)
        self._update_function(features, groups, masks, choices.reshape(-1), flat)

    def _logits(self, features: tf.Tensor, group: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        states = tf.nn.relu(tf.einsum("kuf,fw->kuw", features, self._first))
        for own, upward, downward in self._rounds:
            above, below = self._neighbours(states)
            states = states + tf.nn.relu(
                tf.einsum("kuw,wv->kuv", states, own)
                + tf.einsum("kuw,wv->kuv", above, upward)
                + tf.einsum("kuw,wv->kuv", below, downward)
            )
        above, below = self._neighbours(states)
        picked = [tf.gather(each, group, batch_dims=1) for each in (states, above, below)]
        summary = tf.concat([*picked, tf.reduce_mean(states, axis=1)], axis=1)
        now = tf.gather(features[:, :, _FIXED_FEATURES:], group, batch_dims=1)
        logits = tf.nn.relu(summary @ self._hidden) @ self._last + self._bias
        return logits + self._stay * now + mask

    def _neighbours(self, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        above, below = tf.unstack(self._adjacent)
        return tf.einsum("uv,kvw->kuw", above, states), tf.einsum("uv,kvw->kuw", below, states)

    def _update(
        self,
        features: tf.Tensor,
        group: tf.Tensor,
        mask: tf.Tensor,
        choices: tf.Tensor,
        advantages: tf.Tensor,
    ) -> None:
        with tf.GradientTape() as tape:
            log_probs = tf.nn.log_softmax(self._logits(features, group, mask))
            chosen = tf.gather(log_probs, choices, batch_dims=1)
            entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=1))
            loss = reinforce.policy_loss(chosen, advantages) - self._entropy * entropy
        gradients = tape.gradient(loss, self.variables)
        self._adam.apply(gradients, tf.constant(self._learning_rate, tf.float32))


def _rows_to_one(matrix: np.ndarray) -> np.ndarray:
    total = matrix.sum(axis=1, keepdims=True)
    return matrix / np.where(total > 0, total, 1)
