"""Baking: a SavedModel with a plan in it, which TensorFlow serves without this library."""

import os
import pathlib
import shutil
import tempfile

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from grappler_go import inputs, plans
from grappler_go.errors import BadInput, plain

_CARRIED = ("variables", "assets", "assets.extra")


def bake(
    saved_model_dir: str | os.PathLike[str],
    plan: plans.Plan,
    out_dir: str | os.PathLike[str],
    *,
    signature: str = inputs.SIGNATURE,
) -> None:
    """Writes a SavedModel whose signature runs as planned: devices, clusters and order are in it.

    The signature's functions are inlined; other signatures, variables and assets stay as they were.
    The Python objects of the model are left out: what loads it finds its signatures. Its directory
    appears whole or not at all.

    Args:
      saved_model_dir: the model.
      plan: what `plan` returned for it and the same signature.
      out_dir: must not exist yet.
      signature: which one is planned.

    Raises:
      BadInput: no such model or signature, the plan is not of it or not legal for it, or the
        directory exists or cannot be written.
    """
    source, out = pathlib.Path(saved_model_dir), pathlib.Path(out_dir)
    if out.exists():
        raise BadInput(f"{out}: exists already")
    graph = inputs.read(source, signature=signature)
    try:
        planned = plans.apply(graph.graph_def, plan, fetch=graph.fetch, feed=graph.feed)
    except tf.errors.OpError as error:
        raise BadInput(f"{source}: the plan does not fit: {plain(error.message)}") from error
    model = inputs.read_saved_model(source)
    meta_graph = inputs.serving_graph(source, model)
    _replace_nodes(meta_graph, planned)
    # With the object graph, loaders would look for the functions that are inlined now.
    meta_graph.ClearField("object_graph_def")
    baked = saved_model_pb2.SavedModel(
        saved_model_schema_version=model.saved_model_schema_version, meta_graphs=[meta_graph]
    )
    try:
        _write(source, baked, out)
    except OSError as error:
        raise BadInput(f"{error.filename or out}: {error.strerror}") from error


def _replace_nodes(
    meta_graph: meta_graph_pb2.MetaGraphDef, planned: "tf.compat.v1.GraphDef"
) -> None:
    """Puts the planned nodes in place of those of their names, and adds the others."""
    names = {node.name for node in planned.node}
    kept = [node for node in meta_graph.graph_def.node if node.name not in names]
    library = {function.signature.name for function in meta_graph.graph_def.library.function}
    added = [
        function for function in planned.library.function if function.signature.name not in library
    ]
    merged = type(meta_graph.graph_def)(
        node=[*planned.node, *kept],
        library=meta_graph.graph_def.library,
        versions=meta_graph.graph_def.versions,
    )
    merged.library.function.extend(added)
    meta_graph.graph_def.CopyFrom(merged)


def _write(source: pathlib.Path, model: saved_model_pb2.SavedModel, out: pathlib.Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = pathlib.Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        (aside / "saved_model.pb").write_bytes(model.SerializeToString(deterministic=True))
        for part in _CARRIED:
            if (source / part).is_dir():
                shutil.copytree(source / part, aside / part)
        aside.chmod(0o755)  # mkdtemp's is for its owner alone.
        aside.rename(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
