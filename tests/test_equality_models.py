"""Outputs are the same with the pass on and off: whole models, forward and in training."""

import _passes
import keras
import numpy as np
import pytest
import tensorflow as tf

_RTOL = 1e-4


def _images(batch: int, size: int) -> tf.Tensor:
    values = np.random.default_rng(0).standard_normal((batch, size, size, 3))
    return tf.constant(values.astype(np.float32))


def _sequences(batch: int = 4, steps: int = 6, width: int = 8) -> tf.Tensor:
    values = np.random.default_rng(0).standard_normal((batch, steps, width))
    return tf.constant(values.astype(np.float32))


def _forward(model: keras.Model):
    return tf.function(lambda x: model(x, training=False))


def test_inception_v3(tmp_path):
    keras.utils.set_random_seed(0)
    model = keras.applications.InceptionV3(weights=None, input_shape=(75, 75, 3))
    forward, x = _forward(model), _images(1, 75)
    _passes.assert_pass_keeps(lambda: forward(x), tmp_path, rtol=_RTOL)


def test_mobilenet_v3(tmp_path):
    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV3Small(weights=None, input_shape=(64, 64, 3))
    forward, x = _forward(model), _images(2, 64)
    _passes.assert_pass_keeps(lambda: forward(x), tmp_path, rtol=_RTOL)


@pytest.mark.parametrize("layer", ["LSTM", "GRU"])
@pytest.mark.parametrize("unroll", [False, True])
def test_recurrent(tmp_path, layer, unroll):
    keras.utils.set_random_seed(0)
    x = _sequences()
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:]),
            getattr(keras.layers, layer)(8, return_sequences=True, unroll=unroll),
            getattr(keras.layers, layer)(8, unroll=unroll),
            keras.layers.Dense(3),
        ]
    )
    forward = _forward(model)
    _passes.assert_pass_keeps(lambda: forward(x), tmp_path, rtol=_RTOL)


def _transformer_block(width: int = 16) -> keras.Model:
    inputs = keras.Input((6, width))
    attended = keras.layers.MultiHeadAttention(num_heads=2, key_dim=8)(inputs, inputs)
    middle = keras.layers.LayerNormalization()(inputs + attended)
    hidden = keras.layers.Dense(4 * width, activation="gelu")(middle)
    outputs = keras.layers.LayerNormalization()(middle + keras.layers.Dense(width)(hidden))
    return keras.Model(inputs, outputs)


def test_transformer_block(tmp_path):
    keras.utils.set_random_seed(0)
    forward, x = _forward(_transformer_block()), _sequences(width=16)
    _passes.assert_pass_keeps(lambda: forward(x), tmp_path, rtol=_RTOL)


def test_train_step_with_adam(tmp_path):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((6, 16)),
            _transformer_block(),
            keras.layers.GRU(8),
            keras.layers.Dropout(0.2, seed=3),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(1),
        ]
    )
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    state = [*model.variables, *optimizer.variables]
    initial = [variable.numpy() for variable in state]
    x, y = _sequences(width=16), _sequences(width=1)[:, 0]

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss, tf.linalg.global_norm(gradients)

    def run():
        for variable, value in zip(state, initial, strict=True):
            variable.assign(value)
        steps = [step(x, y) for _ in range(3)]
        return steps, [variable.numpy() for variable in state]

    _passes.assert_pass_keeps(run, tmp_path, rtol=_RTOL)


def test_adam_without_keras(tmp_path):
    generator = np.random.default_rng(0)
    weights = [tf.Variable(generator.standard_normal((8, 8)).astype(np.float32)) for _ in range(3)]
    slots = [[tf.Variable(tf.zeros([8, 8])) for _ in range(2)] for _ in weights]
    x = tf.constant(generator.standard_normal((4, 8)).astype(np.float32))

    @tf.function
    def step(x, count):
        with tf.GradientTape() as tape:
            hidden = x
            for weight in weights:
                hidden = tf.tanh(hidden @ weight)
            loss = tf.reduce_mean(tf.square(hidden - x))
        for weight, (m, v), gradient in zip(
            weights, slots, tape.gradient(loss, weights), strict=True
        ):
            tf.raw_ops.ResourceApplyAdam(
                var=weight.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=0.9**count,
                beta2_power=0.999**count,
                lr=0.01,
                beta1=0.9,
                beta2=0.999,
                epsilon=1e-7,
                grad=gradient,
            )
        return loss

    initial = [weight.numpy() for weight in weights]

    def run():
        for weight, value, pair in zip(weights, initial, slots, strict=True):
            weight.assign(value)
            for slot in pair:
                slot.assign(tf.zeros([8, 8]))
        losses = [step(x, tf.constant(float(i + 1))) for i in range(3)]
        return losses, [weight.numpy() for weight in weights]

    _passes.assert_pass_keeps(run, tmp_path, rtol=_RTOL)


