"""Parts of convolutional networks: convolutions, and normalisation whose moments move."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from go_bench.workloads import variables

_EPSILON = 1e-5
_MOMENTUM = 0.9


@dataclasses.dataclass
class Layers:
    """Makes layers in the default graph, and collects what a step updates besides the weights.

    Attributes:
      training: batches are normalised by their own moments, which move the kept ones.
      updates: of the kept moments.
    """

    training: bool
    updates: list[tf.Operation] = dataclasses.field(default_factory=list)

    def convolve(
        self, x: tf.Tensor, name: str, size: int, width: int, stride: int = 1, *, bias: bool = False
    ) -> tf.Tensor:
        """A convolution of [batch, rows, columns, depth] with `width` outputs, padded."""
        depth = int(x.shape[3])
        limit = (6.0 / (size * size * (depth + width))) ** 0.5
        kernel = variables.uniform(name, [size, size, depth, width], limit).read_value()
        x = tf.nn.conv2d(x, kernel, stride, "SAME")
        if bias:
            x = tf.nn.bias_add(x, variables.filled(f"{name}_bias", [width]).read_value())
        return x

    def normalise(self, x: tf.Tensor, name: str) -> tf.Tensor:
        """Batch normalisation of the last dimension."""
        width = [int(x.shape[3])]
        scale = variables.filled(f"{name}_scale", width, 1.0)
        offset = variables.filled(f"{name}_offset", width)
        mean = variables.filled(f"{name}_mean", width, trainable=False)
        variance = variables.filled(f"{name}_variance", width, 1.0, trainable=False)
        result = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=scale.read_value(),
            offset=offset.read_value(),
            mean=mean.read_value(),
            variance=variance.read_value(),
            epsilon=_EPSILON,
            exponential_avg_factor=1.0 - _MOMENTUM if self.training else 1.0,
            is_training=self.training,
        )
        if self.training:
            self.updates.append(mean.assign(result.batch_mean, read_value=False))
            self.updates.append(variance.assign(result.batch_variance, read_value=False))
        return result.y
