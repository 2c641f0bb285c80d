"""Policy gradients with a moving baseline, as the learned baselines share them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

_BETA_1 = 0.9
_BETA_2 = 0.999
_EPSILON = 1e-8


def policy_loss(log_probs: tf.Tensor, advantages: tf.Tensor) -> tf.Tensor:
    """Returns the REINFORCE loss, a scalar: minus the mean of log probability times advantage.

    Args:
      log_probs: of what was sampled, f32 [samples].
      advantages: reward less baseline, constants, f32 [samples].
    """
    log_probs.shape.assert_is_compatible_with(advantages.shape)
    return -tf.reduce_mean(log_probs * tf.stop_gradient(advantages))


def rewards(seconds: np.ndarray, failing_signal: float) -> np.ndarray:
    """Returns minus the square root of each step time, f64 [samples].

    Args:
      seconds: step times in any unit, infinite where the placement failed.
      failing_signal: the step time that a failed placement counts as, in that unit.
    """
    return -np.sqrt(np.where(np.isfinite(seconds), seconds, failing_signal))


def scaled(advantages: np.ndarray) -> np.ndarray:
    """Returns the advantages over their root mean square; zeros stay."""
    scale = float(np.sqrt(np.mean(np.square(advantages))))
    return advantages / scale if scale > 0 else advantages


class MovingBaseline:
    """An exponential moving average of the mean reward.

    Args:
      decay: weight of the past.
      start: the first value; None = the mean of the first rewards.
    """

    def __init__(self, decay: float, start: float | None = None):
        self._decay = decay
        self._value = start

    def advantages(self, values: np.ndarray) -> np.ndarray:
        """Returns rewards less the baseline before them, then moves the baseline."""
        mean = float(np.mean(values))
        before = mean if self._value is None else self._value
        self._value = self._decay * before + (1 - self._decay) * mean
        return values - before


class Adam:
    """Adam (Kingma and Ba, arXiv 1412.6980) after clipping the gradients' global norm.

    Args:
      variables: what is trained.
      clip_norm: bound of the norm of all gradients together.
    """

    def __init__(self, variables: Sequence[tf.Variable], clip_norm: float):
        self._variables = tuple(variables)
        self._clip_norm = clip_norm
        self._first = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]
        self._second = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]
        self._steps = tf.Variable(0.0, trainable=False)

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> None:
        """Moves the variables; callable inside a tf.function."""
        clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        steps = self._steps.assign_add(1.0)
        rate = learning_rate * tf.sqrt(1 - _BETA_2**steps) / (1 - _BETA_1**steps)
        rows = zip(self._variables, clipped, self._first, self._second, strict=True)
        for variable, gradient, first, second in rows:
            dense = tf.convert_to_tensor(gradient)
            moved = first.assign(_BETA_1 * first + (1 - _BETA_1) * dense)
            squared = second.assign(_BETA_2 * second + (1 - _BETA_2) * tf.square(dense))
            variable.assign_sub(rate * moved / (tf.sqrt(squared) + _EPSILON))


def glorot(random: np.random.Generator, *shape: int) -> tf.Variable:
    """Returns a trainable matrix, uniform as Glorot and Bengio have it."""
    bound = np.sqrt(6 / (shape[0] + shape[-1]))
    return tf.Variable(random.uniform(-bound, bound, shape).astype(np.float32))


def sample(probabilities: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Returns indices drawn from distributions by inversion.

    Args:
      probabilities: last dimension sums to 1, f [..., choices].
      uniform: numbers in [0, 1), one a draw, f [..., draws].

    Returns:
      i32 [..., draws].
    """
    inner = np.cumsum(probabilities, axis=-1)[..., :-1]
    # Draws beyond the last bound, which rounding may leave short of 1, are the last choice.
    index = np.zeros(uniform.shape, np.int32)
    for choice in range(inner.shape[-1]):
        index += uniform >= inner[..., choice, np.newaxis]
    return index
