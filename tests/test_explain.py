"""What `explain` says of a plan, against the plan's own figures."""

import json
import re

import pytest
import tensorflow as tf

import grappler_go
from grappler_go import cli, explanations

_WORKERS = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)]


def _two_chains() -> tf.compat.v1.GraphDef:
    """Two strands of products that share nothing but their input."""
    graph = tf.Graph()
    with graph.as_default(), tf.device(_WORKERS[0]):
        x = tf.random.stateless_uniform([256, 256], [1, 2])
        ends = []
        for layer in range(2):
            y = x
            for step in range(4):
                with tf.name_scope(f"layer_{layer}/step_{step}"):
                    y = tf.matmul(y, y)
            ends.append(y)
        tf.add(*ends, name="sum")
    return graph.as_graph_def()


@pytest.fixture(scope="module")
def plan() -> grappler_go.Plan:
    return grappler_go.plan(
        _two_chains(),
        _WORKERS,
        fetch=["sum"],
        override_user_devices=True,
        keep_default=False,
        policy="none",
        search=200,
    )


def test_figures_add_up(plan):
    report, e = plan.report, grappler_go.explain(plan)
    assert sum(each.ops for each in e.devices) == len(report["nodes"])
    assert sum(each.before_ops for each in e.devices) == len(report["nodes"])
    assert e.devices[0].before_ops == len(report["nodes"])  # All of it came from worker 0.
    moved = [n for n in report["nodes"] if n["device"] != n["incoming_device"]]
    assert e.moved == len(moved) > 0
    sent = sum(each.sent_bytes for each in e.devices)
    assert sent == sum(each.received_bytes for each in e.devices)
    assert sent == sum(t["bytes"] for t in report["transfers"]) > 0
    assert e.speedup == pytest.approx(e.before_us / e.after_us)
    assert e.bound_us <= e.after_us
    # The chain of what the step waits for is as long as the step.
    chain = sum(link["us"] for link in report["critical_path"])
    assert chain == pytest.approx(e.after_us, rel=1e-3)
    assert sum(us for _, us in e.critical_path) == pytest.approx(chain, rel=1e-6)


def test_text_names_devices_layers_and_planners(plan):
    text = grappler_go.explain(plan).to_text()
    for words in (*_WORKERS, "layer_0", "no placement below", "search", "critical_path"):
        assert words in text
    assert "\x1b" not in text


def test_json_is_whole(plan):
    value = json.loads(grappler_go.explain(plan).to_json())
    assert value["speedup"] == pytest.approx(value["before_us"] / value["after_us"])
    assert {each["name"] for each in value["devices"]} == set(_WORKERS)


def test_page_needs_nothing_else(plan):
    page = grappler_go.explain(plan).to_html()
    assert "/*DATA*/" not in page
    assert not re.findall(r"(?:src|href)\s*=|https?://|@import", page)
    (text,) = re.findall(r"const data = (.*);\n", page)
    data = json.loads(text)
    assert data["summary"]["graph"] == plan.report["graph"]
    assert {each[0] for each in data["ops"]} >= {"layer_0/step_0/MatMul", "sum"}


def test_page_survives_any_name(plan):
    report = plan.report | {"graph": "</script><b>"}
    page = grappler_go.explain(grappler_go.Plan(json.dumps(report))).to_html()
    assert page.count("</script>") == 1


def test_decisions_alone_are_no_report():
    bare = grappler_go.Plan(json.dumps({"version": 1, "devices": [], "nodes": []}))
    with pytest.raises(ValueError, match="no field 'reason'"):
        grappler_go.explain(bare)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("gradients/layer_3/MatMul", "layer_3"),
        ("dense/BiasAdd", "dense"),
        ("x", "(no scope)"),
        ("my_layer_12/a", "layer_12"),
    ],
)
def test_layers_by_name(name, layer):
    assert explanations.layer(name) == layer


class TestCommand:
    def test_a_stored_plan(self, plan, tmp_path, capsys):
        path = tmp_path / "plan.json"
        path.write_text(plan.json)
        assert cli.main(["explain", str(path)]) == 0
        assert capsys.readouterr().out == grappler_go.explain(plan).to_text()
        page = tmp_path / "plan.html"
        assert cli.main(["explain", str(path), "--format", "html", "--out", str(page)]) == 0
        assert page.read_text().startswith("<!doctype html>")

    def test_a_graph_is_planned_first(self, tmp_path, capsys):
        path = tmp_path / "graph.pb"
        path.write_bytes(_two_chains().SerializeToString())
        status = cli.main(["explain", str(path), "--devices", ",".join(_WORKERS), "--fetch", "sum"])
        assert status == 0
        assert "who proposed:" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("content", "words"),
        [("{", "not JSON"), ('{"nodes": [], "devices": []}', "no field 'reason'")],
    )
    def test_bad_input_is_one_line(self, content, words, tmp_path, capsys):
        path = tmp_path / "plan.json"
        path.write_text(content)
        assert cli.main(["explain", str(path)]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert str(path) in error
        assert error.count("\n") == 1
