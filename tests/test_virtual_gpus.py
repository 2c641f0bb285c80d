"""Plans for GPUs on a machine that has none: TensorFlow's kernels are registered all the same."""

import json

import _grappler
import _passes
import numpy as np
import pytest
import tensorflow as tf

import grappler_go

v1 = tf.compat.v1
_TASK = "/job:localhost/replica:0/task:0/device:"
CPU = f"{_TASK}CPU:0"
GPUS = [f"{_TASK}GPU:{i}" for i in range(4)]
_FETCH = ["total:0", "text:0", "whole:0", "gradient:0"]


@pytest.fixture(scope="module", name="graph_def")
def fixture_graph_def():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [64, 64], name="x")
        names = v1.placeholder(tf.string, [4], name="names")
        with tf.device("/gpu:0"):
            variable = v1.get_variable("v", initializer=tf.eye(64), use_resource=True)
        parts = [tf.nn.relu(x @ variable + float(i), name=f"part{i}") for i in range(8)]
        with v1.colocate_with(parts[0].op):
            tf.sin(parts[0], name="beside")
        with tf.device("/gpu:2"):
            tf.cos(parts[1], name="pinned")
        with tf.device("/cpu:0"):
            tf.tan(parts[2], name="on_host")
        total = tf.add_n([tf.reduce_sum(part) for part in parts], name="total")
        lower = tf.strings.lower(names, name="lower")
        tf.strings.join([lower, names], name="text")
        positions = tf.range(4, name="positions")
        tf.add(positions * 2, tf.size(x), name="whole")
        tf.identity(v1.gradients(total, variable)[0], name="gradient")
        looped = v1.while_loop(lambda i, _: i < 2, lambda i, s: (i + 1, tf.tanh(s)), (0, x))[1]
        tf.identity(looped, name="looped")
    return graph.as_graph_def()


def _kernel_types(node) -> set[str]:
    """Device types with a kernel for this op and its types, by TensorFlow's own listing."""
    from tensorflow.python.framework import kernels

    wanted = {
        name: value.type for name, value in node.attr.items() if value.WhichOneof("value") == "type"
    }
    return {
        kernel.device_type
        for kernel in kernels.get_registered_kernels_for_op(node.op).kernel
        if all(
            constraint.name not in wanted
            or wanted[constraint.name] in constraint.allowed_values.list.type
            for constraint in kernel.constraint
        )
    }


def _assert_legal(written, *, colocated=True):
    devices = {node.name: node.device for node in written.node}
    for node in written.node:
        kind = node.device.rpartition("device:")[2].partition(":")[0]
        # A "DEFAULT" kernel serves every type of device; on a GPU it keeps its data on the host.
        assert {kind, "DEFAULT"} & _kernel_types(node) or node.op == "Placeholder", node
        for group in node.attr["_class"].list.s:
            assert devices[node.name] == devices.get(group.decode()[5:], devices[node.name])
    assert not colocated or devices["beside"] == devices["part0"]
    assert devices["pinned"] == GPUS[2]
    assert devices["on_host"] == CPU
    for name in ("lower", "text"):
        assert devices[name] == CPU, name
    users = {n.name for n in written.node if n.op in ("ReadVariableOp", "AssignVariableOp")}
    assert users and {devices[name] for name in users} == {devices["v"]} == {GPUS[0]}
    loop = {
        node.device
        for node in written.node
        if node.op in ("Enter", "Merge", "Switch", "Exit", "NextIteration", "LoopCond")
    }
    assert len(loop) <= 1
    return devices


@pytest.mark.parametrize("seed", _passes.SEEDS)
def test_grappler_over_virtual_gpus(graph_def, tmp_path, seed):
    written = _grappler.optimize(
        graph_def,
        _grappler.cluster(gpus=4),
        [*_FETCH, "beside:0", "pinned:0", "on_host:0", "looped:0"],
        report=str(tmp_path),
        seed=seed,
        **_passes.RANDOM,
    )
    (report,) = _passes.read_reports(tmp_path)
    assert report["devices"] == [CPU, *GPUS] and report["applied"]
    # TensorFlow's way from a MetaGraphDef to Grappler drops the colocation attributes.
    devices = _assert_legal(written, colocated=False)
    assert sum(name in devices.values() for name in GPUS) >= 3
    for node in written.node:
        assert node.attr["_go_device"].s.decode() == node.device != ""


