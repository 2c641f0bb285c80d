"""Small graphs of declared costs, on devices with round figures."""

import json

import numpy as np
from go_bench.baselines.method import Task
from tensorflow.core.framework import graph_pb2

import grappler_go
from grappler_go import cost_graph


def workers(count):
    return [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(count)]


def open_graph(ops, devices=2, *, latency_us=10.0, bytes_per_us=1000.0, memory_bytes=0, **options):
    """Opens ops given as (name, inputs, us, output bytes, persistent bytes)."""
    profile = {
        "version": 1,
        "devices": {"CPU": {"memory_bytes": memory_bytes, "threads": 1}},
        "links": [
            {
                "source": "CPU",
                "target": "CPU",
                "scope": "remote",
                "latency_us": latency_us,
                "gb_per_s": bytes_per_us * 1e-3,
            }
        ],
    }
    graph = graph_pb2.GraphDef()
    read = {name.partition(":")[0] for _, inputs, *_ in ops for name in inputs}
    for name, inputs, us, size, kept in ops:
        graph.node.append(
            cost_graph.make_op(
                name, inputs, us={"CPU": us}, output_bytes=[size], persistent_bytes=kept
            )
        )
    return grappler_go.OpGraph(
        graph,
        workers(devices),
        fetch=[name for name, *_ in ops if name not in read],
        profile=json.dumps(profile),
        move_state=True,
        **options,
    )


def chains(count, length, *, us=100.0, size=1000.0, kept=0):
    """Chains that never meet."""
    return [
        (f"c{c}_{k}", [f"c{c}_{k - 1}:0"] if k else [], us, size, kept)
        for k in range(length)
        for c in range(count)
    ]


def random_ops(seed, count=7):
    """A random graph of ops of unlike costs."""
    rng = np.random.default_rng(seed)
    ops = []
    for k in range(count):
        reads = rng.choice(k, size=min(k, int(rng.integers(1, 3))), replace=False) if k else []
        ops.append(
            (
                f"op{k}",
                [f"op{each}:0" for each in reads],
                float(rng.integers(10, 100)),
                float(rng.integers(100, 60_000)),
                0,
            )
        )
    return ops


def task_of(graph, **options):
    return Task(graph=graph, **options)
