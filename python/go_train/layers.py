"""Small layers that the parts of the network share."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

_STANDARD_LIMIT = 8.0  # Standardised inputs are cut here, so that one odd op cannot swamp a sum.


class Standardize(tf.keras.layers.Layer):
    """Shifts and scales features to mean 0 and deviation 1; the moments are set once, from data."""

    def build(self, input_shape: tf.TensorShape) -> None:
        """Creates the moments of the last dimension."""
        self._mean = self.add_weight("mean", input_shape[-1:], initializer="zeros", trainable=False)
        self._scale = self.add_weight(
            "scale", input_shape[-1:], initializer="ones", trainable=False
        )

    def set_moments(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        """Takes the moments of the last dimension.

        A feature that never varied is cut off with scale 0: nothing was learned about it.
        """
        self._mean.assign(mean)
        self._scale.assign(np.where(deviation > 1e-6, 1.0 / np.maximum(deviation, 1e-6), 0.0))

    def call(self, values: tf.Tensor) -> tf.Tensor:
        """Returns `values` standardised, cut at the limit."""
        scaled = (values - self._mean) * self._scale
        return tf.clip_by_value(scaled, -_STANDARD_LIMIT, _STANDARD_LIMIT)


class RmsNorm(tf.keras.layers.Layer):
    """Divides by the root mean square over the last dimension, times a learned gain."""

    def build(self, input_shape: tf.TensorShape) -> None:
        """Creates the gain of the last dimension."""
        self._gain = self.add_weight("gain", input_shape[-1:], initializer="ones")

    def call(self, values: tf.Tensor) -> tf.Tensor:
        """Returns `values` normalised."""
        mean_square = tf.reduce_mean(tf.square(values), axis=-1, keepdims=True)
        return values * tf.math.rsqrt(mean_square + 1e-6) * self._gain
