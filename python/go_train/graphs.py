"""Random TensorFlow graphs with real ops and shapes, to learn placement from.

Each family builds the kind of structure that placement meets: layers with cross connections,
towers, unrolled recurrences, convolution blocks with branches, attention. Sizes are drawn so that
some graphs gain from many devices and some from one. The graphs are read, never run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

_UNARY = (
    tf.nn.relu,
    tf.tanh,
    tf.sigmoid,
    tf.exp,
    tf.nn.gelu,
    tf.nn.softplus,
    tf.nn.softmax,
    tf.square,
    tf.abs,
)
_BINARY = (tf.add, tf.multiply, tf.subtract, tf.maximum)


@dataclasses.dataclass(frozen=True)
class TrainingGraph:
    """A graph to place.

    Attributes:
        name: unique, says how to build it again.
        family: the kind of structure.
        graph_def: nodes without devices.
        fetch: names of the tensors and ops that a step computes.
        feed: names of the tensors that the caller provides.
    """

    name: str
    family: str
    graph_def: tf.compat.v1.GraphDef
    fetch: tuple[str, ...]
    feed: tuple[str, ...]


def size(rng: np.random.Generator, low: int, high: int) -> int:
    """Returns an integer from `low` to `high`, each doubling equally likely."""
    return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))


def _pick(rng: np.random.Generator, choices: tuple) -> Callable[..., tf.Tensor]:
    return choices[rng.integers(len(choices))]


class _Builder:
    """Ops with parameters, in the graph that is current; every parameter is a resource variable."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.inputs: list[tf.Tensor] = []
        self.variables: list[tf.Variable] = []

    def input(self, *shape: int) -> tf.Tensor:
        placeholder = tf.compat.v1.placeholder(tf.float32, shape, name=f"input_{len(self.inputs)}")
        self.inputs.append(placeholder)
        return placeholder

    def variable(self, *shape: int) -> tf.Variable:
        with tf.name_scope(f"variable_{len(self.variables)}"):
            value = tf.compat.v1.get_variable(
                f"variable_{len(self.variables)}",
                shape,
                initializer=tf.compat.v1.zeros_initializer(),
                use_resource=True,
            )
        self.variables.append(value)
        return value

    def dense(self, x: tf.Tensor, units: int) -> tf.Tensor:
        return tf.nn.bias_add(tf.matmul(x, self.variable(x.shape[-1], units)), self.variable(units))

    def conv(self, x: tf.Tensor, channels: int, kernel: int, stride: int = 1) -> tf.Tensor:
        weights = self.variable(kernel, kernel, x.shape[-1], channels)
        x = tf.nn.conv2d(x, weights, strides=stride, padding="SAME")
        return tf.nn.relu(tf.nn.bias_add(x, self.variable(channels)))

    def norm(self, x: tf.Tensor) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5) * self.variable(x.shape[-1])

    def elementwise(self, x: tf.Tensor, count: int) -> tf.Tensor:
        for _ in range(count):
            x = _pick(self.rng, _UNARY)(x)
        return x


def _layered(build: _Builder) -> list[tf.Tensor]:
    """Layers of ops, each fed by one to three ops of the few layers before."""
    rng = build.rng
    batch, units = size(rng, 8, 512), size(rng, 32, 1024)
    wide, deep = int(rng.integers(2, 9)), int(rng.integers(3, 14))
    layers = [[build.input(batch, units) for _ in range(int(rng.integers(1, 3)))]]
    for _ in range(deep):
        pool = [op for layer in layers[-2:] for op in layer]
        layer = []
        for _ in range(wide):
            x = pool[rng.integers(len(pool))]
            for _ in range(int(rng.integers(0, 3))):
                x = _pick(rng, _BINARY)(x, pool[rng.integers(len(pool))])
            if rng.random() < 0.6:
                x = build.dense(x, units)
            layer.append(build.elementwise(x, int(rng.integers(1, 4))))
        layers.append(layer)
    return layers[-1]


def _towers(build: _Builder) -> list[tf.Tensor]:
    """Chains beside each other from one input, of unlike length and weight, joined now and then."""
    rng = build.rng
    batch = size(rng, 16, 1024)
    x = build.input(batch, size(rng, 32, 512))
    for _ in range(int(rng.integers(1, 4))):
        towers = []
        for _ in range(int(rng.integers(2, 9))):
            units, y = size(rng, 32, 1024), x
            for _ in range(int(rng.integers(1, 8))):
                y = build.elementwise(build.dense(y, units), int(rng.integers(1, 3)))
            towers.append(y)
        x = tf.concat(towers, axis=1)
        if rng.random() < 0.5:
            x = build.dense(x, size(rng, 32, 512))
    return [x]


