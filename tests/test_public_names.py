"""The public names of grappler_go: a change here is a change for every user."""

import inspect

import pytest

import grappler_go
from grappler_go import config

_GOLDEN = [
    "ClusterError",
    "Dataflow",
    "Explanation",
    "LocalCluster",
    "OpGraph",
    "Plan",
    "Simulation",
    "apply",
    "bake",
    "disable",
    "enable",
    "explain",
    "feature_table",
    "is_enabled",
    "local_cluster",
    "plan",
    "rewriter_config",
    "session_config",
]
_GOLDEN_OPTIONS = {
    "candidates": str,
    "costs": str,
    "expected_steps": int,
    "fail_on_error": bool,
    "keep_default": bool,
    "margin": float,
    "move_state": bool,
    "optimize_timeout_ms": int,
    "override_user_devices": bool,
    "plan": str,
    "policy": str,
    "profile": str,
    "report": str,
    "samples": int,
    "save_graphs": bool,
    "search": int,
    "seed": int,
    "tasks": str,
}


def test_golden_names():
    assert sorted(grappler_go.__all__) == _GOLDEN
    assert all(hasattr(grappler_go, name) for name in _GOLDEN)
    assert grappler_go.__version__.count(".") == 2


def test_golden_options():
    assert _GOLDEN_OPTIONS == config.OPTION_TYPES


@pytest.mark.parametrize("name", _GOLDEN)
def test_documented(name):
    value = getattr(grappler_go, name)
    assert inspect.getdoc(value)
    if inspect.isclass(value):
        for member, what in vars(value).items():
            if not member.startswith("_") and (
                inspect.isroutine(what) or isinstance(what, property)
            ):
                assert inspect.getdoc(what), f"{name}.{member}"


def test_every_option_is_documented():
    text = inspect.getdoc(grappler_go.enable) or ""
    assert not [name for name in _GOLDEN_OPTIONS if f"{name}:" not in text]


def test_signatures_are_keyword_only():
    for name in ("plan", "apply", "local_cluster"):
        parameters = inspect.signature(getattr(grappler_go, name)).parameters.values()
        optional = [p for p in parameters if p.default is not inspect.Parameter.empty]
        assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in optional), name
