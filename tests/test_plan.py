"""`plan` and `apply`: what a plan says is what is written, and nothing illegal is."""

import dataclasses
import json

import _passes
import numpy as np
import pytest
import tensorflow as tf

import grappler_go

v1 = tf.compat.v1
DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(4)]
_FORCED = {"candidates": "random", "keep_default": False, "samples": 1, "search": 0}


@pytest.fixture(scope="module", name="graph")
def fixture_graph():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [4, 4], name="x")
        variable = v1.get_variable("v", initializer=tf.eye(4), use_resource=True)
        parts = [tf.nn.relu(x @ variable + float(i), name=f"part{i}") for i in range(4)]
        with v1.colocate_with(parts[0].op):
            tf.sin(parts[0], name="beside")
        with tf.device("/cpu:1"):
            tf.cos(x, name="pinned")
        tf.add_n(parts, name="total")
    return graph.as_graph_def(add_shapes=False)


def _plan(graph, seed=0, **options):
    return grappler_go.plan(
        graph, DEVICES, fetch=["total"], feed=["x"], seed=seed, **_FORCED | options
    )


def _apply(graph, plan, **options):
    return grappler_go.apply(graph, plan, fetch=["total"], feed=["x"], **options)


def _edited(plan, changes, **fields):
    """The plan with other devices for some ops."""
    report = plan.report | fields
    report["nodes"] = [
        node | {"device": changes.get(node["name"], node["device"])} for node in report["nodes"]
    ]
    return dataclasses.replace(plan, json=json.dumps(report))


def _evaluate(graph_def):
    config = v1.ConfigProto(device_count={"CPU": 4})
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with v1.Session(graph=graph, config=config) as session:
            session.run([op for op in graph.get_operations() if op.type == "AssignVariableOp"])
            feed = {"x:0": np.linspace(-1, 1, 16).reshape(4, 4)}
            return session.run(["total:0", "beside:0", "pinned:0"], feed)


@pytest.mark.parametrize("seed", _passes.SEEDS)
def test_apply_writes_what_the_plan_says(graph, seed):
    plan = _plan(graph, seed)
    assert plan.source == "random" and plan.report["applied"]
    before = graph.SerializeToString(deterministic=True)
    written = _apply(graph, plan)
    assert graph.SerializeToString(deterministic=True) == before, "the argument was changed"
    placement = plan.placement
    priority = {node["name"]: node["priority"] for node in plan.report["nodes"]}
    assert len(set(placement.values())) > 1
    assert len(set(priority.values())) > 1
    copies = 0
    for node in written.node:
        if node.name in placement:
            # A constant may be at home with its readers instead.
            assert node.op == "Const" or node.device == placement[node.name], node.name
        else:
            assert "/go_copy_" in node.name and node.op == "Const"
            copies += 1
        assert node.attr["_go_device"].s.decode() == node.device
        assert node.attr["_go_fusion"].i == -1
        original = node.name.partition("/go_copy_")[0]
        assert node.attr["_go_priority"].i == priority[original]
    assert len(written.node) == len(graph.node) + copies
    _passes.assert_same(_evaluate(written), _evaluate(graph), rtol=1e-6, what="applied")
    assert placement["pinned"] == DEVICES[1]
    assert placement["beside"] == placement["part0"]


def test_a_legal_edit_is_written(graph):
    plan = _plan(graph)
    for device in range(4):
        written = _apply(graph, _edited(plan, {"total": device, "part1": 3 - device}))
        devices = {node.name: node.device for node in written.node}
        assert devices["total"] == DEVICES[device] and devices["part1"] == DEVICES[3 - device]


def test_a_plan_of_few_ops_leaves_the_others(graph):
    plan = _plan(graph)
    nodes = [{"name": "total", "device": 2}]
    written = _apply(
        graph, dataclasses.replace(plan, json=json.dumps(plan.report | {"nodes": nodes}))
    )
    devices = {node.name: node.device for node in written.node}
    assert devices["total"] == DEVICES[2] and devices["part0"] == DEVICES[0]
    assert devices["pinned"] == DEVICES[1]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"pinned": 2}, "op 'pinned' .Cos. must not run on .*CPU:2: device set by the user"),
        ({"x": 1}, "op 'x' .Placeholder. must not run on .*CPU:1: feed"),
        ({"v": 1}, "op 'v' .VarHandleOp. must not run on .*CPU:1: stateful op"),
        ({"beside": 3, "part0": 1}, "ops 'part0' and 'beside' must share a device"),
    ],
)
def test_an_illegal_edit_is_refused(graph, changes, cause):
    with pytest.raises(tf.errors.FailedPreconditionError, match=cause):
        _apply(graph, _edited(_plan(graph), changes))


