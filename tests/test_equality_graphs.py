"""Outputs are the same with the pass on and off: one kind of graph a test."""

import _passes
import numpy as np
import pytest
import tensorflow as tf

v1 = tf.compat.v1


def _numbers(*shape: int, seed: int = 1) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def test_elementwise_and_matmul(tmp_path):
    @tf.function
    def step(x):
        parts = [tf.nn.relu(x @ x + float(i)) for i in range(4)]
        return tf.add_n(parts), tf.reduce_mean(tf.stack(parts)), [tf.argmax(p, 1) for p in parts]

    x = _numbers(16, 16)
    _passes.assert_pass_keeps(lambda: step(x), tmp_path, rtol=1e-6)


def test_while_loop(tmp_path):
    @tf.function
    def step(x):
        def body(i, state):
            return i + 1, tf.tanh(state @ x) + tf.cast(i, tf.float32)

        _, state = tf.while_loop(lambda i, _: i < 5, body, (0, x))
        return tf.nn.softmax(state) + tf.nn.relu(x) * tf.sigmoid(x)

    x = _numbers(8, 8)
    _passes.assert_pass_keeps(lambda: step(x), tmp_path, rtol=1e-6)


def test_nested_while_loops_with_gradient(tmp_path):
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            state = x
            for _ in tf.range(3):
                for _ in tf.range(2):
                    state = tf.tanh(state @ x)
            loss = tf.reduce_sum(state**2) + tf.reduce_sum(tf.sin(x))
        return loss, tape.gradient(loss, x)

    x = _numbers(6, 6)
    _passes.assert_pass_keeps(lambda: step(x), tmp_path, rtol=1e-6)


@pytest.mark.parametrize("flag", [True, False])
def test_cond(tmp_path, flag):
    @tf.function
    def step(x, flag):
        y = tf.cond(flag, lambda: tf.sin(x) @ x, lambda: tf.cos(x) - x)
        z = tf.switch_case(
            tf.cast(flag, tf.int32) + 1, [lambda: x * 1.0, lambda: x * 2.0, lambda: x * 3.0]
        )
        return tf.exp(-tf.square(y)) + z, tf.reduce_max(y)

    x, condition = _numbers(8, 8), tf.constant(flag)
    _passes.assert_pass_keeps(lambda: step(x, condition), tmp_path, rtol=1e-6)


def test_cond_with_gradient(tmp_path):
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(
                tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x) * x, lambda: tf.square(x))
            )
        return loss, tape.gradient(loss, x) * tf.cosh(x)

    x = _numbers(8, 8)
    _passes.assert_pass_keeps(lambda: step(x), tmp_path, rtol=1e-6)


def _session_outputs(graph, fetches, feed, directory, seed):
    config = v1.ConfigProto()
    if directory is not None:
        config = _passes.grappler_go.session_config(
            report=str(directory), seed=seed, **_passes.RANDOM
        )
    config.device_count["CPU"] = 4
    metadata = v1.RunMetadata()
    with v1.Session(graph=graph, config=config) as session:
        session.run(v1.global_variables_initializer())
        outputs = session.run(
            fetches,
            feed,
            options=v1.RunOptions(output_partition_graphs=True),
            run_metadata=metadata,
        )
    return outputs, _passes.placed_ops(metadata)


def _assert_session_keeps(graph, fetches, feed, tmp_path):
    with graph.as_default():
        want, _ = _session_outputs(graph, fetches, feed, None, 0)
        for seed in _passes.SEEDS:
            directory = tmp_path / str(seed)
            got, placed = _session_outputs(graph, fetches, feed, directory, seed)
            _passes.assert_same(got, want, rtol=1e-6, what=f"random plan {seed}")
            reports = _passes.read_reports(directory)
            assert reports and all(report["applied"] for report in reports)
            assert len(set(placed.values())) > 1, placed


