"""The program `grappler-go`: results, messages and exit codes."""

import json
import os
import signal
import sys
import time
import types

import pytest
import tensorflow as tf

from grappler_go import calibrate, cli

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
        ("graph.pb", b"\xff\xff\xff", "neither a GraphDef nor MetaGraphDef"),
        ("graph.pbtxt", b"nodes {", "not a CostGraphDef"),
        ("graph.txt", b"", "a file that ends in .pb, .pbtxt or .json"),
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


def test_plan_takes_a_profile_for_devices(graph_file, tmp_path, capsys):
    task = "/job:localhost/replica:0/task:0/device"
    arguments = ["plan", str(graph_file), "--devices"]
    assert cli.main([*arguments, "p100:3"]) == 0
    devices = [f"{task}:CPU:0", *(f"{task}:GPU:{number}" for number in range(3))]
    plan = json.loads(capsys.readouterr().out)
    assert plan["devices"] == devices
    # A V100 is faster.
    assert cli.main([*arguments, "v100:3"]) == 0
    assert json.loads(capsys.readouterr().out)["incoming_step_us"] < plan["incoming_step_us"]
    profile = tmp_path / "mine.json"
    profile.write_text('{"version": 1, "layout": "workers"}')
    assert cli.main([*arguments, f"{profile}:2"]) == 0
    assert json.loads(capsys.readouterr().out)["devices"] == _DEVICES.split(",")
    assert cli.main([*arguments, f"{profile}:2", "--profile", "other.json"]) == 2
    assert "--profile other.json: --devices" in capsys.readouterr().err
    assert cli.main([*arguments, "p101:2"]) == 2
    assert "'p101': no such file, and none of a100, h100," in capsys.readouterr().err


def test_plan_of_a_graph_that_brings_its_devices(tmp_path, capsys, graph_file):
    path = tmp_path / "profiled.json"
    nodes = [{"id": i, "cpuLatency": 50, "fpgaLatency": 5, "size": 1} for i in range(4)]
    top = {"maxSizePerFPGA": 100, "maxFPGAs": 2, "maxCPUs": 1, "nodes": nodes, "edges": []}
    path.write_text(json.dumps(top))
    assert cli.main(["plan", str(path)]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["devices"]) == 3
    # Four ops of 5 ms on two accelerators instead of one.
    assert plan["incoming_step_us"] == 20000 and plan["predicted_step_us"] == 10000
    assert cli.main(["plan", str(graph_file)]) == 2
    assert f"--devices is missing, and {graph_file} names none" in capsys.readouterr().err