def _lstm(build: _Builder) -> list[tf.Tensor]:
    """An unrolled stack of LSTM layers over an embedded sequence, with a softmax at each step."""
    rng = build.rng
    batch, units = size(rng, 8, 128), size(rng, 64, 1024)
    depth, steps = int(rng.integers(1, 5)), int(rng.integers(3, 17))
    classes = size(rng, 64, 4096)
    kernels = [build.variable(2 * units, 4 * units) for _ in range(depth)]
    biases = [build.variable(4 * units) for _ in range(depth)]
    output = build.variable(units, classes)
    states = [(tf.zeros([batch, units]), tf.zeros([batch, units])) for _ in range(depth)]
    sequence = build.input(batch, steps, units)
    losses = []
    for x in tf.unstack(sequence, axis=1):
        for layer in range(depth):
            cell, hidden = states[layer]
            gates = tf.matmul(tf.concat([x, hidden], axis=1), kernels[layer])
            i, j, f, o = tf.split(tf.nn.bias_add(gates, biases[layer]), 4, axis=1)
            cell = cell * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
            x = tf.tanh(cell) * tf.sigmoid(o)
            states[layer] = (cell, x)
        losses.append(tf.nn.softmax(tf.matmul(x, output)))
    return losses


def _inception(build: _Builder) -> list[tf.Tensor]:
    """Convolution blocks of parallel branches joined by a concat."""
    rng = build.rng
    batch, side, base = size(rng, 2, 32), size(rng, 12, 96), size(rng, 8, 64)
    x = build.conv(build.input(batch, side, side, 3), base, 3, stride=2)
    for _ in range(int(rng.integers(1, 6))):
        branches = [build.conv(x, base, 1)]
        for _ in range(int(rng.integers(1, 4))):
            y = build.conv(x, size(rng, 8, 64), 1)
            for _ in range(int(rng.integers(1, 3))):
                y = build.conv(y, size(rng, 8, 96), int(rng.choice([1, 3, 5])))
            branches.append(y)
        pooled = tf.nn.avg_pool2d(x, ksize=3, strides=1, padding="SAME")
        branches.append(build.conv(pooled, base, 1))
        x = tf.concat(branches, axis=3)
        if rng.random() < 0.4 and x.shape[1] >= 4:
            x = tf.nn.max_pool2d(x, ksize=3, strides=2, padding="SAME")
    return [build.dense(tf.reduce_mean(x, axis=[1, 2]), size(rng, 10, 1000))]


def _transformer(build: _Builder) -> list[tf.Tensor]:
    """Attention blocks whose heads are ops of their own, and feed-forward layers."""
    rng = build.rng
    batch, length = size(rng, 2, 16), size(rng, 16, 128)
    heads, units = int(rng.integers(1, 9)), size(rng, 16, 96)
    x = build.input(batch, length, heads * units)
    flat = lambda t: tf.reshape(t, [batch * length, t.shape[-1]])  # noqa: E731
    for _ in range(int(rng.integers(1, 5))):
        normed, joined = flat(build.norm(x)), []
        for _ in range(heads):
            q, k, v = (
                tf.reshape(build.dense(normed, units), [batch, length, units]) for _ in range(3)
            )
            joined.append(tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v))
        x += tf.reshape(build.dense(flat(tf.concat(joined, axis=2)), heads * units), x.shape)
        hidden = tf.nn.relu(build.dense(flat(build.norm(x)), 4 * heads * units))
        x += tf.reshape(build.dense(hidden, heads * units), x.shape)
    return [x]


def _experts(build: _Builder) -> list[tf.Tensor]:
    """Blocks where gated experts run side by side and their outputs are summed."""
    rng = build.rng
    batch, units = size(rng, 16, 512), size(rng, 32, 512)
    x = build.input(batch, units)
    for _ in range(int(rng.integers(1, 4))):
        count = int(rng.integers(2, 10))
        gates = tf.split(tf.nn.softmax(build.dense(x, count)), count, axis=1)
        hidden = size(rng, 64, 2048)
        outputs = [gate * build.dense(tf.nn.relu(build.dense(x, hidden)), units) for gate in gates]
        x = x + tf.add_n(outputs)
    return [x]


FAMILIES: dict[str, Callable[[_Builder], list[tf.Tensor]]] = {
    "layered": _layered,
    "towers": _towers,
    "lstm": _lstm,
    "inception": _inception,
    "transformer": _transformer,
    "experts": _experts,
}


