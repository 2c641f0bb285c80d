"""Generated graphs of any size, for figures of speed."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

_WIDTH = 20
_FAN_IN = 3
_REACH = 3 * _WIDTH


def layered_graph(nodes: int, *, seed: int = 0) -> graph_pb2.GraphDef:
    """Returns sums of one to three earlier sums each, `nodes` of them, and one constant."""
    random = np.random.default_rng(seed)
    graph = graph_pb2.GraphDef()
    constant = graph.node.add(name="input", op="Const")
    constant.attr["dtype"].type = tf.float32.as_datatype_enum
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.ones([4, 4], np.float32)))
    for k in range(nodes):
        node = graph.node.add(name=f"sum_{k}", op="AddN")
        count = int(random.integers(1, _FAN_IN + 1))
        if k < _WIDTH:
            node.input.extend(["input"] * count)
        else:
            node.input.extend(f"sum_{j}" for j in random.integers(max(0, k - _REACH), k, count))
        node.attr["N"].i = count
        node.attr["T"].type = tf.float32.as_datatype_enum
    return graph


def last(nodes: int) -> str:
    """Returns the name of the last sum."""
    return f"sum_{nodes - 1}"