def test_by_default_ops_count_as_on_the_first_gpu(graph_def):
    opened = grappler_go.OpGraph(graph_def, [CPU, *GPUS], fetch=_FETCH, feed=["x", "names"])
    incoming = dict(zip(opened.names, opened.heuristic("incoming"), strict=True))
    assert opened.devices[incoming["part3"]] == GPUS[0]
    assert opened.devices[incoming["text"]] == CPU
    assert opened.devices[incoming["pinned"]] == GPUS[2]
    assert opened.legal(opened.heuristic("incoming")) == ""


@pytest.mark.parametrize(
    "options",
    [
        *[_passes.RANDOM | {"seed": seed} for seed in _passes.SEEDS],
        {"candidates": "m_etf,critical_path", "keep_default": False},
        {"candidates": "policy", "keep_default": False},
        {},
    ],
)
def test_plan_and_apply(graph_def, options):
    feed = {"fetch": _FETCH, "feed": ["x", "names"]}
    plan = grappler_go.plan(graph_def, [CPU, *GPUS], **feed, **options)
    written = grappler_go.apply(graph_def, plan, **feed)
    devices = _assert_legal(written)
    for name, device in plan.placement.items():
        assert devices[name] == device or any(
            node.op == "Const" for node in written.node if node.name == name
        )


def test_features_mask_what_has_no_kernel(graph_def):
    opened = grappler_go.OpGraph(graph_def, [CPU, *GPUS], fetch=_FETCH, feed=["x", "names"])
    mask = opened.features()["node_device_mask"]
    row = dict(zip(opened.names, mask, strict=True))
    np.testing.assert_array_equal(row["lower"], [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(row["pinned"], [0, 0, 0, 1, 0])
    np.testing.assert_array_equal(row["part3"], [1, 1, 1, 1, 1])
    illegal = opened.heuristic("incoming")
    illegal[opened.names.index("lower")] = 2
    assert "op 'lower' (StringLower) must not run on" in opened.legal(illegal)
    assert opened.legal(opened.repair(illegal)) == ""


def _profile(**memory: float) -> str:
    return json.dumps(
        {"version": 1, "devices": {kind: {"memory_bytes": b} for kind, b in memory.items()}}
    )


def test_memory_limit_that_no_plan_meets(graph_def):
    plan = grappler_go.plan(
        graph_def,
        [CPU, *GPUS],
        fetch=_FETCH,
        feed=["x", "names"],
        profile=_profile(CPU=10, GPU=10),
        **_passes.RANDOM | {"samples": 8},
    )
    report = plan.report
    assert plan.source == "default" and not report["applied"]
    assert report["reason"] == "no plan fits into the devices' memory"
    assert not any(candidate["feasible"] for candidate in report["candidates"])
    assert all(node["device"] == node["incoming_device"] for node in report["nodes"])


def _branches(count: int, width: int):
    """A graph of independent branches, each with a large tensor that lives until the end."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [width, width], name="x")
        parts = [tf.tanh(x @ x + float(i), name=f"part{i}") for i in range(count)]
        tf.add_n(parts, name="total")
    return graph.as_graph_def()


def test_memory_limit_spreads_a_graph():
    graph_def, tensor = _branches(8, 256), 256 * 256 * 4
    limit = 8 * tensor
    options = {"fetch": ["total"], "feed": ["x"], "profile": _profile(GPU=limit)}
    opened = grappler_go.OpGraph(graph_def, [CPU, *GPUS], **options)
    crowded = opened.simulate(opened.heuristic("incoming")[None])
    assert not crowded.feasible[0] and crowded.peak_bytes[0].max() > limit
    plan = grappler_go.plan(graph_def, [CPU, *GPUS], policy="none", **options)
    report = plan.report
    assert report["applied"], report["reason"]
    assert max(report["peak_bytes"][1:]) <= limit


def test_grappler_knows_the_memory_of_gpus(tmp_path):
    written = _grappler.optimize(
        _branches(8, 256),
        _grappler.cluster(gpus=2, gpu_memory=4 * 256 * 256 * 4),
        ["total:0"],
        report=str(tmp_path),
        **_passes.RANDOM | {"candidates": "single_device"},
    )
    report = _passes.read_reports(tmp_path)[0]
    # On the processor everything fits.
    assert {report["devices"][n["device"]] for n in report["nodes"] if n["op"] == "Tanh"} == {CPU}
    assert {node.device for node in written.node if node.op == "Tanh"} == {CPU}


def test_one_device_and_no_usable_device_change_nothing():
    graph_def = _branches(2, 8)
    want = graph_def.SerializeToString(deterministic=True)
    written = _grappler.optimize(graph_def, _grappler.cluster(), ["total:0"], **_passes.RANDOM)
    for node in written.node:
        assert not any(name.startswith("_go") for name in node.attr)
    assert graph_def.SerializeToString(deterministic=True) == want