@pytest.mark.parametrize("control_flow_v2", [False, True])
def test_v1_while_frames(tmp_path, control_flow_v2):
    switch = v1.enable_control_flow_v2 if control_flow_v2 else v1.disable_control_flow_v2
    was_v2 = v1.control_flow_v2_enabled()
    switch()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [6, 6], name="x")
            _, looped = v1.while_loop(
                lambda i, _: i < 4,
                lambda i, state: (
                    i + 1,
                    v1.while_loop(
                        lambda j, _: j < 2, lambda j, s: (j + 1, tf.tanh(s @ x)), (0, state)
                    )[1],
                ),
                (0, x),
            )
            chosen = v1.cond(
                tf.reduce_sum(looped) > 0, lambda: tf.sin(looped), lambda: tf.cos(looped)
            )
            outputs = [chosen @ x + tf.nn.relu(x), tf.exp(-tf.abs(looped))]
            outputs.append(v1.gradients(tf.reduce_sum(looped), x)[0])
    finally:
        (v1.enable_control_flow_v2 if was_v2 else v1.disable_control_flow_v2)()
    assert control_flow_v2 or "Enter" in {op.type for op in graph.get_operations()}
    _assert_session_keeps(graph, outputs, {x: _numbers(6, 6).numpy()}, tmp_path)


@pytest.mark.parametrize("use_resource", [False, True])
def test_v1_variables_and_control_dependencies(tmp_path, use_resource):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [4, 4], name="x")
        variable = v1.get_variable(
            "v", initializer=tf.eye(4), use_resource=use_resource, dtype=tf.float32
        )
        before = tf.identity(variable) * 2.0
        with tf.control_dependencies([before]):
            update = v1.assign_add(variable, x @ x)
        with tf.control_dependencies([update]):
            after = tf.identity(variable.read_value() if use_resource else variable)
        with v1.colocate_with(after):
            beside = tf.sin(after)
        outputs = [before, after, beside, tf.nn.relu(after) @ x + tf.cos(before)]
    _assert_session_keeps(graph, outputs, {x: _numbers(4, 4).numpy()}, tmp_path)


def test_feeds_and_fetches_in_the_middle(tmp_path):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [4, 4], name="x")
        middle = tf.identity(x @ x, name="middle")
        outputs = [tf.nn.relu(middle) + 1.0, tf.sin(middle), middle, tf.constant(3.0)]
    value = _numbers(4, 4).numpy()
    _assert_session_keeps(graph, outputs, {x: value, middle: 2 * value}, tmp_path)


def test_variables_read_and_assigned(tmp_path):
    with tf.device("CPU:1"):
        far = tf.Variable(tf.ones([6, 6]))
    near = tf.Variable(tf.eye(6))

    @tf.function
    def step(x):
        before = near * 2.0
        near.assign_add(x @ far)
        between = tf.sin(near)
        far.assign(tf.cos(between) + far)
        near.scatter_nd_update([[0], [2]], x[:2])
        return before, between, near.read_value(), far + tf.nn.relu(before)

    x = _numbers(6, 6)

    def run():
        near.assign(tf.eye(6))
        far.assign(tf.ones([6, 6]))
        outputs = step(x), step(x)
        return *outputs, near.numpy(), far.numpy()

    _passes.assert_pass_keeps(run, tmp_path, rtol=1e-6)


def test_variable_created_inside(tmp_path):
    class Model(tf.Module):
        def __init__(self):
            self.weights = None

        @tf.function
        def __call__(self, x):
            if self.weights is None:
                self.weights = tf.Variable(tf.random.stateless_normal([6, 6], [1, 2]))
            return tf.nn.relu(x @ self.weights) + tf.sin(x), tf.cos(x)

    x = _numbers(6, 6)
    _passes.assert_pass_keeps(lambda: Model()(x), tmp_path, rtol=1e-6)


def test_hash_table_and_queue(tmp_path):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), -1.0
    )
    queue = tf.queue.FIFOQueue(4, [tf.float32], [[]])

    @tf.function
    def step(keys):
        values = table.lookup(keys)
        queue.enqueue(tf.reduce_sum(values))
        taken = queue.dequeue()
        return tf.sin(values) + tf.cos(values) * 2.0, taken

    keys = tf.constant(["b", "x", "a"])
    _passes.assert_pass_keeps(lambda: step(keys), tmp_path, rtol=1e-6)


