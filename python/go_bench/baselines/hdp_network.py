"""HDP's grouper and placer: a softmax over groups, an LSTM encoder, an attending LSTM decoder."""

from __future__ import annotations

import typing

import numpy as np
import tensorflow as tf

from go_bench.baselines import reinforce

if typing.TYPE_CHECKING:
    from go_bench.baselines.hdp import HdpConfig

_FORGET_BIAS = 1.0


class Network:
    """Both policies of one graph, with their optimiser.

    Args:
      op_features: of each of M movable units, f32 [M, F].
      group_width: width of a group's embedding.
      num_groups, num_devices: G and D.
      config: settings.
      random: draws the weights.
    """

    def __init__(
        self,
        op_features: np.ndarray,
        *,
        group_width: int,
        num_groups: int,
        num_devices: int,
        config: HdpConfig,
        random: np.random.Generator,
    ):
        with tf.init_scope():
            self._features = tf.constant(op_features, tf.float32)
            self._tanh_constant = config.tanh_constant
            hidden, half = config.hidden, config.hidden // 2
            self._hidden = hidden
            new = lambda *shape: reinforce.glorot(random, *shape)  # noqa: E731
            self._group_hidden = new(op_features.shape[1], config.grouper_hidden)
            self._group_softmax = new(config.grouper_hidden, num_groups)
            self._encoders = [
                (new(group_width, 4 * half), new(half, 4 * half)) for _ in ("forward", "backward")
            ]
            # The last row stands for "no device yet".
            self._device_inputs = new(num_devices + 1, hidden)
            self._decoder_in = new(hidden, 4 * hidden)
            self._decoder = new(hidden, 4 * hidden)
            self._keys, self._queries = new(hidden, hidden), new(hidden, hidden)
            self._scores = new(hidden, 1)
            self._softmax = new(2 * hidden, num_devices)
            self._start = num_devices
            self.variables = [
                self._group_hidden,
                self._group_softmax,
                *(weight for pair in self._encoders for weight in pair),
                self._device_inputs,
                self._decoder_in,
                self._decoder,
                self._keys,
                self._queries,
                self._scores,
                self._softmax,
            ]
            self._adam = reinforce.Adam(self.variables, config.clip_norm)
        self._group_function = tf.function(lambda: tf.nn.softmax(self._group_logits()))
        self._sample_function = tf.function(self._sample)
        self._update_function = tf.function(self._update)

    def group_probabilities(self) -> np.ndarray:
        """Each unit's distribution over groups, f32 [M, G]."""
        return self._group_function().numpy()

    def sample_devices(
        self, embedded: np.ndarray, noise: np.ndarray, uniform: np.ndarray
    ) -> np.ndarray:
        """Draws a device for each group, i32 [samples, G].

        Args:
          embedded: groups, f32 [samples, G, group_width].
          noise: on the logits, [samples, G, D].
          uniform: a number in [0, 1) a group, [samples, G].
        """
        return self._sample_function(_float(embedded), _float(noise), _float(uniform)).numpy()

    def update(
        self,
        groups: np.ndarray,
        embedded: np.ndarray,
        noise: np.ndarray,
        devices: np.ndarray,
        advantages: np.ndarray,
        learning_rate: float,
    ) -> None:
        """Takes one REINFORCE step for samples of groups, [samples, M], and devices."""
        # Sum over samples of advantage, for each unit and the group it was in: [M, G].
        num_groups = embedded.shape[1]
        weights = np.zeros((groups.shape[1], num_groups))
        rows = np.arange(groups.shape[1])
        for group, advantage in zip(groups, advantages, strict=True):
            weights[rows, group] += advantage
        self._update_function(
            _float(weights / len(groups)),
            _float(embedded),
            _float(noise),
            tf.constant(devices, tf.int32),
            _float(advantages),
            _float(learning_rate),
        )

    def _group_logits(self) -> tf.Tensor:
        return tf.nn.relu(self._features @ self._group_hidden) @ self._group_softmax

    def _encode(self, embedded: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """States of the groups, [G, samples, hidden], and the last cell and state."""
        steps = tf.transpose(embedded, [1, 0, 2])
        states, cells = [], []
        for reverse, (inputs, recurrent) in zip((False, True), self._encoders, strict=True):
            zero = tf.zeros([tf.shape(steps)[1], recurrent.shape[0]])
            cell, state = tf.scan(
                lambda carry, x, weights=recurrent: _lstm(x, carry[0], carry[1], weights),
                tf.einsum("gsf,fh->gsh", steps, inputs),
                (zero, zero),
                reverse=reverse,
            )
            last = 0 if reverse else -1
            states.append(state)
            cells.append((cell[last], state[last]))
        cell, state = (tf.concat(ends, axis=1) for ends in zip(*cells, strict=True))
        return tf.concat(states, axis=2), cell, state

    def _logits(self, state: tf.Tensor, memory: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        """Logits of devices, [samples, D]; memory and keys are [samples, G, hidden]."""
        query = (state @ self._queries)[:, tf.newaxis]
        score = tf.einsum("sgh,ho->sgo", tf.tanh(keys + query), self._scores)
        context = tf.einsum("sgo,sgh->sh", tf.nn.softmax(score, axis=1), memory)
        logits = tf.concat([state, context], axis=1) @ self._softmax
        if self._tanh_constant:
            logits = self._tanh_constant * tf.tanh(logits)
        return logits

    def _memory(self, states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        memory = tf.transpose(states, [1, 0, 2])
        return memory, tf.einsum("sgh,hk->sgk", memory, self._keys)

    def _sample(self, embedded: tf.Tensor, noise: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
        states, cell, state = self._encode(embedded)
        memory, keys = self._memory(states)
        inputs = self._device_inputs @ self._decoder_in
        start = tf.fill([tf.shape(embedded)[0]], self._start)

        def step(
            carry: tuple[tf.Tensor, ...], elements: tuple[tf.Tensor, ...]
        ) -> tuple[tf.Tensor, ...]:
            cell, state = _lstm(tf.gather(inputs, carry[2]), carry[0], carry[1], self._decoder)
            disturbed = self._logits(state, memory, keys) + elements[0]
            bounds = tf.cumsum(tf.nn.softmax(disturbed), axis=1)[:, :-1]
            drawn = tf.reduce_sum(tf.cast(elements[1][:, tf.newaxis] >= bounds, tf.int32), axis=1)
            return cell, state, drawn

        elements = (tf.transpose(noise, [1, 0, 2]), tf.transpose(uniform))
        return tf.transpose(tf.scan(step, elements, (cell, state, start))[2])

    def device_log_probs(
        self, embedded: tf.Tensor, noise: tf.Tensor, devices: tf.Tensor
    ) -> tf.Tensor:
        """Log probability of the groups' devices, [samples, G], summed over groups: [samples]."""
        states, cell, state = self._encode(embedded)
        memory, keys = self._memory(states)
        start = tf.fill([tf.shape(devices)[0], 1], self._start)
        before = tf.transpose(tf.concat([start, devices[:, :-1]], axis=1))
        inputs = tf.gather(self._device_inputs @ self._decoder_in, before)
        _, states = tf.scan(
            lambda carry, x: _lstm(x, carry[0], carry[1], self._decoder), inputs, (cell, state)
        )
        # Attention is not fed back, so that all steps attend at once here.
        logits = tf.scan(
            lambda _, state: self._logits(state, memory, keys),
            states,
            tf.zeros([tf.shape(devices)[0], self._softmax.shape[1]]),
        )
        logits += tf.transpose(noise, [1, 0, 2])
        chosen = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.transpose(devices), logits)
        return -tf.reduce_sum(chosen, axis=0)

    def _update(
        self,
        group_weights: tf.Tensor,
        embedded: tf.Tensor,
        noise: tf.Tensor,
        devices: tf.Tensor,
        advantages: tf.Tensor,
        learning_rate: tf.Tensor,
    ) -> None:
        with tf.GradientTape() as tape:
            log_probs = self.device_log_probs(embedded, noise, devices)
            grouping = tf.reduce_sum(group_weights * tf.nn.log_softmax(self._group_logits()))
            loss = reinforce.policy_loss(log_probs, advantages) - grouping
        self._adam.apply(tape.gradient(loss, self.variables), learning_rate)


def _lstm(
    inputs: tf.Tensor, cell: tf.Tensor, state: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """One step of an LSTM; inputs are multiplied by their weights already, [..., 4 x width]."""
    gate_in, gate_forget, gate_out, new = tf.split(inputs + state @ weights, 4, axis=-1)
    cell = tf.sigmoid(gate_forget + _FORGET_BIAS) * cell + tf.sigmoid(gate_in) * tf.tanh(new)
    return cell, tf.sigmoid(gate_out) * tf.tanh(cell)


def _float(value: typing.Any) -> tf.Tensor:
    return tf.constant(value, tf.float32)
