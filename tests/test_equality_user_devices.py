"""What the program pinned with tf.device stays there, unless the pass is told to move it."""

import _passes
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

v1 = tf.compat.v1
_SEEDS = range(6)
_X = tf.constant(np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32))


@tf.function
def _leaf(x):
    with tf.device("CPU:3"):
        return tf.sinh(x) + tf.cosh(x)


@tf.function
def _middle(x):
    with tf.device("CPU:1"):
        y = tf.atan(x)
    return _leaf(y) + tf.nn.relu(x)


@tf.function(experimental_attributes={"_noinline": True})
def _apart(x):
    with tf.device("CPU:2"):
        return tf.asinh(x) @ tf.acosh(tf.exp(x) + 1.0)


def _program():
    """A function that is traced anew: a call inside it is made as the pass stood at that time."""

    @tf.function
    def program(x):
        with tf.device("CPU:2"):
            pinned = tf.sin(x)
        free = tf.cos(x) + tf.tanh(x) @ x
        looped = tf.while_loop(lambda i, _: i < 2, lambda i, s: (i + 1, s @ x), (0, x))[1]
        return pinned + free, _middle(x), _apart(x), looped

    return program


# Op types that only the pinned parts have, and where those must run.
_PINNED = {
    "Sin": "CPU:2",
    "Atan": "CPU:1",
    "Sinh": "CPU:3",
    "Cosh": "CPU:3",
    "Asinh": "CPU:2",
    "Acosh": "CPU:2",
}


def _pinned_devices(graphs) -> dict[str, set[str]]:
    devices: dict[str, set[str]] = {}
    for graph in graphs:
        for node in graph.node:
            if node.op in _PINNED:
                devices.setdefault(node.op, set()).add(node.device.rpartition("device:")[2])
    return devices


def _run_function(directory, **options):
    context.context().enable_graph_collection()
    try:
        with _passes.enabled(directory, **_passes.RANDOM | options):
            outputs = _program()(_X)
        return outputs, context.context().export_run_metadata().partition_graphs
    finally:
        context.context().disable_graph_collection()


def test_functions_called_by_functions(tmp_path):
    want = _program()(_X)
    for seed in _SEEDS:
        outputs, graphs = _run_function(tmp_path / str(seed), seed=seed)
        _passes.assert_same(outputs, want, rtol=1e-6, what=f"plan {seed}")
        # A function that stayed a call is left to its caller: it is in none of these graphs.
        executed = _pinned_devices(graphs)
        assert executed == {op: {_PINNED[op]} for op in ("Sin", "Atan", "Sinh", "Cosh")}
        planned = {}
        for report in _passes.read_reports(tmp_path / str(seed)):
            for node in report["nodes"]:
                if node["op"] in _PINNED:
                    assert node["rule"] == "device set by the user", node
                    planned[node["op"]] = report["devices"][node["device"]].rpartition("device:")[2]
        assert planned == {op: _PINNED[op] for op in planned} and set(executed) <= set(planned)


def test_override_lets_them_move(tmp_path):
    want = _program()(_X)
    seen: dict[str, set[str]] = {}
    for seed in _SEEDS:
        outputs, graphs = _run_function(tmp_path / str(seed), seed=seed, override_user_devices=True)
        _passes.assert_same(outputs, want, rtol=1e-6, what=f"plan {seed}")
        for op, devices in _pinned_devices(graphs).items():
            seen.setdefault(op, set()).update(devices)
    assert all(len(seen[op]) > 1 for op in ("Sin", "Atan", "Sinh", "Cosh")), seen


def test_partly_named_device_leaves_a_choice(tmp_path):
    @tf.function
    def step(x):
        with tf.device("/job:localhost/device:CPU:*"):
            return tf.sin(x) @ tf.cos(x) + tf.tanh(x)

    step(_X)
    with _passes.enabled(tmp_path, **_passes.RANDOM), _passes.executed() as devices:
        step(_X)
    assert len(devices) > 1, devices


def test_variable_on_another_device(tmp_path):
    with tf.device("CPU:2"):
        variable = tf.Variable(tf.eye(4))

    @tf.function
    def step(x):
        return variable.assign_add(x) @ x + tf.sin(x) * tf.cos(x)

    def run():
        variable.assign(tf.eye(4))
        return step(_X), variable.numpy()

    _passes.assert_pass_keeps(run, tmp_path, rtol=1e-6)
    assert variable.device.endswith("CPU:2")


def _session_graph(function):
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [4, 4])
        with tf.device("/cpu:2"):
            pinned = tf.sin(x)
        outputs = [pinned + tf.cos(x), function(x) if function else tf.tanh(x) @ x]
    return graph, x, outputs


@pytest.mark.parametrize("override", [False, True])
@pytest.mark.parametrize("function", [None, _middle, _apart], ids=["plain", "inlined", "apart"])
def test_session(tmp_path, function, override):
    graph, x, outputs = _session_graph(function)
    plain = v1.ConfigProto(device_count={"CPU": 4})
    with v1.Session(graph=graph, config=plain) as session:
        want = session.run(outputs, {x: _X.numpy()})
    seen: dict[str, set[str]] = {}
    for seed in _SEEDS:
        config = _passes.grappler_go.session_config(
            report=str(tmp_path), seed=seed, override_user_devices=override, **_passes.RANDOM
        )
        config.device_count["CPU"] = 4
        metadata = v1.RunMetadata()
        with v1.Session(graph=graph, config=config) as session:
            got = session.run(
                outputs,
                {x: _X.numpy()},
                options=v1.RunOptions(output_partition_graphs=True),
                run_metadata=metadata,
            )
        _passes.assert_same(got, want, rtol=1e-6, what=f"plan {seed}")
        for op, devices in _pinned_devices(metadata.partition_graphs).items():
            seen.setdefault(op, set()).update(devices)
    if override:
        assert len(seen["Sin"]) > 1, seen
    else:
        assert seen == {op: {_PINNED[op]} for op in seen} and "Sin" in seen
        assert function is not _middle or "Sinh" in seen, seen


def test_without_the_pass_nothing_is_marked():
    graph, x, outputs = _session_graph(_middle)
    metadata = v1.RunMetadata()
    with v1.Session(graph=graph, config=v1.ConfigProto(device_count={"CPU": 4})) as session:
        session.run(
            outputs,
            {x: _X.numpy()},
            options=v1.RunOptions(output_partition_graphs=True),
            run_metadata=metadata,
        )
    attributes = {name for g in metadata.partition_graphs for n in g.node for name in n.attr}
    assert not [name for name in attributes if name.startswith("_go_")], attributes
