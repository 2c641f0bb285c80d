"""A user's own model as a workload: what it computes, how it starts and what it is fed."""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from go_bench.workloads import Workload
from go_bench.workloads.workload import layers_by_name
from grappler_go import inputs
from grappler_go.errors import BadInput

v1 = tf.compat.v1

_INITIALIZER = "__saved_model_init_op"
_SEED = 0


def read(source: str, *, batch: int = 1, signature: str = inputs.SIGNATURE) -> Workload:
    """Returns a model that can be run.

    Args:
      source: a SavedModel directory; or module:function, which returns a workload of go_bench or
        a SavedModel's directory.
      batch: size of the dimensions that the signature leaves open.
      signature: of a SavedModel.

    Raises:
      BadInput: there is no such model, or it cannot be fed.
    """
    if pathlib.Path(source).is_dir():
        return _saved_model(pathlib.Path(source), batch, signature)
    module, colon, function = source.partition(":")
    if not colon:
        raise BadInput(f"{source}: must be a SavedModel directory or module:function")
    value = inputs.call(source, module, function)
    if isinstance(value, Workload):
        return value
    if isinstance(value, str | pathlib.Path) and pathlib.Path(value).is_dir():
        return _saved_model(pathlib.Path(value), batch, signature)
    raise BadInput(
        f"{source}: returns a {type(value).__name__}, must be a workload of go_bench or the "
        "directory of a SavedModel"
    )


def _saved_model(directory: pathlib.Path, batch: int, signature: str) -> Workload:
    meta_graph = inputs.serving_graph(directory, inputs.read_saved_model(directory))
    signatures = meta_graph.signature_def
    if signature not in signatures:
        known = sorted(set(signatures) - {_INITIALIZER})
        raise BadInput(
            f"{directory}: no signature '{signature}'; known are {', '.join(known) or 'none'}"
        )
    graph_def = graph_pb2.GraphDef()
    graph_def.CopyFrom(meta_graph.graph_def)
    saver = meta_graph.saver_def
    if saver.filename_tensor_name:
        _set_filename(graph_def, saver.filename_tensor_name, directory / "variables" / "variables")
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
        restore = saver.restore_op_name
        init_op = graph.get_operation_by_name(restore) if restore else tf.no_op(name="go_start")
        wanted = signatures[signature]
        outputs = {
            key: graph.get_tensor_by_name(info.name)
            for key, info in wanted.outputs.items()
            if info.WhichOneof("encoding") == "name"
        }
    if not outputs:
        raise BadInput(
            f"{directory}: signature '{signature}' has no plain tensor among its outputs"
        )
    return Workload(
        name=directory.resolve().name,
        graph=graph,
        init_op=init_op,
        train_op=None,
        loss=next(iter(outputs.values())),
        outputs=outputs,
        layer_of=layers_by_name(graph),
        layers=1,
        feeds=_feeds(directory, wanted, batch),
    )


def _set_filename(graph_def: graph_pb2.GraphDef, tensor: str, prefix: pathlib.Path) -> None:
    """Makes the name of the checkpoint a constant, so that starting needs no feed."""
    name = tensor.partition(":")[0]
    for node in graph_def.node:
        if node.name != name:
            continue
        node.op = "Const"
        del node.input[:]
        node.attr.clear()
        node.attr["dtype"].type = tf.string.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(str(prefix.resolve()), tf.string))


def _feeds(
    directory: pathlib.Path, wanted: meta_graph_pb2.SignatureDef, batch: int
) -> dict[str, object]:
    """Returns random inputs by tensor name: floats of a normal distribution, other numbers 0 or 1.

    Whole numbers may be indices, so they are small.
    """
    random = np.random.default_rng(_SEED)
    feeds: dict[str, object] = {}
    for key, info in sorted(wanted.inputs.items()):
        dtype = tf.as_dtype(info.dtype)
        if info.WhichOneof("encoding") != "name" or info.tensor_shape.unknown_rank:
            raise BadInput(f"{directory}: input '{key}' is no plain tensor of known rank")
        shape = [dim.size if dim.size >= 0 else batch for dim in info.tensor_shape.dim]
        if dtype.is_floating:
            feeds[info.name] = random.standard_normal(shape).astype(dtype.as_numpy_dtype)
        elif dtype.is_integer or dtype.is_bool:
            feeds[info.name] = random.integers(0, 2, shape).astype(dtype.as_numpy_dtype)
        else:
            raise BadInput(f"{directory}: input '{key}' is of type {dtype.name}, not of numbers")
    return feeds
