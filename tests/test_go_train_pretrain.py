"""Tests of whole runs: regimes, what they train on, and the command's errors."""

from __future__ import annotations

import dataclasses
import json

import pytest

try:
    import go_train  # noqa: F401  Settles Keras 2; before tensorflow.
except ImportError as error:
    if "TF_USE_LEGACY_KERAS" not in str(error):
        raise
    pytest.skip(f"needs a process of its own: {error}", allow_module_level=True)

from go_train import config, pretrain
from go_train.pretrain import PretrainConfig
from go_train.testing import learnable_examples

from grappler_go import cli


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"regime": "two"}, "PretrainConfig.regime: want one of one, batch, .*'two'"),
        ({"regime": "zero-shot"}, "regime zero-shot needs start and data.held_out"),
        ({"regime": "one"}, "PretrainConfig.example: is for regime one"),
        ({"clone": {"network": {"width": 8}}}, "network and data are set beside the stages"),
        ({"speed": 1}, "unknown key 'speed'"),
    ],
)
def test_settings_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        config.from_dict(PretrainConfig, values)


def test_each_regime_has_its_examples():
    a, b, c = learnable_examples(3)
    examples = {"train": [a], "validation": [b], "held_out": [c]}
    assert pretrain.select(PretrainConfig(), examples) == examples
    one = PretrainConfig(regime="one", example=b.name)
    assert pretrain.select(one, examples) == {"train": [b], "validation": [b]}
    with pytest.raises(ValueError, match="no example 'none'"):
        pretrain.select(dataclasses.replace(one, example="none"), examples)
    data = dataclasses.replace(PretrainConfig().data, held_out="gnmt")
    for regime in ("zero-shot", "finetune"):
        settings = PretrainConfig(regime=regime, start="x.npz", data=data)
        assert pretrain.select(settings, examples) == {"train": [c], "validation": [c]}


def test_the_command_names_what_is_wrong_with_its_settings(tmp_path, capsys):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"ppo": {"rollout": 4}}))
    assert cli.main(["pretrain", "--out", str(tmp_path / "out"), "--config", str(path)]) == 2
    assert "settings.json.ppo: unknown key 'rollout'" in capsys.readouterr().err
