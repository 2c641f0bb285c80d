"""Inception-v3 (https://arxiv.org/abs/1512.00567), with the layers of `tf.keras.applications`.

Built from TensorFlow's own operations rather than traced from Keras: Keras 3 does not build version
1 graphs, and normalises a batch with a dozen operations where the model calls for the fused one.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from go_bench.workloads import variables
from go_bench.workloads.workload import Workload, layer_scope, layers_by_name

v1 = tf.compat.v1

_EPSILON = 1e-3
_MOMENTUM = 0.99
_MIN_IMAGE = 75
_PROBES = 8

PRESETS: Mapping[str, Mapping[str, object]] = {
    "tiny": {"batch": 1, "image": 75, "classes": 10},
    "cpu": {"batch": 4, "image": 149, "classes": 1000},
    "paper": {"batch": 32, "image": 299, "classes": 1000},
}


def inception_v3(
    *,
    batch: int = 8,
    image: int = 299,
    classes: int = 1000,
    learning_rate: float = 0.05,
    mode: typing.Literal["train", "forward"] = "train",
) -> Workload:
    """Builds the classifier with its top and cross-entropy.

    In training the batch is normalised by its own moments, the moving moments are updated and SGD
    updates the weights; a forward pass uses the moving moments. The layers, for a human's
    placement: the stem, the eleven mixed blocks, the top.

    Args:
      batch: images in a batch.
      image: width and height of an image in pixels, at least 75.
      classes: outputs of the top; 1000 gives 23,851,784 parameters.
      learning_rate: of SGD.
      mode: "train" for a training step, "forward" for the logits and the loss alone.

    Raises:
      ValueError: for a size out of range or an unknown mode.
    """
    for name, value, least in (
        ("batch", batch, 1),
        ("image", image, _MIN_IMAGE),
        ("classes", classes, 2),
    ):
        if value < least:
            raise ValueError(f"inception_v3: {name} must be at least {least}, got {value}")
    if mode not in ("train", "forward"):
        raise ValueError(f"inception_v3: mode must be 'train' or 'forward', got {mode!r}")
    graph = tf.Graph()
    with graph.as_default():
        network = _Network(training=mode == "train")
        logits, labels = network.build(batch, image, classes)
        with layer_scope(network.layer):
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        outputs = {"loss": loss, "logits": logits}
        train_op = None
        if mode == "train":
            weights = v1.trainable_variables()
            step = v1.train.GradientDescentOptimizer(learning_rate).minimize(loss, var_list=weights)
            train_op = tf.group(step, *network.updates, name="train")
            # Logits are too wide to fetch each step, and the updated weights depend on them.
            outputs = {"loss": loss, **variables.probes(_spread(weights), [train_op])}
        init_op = v1.global_variables_initializer()
    return Workload(
        name=f"inception-v3-{mode}",
        graph=graph,
        init_op=init_op,
        train_op=train_op,
        loss=loss,
        outputs=outputs,
        layer_of=layers_by_name(graph),
        layers=network.layer + 1,
    )


def _spread(weights: Sequence[tf.Variable]) -> list[tf.Variable]:
    """Returns a few weights, from the first to the last."""
    last = len(weights) - 1
    return [weights[each * last // (_PROBES - 1)] for each in range(_PROBES)]


class _Network:
    """Builds the operations in the default graph, and collects the updates of moving moments."""

    def __init__(self, *, training: bool):
        self.updates: list[tf.Operation] = []
        self.layer = 0
        self._training = training
        self._convolutions = 0

    def build(self, batch: int, image: int, classes: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns logits [batch, classes] and labels [batch]."""
        x = self._block(self._stem, batch, image)
        for pool_width in (32, 64, 64):
            x = self._block(self._mixed_35, x, pool_width)
        x = self._block(self._reduce_to_17, x)
        for width in (128, 160, 160, 192):
            x = self._block(self._mixed_17, x, width)
        x = self._block(self._reduce_to_8, x)
        for _ in range(2):
            x = self._block(self._mixed_8, x)
        with layer_scope(self.layer):
            labels = variables.tokens("labels", [batch], classes).read_value()
            return self._top(x, classes), labels

    def _block(self, build: Callable[..., tf.Tensor], *arguments: object) -> tf.Tensor:
        """Builds one layer in a scope of its own."""
        with layer_scope(self.layer):
            result = build(*arguments)
        self.layer += 1
        return result

    def _stem(self, batch: int, image: int) -> tf.Tensor:
        shape = [batch, image, image, 3]
        images = variables.uniform("images", shape, 1.0, trainable=False).read_value()
        x = self._conv(images, 32, 3, 3, stride=2, padding="VALID")
        x = self._conv(x, 32, 3, 3, padding="VALID")
        x = self._conv(x, 64, 3, 3)
        x = _max_pool(x)
        x = self._conv(x, 80, 1, 1, padding="VALID")
        x = self._conv(x, 192, 3, 3, padding="VALID")
        return _max_pool(x)

    def _mixed_35(self, x: tf.Tensor, pool_width: int) -> tf.Tensor:
        single = self._conv(x, 64, 1, 1)
        five = self._chain(x, (48, 1, 1), (64, 5, 5))
        double = self._chain(x, (64, 1, 1), (96, 3, 3), (96, 3, 3))
        pool = self._conv(_average_pool(x), pool_width, 1, 1)
        return tf.concat([single, five, double, pool], 3)

    def _reduce_to_17(self, x: tf.Tensor) -> tf.Tensor:
        three = self._conv(x, 384, 3, 3, stride=2, padding="VALID")
        double = self._chain(x, (64, 1, 1), (96, 3, 3))
        double = self._conv(double, 96, 3, 3, stride=2, padding="VALID")
        return tf.concat([three, double, _max_pool(x)], 3)

    def _mixed_17(self, x: tf.Tensor, width: int) -> tf.Tensor:
        single = self._conv(x, 192, 1, 1)
        seven = self._chain(x, (width, 1, 1), (width, 1, 7), (192, 7, 1))
        double = self._chain(
            x, (width, 1, 1), (width, 7, 1), (width, 1, 7), (width, 7, 1), (192, 1, 7)
        )
        pool = self._conv(_average_pool(x), 192, 1, 1)
        return tf.concat([single, seven, double, pool], 3)

    def _reduce_to_8(self, x: tf.Tensor) -> tf.Tensor:
        three = self._conv(x, 192, 1, 1)
        three = self._conv(three, 320, 3, 3, stride=2, padding="VALID")
        seven = self._chain(x, (192, 1, 1), (192, 1, 7), (192, 7, 1))
        seven = self._conv(seven, 192, 3, 3, stride=2, padding="VALID")
        return tf.concat([three, seven, _max_pool(x)], 3)

    def _mixed_8(self, x: tf.Tensor) -> tf.Tensor:
        single = self._conv(x, 320, 1, 1)
        three = self._conv(x, 384, 1, 1)
        three = tf.concat([self._conv(three, 384, 1, 3), self._conv(three, 384, 3, 1)], 3)
        double = self._chain(x, (448, 1, 1), (384, 3, 3))
        double = tf.concat([self._conv(double, 384, 1, 3), self._conv(double, 384, 3, 1)], 3)
        pool = self._conv(_average_pool(x), 192, 1, 1)
        return tf.concat([single, three, double, pool], 3)

    def _top(self, x: tf.Tensor, classes: int) -> tf.Tensor:
        features = tf.reduce_mean(x, [1, 2])
        width = features.shape[1]
        kernel = variables.uniform("kernel", [width, classes], _glorot(width, classes))
        bias = variables.filled("bias", [classes])
        return tf.nn.bias_add(tf.matmul(features, kernel.read_value()), bias.read_value())

    def _chain(self, x: tf.Tensor, *sizes: tuple[int, int, int]) -> tf.Tensor:
        for filters, rows, columns in sizes:
            x = self._conv(x, filters, rows, columns)
        return x

    def _conv(
        self,
        x: tf.Tensor,
        filters: int,
        rows: int,
        columns: int,
        *,
        stride: int = 1,
        padding: str = "SAME",
    ) -> tf.Tensor:
        """Convolution without a bias, batch normalisation without a scale, ReLU."""
        with v1.variable_scope(f"conv_{self._convolutions}"):
            self._convolutions += 1
            depth = x.shape[3]
            limit = _glorot(rows * columns * depth, rows * columns * filters)
            kernel = variables.uniform("kernel", [rows, columns, depth, filters], limit)
            x = tf.nn.conv2d(x, kernel.read_value(), stride, padding)
            return tf.nn.relu(self._normalise(x))

    def _normalise(self, x: tf.Tensor) -> tf.Tensor:
        width = [x.shape[3]]
        offset = variables.filled("offset", width)
        mean = variables.filled("mean", width, trainable=False)
        variance = variables.filled("variance", width, 1.0, trainable=False)
        result = tf.raw_ops.FusedBatchNormV3(
            x=x,
            scale=tf.ones(width),
            offset=offset.read_value(),
            mean=mean.read_value(),
            variance=variance.read_value(),
            epsilon=_EPSILON,
            exponential_avg_factor=1.0 - _MOMENTUM if self._training else 1.0,
            is_training=self._training,
        )
        if self._training:  # Then the operation returns the new moving moments.
            self.updates.append(mean.assign(result.batch_mean, read_value=False))
            self.updates.append(variance.assign(result.batch_variance, read_value=False))
        return result.y


def _glorot(fan_in: int, fan_out: int) -> float:
    """Returns the limit of Glorot's uniform distribution."""
    return (6.0 / (fan_in + fan_out)) ** 0.5


def _max_pool(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.max_pool2d(x, 3, 2, "VALID")


def _average_pool(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.avg_pool2d(x, 3, 1, "SAME")
