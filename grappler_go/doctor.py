"""Checks that the installation works: versions, library, pass, policy and a self-test."""

import dataclasses
import importlib.metadata
import json
import pathlib
from collections.abc import Callable

import tensorflow as tf

from grappler_go import _library
from grappler_go.op_graph import feature_table
from grappler_go.plans import plan

POLICY_PATH = pathlib.Path(__file__).parent / "policy"


@dataclasses.dataclass(frozen=True)
class Check:
    """One check of the installation.

    Attributes:
      name: what was checked.
      ok: whether it passed.
      detail: what was found, or what is wrong and how to fix it.
    """

    name: str
    ok: bool
    detail: str


def _versions() -> str:
    names = ("tensorflow", "numpy", "absl-py", "protobuf")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def _pass() -> str:
    _library.ops()
    return f"TensorFlow knows the optimizer '{_library.PASS_NAME}'"


def _devices() -> str:
    return ", ".join(device.name for device in tf.config.list_physical_devices())


def _policy() -> str:
    if not (POLICY_PATH / "saved_model.pb").exists():
        raise FileNotFoundError(f"no policy at {POLICY_PATH}; fix: reinstall the package")
    report = json.loads(_self_test_plan(candidates="policy", policy=str(POLICY_PATH)))
    return f"{report['candidates'][0]['tried']} plans from {len(feature_table()) - 1} features"


def _self_test() -> str:
    report = json.loads(_self_test_plan())
    return f"{len(report['nodes'])} ops on 2 devices: {report['reason']}"


def _self_test_plan(**options: str) -> str:
    graph = tf.Graph()
    with graph.as_default():
        for chain in range(2):
            x = tf.random.normal([512, 512], name=f"chain_{chain}")
            for _ in range(4):
                x = x @ x
    devices = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)]
    return plan(graph.as_graph_def(), devices, keep_default=False, search=100, **options).json


def diagnose() -> list[Check]:
    """Runs all checks, in seconds. Failures are results, not errors."""
    steps: list[tuple[str, Callable[[], str]]] = [
        ("versions", _versions),
        ("pass", _pass),
        ("devices", _devices),
        ("policy", _policy),
        ("self-test", _self_test),
    ]
    checks = []
    for name, step in steps:
        try:
            checks.append(Check(name, True, step()))
        # Whatever breaks is what the doctor is asked about.
        except Exception as error:
            checks.append(Check(name, False, str(error)))
    return checks