def test_tensor_array(tmp_path):
    @tf.function
    def step(x):
        array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)
        for i in tf.range(4):
            array = array.write(i, tf.sin(x) * tf.cast(i, tf.float32))
        unpacked = tf.TensorArray(tf.float32, size=4).unstack(tf.nn.relu(x))
        return array.stack() + 1.0, array.gather([2, 0]), unpacked.concat(), tf.cos(x) @ x

    x = _numbers(4, 4)
    _passes.assert_pass_keeps(lambda: step(x), tmp_path, rtol=1e-6)


def test_ragged_and_string_tensors(tmp_path):
    @tf.function
    def step(text, ragged):
        words = tf.strings.split(tf.strings.lower(text), " ")
        lengths = tf.strings.length(words)
        doubled = ragged * 2.0 + tf.cast(ragged.row_lengths()[:, None], tf.float32)
        return (
            words,
            lengths.to_tensor(-1),
            tf.strings.reduce_join(words, 1, separator="_"),
            doubled,
            tf.reduce_sum(tf.sin(doubled), axis=1),
            tf.strings.to_hash_bucket_fast(text, 100),
            tf.strings.as_string(lengths.flat_values),
        )

    text = tf.constant(["The pass leaves", "strings", "where they Are, a b c"])
    ragged = tf.ragged.constant([[1.0, 2.0], [], [3.0, 4.0, 5.0]])
    _passes.assert_pass_keeps(lambda: step(text, ragged), tmp_path)


def test_sparse_tensor_and_unique(tmp_path):
    @tf.function
    def step(sparse, ids):
        dense = tf.sparse.to_dense(sparse)
        unique, positions = tf.unique(ids)
        return (
            tf.sparse.sparse_dense_matmul(sparse, dense + 1.0),
            tf.gather(tf.sin(dense), unique % 3),
            positions * 2,
            tf.boolean_mask(dense, dense > 1.0),
            tf.py_function(lambda t: t * 2.0, [dense], tf.float32) + tf.cos(dense),
        )

    sparse = tf.sparse.from_dense([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0], [0.0, 0.0, 4.0]])
    ids = tf.constant([5, 1, 5, 2])
    _passes.assert_pass_keeps(lambda: step(sparse, ids), tmp_path)


def test_random_ops_with_a_seed(tmp_path):
    generator = tf.random.Generator.from_seed(7)

    @tf.function
    def step(x):
        own = tf.random.uniform([4, 4], seed=3)
        dropped = tf.nn.dropout(x, 0.5, seed=5)
        stateless = tf.random.stateless_normal([4, 4], [1, 2])
        shuffled = tf.random.shuffle(tf.range(8), seed=1)
        drawn = generator.normal([4, 4])
        return tf.sin(own) + dropped, stateless @ x, shuffled * 2, drawn + tf.cos(x)

    x = _numbers(4, 4)

    def run():
        tf.random.set_seed(11)
        generator.reset_from_seed(7)
        return step(x)

    _passes.assert_pass_keeps(run, tmp_path, rtol=1e-6)


