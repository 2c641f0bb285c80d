"""Peak memory out of a step's report, on reports made by hand and on a real one."""

import numpy as np
import pytest
import tensorflow as tf
from go_bench import allocator, measure
from go_bench.workloads.workload import Workload
from tensorflow.core.framework import step_stats_pb2

v1 = tf.compat.v1

_ONE = "/job:worker/replica:0/task:0/device:CPU:0"
_TWO = "/job:worker/replica:0/task:1/device:CPU:0"


def _node(device, name, label="", records=(), start=0, end=0, sent=0):
    node = device.node_stats.add(
        node_name=name, timeline_label=label, all_start_micros=start, all_end_rel_micros=end - start
    )
    memory = node.memory.add(allocator_name="cpu")
    for when, size in records:
        memory.allocation_records.add(alloc_micros=when, alloc_bytes=size)
    if sent:
        output = node.output.add()
        output.tensor_description.allocation_description.requested_bytes = sent


def test_the_peak_is_the_largest_running_sum():
    report = step_stats_pb2.StepStats()
    device = report.dev_stats.add(device=_ONE)
    _node(device, "a", "a = A()", [(10, 100), (30, -100)])
    _node(device, "b", "b = B(a)", [(20, 50), (40, -50)])
    _node(device, "c", "c = C(b)", [(30, 70), (50, -70)])  # a's is free in the microsecond.
    assert allocator.peak_bytes(report) == {_ONE: 150.0}


def test_what_came_from_another_worker_lives_until_it_is_read():
    report = step_stats_pb2.StepStats()
    one, two = report.dev_stats.add(device=_ONE), report.dev_stats.add(device=_TWO)
    _node(one, "a", "a = A()", [(10, 100), (20, -100)])
    label = f"[0.1MB] edge_7_a from {_ONE} to {_TWO}"
    _node(one, "RecvTensor", label, start=15, end=25, sent=100)
    _node(two, "b", "b = B(a_S12, ^x)", [(30, 40), (90, -40)], start=30, end=60)
    _node(two, "c", "c = C(b)", [(61, 80), (80, -80)], start=61, end=70)
    assert allocator.peak_bytes(report) == {_ONE: 100.0, _TWO: 140.0}


@pytest.mark.parametrize("width", [256, 512])
def test_a_real_step(width):
    graph = tf.Graph()
    with graph.as_default():
        x = v1.get_variable("x", [width, width], initializer=v1.ones_initializer())
        left, right = tf.matmul(x, x), tf.matmul(x, x + 1)
        loss = tf.reduce_sum(tf.matmul(left, right))
        init = v1.global_variables_initializer()
    workload = Workload(
        name="two-products",
        graph=graph,
        init_op=init,
        train_op=None,
        loss=loss,
        outputs={"loss": loss},
        layer_of={},
        layers=1,
    )
    seen = measure.compare(
        workload, "", {"plain": v1.ConfigProto()}, rounds=1, warmup=1, trace=True
    )["plain"]
    (peak,) = allocator.peak_bytes(seen.trace).values()
    matrix = 4 * width * width
    # Both products and the third, while the sum's input has not been freed; x outlives the step.
    assert 3 * matrix <= peak <= 3.2 * matrix
    assert np.isfinite(seen.median_s)
