"""The workloads are the models that they claim to be, and do the same each time."""

import math
import re

import numpy as np
import pytest
import tensorflow as tf
from go_bench.workloads import Workload, by_layer, inception_v3, place, rnnlm

v1 = tf.compat.v1


def _small_rnnlm(**options):
    return rnnlm(**{"batch": 4, "width": 8, "steps": 3, "vocab": 16, **options})


def _run(workload: Workload, steps: int) -> list[dict[str, np.ndarray]]:
    with v1.Session(graph=workload.graph) as session:
        session.run(workload.init_op)
        return [session.run(workload.fetches)["outputs"] for _ in range(steps)]


def _model_variables(workload: Workload) -> list[tf.Variable]:
    with workload.graph.as_default():
        return [
            each
            for each in v1.global_variables()
            if each.op.name.split("/")[-1] not in ("images", "labels")
        ]


@pytest.mark.parametrize("mode", ["train", "forward"])
def test_rnnlm_gives_the_same_outputs_in_each_session(mode):
    first, second = _run(_small_rnnlm(mode=mode), 3), _run(_small_rnnlm(mode=mode), 3)
    for ours, theirs in zip(first, second, strict=True):
        for key in ours:
            np.testing.assert_array_equal(ours[key], theirs[key])


def test_rnnlm_starts_from_an_even_guess_and_learns():
    outputs = _run(_small_rnnlm(), 30)
    assert outputs[0]["loss"] == pytest.approx(math.log(16), rel=0.05)
    assert outputs[-1]["loss"] < outputs[0]["loss"] - 0.1


def test_rnnlm_has_the_parameters_of_the_model():
    layers, width, vocab = 3, 8, 16
    workload = _small_rnnlm(layers=layers)
    with workload.graph.as_default():
        count = sum(math.prod(each.shape) for each in v1.trainable_variables())
    lstm = 2 * width * 4 * width + 4 * width
    assert count == vocab * width + layers * lstm + width * vocab + vocab


def test_rnnlm_agrees_with_keras():
    """The loss of one layer against Keras' own embedding, LSTM and dense layer."""
    workload = _small_rnnlm(layers=1, mode="forward")
    variables = {each.op.name: each for each in _model_variables(workload)}
    with v1.Session(graph=workload.graph) as session:
        session.run(workload.init_op)
        values = session.run(variables)
        loss = session.run(workload.loss)
    value = {name.split("/")[-1]: value for name, value in values.items()}
    kernel, bias = value["kernel"], value["bias"].copy()
    write, update, forget, read = np.split(np.arange(32), 4)
    order = np.concatenate([write, forget, update, read])  # Keras' order of the gates.
    bias[forget] += 1.0
    lstm = tf.keras.layers.LSTM(8, return_sequences=True)
    lstm.build((4, 3, 8))
    lstm.set_weights([kernel[:8, order], kernel[8:, order], bias[order]])
    tokens = value["tokens"]
    states = lstm(
        tf.constant(value["embedding"][tokens[:, :-1]]),
        initial_state=[tf.constant(value["hidden"]), tf.constant(value["cell"])],
    )
    logits = states @ value["softmax"] + value["softmax_bias"]
    expected = tf.keras.losses.sparse_categorical_crossentropy(
        tokens[:, 1:], logits, from_logits=True
    )
    assert loss == pytest.approx(float(tf.reduce_mean(expected)), rel=1e-5)


def test_training_updates_every_weight():
    workload = _small_rnnlm()
    with workload.graph.as_default():
        weights = {each.op.name: each for each in v1.trainable_variables()}
    with v1.Session(graph=workload.graph) as session:
        session.run(workload.init_op)
        before = session.run(weights)
        session.run(workload.train_op)
        after = session.run(weights)
    assert [name for name in weights if np.array_equal(before[name], after[name])] == []


