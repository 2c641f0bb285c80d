"""ResNet-50 (arXiv 1512.03385), its stride in the 3x3 convolution as is practice (v1.5)."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from go_bench.workloads import variables
from go_bench.workloads.convolution import Layers
from go_bench.workloads.step import Mode, check, complete, dense
from go_bench.workloads.workload import Workload, layer_scope

_BLOCKS = (3, 4, 6, 3)

PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": {"batch": 4, "image": 64, "filters": 4, "classes": 10},
    "cpu": {"batch": 8, "image": 128, "filters": 64, "classes": 1000},
    "paper": {"batch": 64, "image": 224, "filters": 64, "classes": 1000},
}


def resnet50(
    *,
    batch: int = 8,
    image: int = 128,
    filters: int = 64,
    classes: int = 1000,
    learning_rate: float = 0.05,
    mode: Mode = "train",
) -> Workload:
    """Builds the network: a stem, 16 bottleneck blocks in four stages, and the classifier.

    A human's placement: equal runs of blocks, the stem with the first and the classifier with the
    last.

    Args:
      batch: images.
      image: width and height in pixels.
      filters: of the first stage's inner convolutions, 64 in the paper.
      classes: outputs.
      learning_rate: of SGD.
      mode: "train" for a training step, "forward" for the loss alone.

    Raises:
      ValueError: for a size out of range or an unknown mode.
    """
    least = {"batch": (batch, 1), "image": (image, 32), "filters": (filters, 1)}
    check("resnet50", mode, {**least, "classes": (classes, 2)})
    with tf.Graph().as_default():
        make = Layers(training=mode == "train")
        with layer_scope(0):
            x = variables.uniform("images", [batch, image, image, 3], 1.0, trainable=False)
            x = make.normalise(make.convolve(x.read_value(), "stem", 7, filters, 2), "stem_norm")
            x = tf.nn.max_pool2d(tf.nn.relu(x), 3, 2, "SAME")
        layer = 0
        for stage, count in enumerate(_BLOCKS):
            for block in range(count):
                stride = 2 if stage and not block else 1
                with layer_scope(layer):
                    x = _block(make, x, filters * 2**stage, stride)
                layer += 1
        with layer_scope(layer - 1):
            labels = variables.tokens("labels", [batch], classes).read_value()
            logits = dense(tf.reduce_mean(x, axis=[1, 2]), "logits", classes)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        return complete(
            "resnet50",
            loss,
            mode=mode,
            learning_rate=learning_rate,
            layers=layer,
            updates=make.updates,
            outputs={"logits": logits},
        )


def _block(make: Layers, x: tf.Tensor, width: int, stride: int) -> tf.Tensor:
    """Three convolutions and the way past them, which is one too where the shape changes."""
    past = x
    if stride > 1 or int(x.shape[3]) != 4 * width:
        past = make.normalise(make.convolve(x, "past", 1, 4 * width, stride), "past_norm")
    x = tf.nn.relu(make.normalise(make.convolve(x, "conv_1", 1, width), "norm_1"))
    x = tf.nn.relu(make.normalise(make.convolve(x, "conv_2", 3, width, stride), "norm_2"))
    x = make.normalise(make.convolve(x, "conv_3", 1, 4 * width), "norm_3")
    return tf.nn.relu(x + past)
