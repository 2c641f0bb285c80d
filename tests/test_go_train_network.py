"""Tests of the policy network and the losses."""

from __future__ import annotations

import numpy as np
import pytest

try:
    import go_train  # noqa: F401  Settles Keras 2; before tensorflow.
except ImportError as error:
    if "TF_USE_LEGACY_KERAS" not in str(error):
        raise
    pytest.skip(f"needs a process of its own: {error}", allow_module_level=True)

import tensorflow as tf
from go_train import losses
from go_train.encoder import MaxPoolConvolution, device_rank, op_graph_tensor
from go_train.heads import ILLEGAL_LOGIT
from go_train.layers import Standardize
from go_train.network import PolicyNetwork
from go_train.network_config import NetworkConfig
from go_train.table import FeatureTable, feature_moments
from go_train.testing import TABLE, make_alike, permute_devices, random_features


@pytest.fixture(scope="module")
def network() -> PolicyNetwork:
    tf.keras.utils.set_random_seed(1)
    network = PolicyNetwork(NetworkConfig(width=16, score_width=8, op_type_width=4), TABLE)
    network.set_moments(feature_moments([random_features(30, 3, seed=9)]))
    return network


def test_feature_table_counts_and_finds():
    assert [TABLE.width(group) for group in ("node", "node_device", "link")] == [5, 2, 2]
    assert TABLE.column("node_device/log_relative_time") == 1
    assert FeatureTable.from_rows(TABLE.rows) == TABLE


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "last row is None"),
        (["node/a", "version/2"], "last row is 'version/2', want 'version/1'"),
        (["nodes/a", "version/1"], "row 'nodes/a'"),
        (["node/a", "node/a", "version/1"], "row 'node/a' appears more than once"),
    ],
)
def test_feature_table_refuses(rows, message):
    with pytest.raises(ValueError, match=message):
        FeatureTable.from_rows(rows)


def test_feature_table_names_missing_row():
    with pytest.raises(ValueError, match="no row 'node/size'"):
        TABLE.column("node/size")


@pytest.mark.parametrize("value", [0, -1, 1.5, "two"])
def test_network_config_refuses(value):
    with pytest.raises(ValueError, match=r"NetworkConfig\.layers: want an integer"):
        NetworkConfig(layers=value)


@pytest.mark.parametrize(("ops", "devices"), [(2, 1), (5, 2), (17, 5), (9, 20)])
def test_any_number_of_ops_and_devices(network, ops, devices):
    logits = network(random_features(ops, devices))
    assert logits.shape == (ops, devices)
    assert np.isfinite(logits).all()


def test_illegal_devices_are_masked(network):
    features = random_features(12, 4)
    logits = network(features).numpy()
    illegal = features["node_device_mask"] == 0
    assert illegal.any()
    assert (logits[illegal] == np.float32(ILLEGAL_LOGIT)).all()
    assert (np.abs(logits[~illegal]) < 1e4).all()


def test_graph_without_edges(network):
    features = random_features(6, 2)
    for name in ("edge_source", "edge_target", "edge_features"):
        features[name] = features[name][:0]
    assert np.isfinite(network(features)).all()


def test_permuting_devices_permutes_the_answer(network):
    features = random_features(25, 5)
    order = np.array([3, 0, 4, 1, 2])
    logits = network(features).numpy()
    permuted = network(permute_devices(features, order)).numpy()
    np.testing.assert_allclose(permuted, logits[:, order], rtol=1e-5, atol=1e-5)


def test_look_alikes_keep_their_order_wherever_they_stand(network):
    features = make_alike(random_features(25, 5), [1, 2, 4])
    order = np.array([4, 0, 3, 1, 2])  # Positions 0, 3, 4 are the look-alikes now.
    logits = network(features).numpy()
    permuted = network(permute_devices(features, order)).numpy()
    same_rank = np.array([1, 0, 3, 2, 4])
    np.testing.assert_allclose(permuted, logits[:, same_rank], rtol=1e-5, atol=1e-5)


def test_look_alikes_get_unlike_scores(network):
    logits = network(make_alike(random_features(25, 3), [0, 1, 2])).numpy()
    assert np.abs(logits[:, 0] - logits[:, 1]).max() > 1e-3


def test_permuting_ops_permutes_the_answer(network):
    features = random_features(15, 3)
    order = np.random.default_rng(3).permutation(15)
    position = np.argsort(order).astype(np.int32)
    moved = dict(features)
    for name in (
        "node_features",
        "op_type",
        "node_device_features",
        "node_device_mask",
        "op_group",
    ):
        moved[name] = features[name][order]
    for name in ("edge_source", "edge_target"):
        moved[name] = position[features[name]]
    logits = network(features).numpy()
    np.testing.assert_allclose(network(moved).numpy(), logits[order], rtol=1e-4, atol=1e-5)


def test_device_rank_counts_look_alikes_before():
    features = make_alike(random_features(7, 5), [1, 2, 4])
    rank, size = device_rank({name: tf.constant(value) for name, value in features.items()})
    assert rank.numpy().tolist() == [0, 0, 1, 0, 2]
    assert size.numpy().tolist() == [1, 3, 3, 1, 3]


def test_a_pinned_op_ends_the_likeness():
    features = make_alike(random_features(7, 3), [0, 1, 2])
    features["node_device_mask"][4] = [0, 1, 0]
    rank, _ = device_rank({name: tf.constant(value) for name, value in features.items()})
    assert rank.numpy().tolist() == [0, 0, 1]


def test_two_equal_hosts_of_two_devices_are_told_apart():
    features = make_alike(random_features(4, 4), [0, 1, 2, 3])
    for a in range(4):
        for b in range(4):
            features["link_features"][a, b] = 0.5 if a // 2 == b // 2 else 0.9
    rank, _ = device_rank({name: tf.constant(value) for name, value in features.items()})
    assert rank.numpy().tolist() == [0, 1, 2, 3]


def test_standardised_features_and_those_that_never_varied():
    layer = Standardize()
    layer(tf.zeros([1, 3]))  # Creates the moments.
    layer.set_moments(np.array([1.0, 0.0, 5.0]), np.array([2.0, 0.1, 0.0]))
    scaled = layer(tf.constant([[3.0, 9.0, 6.0]])).numpy()
    np.testing.assert_allclose(scaled, [[1.0, 8.0, 0.0]])


def test_max_pool_convolution_against_its_formula():
    features = random_features(6, 2)
    graph = op_graph_tensor({name: tf.constant(value) for name, value in features.items()})
    states = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    graph = graph.replace_features(
        node_sets={"op": {"hidden_state": states}},
        edge_sets={"flow": {"edge_state": features["edge_features"]}},
    )
    layer = MaxPoolConvolution(4)
    pooled = layer(graph, edge_set_name="flow").numpy()
    node, edge, bias = (w.numpy() for w in layer.weights)
    expected = np.zeros([6, 4], np.float32)
    ends = zip(features["edge_source"], features["edge_target"], strict=True)
    for (s, t), x in zip(ends, features["edge_features"], strict=True):
        message = np.maximum(states[s] @ node + x @ edge + bias, 0.0)
        expected[t] = np.maximum(expected[t], message)
    np.testing.assert_allclose(pooled, expected, rtol=1e-5, atol=1e-6)
    assert (pooled[0] == 0).all()  # No edge ends at op 0.


def test_cross_entropy_against_hand_computed_number():
    # Op 0: softmax(0, ln 3) = (1/4, 3/4), label 1, weight 1 -> -ln(3/4).
    # Op 1: device 1 illegal, label 0, weight 2 -> 0.
    # Op 2: even odds, label 0, weight 3 -> ln 2.
    logits = tf.constant([[0.0, np.log(3.0)], [5.0, ILLEGAL_LOGIT], [2.0, 2.0]], tf.float32)
    loss = losses.placement_cross_entropy(
        logits, tf.constant([1, 0, 0]), tf.constant([1.0, 2.0, 3.0])
    )
    assert float(loss) == pytest.approx((np.log(4 / 3) + 3 * np.log(2)) / 6, rel=1e-6)


def test_loss_and_accuracy_without_weight_are_zero():
    arguments = tf.zeros([2, 2]), tf.constant([0, 1]), tf.zeros([2])
    assert float(losses.placement_cross_entropy(*arguments)) == 0.0
    assert float(losses.placement_accuracy(*arguments)) == 0.0


def test_accuracy_is_weighted():
    logits = tf.constant([[1.0, 0.0], [1.0, 0.0]])
    accuracy = losses.placement_accuracy(logits, tf.constant([0, 1]), tf.constant([3.0, 1.0]))
    assert float(accuracy) == 0.75


@pytest.mark.parametrize(
    ("logits", "labels", "weights"),
    [
        (tf.zeros([2]), tf.constant([0, 1]), tf.zeros([2])),
        (tf.zeros([2, 2]), tf.constant([[0], [1]]), tf.zeros([2])),
        (tf.zeros([2, 2]), tf.constant([0.0, 1.0]), tf.zeros([2])),
    ],
)
def test_losses_refuse_wrong_rank_or_type(logits, labels, weights):
    with pytest.raises((ValueError, TypeError)):
        losses.placement_cross_entropy(logits, labels, weights)
