"""The last part of every workload: the training step around a loss, and the parts it is made of."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

import tensorflow as tf

from go_bench.workloads import variables
from go_bench.workloads.workload import Workload, layers_by_name

v1 = tf.compat.v1

Mode = typing.Literal["train", "forward"]

_PROBES = 8


def check(name: str, mode: str, least: Mapping[str, tuple[int, int]]) -> None:
    """Checks a builder's arguments.

    Args:
      name: of the builder, for the message.
      mode: must be "train" or "forward".
      least: value and least value, by the argument's name.

    Raises:
      ValueError: for a size below its least or an unknown mode.
    """
    for argument, (value, low) in least.items():
        if value < low:
            raise ValueError(f"{name}: {argument} must be at least {low}, got {value}")
    if mode not in typing.get_args(Mode):
        raise ValueError(f"{name}: mode must be 'train' or 'forward', got {mode!r}")


def complete(
    name: str,
    loss: tf.Tensor,
    *,
    mode: Mode,
    learning_rate: float,
    layers: int,
    updates: Sequence[tf.Operation] = (),
    outputs: Mapping[str, tf.Tensor] | None = None,
) -> Workload:
    """Returns the workload in the current graph: in training, SGD on all weights.

    Args:
      name: of the model; the mode is added.
      loss: scalar.
      mode: "train" or "forward".
      learning_rate: of SGD.
      layers: number of layer scopes.
      updates: what a step does besides: moving moments, memory.
      outputs: values to compare in a forward pass, besides the loss.
    """
    graph = loss.graph
    train_op = None
    results = {"loss": loss}
    if mode == "train":
        weights = v1.trainable_variables()
        step = v1.train.GradientDescentOptimizer(learning_rate).minimize(loss, var_list=weights)
        train_op = tf.group(step, *updates, name="train")
        last = len(weights) - 1
        probed = {index * last // (_PROBES - 1) for index in range(_PROBES)}
        results |= variables.probes([weights[index] for index in sorted(probed)], [train_op])
    else:
        results |= outputs or {}
        if updates:
            with tf.control_dependencies(list(updates)):
                results["updated"] = tf.constant(1.0)
    init_op = v1.global_variables_initializer()
    return Workload(
        name=f"{name}-{mode}",
        graph=graph,
        init_op=init_op,
        train_op=train_op,
        loss=loss,
        outputs=results,
        layer_of=layers_by_name(graph),
        layers=layers,
    )


def lstm_cell(
    inputs: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """One step of an LSTM with forget bias 1 (https://arxiv.org/abs/1409.2329): hidden and cell.

    Args:
      inputs: [batch, input width].
      hidden: [batch, width].
      cell: [batch, width].
      kernel: [input width + width, 4 * width].
      bias: [4 * width].
    """
    gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, hidden], 1), kernel), bias)
    write, update, forget, read = tf.split(gates, 4, axis=1)
    cell = cell * tf.sigmoid(forget + 1.0) + tf.sigmoid(write) * tf.tanh(update)
    return tf.tanh(cell) * tf.sigmoid(read), cell


def dense(x: tf.Tensor, name: str, width: int) -> tf.Tensor:
    """A dense layer with a bias over the last dimension of [rows, depth]."""
    depth = int(x.shape[-1])
    limit = (6.0 / (depth + width)) ** 0.5
    weights = variables.uniform(name, [depth, width], limit).read_value()
    bias = variables.filled(f"{name}_bias", [width]).read_value()
    return tf.nn.bias_add(tf.matmul(x, weights), bias)


def layer_norm(x: tf.Tensor, name: str) -> tf.Tensor:
    """Layer normalisation over the last dimension (https://arxiv.org/abs/1607.06450)."""
    width = [int(x.shape[-1])]
    scale = variables.filled(f"{name}_scale", width, 1.0).read_value()
    offset = variables.filled(f"{name}_offset", width).read_value()
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-6) * scale + offset
