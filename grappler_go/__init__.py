"""Grappler GO: a TensorFlow Grappler pass that learns where each op runs.

    import grappler_go
    grappler_go.enable()

makes it run for every tf.function and Keras model from then on. `session_config` does the same for
`tf.compat.v1.Session`, `local_cluster` starts workers on this machine, `plan` and `apply` work on
a GraphDef.
"""

import tensorflow as _tf

from grappler_go import _library

# First, since what follows reaches into TensorFlow.
_library.check_tensorflow_version(_tf.__version__)

# ruff: noqa: E402
from grappler_go.baking import bake
from grappler_go.cluster import ClusterError, LocalCluster, local_cluster
from grappler_go.config import disable, enable, is_enabled, rewriter_config, session_config
from grappler_go.explanations import Explanation, explain
from grappler_go.op_graph import Dataflow, OpGraph, Simulation, feature_table
from grappler_go.plans import Plan, apply, plan

__version__ = "0.1.0"

__all__ = [
    "ClusterError",
    "Dataflow",
    "Explanation",
    "LocalCluster",
    "OpGraph",
    "Plan",
    "Simulation",
    "apply",
    "bake",
    "disable",
    "enable",
    "explain",
    "feature_table",
    "is_enabled",
    "local_cluster",
    "plan",
    "rewriter_config",
    "session_config",
]
