"""A second run changes nothing, and the order of the nodes in a graph means nothing."""

import json
import random

import _grappler
import _passes
import numpy as np
import pytest
import tensorflow as tf

import grappler_go

v1 = tf.compat.v1
DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(4)]


@pytest.fixture(scope="module", name="graph")
def fixture_graph():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [8, 8], name="x")
        variable = v1.get_variable("v", initializer=tf.eye(8), use_resource=True)
        state = x
        for i in range(6):
            state = tf.tanh(state @ variable + float(i)) + tf.sin(state)
        looped = v1.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, s @ x), (0, x))[1]
        loss = tf.reduce_sum(state + looped, name="loss")
        with tf.control_dependencies([variable.assign_add(x)]):
            tf.identity(v1.gradients(loss, variable)[0], name="gradient")
    return graph


@pytest.fixture(scope="module", name="cluster")
def fixture_cluster():
    return _grappler.cluster(cpus=4)


def _optimize(graph_def, cluster, iterations, **options):
    return _grappler.optimize(
        graph_def, cluster, ["loss:0", "gradient:0"], iterations=iterations, **options
    )


def _text(graph_def) -> bytes:
    return graph_def.SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    "options", [_passes.RANDOM, {"fail_on_error": True}], ids=["random", "default"]
)
def test_a_second_run_changes_nothing(graph, cluster, options):
    once = _optimize(graph.as_graph_def(), cluster, _grappler.ONCE, seed=2, **options)
    twice = _optimize(graph.as_graph_def(), cluster, _grappler.TWICE, seed=2, **options)
    again = _optimize(once, cluster, _grappler.TWICE, seed=2, **options)
    otherwise = _optimize(once, cluster, _grappler.TWICE, seed=5, **options)
    assert _text(once) == _text(twice) == _text(again)
    if "keep_default" in options:
        assert _text(otherwise) == _text(once)
        assert len({node.device for node in once.node}) > 1
        assert all("_go_device" in node.attr for node in once.node)


def test_without_the_pass_the_devices_stay(graph, cluster):
    kept = _optimize(graph.as_graph_def(), cluster, _grappler.TWICE)
    assert not [node.name for node in kept.node if "_go_device" in node.attr]


def test_a_planned_graph_is_left_alone_when_it_runs(graph, tmp_path):
    plan = grappler_go.plan(
        graph.as_graph_def(), DEVICES, fetch=["loss"], feed=["x"], seed=1,
        candidates="random", keep_default=False, samples=1, search=0,
    )  # fmt: skip
    written = grappler_go.apply(graph.as_graph_def(), plan, fetch=["loss"], feed=["x"])
    config = grappler_go.session_config(report=str(tmp_path), **_passes.RANDOM)
    config.device_count["CPU"] = 4
    outputs = []
    for graph_def in (graph.as_graph_def(), written):
        with tf.Graph().as_default() as imported:
            tf.import_graph_def(graph_def, name="")
            used = config if graph_def is written else v1.ConfigProto()
            with v1.Session(graph=imported, config=used) as session:
                session.run("v/Assign")
                tmp_path.mkdir(exist_ok=True)
                before = len(_passes.read_reports(tmp_path))
                outputs.append(session.run("loss:0", {"x:0": np.eye(8) * 0.5}))
                assert len(_passes.read_reports(tmp_path)) == before
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5)


def _shuffled(graph_def, seed):
    nodes = list(graph_def.node)
    random.Random(seed).shuffle(nodes)
    shuffled = tf.compat.v1.GraphDef()
    shuffled.CopyFrom(graph_def)
    del shuffled.node[:]
    shuffled.node.extend(nodes)
    for node in shuffled.node:
        controls = [name for name in node.input if name.startswith("^")]
        random.Random(seed).shuffle(controls)
        node.input[:] = [name for name in node.input if not name.startswith("^")] + controls
    return shuffled


@pytest.mark.parametrize(
    "options",
    [
        _passes.RANDOM,
        {"keep_default": False, "policy": "none", "search": 200},
        {"keep_default": False, "candidates": "m_etf", "search": 0},
        {"keep_default": False, "candidates": "critical_path", "tasks": "placement,scheduling"},
        {"keep_default": False, "candidates": "policy", "search": 0},
    ],
    ids=["random", "search", "m_etf", "scheduling", "policy"],
)
def test_order_of_nodes_means_nothing(graph, options):
    graph_def = graph.as_graph_def()
    workers = [f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in range(3)]

    def decide(definition):
        opened = grappler_go.OpGraph(definition, workers, fetch=["loss", "gradient"], feed=["x"])
        report = json.loads(opened.choose(**options))
        decisions = {n["name"]: (n["device"], n["fusion"], n["priority"]) for n in report["nodes"]}
        return decisions, report["source"], report["predicted_step_us"]

    want = decide(graph_def)
    for seed in range(10):
        assert decide(_shuffled(graph_def, seed)) == want, seed


def test_features_do_not_depend_on_the_order(graph):
    graph_def = graph.as_graph_def()
    want = grappler_go.OpGraph(graph_def, DEVICES).features()
    for seed in range(3):
        got = grappler_go.OpGraph(_shuffled(graph_def, seed), DEVICES).features()
        for name, value in want.items():
            np.testing.assert_array_equal(got[name], value, err_msg=name)


def test_shuffled_graph_runs_the_same(graph, cluster):
    graph_def = graph.as_graph_def()
    options = {"seed": 3, **_passes.RANDOM}
    want = {
        n.name: n.device for n in _optimize(graph_def, cluster, _grappler.TWICE, **options).node
    }
    for seed in range(3):
        got = _optimize(_shuffled(graph_def, seed), cluster, _grappler.TWICE, **options)
        assert {n.name: n.device for n in got.node} == want
