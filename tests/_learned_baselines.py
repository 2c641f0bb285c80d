"""What the tests of learned baselines place: two chains that never meet, with a known optimum."""

import itertools

import numpy as np
import tensorflow as tf
from go_bench.baselines import reinforce_units
from go_bench.baselines.method import Task

import grappler_go

DEVICES = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)]
_LENGTH = 3


def two_chains(*, memory_mb=None):
    """Two chains of products on two workers; `memory_mb` bounds each worker's memory."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [512, 512], name="x")
        for chain in "ab":
            value = x
            for step in range(_LENGTH):
                value = tf.linalg.matmul(value, value, name=f"{chain}{step}")
    profile = "" if memory_mb is None else PROFILE % (memory_mb * 2**20)
    fetch = [f"{chain}{_LENGTH - 1}" for chain in "ab"]
    opened = grappler_go.OpGraph(
        graph.as_graph_def(add_shapes=True), DEVICES, profile=profile, fetch=fetch, feed=["x"]
    )
    return Task(graph=opened)


PROFILE = '{"version": 1, "devices": {"CPU": {"memory_bytes": %d}}}'


def optimum_us(task):
    """The best step time by trying every placement."""
    parts = reinforce_units.units(task.graph)
    choices = list(itertools.product(range(2), repeat=int(parts.movable.sum())))
    plans = np.tile(parts.home, (len(choices), 1))
    plans[:, parts.movable] = choices
    legal = reinforce_units.legal_placements(task.graph, parts, plans)
    return float(np.min(task.graph.simulate(legal).step_us))