def test_plan_of_a_function_fetches_what_it_returns(tmp_path, monkeypatch, capsys):
    (tmp_path / "planned_module.py").write_text(
        "import tensorflow as tf\n"
        "@tf.function(input_signature=[tf.TensorSpec([8, 8])])\n"
        "def step(x):\n"
        "    return x @ x\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["plan", "planned_module:step", "--devices", _DEVICES]) == 0
    nodes = {node["name"] for node in json.loads(capsys.readouterr().out)["nodes"]}
    assert {"x", "matmul", "Identity"} <= nodes
    assert cli.main(["plan", "planned_module:missing", "--devices", _DEVICES]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("grappler-go: planned_module:missing: ") and "\n" not in error


def test_errors_of_tensorflow_are_one_plain_line(tmp_path, capsys):
    graph = tf.compat.v1.GraphDef()
    graph.node.add(name="a", op="Identity", input=["gone:0"])
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.SerializeToString())
    assert cli.main(["plan", str(path), "--devices", _DEVICES]) == 2
    assert capsys.readouterr().err == (
        f"grappler-go: {path}: node 'a' has the input 'gone:0', which is not in the graph\n"
    )


def test_commands_of_other_packages(monkeypatch, capsys):
    seen = []

    def add_commands(subparsers):
        parser = subparsers.add_parser("bench")
        parser.add_argument("--suite")
        parser.set_defaults(run=lambda arguments: seen.append(arguments.suite) or 7)

    module = types.ModuleType("go_bench.commands")
    module.add_commands = add_commands
    monkeypatch.setitem(sys.modules, "go_bench.commands", module)
    assert cli.main(["bench", "--suite", "simulator"]) == 7
    assert seen == ["simulator"]
    # What is not wanted is not loaded.
    monkeypatch.setitem(sys.modules, "go_bench.commands", None)
    monkeypatch.setitem(sys.modules, "go_train.commands", None)
    with pytest.raises(SystemExit) as exited:
        cli.main(["--help"])
    assert exited.value.code == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("plan", "doctor", "bench", "pretrain", "finetune"))


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        ("bench", "go_bench", "bench"),
        ("pretrain", "go_train", "train"),
        ("finetune", "go_bench", "bench"),
    ],
)
@pytest.mark.parametrize("rest", [[], ["--help"], ["run", "--suite", "x"]])
def test_a_command_of_an_absent_package_names_the_extra(
    monkeypatch, capsys, command, module, extra, rest
):
    monkeypatch.setitem(sys.modules, module, None)
    for part in ("commands", "finetune_commands"):
        monkeypatch.delitem(sys.modules, f"{module}.{part}", raising=False)
    assert cli.main([command, *rest]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"grappler-go: command '{command}' needs the module '{module}")
    assert output.err.endswith(f"fix: pip install 'grappler-go[{extra}]'\n")


def test_an_interrupt_is_one_line(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("grappler_go.doctor.diagnose", interrupted)
    assert cli.main(["doctor"]) == 130
    assert capsys.readouterr().err == "grappler-go: interrupted\n"


class TestCalibrate:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch):
        """No checks and no measuring: these have tests of their own."""

        def measure(cluster, *, progress):
            for _ in range(calibrate.num_steps(len(cluster.devices))):
                progress()
            return {"version": 1, "name": "seen", "layout": "workers", "devices": {}}

        monkeypatch.setattr("grappler_go.doctor.diagnose", lambda: [])
        monkeypatch.setattr(calibrate, "calibrate", measure)

    def test_the_profile_is_written_for_plan(self, tmp_path, capsys, graph_file):
        out = tmp_path / "seen.json"
        arguments = ["doctor", "--calibrate", "--workers", "1", "--out", str(out)]
        assert cli.main(arguments) == 0
        output = capsys.readouterr()
        assert output.out == f"wrote {out}; use it as --devices {out}:1\n"
        assert "4/4" in output.err, "no progress to be seen"
        assert cli.main([*arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {
            "ok": True,
            "checks": [],
            "profile": str(out),
        }
        assert cli.main(["plan", str(graph_file), "--devices", f"{out}:2"]) == 0
        assert json.loads(capsys.readouterr().out)["devices"] == _DEVICES.split(",")

    def test_a_worker_that_ends_is_named(self, monkeypatch, tmp_path, capsys):
        def lose(cluster, *, progress):
            os.kill(cluster.pids[0], signal.SIGKILL)
            while cluster.alive():
                time.sleep(0.01)
            cluster.check()

        monkeypatch.setattr(calibrate, "calibrate", lose)
        out = tmp_path / "seen.json"
        assert cli.main(["doctor", "--calibrate", "--workers", "1", "--out", str(out)]) == 1
        assert "worker 0" in capsys.readouterr().err and not out.exists()

    def test_wrong_options_are_named(self, tmp_path, capsys):
        assert cli.main(["doctor", "--calibrate", "--workers", "0"]) == 2
        assert "--workers is 0, must be at least 1" in capsys.readouterr().err
        out = tmp_path / "missing" / "seen.json"
        assert cli.main(["doctor", "--calibrate", "--workers", "1", "--out", str(out)]) == 2
        assert f"--out {out}: its directory does not exist" in capsys.readouterr().err