def test_print_and_assert_keep_their_order(tmp_path, capfd):
    @tf.function
    def step(x):
        for i in range(3):
            tf.print("step", i)
        with tf.control_dependencies([tf.debugging.assert_positive(tf.reduce_sum(x * x))]):
            return tf.sin(x) + tf.cos(x) * tf.tanh(x)

    x = _numbers(4, 4)
    capfd.readouterr()
    _passes.assert_pass_keeps(lambda: step(x), tmp_path, rtol=1e-6)
    printed = [line for line in capfd.readouterr().err.splitlines() if line.startswith("step")]
    assert printed == ["step 0", "step 1", "step 2"] * (len(printed) // 3) and printed


def test_a_failing_assertion_still_fails(tmp_path):
    @tf.function
    def step(x):
        tf.debugging.assert_less(x, 0.0, message="x must be below 0")
        return tf.sin(x) + tf.cos(x) @ tf.tanh(x)

    with (
        _passes.enabled(tmp_path, **_passes.RANDOM),
        pytest.raises(tf.errors.InvalidArgumentError, match="x must be below 0"),
    ):
        step(tf.ones([4, 4]))
    assert _passes.read_reports(tmp_path)[0]["applied"]


def test_function_called_by_function(tmp_path):
    variable = tf.Variable(2.0)

    @tf.function
    def inner(x):
        variable.assign_add(1.0)
        return tf.nn.relu(x @ x) * variable, tf.sin(x)

    @tf.function(experimental_attributes={"_noinline": True})
    def apart(x):
        return tf.cos(x) @ tf.tanh(x) + tf.exp(-tf.abs(x))

    @tf.function
    def outer(x):
        first, second = inner(x)
        return apart(first) + tf.sinh(second), apart(second), inner(tf.cos(x))

    x = _numbers(4, 4)

    def run():
        variable.assign(2.0)
        return outer(x)

    _passes.assert_pass_keeps(run, tmp_path, rtol=1e-6)


def test_map_fn_and_vectorized_map(tmp_path):
    @tf.function
    def step(x):
        mapped = tf.map_fn(lambda row: tf.sin(row) * 2.0, x)
        vectorized = tf.vectorized_map(lambda row: tf.reduce_sum(row) * row, x)
        scanned = tf.scan(lambda total, row: total + row, x)
        return mapped + vectorized, scanned @ x

    x = _numbers(4, 4)
    _passes.assert_pass_keeps(lambda: step(x), tmp_path, rtol=1e-6)


def test_types_beside_floats(tmp_path):
    @tf.function
    def step(x):
        half = tf.cast(x, tf.bfloat16) * tf.constant(2.0, tf.bfloat16)
        waves = tf.signal.rfft(x)
        whole = tf.cast(x * 10.0, tf.int64)
        return (
            tf.cast(half, tf.float32) + 1.0,
            tf.abs(waves * tf.complex(0.0, 1.0)),
            whole // 3 + tf.cast(tf.argsort(x), tf.int64),
            tf.linalg.svd(tf.cast(x, tf.float64), compute_uv=False),
            tf.bitwise.bitwise_and(whole, 3),
        )

    x = _numbers(8, 8)
    _passes.assert_pass_keeps(lambda: step(x), tmp_path, rtol=1e-6)


def test_tf_data_is_left_alone(tmp_path):
    def load():
        return (
            tf.data.Dataset.range(12)
            .map(lambda i: tf.sin(tf.cast(i, tf.float32)) + tf.cos(tf.cast(i, tf.float32)))
            .filter(lambda value: tf.square(value) + tf.abs(value) < 5.0)
            .shuffle(12, seed=1, reshuffle_each_iteration=False)
            .batch(3)
            .map(lambda batch: tf.nn.softmax(batch) * tf.reduce_sum(batch))
        )

    want = [batch.numpy() for batch in load()]
    with _passes.enabled(tmp_path, **_passes.RANDOM), _passes.executed() as devices:
        got = [batch.numpy() for batch in load()]
    _passes.assert_same(got, want, rtol=0.0, what="pipeline")
    assert not [r for r in _passes.read_reports(tmp_path) if "Dataset_" in r["graph"]]
    assert set(devices) <= {"/job:localhost/replica:0/task:0/device:CPU:0"}, devices


def test_pipeline_read_inside_a_function(tmp_path):
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(24, dtype=np.float32).reshape(6, 4))
    dataset = dataset.map(lambda row: tf.sin(row) + row).batch(2)

    @tf.function
    def total(data):
        state = tf.zeros([4])
        for batch in data:
            state += tf.reduce_sum(tf.cos(batch) * batch, axis=0)
        return state, tf.exp(-state) + tf.tanh(state)

    _passes.assert_pass_keeps(lambda: total(dataset), tmp_path, rtol=1e-6)


def test_compiled_by_xla_is_left_alone(tmp_path):
    @tf.function(jit_compile=True)
    def compiled(x):
        return tf.sin(x) @ tf.cos(x) + 1.0

    @tf.function
    def step(x):
        return compiled(x) + tf.tanh(x), tf.cosh(x) * 2.0

    x = _numbers(4, 4)
    _passes.assert_pass_keeps(lambda: (step(x), compiled(x)), tmp_path, rtol=1e-5)
