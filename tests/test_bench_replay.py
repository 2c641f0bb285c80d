"""Replaying: what counts as the same, and what a graph's fingerprint depends on."""

import pytest
import tensorflow as tf
from _bench import FakeSuite, plan, row
from go_bench import fingerprint, replay, runner
from go_bench.suites import simulator

import grappler_go
from grappler_go.errors import BadInput

PLAN = plan(0, 0, 0)
HOST = "/job:localhost/replica:0/task:0/device:"


def _replayed(stored, now, *, spread=0.0, spread_now=0.0, **fields):
    return runner.Replayed(
        row=row(step_s=stored, spread_s=spread), step_s=now, spread_s=spread_now, **fields
    )


@pytest.mark.parametrize(
    ("replayed", "why"),
    [
        (_replayed(1.0, 1.0), ""),
        (_replayed(1.0, 1.0 + 1e-7), ""),
        (_replayed(1.0, 1.001), "1000 ms before, 1001 ms now (+0.10%)"),
        (_replayed(1.0, 0.999), "1000 ms before, 999 ms now (-0.10%)"),
        (_replayed(1.0, 1.09, measured=True), ""),
        (_replayed(1.0, 1.2, measured=True), "1000 ms before, 1200 ms now (+20.00%)"),
        # Within 10% and the two spreads.
        (_replayed(1.0, 1.2, measured=True, spread=0.06, spread_now=0.05), ""),
        (_replayed(None, None), ""),
        (_replayed(1.0, None), "1000 ms before, OOM now"),
        (_replayed(None, 0.5), "OOM before, 500 ms now"),
        (_replayed(1.0, 1.0, changed="another graph"), "another graph"),
        (_replayed(1.0, 9.0, skipped="no such device"), ""),
    ],
)
def test_what_counts_as_the_same(replayed, why):
    assert replay.differs(replayed) == why


def test_the_tolerance_can_be_given():
    assert replay.differs(_replayed(1.0, 1.04), 0.05) == ""
    assert replay.differs(_replayed(1.0, 1.04, measured=True), 0.01) != ""


def test_each_row_has_a_verdict():
    found = [
        row(method="same", step_s=1.0, plan=PLAN),
        row(method="other", step_s=1.0, plan=PLAN),
        row(method="bare", step_s=1.0),
    ]
    verdicts = list(replay.replay(FakeSuite(now={"other": 2.0}), found))
    assert [(each.replayed.row.method, bool(each.differs)) for each in verdicts] == [
        ("same", False),
        ("other", True),
        ("bare", False),
    ]
    assert replay.describe(verdicts) == "2 rows replayed, 1 differ, 1 not run again"
    assert [line[-1] for line in replay.table(verdicts).body] == [
        "same",
        "differs: 1000 ms before, 2000 ms now (+100.00%)",
        "not run again: no plan stored",
    ]


def test_a_row_that_the_suite_leaves_out_is_named():
    class Lazy(FakeSuite):
        def replay(self, all_rows):
            return super().replay(all_rows[1:])

    verdicts = list(replay.replay(Lazy(), [row(step_s=1.0, plan=PLAN)] * 1))
    assert [each.replayed.skipped for each in verdicts] == ["the suite did not run it"]


def _graph(names=("x", "y"), *, order=(0, 1, 2, 3), op="Add", shape=(2, 3), **attributes):
    """x + y, then its product with a matrix; nodes in any order, under any names."""
    with tf.Graph().as_default() as graph:
        left = tf.compat.v1.placeholder(tf.float32, shape, name=names[0])
        right = tf.compat.v1.placeholder(tf.float32, shape, name=names[1])
        total = getattr(tf.raw_ops, op)(x=left, y=right, name=f"{names[0]}{names[1]}")
        tf.raw_ops.MatMul(a=total, b=right, transpose_b=True, name="z", **attributes)
    graph_def = graph.as_graph_def()
    nodes = list(graph_def.node)
    del graph_def.node[:]
    graph_def.node.extend(nodes[number] for number in order)
    return graph_def


def _fingerprint(graph_def, devices=("CPU:0", "CPU:1")):
    graph = grappler_go.OpGraph(graph_def, [HOST + name for name in devices], fetch=["z"])
    return fingerprint.fingerprint(graph)


class TestFingerprint:
    def test_it_is_the_same_in_every_process(self):
        assert _fingerprint(_graph()) == "0d47c32c65bf4ace"

    @pytest.mark.parametrize(
        "same",
        [
            _graph(order=(3, 2, 1, 0)),
            _graph(names=("q", "b")),
            _graph(names=("b", "q"), order=(1, 3, 0, 2)),
        ],
    )
    def test_names_and_order_do_not_count(self, same):
        assert _fingerprint(same) == _fingerprint(_graph())

    def test_devices_do_not_count(self):
        assert _fingerprint(_graph(), ("CPU:0", "GPU:0", "GPU:1")) == _fingerprint(_graph())

    def test_what_is_computed_counts(self):
        control = _graph()
        control.node[3].input.append("^x")
        swapped = _graph()
        swapped.node[3].input[:] = ["y", "xy"]
        shared = _graph()
        shared.node[3].attr["_class"].list.s.append(b"loc:@xy")
        others = [
            _graph(),
            _graph(op="Sub"),
            _graph(shape=(2, 4)),
            _graph(grad_a=True),
            control,
            swapped,
            shared,
        ]
        assert len({_fingerprint(each) for each in others}) == len(others)


def test_the_median_ratio_shows_a_slower_machine():
    found = [row(method=name, step_s=1.0, plan=PLAN) for name in "abc"]
    suite = FakeSuite(now={"a": 1.05, "b": 1.06, "c": 1.07}, measured=True)
    verdicts = list(replay.replay(suite, found))
    assert replay.describe(verdicts) == (
        "3 rows replayed, 0 differ; measured steps take 1.06 of what they took"
    )
    assert {line[-1] for line in replay.table(verdicts).body} == {"agrees"}


class TestSimulatorSuite:
    def test_rows_of_devices_that_cannot_be_attached_are_refused(self):
        found = [row(suite="simulator", plan=PLAN, device_spec="p100:2")]
        with pytest.raises(BadInput, match="'device_spec' is 'p100:2', must be attached"):
            list(replay.replay(simulator.SimulatorSuite(), found))

    @pytest.mark.parametrize(
        ("fields", "why"),
        [
            ({}, ""),
            ({"fingerprint": "02"}, "the graph is '01' now, was '02'"),
            ({"devices": ("/device:GPU:0",)}, "the devices are /device:CPU:0 now"),
        ],
    )
    def test_a_plan_for_something_else_is_not_measured(self, fields, why):
        stored = row(**{"fingerprint": "01", "plan": PLAN, **fields})
        assert simulator._changed(stored, "01", ["/device:CPU:0"]) == why


def test_a_suite_that_cannot_replay_says_so():
    class Fixed(FakeSuite):
        def replay(self, all_rows):
            raise BadInput(f"suite '{self.name}' cannot replay")

    with pytest.raises(BadInput, match="suite 'fake' cannot replay"):
        list(replay.replay(Fixed(), [row(plan=PLAN)]))
