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

from go_train import checkpoint, clone, config, dataset, evaluate, graphs
from go_train.clone import CloneConfig
from go_train.dataset import DatasetConfig
from go_train.network import FeatureTable, NetworkConfig
from go_train.testing import TABLE, learnable_examples, make_alike, random_features

import grappler_go

SMALL = CloneConfig(
    steps=12,
    graphs_per_step=2,
    learning_rate=1e-2,
    warmup_steps=2,
    checkpoint_every=4,
    validate_every=6,
    network=NetworkConfig(width=8, layers=1, op_type_width=4, device_width=4, score_width=8),
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
        ({"data": {"device_counts": ["2"]}}, "config.data.device_counts: want int, got '2'"),
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
    settings = dataclasses.replace(SMALL, steps=60, validate_every=60, checkpoint_every=60)
    trainer = _train(tmp_path, settings)
    _, accuracy = trainer.validate(learnable_examples(5))
    assert accuracy > 0.9
    (row,) = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert row["step"] == 60
    assert row["loss"] < 0.6
    assert json.loads((tmp_path / "config.json").read_text())["steps"] == 60


def test_same_seed_same_weights_and_resume_after_a_kill(tmp_path):
    whole = _train(tmp_path / "whole")

    def kill(step, loss):
        del loss
        if step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _train(tmp_path / "broken", on_step=kill)
    assert checkpoint.load(tmp_path / "broken" / "checkpoint.npz").step == 4
    steps = []
    resumed = _train(tmp_path / "broken", on_step=lambda step, loss: steps.append(step))
    assert steps[0] == 5
    for a, b in zip(_weights(whole), _weights(resumed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_resume_refuses_other_settings(tmp_path):
    state = clone.Trainer(SMALL, TABLE).state(4)
    checkpoint.save(tmp_path / checkpoint.FILE_NAME, state)
    other = dataclasses.replace(SMALL, network=dataclasses.replace(SMALL.network, width=9))
    with pytest.raises(ValueError, match=r"config\.network\.width is 9 here and 8 there"):
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


def test_labels_of_look_alikes_are_renamed_by_first_use():
    features = make_alike(random_features(6, 4), [0, 2, 3])
    labels = np.array([3, 1, 3, 0, 2, 1], np.int32)
    canonical = dataset.canonical_labels(labels, features)
    assert canonical.tolist() == [0, 1, 0, 2, 3, 1]
    features["node_device_mask"][5] = [0, 0, 0, 1]  # Device 3 is now one of its own.
    assert dataset.canonical_labels(labels, features).tolist() == [3, 1, 3, 0, 2, 1]


def test_interchangeable_needs_equal_links():
    features = make_alike(random_features(6, 3), [0, 1, 2])
    assert dataset.interchangeable(features).all()
    features["link_features"][0, 1] += 0.1
    same = dataset.interchangeable(features)
    assert not (same & ~np.eye(3, dtype=bool)).any()


def test_weights_grow_with_time_and_leave_out_ops_without_a_choice():
    mask = np.array([[1, 1], [1, 0], [1, 1]])
    weights = dataset.node_weights(np.array([0.0, 5.0, 3.0]), mask)
    np.testing.assert_allclose(weights, [0.5 * 2 / 3, 0.0, 2.5 * 2 / 3], rtol=1e-6)
    assert dataset.node_weights(np.ones(2), np.array([[1, 0], [0, 1]])).tolist() == [0.0, 0.0]


def test_profiles_name_every_device_type():
    for devices in (
        dataset.cpu_workers(4, np.random.default_rng(0)),
        dataset.gpu_host(2, np.random.default_rng(0)),
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


def test_first_sample_is_greedy_and_samples_obey_the_mask():
    logits = np.array([[3.0, 1.0, -1e9], [-1e9, 0.0, 0.0], [0.0, 3.0, -1e9]], np.float32)
    drawn = evaluate.sample_placements(logits, np.array([0, 1, 2]), samples=64, seed=0)
    assert drawn.shape == (64, 3)
    assert drawn.dtype == np.int32
    assert drawn[0].tolist() == [0, 1, 1]
    assert set(drawn[:, 0]) == {0, 1}
    assert set(drawn[:, 1]) == {1, 2}


def test_a_group_is_drawn_once_from_its_mean():
    logits = np.array([[3.0, 1.0], [0.0, 1.0], [0.0, 4.0]], np.float32)
    drawn = evaluate.sample_placements(logits, np.array([0, 1, 0]), samples=64, seed=0)
    assert drawn[0].tolist() == [1, 1, 1]  # Means 1.5 and 2.5.
    assert (drawn[:, 0] == drawn[:, 2]).all()


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
            label_us=80.0,
            m_etf_us=100.0,
            incoming_us=160.0,
        )

    summary = evaluate.summarize([row(50.0), row(200.0)])
    assert summary.best_over_m_etf == pytest.approx(1.0)
    assert summary.greedy_over_m_etf == pytest.approx(0.5)
    assert summary.best_over_label == pytest.approx(0.8)
    assert summary.label_over_incoming == pytest.approx(2.0)


def test_data_from_the_library():
    settings = DatasetConfig(
        families=("lstm", "experts"),
        graphs_per_family=2,
        keras_models=("dense",),
        device_counts=(2, 4),
        teachers=("m_etf",),
        transfer_weights=(1.0,),
        validation_every=2,
        max_nodes=2000,
    )
    table = FeatureTable.from_rows(grappler_go.feature_table())
    examples = dataset.load(settings, table=table, op_graph=grappler_go.OpGraph)
    assert {len(examples[split]) for split in ("train", "validation")} == {12}
    for example in examples["validation"]:
        assert example.graph is not None
        rows = np.arange(len(example.labels))
        assert (example.features["node_device_mask"][rows, example.labels] > 0).all()
        plans = np.stack([example.labels, example.graph.heuristic("m_etf")])
        renamed, teacher = example.graph.simulate(plans).step_us
        assert renamed == pytest.approx(teacher, rel=1e-6)


def test_the_best_plan_is_no_slower_than_any_teacher_or_the_incoming_one():
    graph = graphs.random_graph("experts", 1, training=False)
    devices = dataset.gpu_host(2, np.random.default_rng(0))
    opened = grappler_go.OpGraph(
        graph.graph_def,
        list(devices.names),
        profile=devices.profile,
        fetch=graph.fetch,
        feed=graph.feed,
    )
    settings = DatasetConfig(margin=0.05)
    plans = [
        dataset.best_plan(opened, settings),
        opened.heuristic("m_etf"),
        opened.heuristic("critical_path"),
        opened.heuristic("incoming"),
    ]
    best, *others = opened.simulate(np.stack(plans)).step_us
    assert best <= min(others) / (1.0 - settings.margin)
