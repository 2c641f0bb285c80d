"""Writes a trained policy as the SavedModel that the C++ side runs.

The model is one flat graph with the weights as constants: no variables, no function calls, and only
ops that stock TensorFlow registers. It loads with neither TF-GNN nor Keras installed.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
from collections.abc import Sequence

import tensorflow as tf
from absl import logging
from tensorflow.python.framework import convert_to_constants

from go_train.learner import load_network
from go_train.network import PolicyNetwork
from go_train.table import FeatureTable, input_signature

OUTPUT = "placement_logits"
PRIORITY_OUTPUT = "priority_logits"
FUSION_OUTPUT = "fusion_logits"
OUTPUTS = (OUTPUT, PRIORITY_OUTPUT, FUSION_OUTPUT)
TABLE_SIGNATURE = "feature_table"
TABLE_OUTPUT = "names"
MAX_BYTES = 8 * 1024 * 1024


def frozen_graph(network: PolicyNetwork) -> tf.Graph:
    """Returns the inference graph of `network`, weights as constants.

    Its placeholders have the names of the inputs, its results those of the outputs.
    """
    signature = input_signature(network.table)

    def logits(**features: tf.Tensor) -> tuple[tf.Tensor, ...]:
        decisions = network.decide(features)
        return (
            tf.identity(decisions.placement, name=OUTPUT),
            tf.identity(decisions.priority, name=PRIORITY_OUTPUT),
            tf.identity(decisions.fusion, name=FUSION_OUTPUT),
        )

    concrete = tf.function(logits).get_concrete_function(**signature)
    frozen = convert_to_constants.convert_variables_to_constants_v2(
        concrete, aggressive_inlining=True
    )
    graph_def = tf.compat.v1.graph_util.extract_sub_graph(frozen.graph.as_graph_def(), OUTPUTS)
    for node in graph_def.node:
        node.device = ""  # The reader decides.
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(graph_def, name="")
    return graph


def export(network: PolicyNetwork, out: pathlib.Path) -> int:
    """Writes the SavedModel of `network` to directory `out`, replacing what is there.

    Signatures: `serving_default` from the ten inputs to "placement_logits" [ops, devices],
    "priority_logits" [ops, levels] and "fusion_logits" [edges], and `feature_table` from nothing to
    "names", the rows of the feature table. All sizes of ops, edges and devices are free.

    Returns:
        Its size in bytes.

    Raises:
        ValueError: it is larger than MAX_BYTES.
    """
    aside = out.with_name(f"{out.name}.{os.getpid()}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        _write(frozen_graph(network), network.table, aside)
        size = sum(file.stat().st_size for file in aside.rglob("*") if file.is_file())
        if size > MAX_BYTES:
            raise ValueError(f"{out}: the policy has {size} bytes, at most {MAX_BYTES} may ship")
        shutil.rmtree(out, ignore_errors=True)
        os.replace(aside, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    logging.info("wrote %s, %d bytes", out, size)
    return size


def _write(graph: tf.Graph, table: FeatureTable, directory: pathlib.Path) -> None:
    """Writes `graph` with its two signatures to `directory`."""
    v1 = tf.compat.v1
    with graph.as_default():
        names = tf.constant(table.rows, name=TABLE_OUTPUT)
        info = v1.saved_model.build_tensor_info
        inputs = {
            name: info(graph.get_tensor_by_name(f"{name}:0")) for name in input_signature(table)
        }
        outputs = {name: info(graph.get_tensor_by_name(f"{name}:0")) for name in OUTPUTS}
        build = v1.saved_model.build_signature_def
        method = v1.saved_model.signature_constants.PREDICT_METHOD_NAME
        signatures = {
            v1.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: build(
                inputs, outputs, method
            ),
            TABLE_SIGNATURE: build({}, {TABLE_OUTPUT: info(names)}, method),
        }
        with v1.Session(graph=graph) as session:
            builder = v1.saved_model.Builder(str(directory))
            builder.add_meta_graph_and_variables(
                session, [v1.saved_model.tag_constants.SERVING], signature_def_map=signatures
            )
            builder.save()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit code."""
    parser = argparse.ArgumentParser(prog="go_train.export", description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True, help="checkpoint file")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="SavedModel directory")
    options = parser.parse_args(arguments)
    try:
        export(load_network(options.checkpoint), options.out)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