def test_user_devices_may_be_overridden(graph):
    plan = _edited(_plan(graph, override_user_devices=True), {"pinned": 3})
    written = _apply(graph, plan, override_user_devices=True)
    assert {n.name: n.device for n in written.node}["pinned"] == DEVICES[3]


def test_a_plan_of_another_graph_is_refused(graph):
    with tf.Graph().as_default() as other:
        tf.sin(v1.placeholder(tf.float32, [2], name="z"), name="elsewhere")
    plan = grappler_go.plan(other.as_graph_def(), DEVICES, **_FORCED)
    with pytest.raises(tf.errors.NotFoundError, match="op '(z|elsewhere)' is not in the gra"):
        _apply(graph, plan)


@pytest.mark.parametrize(
    ("cause", "fields"),
    [
        ("'version' is 7", {"version": 7}),
        ("'version' is not a number", {"version": "1"}),
        ("'nodes' is not a list", {"nodes": {}}),
        ("'name' is not a string", {"nodes": [{"name": 1, "device": 0}]}),
        ("op 'total': field 'device' is 4", {"nodes": [{"name": "total", "device": 4}]}),
        ("op 'total': field 'device' is -1", {"nodes": [{"name": "total", "device": -1}]}),
        ("op 'total': field 'device' is 0.5", {"nodes": [{"name": "total", "device": 0.5}]}),
        ("op 'total': field 'device'", {"nodes": [{"name": "total", "device": "CPU:1"}]}),
        ("op 'total': field 'fusion'", {"nodes": [{"name": "total", "device": 0, "fusion": -2}]}),
        (
            "op 'total': field 'priority'",
            {"nodes": [{"name": "total", "device": 0, "priority": 1.5}]},
        ),
        ("field 'name' is missing", {"nodes": [{"device": 1}]}),
        ("field 'device' is missing", {"nodes": [{"name": "total"}]}),
        (r"nodes\[0\] is not an object", {"nodes": [3]}),
        ("'devices' is not a list", {"devices": 4}),
    ],
)
def test_a_malformed_plan_is_refused(graph, cause, fields):
    opened = grappler_go.OpGraph(graph, DEVICES, fetch=["total"], feed=["x"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"plan.*{cause}"):
        opened.apply(json.dumps(_plan(graph).report | fields))


def test_a_plan_that_is_no_json_is_refused(graph):
    opened = grappler_go.OpGraph(graph, DEVICES, fetch=["total"], feed=["x"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="plan is not a JSON object"):
        opened.apply("{")


def test_a_plan_for_missing_devices_is_refused(graph):
    plan = _plan(graph)
    opened = grappler_go.OpGraph(graph, DEVICES[:2], fetch=["total"], feed=["x"])
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="field 'devices' names '.*CPU:2', which is not attached",
    ):
        opened.apply(plan.json)


def test_wrong_graphs_and_devices():
    empty = tf.Graph().as_graph_def()
    with pytest.raises(tf.errors.InvalidArgumentError, match="device name 'CPU:0' is not complete"):
        grappler_go.plan(empty, ["CPU:0"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="no CPU or GPU among the devices"):
        grappler_go.plan(empty, ["/job:a/replica:0/task:0/device:TPU:0"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="no CPU or GPU"):
        grappler_go.plan(empty, [])
    dangling = tf.compat.v1.GraphDef()
    dangling.node.add(name="a", op="Identity", input=["gone:0"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="'a' has the input 'gone:0'"):
        grappler_go.plan(dangling, DEVICES)
    with pytest.raises(ValueError, match="unknown option 'colour'"):
        grappler_go.plan(empty, DEVICES, colour=1)


def test_empty_graph():
    plan = grappler_go.plan(tf.Graph().as_graph_def(), DEVICES)
    assert plan.placement == {} and not plan.report["applied"]


def test_workers_as_devices(graph):
    workers = [f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in range(2)]
    # Pinned to "/cpu:1", which no worker has: not ours to touch.
    plan = grappler_go.plan(graph, workers, fetch=["total"], feed=["x"], seed=1, **_FORCED)
    written = _apply(graph, plan)
    devices = {node.name: node.device for node in written.node}
    assert set(devices.values()) == {*workers, "/device:CPU:1"}, devices
    assert devices["pinned"] == "/device:CPU:1"