def random_graph(family: str, seed: int, *, training: bool) -> TrainingGraph:
    """Builds a graph of `family`.

    Args:
        family: a key of FAMILIES.
        seed: equal seeds give equal graphs.
        training: whether gradients and updates of all parameters follow the forward pass.

    Raises:
        ValueError: no such family.
    """
    if family not in FAMILIES:
        raise ValueError(f"family: want one of {', '.join(FAMILIES)}, got {family!r}")
    rng = np.random.default_rng([seed, sorted(FAMILIES).index(family)])
    with tf.Graph().as_default() as graph:
        build = _Builder(rng)
        outputs = FAMILIES[family](build)
        fetch = [tf.identity(tf.add_n([tf.reduce_mean(y) for y in outputs]), name="loss")]
        if training:
            gradients = tf.gradients(fetch[0], build.variables)
            fetch += [
                variable.assign_sub(0.1 * gradient, read_value=False)
                for variable, gradient in zip(build.variables, gradients, strict=True)
                if gradient is not None  # Not every op of a random graph leads to its loss.
            ]
    return TrainingGraph(
        name=f"{family}-{seed}-{'train' if training else 'forward'}",
        family=family,
        graph_def=_without_initializers(graph.as_graph_def(), [f.name for f in fetch]),
        fetch=tuple(f.name for f in fetch),
        feed=tuple(x.name for x in build.inputs),
    )


def _without_initializers(
    graph_def: tf.compat.v1.GraphDef, fetch: list[str]
) -> tf.compat.v1.GraphDef:
    """Returns the part of `graph_def` that a step needs: what `fetch` depends on."""
    return tf.compat.v1.graph_util.extract_sub_graph(
        graph_def, [name.partition(":")[0] for name in fetch]
    )


def _dense_model() -> tf.keras.Model:
    layers = [tf.keras.layers.Dense(units, "relu") for units in (256, 128, 64)]
    return tf.keras.Sequential([tf.keras.Input([128], 64), *layers])


def _branched_cnn() -> tf.keras.Model:
    keras = tf.keras
    inputs = keras.Input([32, 32, 3], 16)
    x = keras.layers.Conv2D(32, 3, strides=2, activation="relu")(inputs)
    for channels in (32, 64):
        a = keras.layers.Conv2D(channels, 1, activation="relu")(x)
        b = keras.layers.Conv2D(channels, 3, padding="same", activation="relu")(x)
        b = keras.layers.BatchNormalization()(b)
        x = keras.layers.Concatenate()([a, b, keras.layers.MaxPool2D(3, 1, padding="same")(x)])
    return keras.Model(inputs, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(x)))


def _rnn_model() -> tf.keras.Model:
    cells = [tf.keras.layers.LSTM(128, return_sequences=True, unroll=True) for _ in range(2)]
    return tf.keras.Sequential([tf.keras.Input([12, 64], 32), *cells, tf.keras.layers.Dense(512)])


def _gru_model() -> tf.keras.Model:
    layers = [tf.keras.layers.GRU(96, return_sequences=True), tf.keras.layers.GRU(96)]
    return tf.keras.Sequential([tf.keras.Input([20, 32], 32), *layers, tf.keras.layers.Dense(64)])


def _mobilenet() -> tf.keras.Model:
    inputs = tf.keras.Input([64, 64, 3], 8)
    return tf.keras.applications.MobileNetV3Small(
        input_tensor=inputs, include_top=False, pooling="avg", weights=None
    )


KERAS_MODELS: dict[str, Callable[[], tf.keras.Model]] = {
    "dense": _dense_model,
    "branched_cnn": _branched_cnn,
    "rnn": _rnn_model,
    "gru": _gru_model,
    "mobilenet": _mobilenet,
}


def keras_graph(model_name: str, *, training: bool) -> TrainingGraph:
    """Builds the step of a small Keras model as `tf.function` traces it.

    Args:
        model_name: a key of KERAS_MODELS.
        training: whether the step computes gradients and updates the weights.

    Raises:
        ValueError: no such model.
    """
    if model_name not in KERAS_MODELS:
        raise ValueError(f"model_name: want one of {', '.join(KERAS_MODELS)}, got {model_name!r}")
    model = KERAS_MODELS[model_name]()

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=training)))
        if training:
            weights = model.trainable_variables
            for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
                weight.assign_sub(0.1 * gradient)
        return loss

    graph = tf.function(step).get_concrete_function(tf.TensorSpec(model.inputs[0].shape)).graph
    updates = [op.name for op in graph.get_operations() if op.type == "AssignSubVariableOp"]
    return TrainingGraph(
        name=f"keras-{model_name}-{'train' if training else 'forward'}",
        family="keras",
        graph_def=graph.as_graph_def(),
        fetch=(graph.outputs[0].name, *updates),
        feed=tuple(x.name for x in graph.inputs),
    )
