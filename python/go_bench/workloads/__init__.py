"""Real models as TensorFlow graphs that train on variables alone: nothing is fed."""

from go_bench.workloads.inception import inception_v3
from go_bench.workloads.rnnlm import rnnlm
from go_bench.workloads.workload import Workload, by_layer, place

__all__ = ["Workload", "by_layer", "inception_v3", "place", "rnnlm"]
