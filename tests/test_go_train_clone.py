"""Tests of settings, checkpoints, data and behaviour cloning."""

from __future__ import annotations

import dataclasses
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
from go_train import checkpoint, clone, config, dataset, evaluate, graphs, splits
from go_train import devices as devices_lib
from go_train import labels as labels_lib
from go_train.clone import CloneConfig
from go_train.dataset import DatasetConfig
from go_train.network_config import NetworkConfig
from go_train.table import FeatureTable
from go_train.testing import TABLE, learnable_examples, make_alike, random_features

import grappler_go

SMALL = CloneConfig(
    steps=12,
    graphs_per_step=2,
    learning_rate=1e-2,
    warmup_steps=2,
    checkpoint_every=4,
    validate_every=6,
    early_rounds=0.25,
    network=NetworkConfig(
        width=8,
        layers=1,
        op_type_width=4,
        device_width=4,
        score_width=8,
        attention_heads=2,
        rounds=2,
    ),
)


def _weights(trainer: clone.Trainer) -> list[np.ndarray]:
    return checkpoint.values_of(trainer.network.variables)


def _train(out, settings=SMALL, on_step=lambda step, loss: None) -> clone.Trainer:
    examples = {"train": learnable_examples(5), "validation": learnable_examples(2)}
    return clone.train(settings, examples, table=TABLE, out=out, on_step=on_step)


def test_import_guard_names_the_fix():
    code = "import tensorflow, go_train"
    env = {"PATH": "", "PYTHONPATH": ":".join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert result.returncode == 1
    assert "set TF_USE_LEGACY_KERAS=1" in result.stderr.splitlines()[-1]


def test_config_round_trip():
    values = json.loads(json.dumps(config.to_dict(SMALL)))
    assert config.from_dict(CloneConfig, values) == SMALL


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"step": 3}, "config: unknown key 'step'; known keys are steps, "),
        ({"network": {"depth": 3}}, "config.network: unknown key 'depth'"),
        ({"steps": "3"}, "config.steps: want int, got '3'"),
        ({"steps": True}, "config.steps: want int, got True"),
        ({"steps": 0}, "CloneConfig.steps: want at least 1, got 0"),
        ({"network": 3}, "config.network: want NetworkConfig, got 3"),
        ({"data": {"device_sets": [2]}}, "config.data.device_sets: want str, got 2"),
        ({"data": {"device_sets": ["tpus:2"]}}, "DatasetConfig.device_sets: want .*'tpus:2'"),
        ({"data": {"held_out": "lstm"}}, "DatasetConfig.held_out: want one of rnnlm, .*'lstm'"),
        ({"data": {"teacher": {"search": -1}}}, "TeacherConfig.search: want at least 0, got -1"),
        ({"network": {"rounds": 0}}, "NetworkConfig.rounds: want an integer of at least 1"),
        ({"data": {"families": ["rnn"]}}, "DatasetConfig.families: want names out of .*'rnn'"),
    ],
)
def test_config_refuses(values, message):
    with pytest.raises(ValueError, match=message):
        config.from_dict(CloneConfig, values)


