"""Small policies as SavedModels: right ones, and ones with one thing wrong."""

import pathlib
from collections.abc import Callable, Sequence

import tensorflow as tf

import grappler_go

_INPUTS = {
    "node_features": (2, tf.float32),
    "op_type": (1, tf.int32),
    "edge_source": (1, tf.int32),
    "edge_target": (1, tf.int32),
    "edge_features": (2, tf.float32),
    "device_features": (2, tf.float32),
    "node_device_features": (3, tf.float32),
    "node_device_mask": (2, tf.float32),
    "link_features": (3, tf.float32),
}

Scores = Callable[[dict[str, tf.Tensor]], tf.Tensor]


def prefers(device: int) -> Scores:
    """Scores under which every op goes to one device if it may."""

    def scores(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        mask = inputs["node_device_mask"]
        wanted = tf.one_hot(device, tf.shape(mask)[1], on_value=100.0)
        return tf.where(mask > 0, wanted[None, :] + 0.0 * mask, -1e9)

    return scores


def not_a_number(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
    """Scores of the right shape that mean nothing."""
    return inputs["node_device_mask"] * float("nan")


def one_device_too_many(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
    """Scores of the wrong shape."""
    return tf.pad(inputs["node_device_mask"], [[0, 0], [0, 1]])


def of_another_type(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
    """Scores that are not floats."""
    return tf.cast(inputs["node_device_mask"], tf.int32)


def failing(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
    """Scores that cannot be computed."""
    mask = inputs["node_device_mask"]
    with tf.control_dependencies([tf.debugging.assert_less(mask, -1.0, message="no scores today")]):
        return tf.identity(mask)


_PREFERS_1 = prefers(1)


def save(
    directory: pathlib.Path,
    scores: Scores = _PREFERS_1,
    *,
    table: Sequence[str] | None = None,
    output: str = "placement_logits",
    extra_input: str = "",
    retyped_input: str = "",
    signatures: Sequence[str] = ("serving_default", "feature_table"),
) -> str:
    """Saves a policy, and returns its directory as the option `policy` takes it."""
    names = grappler_go.feature_table() if table is None else table
    specs = {
        name: tf.TensorSpec(
            [None] * rank, tf.float64 if name == retyped_input else dtype, name=name
        )
        for name, (rank, dtype) in _INPUTS.items()
    }
    if extra_input:
        specs[extra_input] = tf.TensorSpec([], tf.float32, name=extra_input)

    class Policy(tf.Module):
        @tf.function(input_signature=list(specs.values()))
        def serve(self, *inputs):
            return {output: scores(dict(zip(specs, inputs, strict=True)))}

        @tf.function(input_signature=[])
        def feature_table(self):
            return {"names": tf.constant(list(names), tf.string)}

    policy = Policy()
    functions = {"serving_default": policy.serve, "feature_table": policy.feature_table}
    tf.saved_model.save(
        policy, str(directory), signatures={name: functions[name] for name in signatures}
    )
    return str(directory)
