"""Baked models: the decisions are in them, and TensorFlow alone computes the same."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import grappler_go
from grappler_go import cli, inputs
from grappler_go.errors import BadInput

_CPUS = [f"/job:localhost/replica:0/task:0/device:CPU:{k}" for k in range(2)]
_X = np.linspace(-1, 1, 3 * 8, dtype=np.float32).reshape(3, 8)

# Serves a model in a process that must not have this library.
_SERVE = """
import sys, json, numpy as np
sys.modules["grappler_go"] = None
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
model = tf.saved_model.load(sys.argv[1])
x = np.linspace(-1, 1, 3 * 8, dtype=np.float32).reshape(3, 8)
out = model.signatures["serving_default"](tf.constant(x))
print(json.dumps({key: value.numpy().tolist() for key, value in out.items()}))
"""


class _Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.left = tf.Variable(tf.random.stateless_normal([8, 8], [1, 2]))
        self.right = tf.Variable(tf.random.stateless_normal([8, 8], [3, 4]))

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="x")])
    def serve(self, x):
        a, b = tf.matmul(x, self.left), tf.matmul(x, self.right)
        for _ in range(3):
            a, b = tf.tanh(a), tf.nn.relu(b)
        return {"sum": a + b}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("model") / "saved"
    module = _Model()
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.serve})
    return str(path)


def _plan(model: str) -> grappler_go.Plan:
    graph = inputs.read(model)
    return grappler_go.plan(
        graph.graph_def,
        _CPUS,
        fetch=graph.fetch,
        feed=graph.feed,
        candidates="random",
        keep_default=False,
        samples=4,
        search=0,
        seed=5,
    )


def test_serves_without_us_and_computes_the_same(model, tmp_path):
    plan = _plan(model)
    assert len(set(plan.placement.values())) == 2
    out = tmp_path / "baked"
    grappler_go.bake(model, plan, out)
    (meta_graph,) = inputs.read_saved_model(out).meta_graphs
    device_of = {node.name: node.device for node in meta_graph.graph_def.node}
    for name in plan.placement:
        if "go_copy" not in name and name in device_of:
            assert device_of[name], name
    assert {d for d in device_of.values() if d} >= set(_CPUS)
    served = subprocess.run(
        [sys.executable, "-c", _SERVE, str(out)], capture_output=True, text=True, check=False
    )
    assert served.returncode == 0, served.stderr[-2000:]
    got = json.loads(served.stdout.splitlines()[-1])
    want = tf.saved_model.load(model).signatures["serving_default"](tf.constant(_X))
    np.testing.assert_allclose(np.asarray(got["sum"], np.float32), want["sum"].numpy(), rtol=1e-5)


def test_command(model, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(_plan(model).json)
    out = tmp_path / "baked"
    assert cli.main(["bake", model, "--plan", str(plan), "--out", str(out)]) == 0
    assert (out / "variables").is_dir()


class TestBadInput:
    def test_the_directory_is_there(self, model, tmp_path):
        with pytest.raises(BadInput, match="exists already"):
            grappler_go.bake(model, _plan(model), tmp_path)

    def test_a_plan_of_another_graph(self, model, tmp_path):
        report = _plan(model).report
        report["nodes"][0]["name"] = "gone"
        with pytest.raises(BadInput, match="'gone'"):
            grappler_go.bake(model, grappler_go.Plan(json.dumps(report)), tmp_path / "out")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("content", "words"), [("{", "not JSON"), ("[]", "'devices'"), ("{}", "'devices'")]
    )
    def test_a_file_that_is_no_plan(self, model, content, words, tmp_path, capsys):
        plan = tmp_path / "plan.json"
        plan.write_text(content)
        arguments = ["bake", model, "--plan", str(plan), "--out", str(tmp_path / "out")]
        assert cli.main(arguments) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1

    def test_no_such_model_or_signature(self, model, tmp_path):
        with pytest.raises(BadInput, match="no signature 'train'"):
            grappler_go.bake(model, _plan(model), tmp_path / "out", signature="train")
        with pytest.raises(BadInput):
            grappler_go.bake(tmp_path / "none", _plan(model), tmp_path / "out")
