"""AmoebaNet-D: evolved cells of separable and pooled paths (arXiv 1802.01548)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from go_bench.workloads import variables
from go_bench.workloads.step import Mode, check, complete, dense
from go_bench.workloads.workload import Workload, layer_scope

_EPSILON = 1e-3
_MOMENTUM = 0.99

# A cell's five pairs: (state read, operation), two of them summed to the next state. States 0 and 1
# are the outputs of the cell before and of the one before that; the cell gives the states listed
# last, joined. As in the models that came with arXiv 1811.06965.
_NORMAL = (
    (1, "conv_1x1"),
    (1, "max_3x3"),
    (1, "none"),
    (0, "conv_1x7_7x1"),
    (0, "conv_1x1"),
    (0, "conv_1x7_7x1"),
    (2, "max_3x3"),
    (2, "none"),
    (1, "avg_3x3"),
    (5, "conv_1x1"),
)
_NORMAL_OUT = (0, 3, 4, 6)
_REDUCTION = (
    (0, "max_2x2"),
    (0, "max_3x3"),
    (2, "none"),
    (1, "conv_3x3"),
    (2, "conv_1x7_7x1"),
    (2, "max_3x3"),
    (3, "none"),
    (1, "max_2x2"),
    (2, "avg_3x3"),
    (3, "conv_1x1"),
)
_REDUCTION_OUT = (4, 5, 6)

PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": {"batch": 2, "image": 32, "cells": 3, "filters": 16, "classes": 10},
    "cpu": {"batch": 8, "image": 128, "cells": 6, "filters": 96, "classes": 1000},
    "paper": {"batch": 128, "image": 224, "cells": 18, "filters": 256, "classes": 1000},
}


def amoebanet(
    *,
    batch: int = 4,
    image: int = 96,
    cells: int = 6,
    filters: int = 32,
    classes: int = 1000,
    learning_rate: float = 0.05,
    mode: Mode = "train",
) -> Workload:
    """Builds AmoebaNet-D without its auxiliary head.

    A stem and two reduction cells, then three groups of normal cells with a reduction cell between
    them, which halves the picture and doubles the filters. In training, batches are normalised by
    their own moments. A human's placement: equal runs of cells.

    Args:
      batch: images.
      image: width and height in pixels.
      cells: normal cells in all; a multiple of 3.
      filters: of the first group; the stem has fewer.
      classes: outputs.
      learning_rate: of SGD.
      mode: "train" for a training step, "forward" for the loss alone.

    Raises:
      ValueError: for a size out of range or an unknown mode.
    """
    check(
        "amoebanet",
        mode,
        {
            "batch": (batch, 1),
            "image": (image, 32),
            "cells": (cells, 3),
            "filters": (filters, 16),
            "classes": (classes, 2),
        },
    )
    if cells % 3:
        raise ValueError(f"amoebanet: cells must be a multiple of 3, got {cells}")
    with tf.Graph().as_default():
        network = _Network(training=mode == "train")
        logits, labels = network.build(batch, image, cells, filters, classes)
        with layer_scope(network.layer):
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        return complete(
            "amoebanet-d",
            loss,
            mode=mode,
            learning_rate=learning_rate,
            layers=network.layer + 1,
            updates=network.updates,
            outputs={"logits": logits},
        )


class _Network:
    """Builds the ops in the default graph, and collects the updates of moving moments."""

    def __init__(self, *, training: bool):
        self.updates: list[tf.Operation] = []
        self.layer = 0
        self._training = training
        self._count = 0

    def build(
        self, batch: int, image: int, cells: int, filters: int, classes: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns logits [batch, classes] and labels [batch]."""
        width = filters // 4
        with layer_scope(0):
            x = variables.uniform("images", [batch, image, image, 3], 1.0, trainable=False)
            stem = self._normalise(self._filter(x.read_value(), 3, 3, width, 2))
        states = [stem, stem]
        for _ in range(2):
            width *= 2
            states = self._cell(states, _REDUCTION, _REDUCTION_OUT, width, 2)
        for group in range(3):
            if group:
                width *= 2
                states = self._cell(states, _REDUCTION, _REDUCTION_OUT, width, 2)
            for _ in range(cells // 3):
                states = self._cell(states, _NORMAL, _NORMAL_OUT, width, 1)
        with layer_scope(self.layer):
            labels = variables.tokens("labels", [batch], classes).read_value()
            pooled = tf.reduce_mean(tf.nn.relu(states[0]), axis=[1, 2])
            return dense(pooled, "logits", classes), labels

    def _cell(
        self,
        states: Sequence[tf.Tensor],
        operations: Sequence[tuple[int, str]],
        out: Sequence[int],
        width: int,
        stride: int,
    ) -> list[tf.Tensor]:
        """Builds one cell in a layer scope of its own; returns its output and the one before."""
        self.layer += 1
        with layer_scope(self.layer):
            last, before = states
            x = self._conv(last, 1, 1, width)
            inside = [x, self._matched(before, x, width)]
            for pair in range(0, len(operations), 2):
                terms = []
                for source, operation in operations[pair : pair + 2]:
                    step = stride if source < 2 else 1
                    terms.append(self._apply(operation, inside[source], width, step))
                inside.append(terms[0] + terms[1])
            return [tf.concat([inside[k] for k in out], axis=3), last]

    def _matched(self, x: tf.Tensor, like: tf.Tensor, width: int) -> tf.Tensor:
        """Returns x with `width` channels, and half the size where `like` has it."""
        if x.shape[1] == like.shape[1]:
            return self._conv(x, 1, 1, width)
        x = tf.nn.relu(x)
        shifted = tf.pad(x[:, 1:, 1:], [[0, 0], [0, 1], [0, 1], [0, 0]])
        paths = [
            self._filter(tf.nn.avg_pool2d(each, 1, 2, "SAME"), 1, 1, width // 2, 1)
            for each in (x, shifted)
        ]
        return self._normalise(tf.concat(paths, axis=3))

    def _apply(self, operation: str, x: tf.Tensor, width: int, stride: int) -> tf.Tensor:
        operations: Mapping[str, Callable[[], tf.Tensor]] = {
            "none": lambda: x if stride == 1 else self._conv(x, 1, 1, width, stride),
            "avg_3x3": lambda: tf.nn.avg_pool2d(x, 3, stride, "SAME"),
            "max_3x3": lambda: tf.nn.max_pool2d(x, 3, stride, "SAME"),
            "max_2x2": lambda: tf.nn.max_pool2d(x, 2, stride, "SAME"),
            "conv_1x1": lambda: self._conv(x, 1, 1, width, stride),
            "conv_3x3": lambda: self._bottleneck(x, [(3, 3)], width, stride),
            "conv_1x7_7x1": lambda: self._bottleneck(x, [(1, 7), (7, 1)], width, stride),
        }
        return operations[operation]()

    def _bottleneck(
        self, x: tf.Tensor, kernels: Sequence[tuple[int, int]], width: int, stride: int
    ) -> tf.Tensor:
        """Convolutions at a quarter of the width; the first takes the stride."""
        x = self._conv(x, 1, 1, width // 4)
        for index, (rows, columns) in enumerate(kernels):
            x = self._conv(x, rows, columns, width // 4, stride if index == 0 else 1)
        return self._conv(x, 1, 1, width)

    def _conv(
        self, x: tf.Tensor, rows: int, columns: int, width: int, stride: int = 1
    ) -> tf.Tensor:
        """ReLU, convolution, batch normalisation."""
        return self._normalise(self._filter(tf.nn.relu(x), rows, columns, width, stride))

    def _filter(self, x: tf.Tensor, rows: int, columns: int, width: int, stride: int) -> tf.Tensor:
        self._count += 1
        depth = int(x.shape[3])
        limit = (6.0 / (rows * columns * (depth + width))) ** 0.5
        shape = [rows, columns, depth, width]
        kernel = variables.uniform(f"kernel_{self._count}", shape, limit).read_value()
        return tf.nn.conv2d(x, kernel, stride, "SAME")

    def _normalise(self, x: tf.Tensor) -> tf.Tensor:
        self._count += 1
        width = [int(x.shape[3])]
        name = f"norm_{self._count}"
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
            exponential_avg_factor=1.0 - _MOMENTUM if self._training else 1.0,
            is_training=self._training,
        )
        if self._training:
            self.updates.append(mean.assign(result.batch_mean, read_value=False))
            self.updates.append(variance.assign(result.batch_variance, read_value=False))
        return result.y
