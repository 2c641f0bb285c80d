"""Graphs to plan: from files, SavedModels and functions."""

import importlib
import os
import pathlib
import re
import sys
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from google.protobuf import message, text_format
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from grappler_go import _tf_private, cost_graph, files, profiled_graph
from grappler_go.cost_graph import check_devices
from grappler_go.errors import BadInput, plain
from grappler_go.graph_input import GraphInput
from grappler_go.profiled_graph import read_split

__all__ = [
    "SIGNATURE",
    "GraphInput",
    "call",
    "check_devices",
    "read",
    "read_saved_model",
    "read_split",
    "serving_graph",
]

SIGNATURE = "serving_default"

_SUFFIXES = (".pb", ".pbtxt", ".json")
_FUNCTION = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<function>[A-Za-z_][\w.]*)")
_SERVE = "serve"
# TensorFlow's own signature of a SavedModel, which sets up its variables.
_INITIALIZER = "__saved_model_init_op"


def read(source: str | os.PathLike[str], *, signature: str = SIGNATURE) -> GraphInput:
    """Reads a graph.

    Args:
      source: one of
        a SavedModel directory: the part of the graph that computes the signature, with its
          functions inlined as Grappler does; fetches and feeds are the signature's;
        a GraphDef or MetaGraphDef, .pb or .pbtxt: the graph as it is; fetches and feeds are those
          of the MetaGraphDef's signature, where it has the one asked for;
        a CostGraphDef, .pbtxt, or a profiled graph, .json: for the simulator alone;
        "module:function": what the function returns, called without arguments: a tf.Graph or
          GraphDef as it is; a tf.function or ConcreteFunction with its functions inlined.
      signature: of a SavedModel or MetaGraphDef.

    Raises:
      BadInput: there is no such source, or it holds no such graph.
    """
    text = os.fspath(source)
    path = pathlib.Path(text)
    if path.is_dir():
        return _read_saved_model(path, signature)
    if not path.exists() and (match := _FUNCTION.fullmatch(text)):
        return _call(text, match["module"], match["function"])
    if path.suffix not in _SUFFIXES:
        raise BadInput(
            f"{text}: must be a SavedModel directory, a file that ends in "
            f"{', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}, or module:function"
        )
    if path.suffix == ".json":
        return profiled_graph.parse_graph(text, files.read_text(path))
    return _read_proto(text, files.read_bytes(path), path.suffix == ".pbtxt", signature)


def _read_proto(source: str, data: bytes, is_text: bool, signature: str) -> GraphInput:
    graph_def, meta_graph = graph_pb2.GraphDef(), meta_graph_pb2.MetaGraphDef()
    if _parse(data, is_text, graph_def) and graph_def.node:
        return GraphInput(source=source, graph_def=graph_def)
    if _parse(data, is_text, meta_graph) and meta_graph.graph_def.node:
        signatures = meta_graph.signature_def
        known = signature in signatures
        return GraphInput(
            source=source,
            graph_def=meta_graph.graph_def,
            fetch=_tensors(signatures[signature].outputs.values()) if known else (),
            feed=_tensors(signatures[signature].inputs.values()) if known else (),
        )
    if is_text and b"node" in data:
        try:
            return cost_graph.parse_cost_graph(source, data.decode())
        except UnicodeDecodeError as error:
            raise BadInput(f"{source}: not text: {error.reason} at byte {error.start}") from error
    kinds = "GraphDef, MetaGraphDef nor CostGraphDef" if is_text else "GraphDef nor MetaGraphDef"
    raise BadInput(f"{source}: neither a {kinds} with nodes")


def _parse(data: bytes, is_text: bool, proto: message.Message) -> bool:
    try:
        if is_text:
            text_format.Parse(data.decode(), proto)
        else:
            proto.ParseFromString(data)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError):
        return False
    return True


def read_saved_model(directory: str | os.PathLike[str]) -> saved_model_pb2.SavedModel:
    """Reads what a SavedModel directory says of its graphs.

    Raises:
      BadInput: it is no SavedModel.
    """
    model = saved_model_pb2.SavedModel()
    path = _saved_model_file(directory)
    if not _parse(files.read_bytes(path), path.suffix == ".pbtxt", model):
        raise BadInput(f"{path}: not a SavedModel")
    return model


def serving_graph(
    directory: str | os.PathLike[str], model: saved_model_pb2.SavedModel
) -> meta_graph_pb2.MetaGraphDef:
    """The graph of a SavedModel that is for serving, or its only one.

    Raises:
      BadInput: there are several others.
    """
    return _serving(_saved_model_file(directory), model)


def _saved_model_file(directory: str | os.PathLike[str]) -> pathlib.Path:
    binary = pathlib.Path(directory) / "saved_model.pb"
    text = binary.with_suffix(".pbtxt")
    return text if text.exists() and not binary.exists() else binary


def _read_saved_model(directory: pathlib.Path, signature: str) -> GraphInput:
    path, model = _saved_model_file(directory), read_saved_model(directory)
    meta_graph = _serving(path, model)
    signatures = meta_graph.signature_def
    if signature not in signatures:
        known = sorted(set(signatures) - {_INITIALIZER})
        raise BadInput(
            f"{path}: no signature '{signature}'; known are {', '.join(known) or 'none'}"
        )
    fetch = _tensors(signatures[signature].outputs.values())
    feed = _tensors(signatures[signature].inputs.values())
    needed = _ancestors(path, meta_graph.graph_def, [*fetch, *feed])
    return _inlined(str(directory), needed, fetch, feed)


