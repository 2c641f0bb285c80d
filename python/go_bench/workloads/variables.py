"""Variables with the same values on every run and every device, and probes into them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def uniform(
    name: str, shape: Sequence[int], limit: float, *, trainable: bool = True
) -> tf.Variable:
    """Returns a float32 variable with values in [-limit, limit) that depend on its name alone."""
    return _variable(name, shape, tf.float32, trainable, -limit, limit)


def tokens(name: str, shape: Sequence[int], vocab: int) -> tf.Variable:
    """Returns an int64 variable with values in [0, vocab) that depend on its name alone."""
    # int64, since TensorFlow keeps int32 in host memory on a GPU.
    return _variable(name, shape, tf.int64, False, 0, vocab)


def filled(
    name: str, shape: Sequence[int], value: float = 0.0, *, trainable: bool = True
) -> tf.Variable:
    """Returns a float32 variable with one value everywhere."""
    return v1.get_variable(
        name,
        shape,
        initializer=v1.constant_initializer(value),
        trainable=trainable,
        use_resource=True,
    )


def probes(
    weights: Sequence[tf.Variable], after: Sequence[tf.Operation], *, elements: int = 64
) -> dict[str, tf.Tensor]:
    """Returns a fixed sample of each variable's elements, read once the operations `after` ran.

    Reading a few elements through the handle costs next to nothing, where a checksum would stream
    the whole variable. The elements are a random draw, the same in each process.

    Returns:
      float32 of shape [elements], by the variable's name.
    """
    with tf.name_scope("probe"):
        indices = [tf.constant(_draw(weight, elements), tf.int64) for weight in weights]
        with tf.control_dependencies(after):
            return {
                weight.op.name: tf.raw_ops.ResourceGatherNd(
                    resource=weight.handle, indices=each, dtype=weight.dtype
                )
                for weight, each in zip(weights, indices, strict=True)
            }


def _draw(weight: tf.Variable, elements: int) -> np.ndarray:
    """Returns the indices of some elements, [elements, rank]."""
    shape = weight.shape.as_list()
    draw = np.random.default_rng(_seed(weight.name)).integers(math.prod(shape), size=elements)
    return np.stack(np.unravel_index(draw, shape), axis=1)


def _variable(
    name: str,
    shape: Sequence[int],
    dtype: tf.DType,
    trainable: bool,
    low: float,
    high: float,
) -> tf.Variable:
    def initial_value(
        shape: Sequence[int], dtype: tf.DType, partition_info: object = None
    ) -> tf.Tensor:
        del partition_info
        full_name = f"{v1.get_variable_scope().name}/{name}"
        seed = [_seed(full_name), 0]
        return tf.random.stateless_uniform(shape, seed, minval=low, maxval=high, dtype=dtype)

    return v1.get_variable(
        name, shape, dtype, initializer=initial_value, trainable=trainable, use_resource=True
    )


def _seed(name: str) -> int:
    """Returns a seed out of a name; Python's own hash differs from process to process."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF
