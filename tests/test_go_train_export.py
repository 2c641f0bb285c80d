"""Tests of the exported policy."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

try:
    import go_train  # noqa: F401  Settles Keras 2; before tensorflow.
except ImportError as error:
    if "TF_USE_LEGACY_KERAS" not in str(error):
        raise
    pytest.skip(f"needs a process of its own: {error}", allow_module_level=True)

import tensorflow as tf
from go_train import clone, export, learner
from go_train.network import PolicyNetwork
from go_train.network_config import NetworkConfig
from go_train.table import feature_moments
from go_train.testing import TABLE, random_features
from tensorflow.core.protobuf import saved_model_pb2

# Modules that are None in sys.modules raise ImportError when imported, as if not installed.
_LOADER = """
import json, sys
for module in ("tensorflow_gnn", "tf_keras", "keras"):
    sys.modules[module] = None
import numpy as np
import tensorflow as tf
signatures = tf.saved_model.load(sys.argv[1]).signatures
with np.load(sys.argv[2]) as file:
    inputs = {name: tf.constant(file[name]) for name in file.files}
np.save(sys.argv[3], signatures["serving_default"](**inputs)["placement_logits"].numpy())
print(json.dumps([name.decode() for name in signatures["feature_table"]()["names"].numpy()]))
"""


@pytest.fixture(scope="module")
def network() -> PolicyNetwork:
    tf.keras.utils.set_random_seed(2)
    network = PolicyNetwork(NetworkConfig(), TABLE)
    network.set_moments(feature_moments([random_features(30, 3, seed=9)]))
    return network


@pytest.fixture(scope="module")
def policy(network, tmp_path_factory):
    directory = tmp_path_factory.mktemp("export") / "policy"
    size = export.export(network, directory)
    assert 0 < size <= export.MAX_BYTES
    return directory


@pytest.mark.parametrize(("ops", "devices"), [(3, 1), (40, 2), (200, 7)])
def test_export_equals_the_network(network, policy, ops, devices):
    signatures = tf.saved_model.load(str(policy)).signatures
    features = {name: tf.constant(value) for name, value in random_features(ops, devices).items()}
    exported = signatures["serving_default"](**features)
    decisions = network.decide(features)
    for name, value in (
        ("placement_logits", decisions.placement),
        ("priority_logits", decisions.priority),
        ("fusion_logits", decisions.fusion),
    ):
        np.testing.assert_allclose(exported[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-5)


def test_export_loads_without_tfgnn_and_keras(network, policy, tmp_path):
    features = random_features(50, 3)
    np.savez(tmp_path / "features.npz", **features)
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            _LOADER,
            policy,
            tmp_path / "features.npz",
            tmp_path / "logits.npy",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    np.testing.assert_allclose(
        np.load(tmp_path / "logits.npy"), network(features).numpy(), rtol=1e-5, atol=1e-5
    )
    assert tuple(json.loads(result.stdout)) == TABLE.rows


def test_export_is_one_flat_file(policy):
    assert [path.name for path in policy.rglob("*") if path.is_file()] == ["saved_model.pb"]
    model = saved_model_pb2.SavedModel.FromString((policy / "saved_model.pb").read_bytes())
    graph = model.meta_graphs[0].graph_def
    assert not graph.library.function
    ops = {node.op for node in graph.node}
    assert not ops & {"VarHandleOp", "ReadVariableOp", "PartitionedCall", "Assert", "NoOp"}
    assert not [node.name for node in graph.node if node.device]


def test_signature_has_the_ten_inputs_with_free_sizes(policy):
    serving = tf.saved_model.load(str(policy)).signatures["serving_default"]
    _, inputs = serving.structured_input_signature
    shapes = {name: tuple(spec.shape) for name, spec in inputs.items()}
    assert shapes == {
        "node_features": (None, 5),
        "op_type": (None,),
        "edge_source": (None,),
        "edge_target": (None,),
        "edge_features": (None, 3),
        "device_features": (None, 2),
        "node_device_features": (None, None, 2),
        "node_device_mask": (None, None),
        "link_features": (None, None, 2),
        "op_group": (None,),
    }


def test_export_replaces_and_leaves_nothing_aside(network, tmp_path):
    directory = tmp_path / "policy"
    directory.mkdir()
    (directory / "stale").write_text("x")
    export.export(network, directory)
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]
    assert not (directory / "stale").exists()


def test_export_refuses_what_is_too_large(network, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="at most 1000 may ship"):
        export.export(network, tmp_path / "policy")
    assert not list(tmp_path.iterdir())


def test_checkpoint_to_network(tmp_path):
    settings = clone.CloneConfig(network=NetworkConfig(width=8, score_width=4))
    trainer = clone.Trainer(settings, TABLE)
    path = tmp_path / "checkpoint.npz"
    clone.checkpoint.save(path, trainer.state(0))
    features = random_features(20, 3)
    np.testing.assert_array_equal(
        learner.load_network(path)(features).numpy(), trainer.network(features).numpy()
    )


def test_main_names_the_missing_checkpoint(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        export.main(["--checkpoint", str(tmp_path / "none.npz"), "--out", str(tmp_path / "p")])
    assert end.value.code == 2
    assert "none.npz" in capsys.readouterr().err
