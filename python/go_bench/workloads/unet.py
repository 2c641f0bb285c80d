"""U-Net (arXiv 1505.04597): down and up again, with a way across at each level."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from go_bench.workloads import variables
from go_bench.workloads.convolution import Layers
from go_bench.workloads.step import Mode, check, complete
from go_bench.workloads.workload import Workload, layer_scope

PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": {"batch": 1, "image": 32, "depth": 2, "filters": 4},
    "cpu": {"batch": 2, "image": 128, "depth": 4, "filters": 24},
    "paper": {"batch": 8, "image": 512, "depth": 4, "filters": 64},
}


def unet(
    *,
    batch: int = 2,
    image: int = 128,
    depth: int = 4,
    filters: int = 24,
    classes: int = 2,
    learning_rate: float = 0.05,
    mode: Mode = "train",
) -> Workload:
    """Builds the network on pictures of one channel, padded so that the size stays.

    Two 3x3 convolutions a level, halved by pooling and doubled by 2x2 convolutions upwards; what
    went down is joined to what comes up. The loss is the pixels' mean cross-entropy. A human's
    placement: equal runs of levels, so that the ways across go between devices.

    Args:
      batch: pictures.
      image: width and height in pixels, a multiple of 2 to the power of `depth`.
      depth: times that the size is halved.
      filters: of the first level, 64 in the paper.
      classes: of a pixel.
      learning_rate: of SGD.
      mode: "train" for a training step, "forward" for the loss alone.

    Raises:
      ValueError: for a size out of range or an unknown mode.
    """
    least = {"batch": (batch, 1), "depth": (depth, 1), "filters": (filters, 1)}
    check("unet", mode, {**least, "image": (image, 2**depth), "classes": (classes, 2)})
    if image % 2**depth:
        raise ValueError(f"unet: image {image} is not a multiple of {2**depth}")
    with tf.Graph().as_default():
        make = Layers(training=mode == "train")
        with layer_scope(0):
            x = variables.uniform("images", [batch, image, image, 1], 1.0, trainable=False)
            x = x.read_value()
        across = []
        for level in range(depth + 1):
            with layer_scope(level):
                if level:
                    x = tf.nn.max_pool2d(x, 2, 2, "SAME")
                x = _twice(make, x, filters * 2**level)
                across.append(x)
        for step in range(depth):
            level = depth - 1 - step
            with layer_scope(depth + 1 + step):
                x = tf.concat([across[level], _up(x, filters * 2**level)], axis=3)
                x = _twice(make, x, filters * 2**level)
        with layer_scope(2 * depth):
            labels = variables.tokens("labels", [batch, image, image], classes).read_value()
            logits = make.convolve(x, "logits", 1, classes, bias=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        return complete("unet", loss, mode=mode, learning_rate=learning_rate, layers=2 * depth + 1)


def _twice(make: Layers, x: tf.Tensor, width: int) -> tf.Tensor:
    for number in (1, 2):
        x = tf.nn.relu(make.convolve(x, f"conv_{number}", 3, width, bias=True))
    return x


def _up(x: tf.Tensor, width: int) -> tf.Tensor:
    """Twice the size at `width` channels, by a transposed 2x2 convolution."""
    batch, rows, columns, depth = x.shape.as_list()
    limit = (6.0 / (4 * (depth + width))) ** 0.5
    kernel = variables.uniform("up", [2, 2, width, depth], limit).read_value()
    shape = [batch, 2 * rows, 2 * columns, width]
    x = tf.nn.conv2d_transpose(x, kernel, shape, 2, "SAME")
    return tf.nn.bias_add(x, variables.filled("up_bias", [width]).read_value())
