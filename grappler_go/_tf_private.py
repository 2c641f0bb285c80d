"""All use of TensorFlow's private Python API."""

from collections.abc import Iterable

from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import (
    config_pb2,
    device_properties_pb2,
    meta_graph_pb2,
    rewriter_config_pb2,
)
from tensorflow.python.eager import context
from tensorflow.python.grappler import cluster as grappler_cluster
from tensorflow.python.grappler import tf_optimizer


def base_config() -> config_pb2.ConfigProto:
    """A copy of the eager context's base ConfigProto, from which all function configs derive."""
    config = context.context()._config
    copy = config_pb2.ConfigProto()
    if config is not None:
        copy.CopyFrom(config)
    return copy


def set_base_config(config: config_pb2.ConfigProto) -> None:
    """Sets the base ConfigProto of the eager context, and drops this thread's cached call options.

    TensorFlow's public setter forwards a fixed list of toggles and drops custom optimizers, hence
    this way. Other
    threads that have called functions before keep their options, as with TensorFlow's own setters.
    """
    ctx = context.context()
    ctx._config = config
    ctx._thread_local_data.function_call_options = None


def inline_functions(
    graph_def: graph_pb2.GraphDef, *, fetch: Iterable[str], feed: Iterable[str]
) -> graph_pb2.GraphDef:
    """The graph with function calls inlined and functional control flow lowered, by Grappler alone.

    Args:
      graph_def: the graph, which is not changed.
      fetch: names of tensors and ops that must stay; at least one.
      feed: names of tensors that must stay.

    Raises:
      tf.errors.OpError: Grappler cannot read the graph.
    """
    meta_graph = meta_graph_pb2.MetaGraphDef()
    meta_graph.graph_def.CopyFrom(graph_def)
    signature = meta_graph.signature_def["main"]
    # Feeds as fetches: as feeds, Grappler would ask for their types and make tensors for them.
    for number, name in enumerate([*fetch, *feed]):
        signature.outputs[f"{number:06}"].name = name
    config = config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.min_graph_nodes = -1
    rewrite.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    # A list of optimizers is the whole list.
    rewrite.optimizers.append("function")
    rewrite.function_optimization = rewriter_config_pb2.RewriterConfig.AGGRESSIVE
    # On paper: with none, Grappler would start up the devices of this machine.
    cluster = grappler_cluster.Cluster(
        devices=[
            device_properties_pb2.NamedDevice(
                name="/job:localhost/replica:0/task:0/device:CPU:0",
                properties=device_properties_pb2.DeviceProperties(type="CPU", num_cores=1),
            )
        ]
    )
    return tf_optimizer.OptimizeGraph(config, meta_graph, cluster=cluster)