def test_the_layer_of_a_node_is_that_of_its_weights():
    workload = _small_rnnlm()
    assert set(workload.layer_of.values()) == {0, 1}
    assert set(workload.layer_of) == {each.name for each in workload.graph.get_operations()}
    for name, layer in workload.layer_of.items():
        scope = re.search(r"layer_(\d)/", name)
        assert scope is None or int(scope.group(1)) == layer, name


def test_a_placement_by_layer_changes_devices_and_nothing_else():
    workload = _small_rnnlm()
    devices = ["/device:CPU:0", "/device:CPU:1"]
    placed = place(workload, by_layer(workload, devices))
    stripped = placed.graph.as_graph_def()
    used = {node.device for node in stripped.node}
    for node in stripped.node:
        node.device = ""
    expected = {node.name: node for node in workload.graph.as_graph_def().node}
    assert used == set(devices)
    assert {node.name: node for node in stripped.node} == expected


def test_place_refuses_a_node_that_is_not_there():
    with pytest.raises(ValueError, match="'nowhere'"):
        place(_small_rnnlm(), {"nowhere": "/device:CPU:0"})


@pytest.mark.parametrize(
    ("build", "options", "message"),
    [
        (rnnlm, {"layers": 0}, "layers must be at least 1, got 0"),
        (rnnlm, {"vocab": 1}, "vocab must be at least 2, got 1"),
        (rnnlm, {"mode": "eval"}, "mode must be 'train' or 'forward', got 'eval'"),
        (inception_v3, {"image": 32}, "image must be at least 75, got 32"),
        (inception_v3, {"mode": "eval"}, "mode must be 'train' or 'forward', got 'eval'"),
    ],
)
def test_bad_sizes_are_named(build, options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_inception_has_the_parameters_of_the_paper_model():
    workload = inception_v3()
    assert sum(math.prod(each.shape) for each in _model_variables(workload)) == 23_851_784
    with workload.graph.as_default():
        assert sum(math.prod(each.shape) for each in v1.trainable_variables()) == 23_817_352
    assert set(workload.layer_of.values()) == set(range(workload.layers))


def test_inception_agrees_with_keras():
    """Logits of the forward pass against `tf.keras.applications`, with our weights in it."""
    workload = inception_v3(batch=2, image=75, mode="forward")
    variables = {each.op.name: each for each in _model_variables(workload)}
    images = workload.graph.get_tensor_by_name("layer_0/images/Read/ReadVariableOp:0")
    with v1.Session(graph=workload.graph) as session:
        session.run(workload.init_op)
        values, inputs, logits = session.run([variables, images, workload.outputs["logits"]])
    keras = tf.keras.applications.InceptionV3(
        weights=None, input_shape=(75, 75, 3), classifier_activation=None
    )
    ours = iter(values.values())
    # Both build in the same order, and Keras numbers its layers in it but lists them otherwise.
    numbered = {
        kind: sorted((each for each in keras.layers if isinstance(each, kind)), key=_number)
        for kind in (tf.keras.layers.Conv2D, tf.keras.layers.BatchNormalization)
    }
    for convolution, normalisation in zip(*numbered.values(), strict=True):
        convolution.set_weights([next(ours)])
        normalisation.set_weights([next(ours) for _ in range(3)])
    keras.layers[-1].set_weights([next(ours), next(ours)])
    assert next(ours, None) is None
    np.testing.assert_allclose(logits, keras(inputs, training=False), rtol=1e-3, atol=1e-4)


def _number(layer) -> int:
    match = re.search(r"_(\d+)$", layer.name)
    return int(match.group(1)) if match else 0


def test_inception_trains():
    outputs = _run(inception_v3(batch=2, image=75, classes=10), 3)
    assert outputs[0]["loss"] == pytest.approx(math.log(10), rel=0.5)
    assert outputs[-1]["loss"] != outputs[0]["loss"]
    assert all(np.all(np.isfinite(each)) for step in outputs for each in step.values())