def test_settings_file_and_steps(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text('{"steps": 5, "seed": 7}')
    assert clone.settings_from_arguments(9, path) == CloneConfig(steps=9, seed=7)
    path.write_text("[1]")
    with pytest.raises(ValueError, match="want a JSON object, got list"):
        clone.settings_from_arguments(None, path)
    path.write_text("{")
    with pytest.raises(ValueError, match=r"settings\.json: not JSON"):
        clone.settings_from_arguments(None, path)


def test_main_refuses_a_bad_setting_with_exit_code_2(tmp_path, capsys):
    path = tmp_path / "settings.json"
    path.write_text('{"speed": 5}')
    with pytest.raises(SystemExit) as end:
        clone.main(["--out", str(tmp_path / "out"), "--config", str(path)])
    assert end.value.code == 2
    assert "unknown key 'speed'" in capsys.readouterr().err


def test_learning_rate_rises_then_falls():
    rates = [clone.learning_rate(SMALL, step) for step in range(SMALL.steps)]
    assert rates[0] == pytest.approx(5e-3)
    assert rates[1] == pytest.approx(1e-2)
    assert rates[2] == pytest.approx(1e-2)
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert rates[-1] > 0


def test_every_example_once_an_epoch():
    batches = [clone.batch_indices(SMALL, step, 5) for step in range(5)]  # Two epochs of five.
    seen = np.concatenate(batches)
    assert sorted(seen[:5]) == sorted(seen[5:]) == list(range(5))


def test_cloning_learns_and_logs(tmp_path):
    settings = dataclasses.replace(
        SMALL,
        steps=60,
        validate_every=60,
        checkpoint_every=60,
        network=dataclasses.replace(SMALL.network, rounds=1),
    )
    trainer = _train(tmp_path, settings)
    _, accuracy = trainer.validate(learnable_examples(5))
    assert accuracy > 0.9
    (row,) = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert row["step"] == 60
    assert row["validation_loss"] < row["loss"] < 0.7
    assert json.loads((tmp_path / "config.json").read_text())["steps"] == 60


@pytest.fixture
def eager():
    """A few updates are quicker without compiling them."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.usefixtures("eager")
def test_same_seed_same_weights_and_resume_after_a_kill(tmp_path):
    settings = dataclasses.replace(SMALL, steps=6, validate_every=6, checkpoint_every=2)
    whole = _train(tmp_path / "whole", settings)

    def kill(step, loss):
        del loss
        if step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _train(tmp_path / "broken", settings, on_step=kill)
    assert checkpoint.load(tmp_path / "broken" / "checkpoint.npz").step == 2
    steps = []
    resumed = _train(tmp_path / "broken", settings, on_step=lambda step, loss: steps.append(step))
    assert steps[0] == 3
    for a, b in zip(_weights(whole), _weights(resumed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_resume_refuses_other_settings(tmp_path):
    state = clone.Trainer(SMALL, TABLE).state(4)
    checkpoint.save(tmp_path / checkpoint.FILE_NAME, state)
    other = dataclasses.replace(SMALL, network=dataclasses.replace(SMALL.network, width=6))
    with pytest.raises(ValueError, match=r"config\.network\.width is 6 here and 8 there"):
        _train(tmp_path, other)


def test_training_without_examples_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no training examples"):
        clone.train(SMALL, {"train": []}, table=TABLE, out=tmp_path)


def test_checkpoint_keeps_order_and_refuses_garbage(tmp_path):
    path = tmp_path / checkpoint.FILE_NAME
    arrays = {"network": [np.full([i + 1], i) for i in range(12)]}
    checkpoint.save(path, checkpoint.Checkpoint(3, {"a": 1}, ("version/1",), arrays))
    assert [p.name for p in tmp_path.iterdir()] == [checkpoint.FILE_NAME]
    state = checkpoint.load(path)
    assert state.step == 3
    assert state.config == {"a": 1}
    assert [len(array) for array in state.arrays["network"]] == list(range(1, 13))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="not a checkpoint"):
        checkpoint.load(path)
    path.write_text("x")
    with pytest.raises(ValueError, match="not a checkpoint"):
        checkpoint.load(path)


def test_checkpoint_names_the_variable_that_does_not_fit():
    trainer = clone.Trainer(SMALL, TABLE)
    values = _weights(trainer)
    with pytest.raises(ValueError, match="network: checkpoint has 1 variables"):
        checkpoint.assign(trainer.network.variables, values[:1], what="network")
    values[0] = values[0][:-1]
    with pytest.raises(ValueError, match=f"variable {trainer.network.variables[0].name} has"):
        checkpoint.assign(trainer.network.variables, values, what="network")


def test_look_alikes_are_renamed_by_when_their_work_comes():
    features = make_alike(random_features(6, 4), [0, 2, 3])
    nodes = features["node_features"]
    nodes[:, TABLE.column("node/log_time_share")] = 0.0  # Each as long as the mean.
    nodes[:, TABLE.column("node/downward_rank")] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    # Device 3 works at (0 + 0.5) / 2, device 0 at (0.2 + 0.3) / 2 + a bit, device 2 at 0.4.
    nodes[2, TABLE.column("node/downward_rank")] = 0.25
    labels = np.array([3, 1, 0, 0, 2, 3], np.int32)
    assert labels_lib.canonical_labels(labels, features, TABLE).tolist() == [0, 1, 2, 2, 3, 0]
    features["node_device_mask"][5] = [0, 0, 0, 1]  # Device 3 is now one of its own.
    assert labels_lib.canonical_labels(labels, features, TABLE).tolist() == [3, 1, 0, 0, 2, 3]


def test_interchangeable_needs_equal_links_and_leaves_out_the_incoming_graph():
    features = make_alike(random_features(6, 3), [0, 1, 2])
    features["node_device_features"][2, 1, TABLE.column("node_device/is_incoming")] += 1
    assert labels_lib.interchangeable(features, TABLE).all()
    features["link_features"][0, 1] += 0.1
    same = labels_lib.interchangeable(features, TABLE)
    assert not (same & ~np.eye(3, dtype=bool)).any()


def test_weights_grow_with_time_and_leave_out_ops_without_a_choice():
    mask = np.array([[1, 1], [1, 0], [1, 1]])
    weights = labels_lib.node_weights(np.array([0.0, 5.0, 3.0]), mask)
    np.testing.assert_allclose(weights, [0.5 * 2 / 3, 0.0, 2.5 * 2 / 3], rtol=1e-6)
    assert labels_lib.node_weights(np.ones(2), np.array([[1, 0], [0, 1]])).tolist() == [0.0, 0.0]


def test_profiles_name_every_device_type():
    for devices in (
        devices_lib.cpu_workers(4, np.random.default_rng(0)),
        devices_lib.gpu_host(2, np.random.default_rng(0)),
    ):
        profile = json.loads(devices.profile)
        types = {name.rpartition("device:")[2].partition(":")[0] for name in devices.names}
        assert profile["version"] == 1
        assert types == set(profile["devices"])
        assert all(value > 0 for link in profile["links"] for value in list(link.values())[3:])


@pytest.mark.parametrize("family", sorted(graphs.FAMILIES))
def test_random_graphs_are_reproducible(family):
    graph = graphs.random_graph(family, 8, training=False)
    assert graph.graph_def == graphs.random_graph(family, 8, training=False).graph_def
    assert len(graph.graph_def.node) > 20
    names = {node.name for node in graph.graph_def.node}
    assert {name.partition(":")[0] for name in (*graph.fetch, *graph.feed)} <= names


def test_training_graphs_update_their_variables():
    graph = graphs.random_graph("experts", 0, training=True)
    ops = [node.op for node in graph.graph_def.node]
    assert ops.count("AssignSubVariableOp") == ops.count("VarHandleOp") == len(graph.fetch) - 1


def test_keras_graph():
    graph = graphs.keras_graph("dense", training=True)
    assert sum(node.op == "MatMul" for node in graph.graph_def.node) >= 8
    with pytest.raises(ValueError, match=r"model_name: want one of .*'vgg'"):
        graphs.keras_graph("vgg", training=True)


def test_samples_start_with_the_best_of_each_level_and_obey_the_mask():
    logits = np.array([[3.0, 1.0, -1e9], [0.0, 1.5, 0.0], [0.0, 3.0, -1e9]], np.float32)
    mask = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 0]])
    blocks = np.array([[0, 1, 2], [0, 0, 1]])
    drawn = evaluate.sample_placements(logits, blocks, mask, samples=64, seed=0)
    assert drawn.shape == (64, 3)
    assert drawn.dtype == np.int32
    assert drawn[0].tolist() == [0, 1, 1]
    assert drawn[1].tolist() == [0, 0, 1]  # Means 1.5 and 1.25 of the first two.
    assert set(drawn[:, 0]) == {0, 1}
    assert set(drawn[:, 2]) <= {0, 1}
    assert (drawn[1::2, 0] == drawn[1::2, 1])[drawn[1::2, 1] != 2].all()
    assert (drawn == evaluate.sample_placements(logits, blocks, mask, samples=64, seed=0)).all()


def test_summary_is_geometric():
    def row(best):
        return evaluate.Score(
            name="a",
            family="b",
            ops=5,
            devices=2,
            accuracy=0.5,
            greedy_us=200.0,
            best_us=best,
            feasible=True,
            label_us=80.0,
            list_us=100.0,
            single_us=160.0,
            incoming_us=320.0,
        )

    summary = evaluate.summarize([row(50.0), row(200.0)])
    assert summary.best_over_list == pytest.approx(1.0)
    assert summary.greedy_over_list == pytest.approx(0.5)
    assert summary.best_over_label == pytest.approx(0.8)
    assert summary.best_over_single == pytest.approx(1.6)
    assert summary.best_over_incoming == pytest.approx(3.2)
    assert summary.label_over_list == pytest.approx(1.25)
    assert summary.infeasible == 0


def _load(settings: DatasetConfig, folder) -> dict[str, list[dataset.Example]]:
    table = FeatureTable.from_rows(grappler_go.feature_table())
    return dataset.load(settings, table=table, op_graph=grappler_go.OpGraph, folder=folder)


SMALL_DATA = DatasetConfig(
    workloads=(),
    families=("lstm", "experts"),
    graphs_per_family=2,
    keras_models=("dense",),
    device_sets=("workers:2", "gpus:4"),
    sets_per_graph=0,
    teacher=labels_lib.TeacherConfig(search=50),
    validation_every=2,
    max_nodes=2000,
)


def test_data_from_the_library_and_from_its_folder(tmp_path):
    examples = _load(SMALL_DATA, tmp_path)
    assert {len(examples[split]) for split in ("train", "validation")} == {6}
    assert not examples["held_out"]
    for example in examples["validation"]:
        rows = np.arange(len(example.labels))
        assert (example.features["node_device_mask"][rows, example.labels] > 0).all()
        plans = np.stack([example.labels, example.plan.placement])
        renamed, teacher = example.graph.simulate(plans, example.priority[None]).step_us
        assert renamed == pytest.approx(teacher, rel=1e-6)
        assert teacher == pytest.approx(example.plan.step_us)
    made = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = _load(SMALL_DATA, tmp_path)
    assert made == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    for a, b in zip(examples["train"], again["train"], strict=True):
        assert a.name == b.name and a.plan.step_us == b.plan.step_us
        np.testing.assert_array_equal(a.labels, b.labels)


def test_a_held_out_family_and_its_kin_are_never_trained_on(tmp_path):
    settings = dataclasses.replace(
        SMALL_DATA, workloads=("rnnlm", "wavenet"), graphs_per_workload=2, held_out="rnnlm"
    )
    recipes = list(dataset.recipes(settings))
    used = {
        split: {r.family for r in recipes if r.split == split}
        for split in ("train", "", "validation", "held_out")
    }
    assert used["held_out"] == {"rnnlm"}
    assert used[""] == {"lstm"}
    assert used["train"] == used["validation"] == {"wavenet", "experts", "keras/dense"}
    examples = _load(dataclasses.replace(settings, workloads=()), tmp_path)
    assert {e.family for e in examples["train"]} == {"experts", "keras/dense"}
    assert not list(tmp_path.glob("lstm*"))


def test_every_kin_can_be_held_out():
    known = {r.family for r in dataset.recipes(DatasetConfig())} | {
        "msr/bert",
        "msr/inceptionv3",
        "msr/gnmt",
    }
    for family, kin in splits.KIN.items():
        assert {family, *kin} <= known


def test_the_best_plan_is_no_slower_than_any_teacher_or_the_incoming_one():
    graph = graphs.random_graph("experts", 1, training=False)
    devices = devices_lib.gpu_host(2, np.random.default_rng(0))
    opened = grappler_go.OpGraph(
        graph.graph_def,
        list(devices.names),
        profile=devices.profile,
        fetch=graph.fetch,
        feed=graph.feed,
    )
    priority = np.zeros(opened.num_nodes, np.int32)
    listed = labels_lib.best_plan(
        opened, priority, labels_lib.TeacherConfig(search=0, margin=0.05), devices=3
    )
    assert listed.step_us <= min(listed.list_us, listed.single_us, listed.incoming_us) / 0.95
    searched = labels_lib.best_plan(
        opened, priority, labels_lib.TeacherConfig(search=300, margin=0.0), devices=3
    )
    assert searched.step_us <= listed.step_us
    assert opened.legal(searched.placement) == ""
