"""Fitting plans by measuring: its parts by hand-computed figures, and one run as a user has it."""

import json

import numpy as np
import pytest
import tensorflow as tf
from go_bench import finetune, model_workload

import grappler_go
from grappler_go import cli
from grappler_go.errors import BadInput


class TestLowerBound:
    def test_a_clear_gain(self):
        low = finetune.lower_bound([2.0, 2.1, 1.9] * 5, [1.0, 1.05, 0.95] * 5, 0.95)
        assert 1.8 < low <= 2.0

    def test_noise_is_no_gain(self):
        random = np.random.default_rng(0)
        default = 1 + 0.2 * random.random(15)
        ours = 0.99 + 0.2 * random.random(15)
        assert finetune.lower_bound(default, ours, 0.95) < 1


def test_links_are_scaled_whole():
    profile = {
        "version": 1,
        "devices": {"CPU": {"threads": 1}},
        "links": [{"source": "CPU", "latency_us": 10.0, "gb_per_s": 4.0, "busy_us": 3.0}],
    }
    scaled = finetune.scaled_links(profile, 2.0)
    assert scaled["links"] == [
        {"source": "CPU", "latency_us": 20.0, "gb_per_s": 2.0, "busy_us": 6.0}
    ]
    assert scaled["devices"] == profile["devices"]
    assert profile["links"][0]["latency_us"] == 10.0


def test_keys_are_of_decisions_alone():
    node = {"name": "a", "device": 0, "fusion": -1, "priority": 2, "start_us": 1.0}
    other = {"name": "b", "device": 1, "fusion": -1, "priority": 0, "start_us": 2.0}
    report = {"devices": ["x", "y"], "nodes": [node, other], "reason": "one"}
    same = {"devices": ["x", "y"], "nodes": [other, node | {"start_us": 7.0}], "reason": "two"}
    assert finetune.plan_key(report) == finetune.plan_key(same)
    moved = {"devices": ["x", "y"], "nodes": [node | {"device": 1}, other]}
    assert finetune.plan_key(report) != finetune.plan_key(moved)


class _Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.random.stateless_normal([64, 64], [1, 2]))

    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, name="x")])
    def serve(self, x):
        return {"y": tf.tanh(x @ self.weights) + tf.nn.relu(x @ tf.transpose(self.weights))}


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("saved") / "model"
    module = _Model()
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.serve})
    return str(path)


class TestModels:
    def test_a_saved_model_runs_as_itself(self, saved):
        workload = model_workload.read(saved, batch=5)
        with tf.compat.v1.Session(graph=workload.graph) as session:
            session.run(workload.init_op)
            got = session.run(workload.fetches, feed_dict=dict(workload.feeds))["outputs"]
        (x,) = workload.feeds.values()
        assert x.shape == (5, 64)
        want = tf.saved_model.load(saved).signatures["serving_default"](tf.constant(x))
        (ours,) = got.values()
        np.testing.assert_allclose(ours, want["y"].numpy(), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("/no/such/model", "must be a SavedModel directory or module:function"),
            ("json:dumps", "TypeError"),
            ("os:getcwd", "not a SavedModel"),
        ],
    )
    def test_bad_models_are_named(self, source, words, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(BadInput) as error:
            model_workload.read(source)
        if words in ("TypeError",):
            assert words in str(error.value)
        assert "\n" not in str(error.value)

    def test_no_such_signature(self, saved):
        with pytest.raises(BadInput, match="no signature 'train'; known are serving_default"):
            model_workload.read(saved, signature="train")


@pytest.fixture(scope="module")
def tuned(saved, tmp_path_factory):
    out = tmp_path_factory.mktemp("tuned")
    arguments = ["finetune", saved, "--devices", "cluster", "--batch", "8", "--out", str(out)]
    assert cli.main([*arguments, "--budget", "2"]) == 0
    return arguments, out


class TestRun:
    def test_everything_measured_is_on_disk(self, tuned):
        _, out = tuned
        lines = [json.loads(line) for line in (out / "measurements.jsonl").read_text().splitlines()]
        assert len(lines) == 2
        assert len({line["key"] for line in lines}) == 2
        for line in lines:
            assert line["speedup"] == pytest.approx(line["default_s"] / line["step_s"])
            assert line["difference"] <= 1e-4
            assert grappler_go.Plan(line["plan"]).report["nodes"]

    def test_a_tiny_model_keeps_the_default_or_gains(self, tuned, capsys):
        arguments, out = tuned
        assert cli.main([*arguments, "--budget", "2"]) == 0
        said = capsys.readouterr().out
        assert ("x, above" in said) == (out / "plan.json").exists() or "kept" in said

    def test_resuming_measures_nothing_twice(self, tuned, capsys):
        arguments, out = tuned
        before = (out / "measurements.jsonl").read_text()
        assert cli.main([*arguments, "--budget", "3"]) == 0
        after = (out / "measurements.jsonl").read_text()
        assert after.startswith(before)
        keys = [json.loads(line)["key"] for line in after.splitlines()]
        assert len(keys) == len(set(keys)) <= 3

    def test_a_damaged_log_is_named(self, tuned, capsys):
        arguments, out = tuned
        log = out / "measurements.jsonl"
        whole = log.read_text()
        try:
            log.write_text(whole + "{\n")
            assert cli.main([*arguments, "--budget", "2"]) == 2
        finally:
            log.write_text(whole)
        error = capsys.readouterr().err
        assert "measurements.jsonl: line" in error


@pytest.mark.parametrize("argument", ["--budget", "--batch"])
def test_counts_below_one_are_refused(argument, tmp_path, capsys):
    assert cli.main(["finetune", "m:f", argument, "0", "--out", str(tmp_path)]) == 2
    assert f"{argument} 0: must be at least 1" in capsys.readouterr().err
