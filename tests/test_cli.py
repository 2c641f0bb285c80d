"""The program `grappler-go`: results, messages and exit codes."""

import json

import pytest
import tensorflow as tf

from grappler_go import cli

_DEVICES = ",".join(f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2))


@pytest.fixture
def graph_file(tmp_path):
    graph = tf.Graph()
    with graph.as_default():
        for name in ("left", "right"):
            x = tf.random.normal([256, 256], name=name)
            for _ in range(4):
                x = x @ x
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def test_doctor_finds_the_installation_healthy(capsys):
    assert cli.main(["doctor", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ok"] is True
    assert [check["name"] for check in result["checks"]] == [
        "versions",
        "pass",
        "devices",
        "policy",
        "self-test",
    ]


def test_plan_writes_a_plan_for_every_op(graph_file, tmp_path):
    out = tmp_path / "plan.json"
    assert cli.main(["plan", str(graph_file), "--devices", _DEVICES, "--out", str(out)]) == 0
    plan = json.loads(out.read_text())
    names = {node.name for node in tf.compat.v1.GraphDef.FromString(graph_file.read_bytes()).node}
    assert {node["name"] for node in plan["nodes"]} == names
    assert plan["devices"] == _DEVICES.split(",")


def test_plan_reads_text_and_meta_graphs(graph_file, tmp_path, capsys):
    graph = tf.compat.v1.GraphDef.FromString(graph_file.read_bytes())
    meta = tf.compat.v1.MetaGraphDef(graph_def=graph)
    text, meta_file = tmp_path / "graph.pbtxt", tmp_path / "meta.pb"
    text.write_text(str(graph))
    meta_file.write_bytes(meta.SerializeToString())
    for path in (text, meta_file):
        assert cli.main(["plan", str(path), "--devices", _DEVICES]) == 0
        assert len(json.loads(capsys.readouterr().out)["nodes"]) == len(graph.node)


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("graph.pb", b"\xff\xff\xff", "neither a GraphDef nor a MetaGraphDef"),
        ("graph.pbtxt", b"nodes {", "neither a GraphDef nor a MetaGraphDef"),
        ("graph.txt", b"", "must end in .pb or .pbtxt"),
        ("missing.pb", None, "No such file"),
    ],
)
def test_bad_graph_is_one_line_that_names_the_file(tmp_path, capsys, name, content, cause):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert cli.main(["plan", str(path), "--devices", _DEVICES]) == 2
    error = capsys.readouterr().err.strip()
    assert "\n" not in error
    assert name in error
    assert cause in error


def test_bad_profile_and_device_are_named(graph_file, tmp_path, capsys):
    profile = tmp_path / "profile.json"
    profile.write_text('{"version": 1, "devices": {"CPU": {"matmul_gflops": -1}}}')
    arguments = ["plan", str(graph_file), "--devices", _DEVICES]
    assert cli.main([*arguments, "--profile", str(profile)]) == 2
    assert "matmul_gflops" in capsys.readouterr().err
    assert cli.main(["plan", str(graph_file), "--devices", "here"]) == 2
    assert "'here'" in capsys.readouterr().err