def _ancestors(
    path: pathlib.Path, graph_def: graph_pb2.GraphDef, tensors: Iterable[str]
) -> graph_pb2.GraphDef:
    """The ops that the tensors come from, in their order; the function library stays whole."""
    nodes = {node.name: node for node in graph_def.node}
    needed = set()
    pending = [_op(name) for name in tensors]
    while pending:
        name = pending.pop()
        if name in needed:
            continue
        if name not in nodes:
            raise BadInput(f"{path}: no op '{name}', which the signature or another op reads")
        needed.add(name)
        pending += [_op(text.removeprefix("^")) for text in nodes[name].input]
    return graph_pb2.GraphDef(
        node=[node for node in graph_def.node if node.name in needed],
        library=graph_def.library,
        versions=graph_def.versions,
    )


def _serving(path: pathlib.Path, model: saved_model_pb2.SavedModel) -> meta_graph_pb2.MetaGraphDef:
    """The graph for serving, or the only one."""
    graphs = [each for each in model.meta_graphs if list(each.meta_info_def.tags) == [_SERVE]]
    graphs = graphs or list(model.meta_graphs)
    if len(graphs) != 1:
        tags = "; ".join(", ".join(each.meta_info_def.tags) for each in model.meta_graphs)
        raise BadInput(f"{path}: no graph has the tag '{_SERVE}' alone; tags are: {tags or 'none'}")
    return graphs[0]


def _inlined(
    source: str, graph_def: graph_pb2.GraphDef, fetch: Iterable[str], feed: Iterable[str]
) -> GraphInput:
    fetch, feed = tuple(fetch), tuple(feed)
    try:
        flat = _tf_private.inline_functions(graph_def, fetch=fetch, feed=feed)
    except tf.errors.OpError as error:
        raise BadInput(
            f"{source}: its functions cannot be inlined: {plain(error.message)}"
        ) from error
    return GraphInput(source=source, graph_def=flat, fetch=fetch, feed=feed)


def _tensors(infos: Iterable[meta_graph_pb2.TensorInfo]) -> tuple[str, ...]:
    """The names of the tensors, of those that sparse and composite ones are made of too."""
    names: list[str] = []
    for info in infos:
        match info.WhichOneof("encoding"):
            case "coo_sparse":
                sparse = info.coo_sparse
                names += [
                    sparse.values_tensor_name,
                    sparse.indices_tensor_name,
                    sparse.dense_shape_tensor_name,
                ]
            case "composite_tensor":
                names += _tensors(info.composite_tensor.components)
            case _:
                names.append(info.name)
    return tuple(sorted(set(names)))


def _op(tensor: str) -> str:
    return tensor.partition(":")[0]


def call(source: str, module_name: str, function_name: str) -> Any:
    """Returns what a user's function returns, called without arguments.

    Raises:
      BadInput: whatever it raises, in words.
    """
    try:
        return _attribute(module_name, function_name)()
    # Whatever the function raises.
    except Exception as error:
        raise BadInput(f"{source}: {plain(f'{type(error).__name__}: {error}')}") from error


def _attribute(module_name: str, function_name: str) -> Any:
    value = _import(module_name)
    for part in function_name.split("."):
        value = getattr(value, part)
    return value


def _call(source: str, module_name: str, function_name: str) -> GraphInput:
    """Makes the graph by the user's function; what it raises is the user's to see in words."""
    try:
        value = _attribute(module_name, function_name)
        is_graph = isinstance(value, tf.Graph | graph_pb2.GraphDef) or _is_traceable(value)
        if not is_graph:
            value = value()
        if _is_traceable(value) and not _is_concrete(value):
            value = value.get_concrete_function()
    # Whatever the function raises.
    except Exception as error:
        words = plain(f"{type(error).__name__}: {error}")
        raise BadInput(f"{source}: {words}") from error
    if isinstance(value, graph_pb2.GraphDef):
        return GraphInput(source=source, graph_def=value)
    if isinstance(value, tf.Graph):
        return GraphInput(source=source, graph_def=value.as_graph_def())
    if _is_concrete(value):
        graph = value.graph
        return _inlined(
            source,
            graph.as_graph_def(),
            fetch=[*(t.name for t in graph.outputs), *(op.name for op in graph.control_outputs)],
            feed=[t.name for t in graph.inputs],
        )
    raise BadInput(
        f"{source}: returns a {type(value).__name__}, must be a tf.Graph, a GraphDef, a "
        "tf.function or a ConcreteFunction"
    )


def _import(name: str) -> Any:
    """Imports a module, of the working directory too, as `python -m` does."""
    directory = os.getcwd()
    added = directory not in sys.path
    if added:
        sys.path.insert(0, directory)
    try:
        return importlib.import_module(name)
    finally:
        if added:
            sys.path.remove(directory)


def _is_concrete(value: Any) -> bool:
    return isinstance(value, tf.types.experimental.ConcreteFunction)


def _is_traceable(value: Any) -> bool:
    """Whether it is a tf.function or what one became for given arguments."""
    return _is_concrete(value) or isinstance(value, tf.types.experimental.PolymorphicFunction)