def test_saved_model_from_disk(tmp_path):
    keras.utils.set_random_seed(0)
    model, x = _transformer_block(), _sequences(width=16)
    want = model(x).numpy()
    model.export(str(tmp_path / "model"), verbose=False)
    serve = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    _passes.assert_same(next(iter(serve(x).values())), want, rtol=_RTOL, what="as exported")
    _passes.assert_pass_keeps(lambda: serve(x), tmp_path, rtol=_RTOL)


def test_saved_model_in_a_session(tmp_path):
    class Scale(tf.Module):
        def __init__(self):
            self.scale = tf.Variable([1.0, 2.0, 3.0])
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), 0.0
            )

        @tf.function(
            input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([None, 1], tf.string)]
        )
        def __call__(self, x, keys):
            return {"y": tf.nn.relu(x * self.scale) + tf.sin(x) + self.table.lookup(keys)}

    module = Scale()
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.__call__)
    feed = [[1.0, -1.0, 2.0]], [["b"]]
    want = module(*map(tf.constant, feed))["y"].numpy()
    v1 = tf.compat.v1
    for seed in _passes.SEEDS:
        directory = tmp_path / str(seed)
        config = _passes.grappler_go.session_config(
            report=str(directory), seed=seed, **_passes.RANDOM
        )
        config.device_count["CPU"] = 4
        with tf.Graph().as_default() as graph, v1.Session(graph=graph, config=config) as session:
            meta = v1.saved_model.load(session, ["serve"], str(tmp_path / "model"))
            signature = meta.signature_def["serving_default"]
            names = (signature.inputs["x"].name, signature.inputs["keys"].name)
            got = session.run(signature.outputs["y"].name, dict(zip(names, feed, strict=True)))
        _passes.assert_same(got, want, rtol=1e-6, what=f"random plan {seed}")
        assert any(r["applied"] for r in _passes.read_reports(directory))


def test_keras_fit_and_predict(tmp_path):
    def run():
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [
                keras.Input((8,)),
                keras.layers.Dense(16, activation="relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.3, seed=1),
                keras.layers.Dense(1),
            ]
        )
        model.compile("adam", "mse", metrics=["mae"], steps_per_execution=2)
        x = _sequences(16, 1, 8)[:, 0]
        history = model.fit(x, x[:, :1], batch_size=4, epochs=2, shuffle=False, verbose=0)
        predicted = model.predict(x, batch_size=4, verbose=0)
        scores = model.evaluate(x, x[:, :1], verbose=0)
        return [np.float32(history.history["loss"]), predicted, np.float32(scores)]

    want = run()
    for seed in _passes.SEEDS:
        directory = tmp_path / str(seed)
        with _passes.enabled(directory, seed=seed, **_passes.RANDOM), _passes.executed() as devices:
            got = run()
        _passes.assert_same(got, want, rtol=_RTOL, what=f"random plan {seed}")
        graphs = {r["graph"] for r in _passes.read_reports(directory) if r["applied"]}
        for name in ("multi_step_on_iterator", "multi_step_on_data"):
            assert any(name in graph for graph in graphs), graphs
        assert not any("initialize_variables" in graph for graph in graphs), graphs
        assert len(devices) > 1, devices


_KERAS_2 = """
import pathlib
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4)
import numpy as np
import _passes
assert tf.keras.Model.__module__.startswith("tf_keras."), tf.keras.Model.__module__
directory = pathlib.Path(%r)

def run():
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([
        tf.keras.layers.Input((6, 8)), tf.keras.layers.LSTM(8, return_sequences=True),
        tf.keras.layers.GRU(8), tf.keras.layers.Dropout(0.2, seed=1), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.01), "mse")
    x = np.random.default_rng(0).standard_normal((16, 6, 8)).astype(np.float32)
    history = model.fit(x, x[:, 0, :1], batch_size=4, epochs=2, shuffle=False, verbose=0)
    return [np.float32(history.history["loss"]), model.predict(x, batch_size=4, verbose=0)]

want = run()
with _passes.enabled(directory, seed=1, **_passes.RANDOM), _passes.executed() as devices:
    got = run()
_passes.assert_same(got, want, rtol=1e-4, what="Keras 2")
graphs = {r["graph"] for r in _passes.read_reports(directory) if r["applied"]}
assert any("train_function" in graph for graph in graphs), graphs
assert any("predict_function" in graph for graph in graphs), graphs
assert len(devices) > 1, devices
print("same")
"""


def test_keras_2_fit_and_predict(tmp_path):
    pytest.importorskip("tf_keras")
    done = _passes.run_python(_KERAS_2 % str(tmp_path), TF_USE_LEGACY_KERAS="1")
    assert done.returncode == 0 and "same" in done.stdout, done.stderr[-3000:]
