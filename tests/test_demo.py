"""The demo's steps, with a stand-in for the pass, and its command line."""

import json
import os
import pathlib
import re

import pytest
import tensorflow as tf
from go_bench import attached as attached_lib
from go_bench import demo, demo_lib, profiling
from go_bench.workloads import rnnlm

import grappler_go

v1 = tf.compat.v1

_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
_PROFILE = {"version": 1, "name": "test", "devices": {}, "links": []}


@pytest.fixture(name="case")
def fixture_case():
    return demo_lib.Case(
        title="Small",
        build=lambda: rnnlm(batch=4, width=8, steps=3, vocab=16),
        rounds=3,
        warmup=2,
        profile_steps=1,
    )


@pytest.fixture(name="attached")
def fixture_attached():
    return attached_lib.Attached(
        kind="this process",
        target="",
        devices=(_DEVICE,),
        device_type="CPU",
        device_profile=_PROFILE,
        profile_ops=lambda workload, *rest, **options: profiling.profile(
            workload, "", *rest, **options
        ),
    )


def _report(nodes: int, **fields):
    node = {"name": "x", "op": "NoOp", "device": 0, "start_us": 0.0, "end_us": 1.0}
    return {
        "version": 1,
        "source": "default",
        "applied": False,
        "reason": "no plan is better",
        "incoming_step_us": 2000.0,
        "predicted_step_us": 2000.0,
        "lower_bound_us": 1500.0,
        "devices": [_DEVICE],
        "nodes": [node] * nodes,
        **fields,
    }


@pytest.fixture(name="options")
def fixture_options(monkeypatch):
    """Stands in for the pass: writes reports and changes nothing; returns the options it got."""
    seen = {}

    def session_config(**options):
        seen.update(options)
        for name, nodes in (("init", 3), ("step", 7)):
            path = pathlib.Path(options["report"], f"{name}.json")
            path.write_text(json.dumps(_report(nodes)))
        return v1.ConfigProto()

    monkeypatch.setattr(grappler_go, "session_config", session_config)
    return seen


def test_a_case_is_profiled_measured_and_drawn(case, attached, options, tmp_path):
    steps = []
    result = demo_lib.run_case(case, attached, tmp_path, progress=lambda: steps.append(0))
    assert len(steps) == case.steps
    assert json.loads(options["profile"]) == _PROFILE
    assert json.loads(pathlib.Path(options["costs"]).read_text())["device_type"] == "CPU"
    assert result.nodes == 7
    assert result.output_difference == 0.0
    assert result.compared_steps == 2
    assert result.speedup == pytest.approx(result.default_ms / result.pass_ms)
    assert set(result.ops_per_device) == {_DEVICE}
    assert pathlib.Path(result.picture).read_bytes().startswith(b"\x89PNG")
    for path in result.traces.values():
        assert json.loads(pathlib.Path(path).read_text())["traceEvents"]


def test_results_are_written_with_what_reproduces_them(case, attached, options, tmp_path):
    del options
    result = demo_lib.run_case(case, attached, tmp_path)
    demo_lib.write_results(tmp_path / "results.json", attached, [result])
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["device_profile"] == _PROFILE
    assert written["results"][0]["speedup"] == result.speedup


def test_the_description_ends_with_the_speed_up_and_says_that_the_default_was_kept(
    case, attached, options, tmp_path
):
    del options
    text = demo_lib.describe(demo_lib.run_case(case, attached, tmp_path))
    assert re.fullmatch(r"Small speed-up over TF default: \d+\.\d\dx", text.splitlines()[-1])
    assert "the default was kept: no plan is better" in text


def test_a_pass_that_did_not_run_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="the pass wrote no report"):
        demo_lib.read_report(tmp_path)


def test_the_report_of_the_step_is_the_first_of_the_largest(tmp_path):
    for age, (name, nodes) in enumerate([("z", 3), ("y", 7), ("x", 7)]):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(_report(nodes)))
        os.utime(path, (1000 + age, 1000 + age))
    report, path = demo_lib.read_report(tmp_path)
    assert len(report["nodes"]) == 7
    assert path.name == "y.json"


def test_gpus_that_are_not_there_are_a_wrong_input(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(attached_lib, "_gpus", lambda: [])
    assert demo.main(["--devices", "gpu", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "--devices gpu: TensorFlow sees 0 GPUs, at least 2 are needed\n"
    )


def test_an_unknown_choice_of_devices_is_named():
    with (
        pytest.raises(ValueError, match="must be 'auto', 'gpu' or 'cluster', got 'tpu'"),
        attached_lib.attach("tpu"),
    ):
        pass
