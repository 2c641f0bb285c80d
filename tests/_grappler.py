"""Runs Grappler with nothing but the pass in it, on devices that need not be attached."""

from collections.abc import Iterable
from typing import Any

from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import (
    config_pb2,
    device_properties_pb2,
    meta_graph_pb2,
    rewriter_config_pb2,
)
from tensorflow.python.grappler import cluster as grappler_cluster
from tensorflow.python.grappler import tf_optimizer

import grappler_go

ONCE = rewriter_config_pb2.RewriterConfig.ONE
TWICE = rewriter_config_pb2.RewriterConfig.TWO


def cluster(cpus: int = 1, gpus: int = 0, *, gpu_memory: int = 16 << 30) -> Any:
    """A cluster of devices that exist on paper, in one process."""

    def device(kind: str, number: int, **properties: Any) -> device_properties_pb2.NamedDevice:
        return device_properties_pb2.NamedDevice(
            name=f"/job:localhost/replica:0/task:0/device:{kind}:{number}",
            properties=device_properties_pb2.DeviceProperties(type=kind, **properties),
        )

    return grappler_cluster.Cluster(
        devices=[
            *[device("CPU", i, frequency=2000, num_cores=4) for i in range(cpus)],
            *[
                device(
                    "GPU",
                    i,
                    frequency=1300,
                    num_cores=56,
                    memory_size=gpu_memory,
                    environment={"architecture": "6"},
                )
                for i in range(gpus)
            ],
        ]
    )


def optimize(
    graph_def: graph_pb2.GraphDef,
    cluster: Any,
    fetch: Iterable[str],
    *,
    iterations: int = TWICE,
    **options: Any,
) -> graph_pb2.GraphDef:
    """What Grappler makes of a graph.

    Args:
      graph_def: the graph.
      cluster: the devices.
      fetch: names of fetched tensors.
      iterations: how often Grappler goes round; TWICE is TensorFlow's default.
      **options: of the pass.
    """
    meta = meta_graph_pb2.MetaGraphDef()
    meta.graph_def.CopyFrom(graph_def)
    meta.meta_info_def.meta_graph_version = "test"
    for name in fetch:
        meta.signature_def["main"].outputs[name].name = name
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.CopyFrom(grappler_go.rewriter_config(**options))
    rewrite.meta_optimizer_iterations = iterations
    rewrite.min_graph_nodes = -1
    # A list of optimizers is the whole list: those of TensorFlow stay out.
    rewrite.optimizers.append("grappler_go")
    return tf_optimizer.OptimizeGraph(config, meta, cluster=cluster)
