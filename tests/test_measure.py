"""Measuring: what is compared with what, and the figures that go to the pass."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
from go_bench import draw, measure, profiling, trace
from go_bench.workloads import by_layer, place, rnnlm
from tensorflow.core.framework import step_stats_pb2

from grappler_go import cluster, costs

v1 = tf.compat.v1


@pytest.fixture(scope="module", name="pair")
def fixture_pair():
    with cluster.local_cluster(2, library="") as running:
        yield running


@pytest.fixture(scope="module", name="workload")
def fixture_workload():
    return rnnlm(batch=4, width=8, steps=3, vocab=16)


def _step(**outputs):
    return {name: np.asarray(value, np.float32) for name, value in outputs.items()}


class TestCompare:
    def test_each_configuration_is_measured_from_the_same_start(self, workload):
        configs = {"plain": v1.ConfigProto(), "again": v1.ConfigProto()}
        steps = []
        seen = measure.compare(
            workload, "", configs, rounds=5, warmup=2, checked=2, progress=lambda: steps.append(0)
        )
        assert len(steps) == 2 * (5 + 2)
        for each in seen.values():
            assert each.n == 5
            assert 0 < each.median_s < 60
            assert each.iqr_s >= 0
            assert each.first_s > 0
            assert [set(step) for step in each.outputs] == [set(workload.outputs)] * 2
        assert measure.output_difference(seen["plain"].outputs, seen["again"].outputs) == 0.0
        # A second step on the same variables would show in the loss.
        assert seen["plain"].outputs[0]["loss"] != seen["plain"].outputs[1]["loss"]

    def test_configurations_are_left_as_they_were(self, workload):
        config = v1.ConfigProto()
        measure.compare(workload, "", {"only": config}, rounds=1, warmup=1)
        assert config == v1.ConfigProto()

    def test_rounds_alternate(self):
        names = {"a": None, "b": None}
        assert [measure._alternate(names, index) for index in range(3)] == [
            ["a", "b"],
            ["b", "a"],
            ["a", "b"],
        ]

    def test_two_workers_compute_what_one_does(self, workload, pair):
        placed = place(workload, by_layer(workload, pair.devices))
        config = v1.ConfigProto()
        seen = measure.compare(
            {"default": workload, "layers": placed},
            pair.master,
            {"default": config, "layers": config},
            rounds=1,
            warmup=3,
        )
        outputs = seen["default"].outputs, seen["layers"].outputs
        assert measure.output_difference(*outputs) < 1e-6
        used = profiling.devices_of(profiling.trace_step(placed, pair.master, config))
        assert set(used.values()) == set(pair.devices)

    @pytest.mark.parametrize("name", ["rounds", "warmup"])
    def test_a_count_below_one_is_named(self, workload, name):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            measure.compare(workload, "", {}, **{"rounds": 1, "warmup": 1, name: 0})


class TestOutputDifference:
    @pytest.mark.parametrize(
        ("left", "right", "expected"),
        [
            ([1.0, 100.0], [1.0, 100.0], 0.0),
            ([1.0, 100.0], [2.0, 100.0], 0.01),
            ([0.0], [0.0], 0.0),
            ([0.0], [1e-9], math.inf),
            ([math.nan, 1.0], [math.nan, 1.0], 0.0),
            ([math.nan, 1.0], [0.0, 1.0], math.inf),
            ([1.0], [1.0, 1.0], math.inf),
        ],
    )
    def test_of_one_tensor(self, left, right, expected):
        difference = measure.output_difference([_step(x=left)], [_step(x=right)])
        assert difference == pytest.approx(expected)

    def test_is_the_largest_of_all_steps_and_tensors(self):
        left = [_step(x=[1.0], y=[1.0]), _step(x=[1.0], y=[4.0])]
        right = [_step(x=[1.1], y=[1.0]), _step(x=[1.0], y=[5.0])]
        assert measure.output_difference(left, right) == pytest.approx(0.25)

    def test_refuses_runs_that_do_not_match(self):
        with pytest.raises(ValueError, match="1 against 0 steps"):
            measure.output_difference([_step(x=1)], [])
        with pytest.raises(ValueError, match=r"\['x'\] against \['y'\]"):
            measure.output_difference([_step(x=1)], [_step(y=1)])


class TestProfile:
    def test_gives_a_cost_for_the_nodes_of_the_graph(self, workload):
        config = v1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        steps = []
        seen = profiling.profile(
            workload, "", config, 2, warmup=1, progress=lambda: steps.append(0)
        )
        assert len(steps) == 1 + 2 * 2
        nodes = {each.name for each in workload.graph.get_operations()}
        matmuls = {each.name for each in workload.graph.get_operations() if each.type == "MatMul"}
        assert matmuls <= set(seen.cost_us)
        assert len(set(seen.cost_us) - nodes) < 0.05 * len(seen.cost_us)
        assert all(cost >= 0 for cost in seen.cost_us.values())
        assert set(seen.device_of) == set(seen.cost_us)
        assert set(seen.device_of.values()) == {"/job:localhost/replica:0/task:0/device:CPU:0"}
        assert seen.step_us > 0
        assert seen.overhead_us >= 0

    @pytest.mark.parametrize(
        ("step_us", "overhead_us", "want"),
        [(40.0, 5.0, {"a": 15.0, "b": 25.0}), (20.0, 0.0, {"a": 20 / 3, "b": 40 / 3})],
        ids=["the rest of the step is shared out", "tracing made the ops longer than the step"],
    )
    def test_the_ops_take_the_step(self, step_us, overhead_us, want):
        seen = profiling.Profile(
            cost_us={"a": 10.0, "b": 20.0}, device_of={}, overhead_us=overhead_us, step_us=step_us
        )
        assert seen.op_us == pytest.approx(want)
        assert sum(seen.op_us.values()) == pytest.approx(step_us)

    def test_transfers_are_not_ops(self, workload, pair):
        placed = place(workload, by_layer(workload, pair.devices))
        report = profiling.trace_step(placed, pair.master, v1.ConfigProto(), warmup=1)
        received = [
            node
            for device in report.dev_stats
            for node in device.node_stats
            if profiling.is_transfer(node)
        ]
        assert received
        assert "RecvTensor" not in profiling.devices_of(report)
        events = trace.chrome_trace(report)["traceEvents"]
        assert {event["name"] for event in events if event.get("cat") == "transfer"} >= {
            "RecvTensor",
            "transfer",
        }

    def test_steps_below_one_are_named(self, workload):
        with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
            profiling.profile(workload, "", v1.ConfigProto(), 0)

    def test_costs_are_written_whole(self, tmp_path):
        path = tmp_path / "costs.json"
        path.write_text("old")
        costs.write(path, {"a/b": 1.5}, device_type="GPU")
        assert json.loads(path.read_text()) == {
            "version": 2,
            "device_type": "GPU",
            "ops": {"a/b": 1.5},
        }
        assert [each.name for each in tmp_path.iterdir()] == ["costs.json"]


def _report(*nodes: tuple[str, str, int, int, str]) -> step_stats_pb2.StepStats:
    """Builds a report out of (device, name, start_us, end_us, label)."""
    report = step_stats_pb2.StepStats()
    devices = {}
    for device, name, start_us, end_us, label in nodes:
        if device not in devices:
            devices[device] = report.dev_stats.add(device=device)
        duration = end_us - start_us
        devices[device].node_stats.add(
            node_name=name,
            all_start_micros=start_us,
            all_end_rel_micros=duration,
            op_end_rel_nanos=1000 * duration,
            timeline_label=label,
        )
    return report


def test_a_loops_op_costs_what_all_its_runs_cost():
    device = "/task:0/device:CPU:0"
    report = _report(
        (device, "while/add", 100, 105, "while/add = Add(x)"),
        (device, "while/add", 120, 128, "while/add = Add(x)"),
        (device, "b", 130, 131, "b = Add(x)"),
        (device, "c", 130, 190, "c = _Recv()"),
    )
    assert profiling.step_costs(report) == {"while/add": 13.0, "b": 1.0}


class TestTrace:
    def test_an_arrow_leads_from_the_maker_to_the_receiver(self):
        first, second = "/task:0/device:CPU:0", "/task:1/device:CPU:0"
        report = _report(
            (first, "a/x", 1000, 1040, "a/x = MatMul(b)"),
            (first, "a/y", 1020, 1030, "a/y = Add(b)"),
            (second, "RecvTensor", 1005, 1060, f"[4B] edge_7_a/x from {first} to {second}"),
        )
        events = trace.chrome_trace(report)["traceEvents"]
        names = {
            event["pid"]: event["args"]["name"]
            for event in events
            if event["name"] == "process_name"
        }
        assert sorted(names.values()) == [first, second]
        spans = {
            event["args"]["node"]: event
            for event in events
            if event["ph"] == "X" and event["cat"] == "op"
        }
        assert (spans["a/x"]["name"], spans["a/x"]["ts"], spans["a/x"]["dur"]) == ("MatMul", 0, 40)
        assert spans["a/x"]["tid"] != spans["a/y"]["tid"]  # They overlap.
        start, finish = (event for event in events if event["ph"] in "sf")
        assert names[start["pid"]] == first
        assert names[finish["pid"]] == second
        assert start["id"] == finish["id"]
        assert 0 <= start["ts"] <= 40
        assert 5 <= finish["ts"] <= 60

    def test_an_empty_report_is_an_empty_trace(self):
        assert trace.chrome_trace(step_stats_pb2.StepStats())["traceEvents"] == []


class TestDraw:
    def test_draws_a_plan(self, tmp_path):
        nodes = [
            {"name": str(i), "device": i % 2, "start_us": 10.0 * i, "end_us": 10.0 * i + 5}
            for i in range(20)
        ]
        devices = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)]
        path = tmp_path / "plan.png"
        draw.draw_plan({"devices": devices, "nodes": nodes}, path, title="a plan")
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_a_plan_without_nodes_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="'nodes' is empty"):
            draw.draw_plan({"devices": [], "nodes": []}, tmp_path / "plan.png", title="")

    def test_runs(self):
        chosen = np.array([True, True, False, True])
        assert draw._runs(chosen) == [(0, 2), (3, 1)]
        assert draw._runs(np.array([False])) == []
