"""Switching the pass on and off, and what a program imports for it."""

import contextlib
import threading

import _passes
import _policies
import numpy as np
import pytest
import tensorflow as tf

import grappler_go
from grappler_go import _library

v1 = tf.compat.v1
_X = tf.constant(np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32))


def _program():
    @tf.function
    def step(x):
        return tf.sin(x) @ tf.cos(x) + tf.tanh(x) @ x

    return step


def _ran(directory, run) -> bool:
    before = set(directory.glob("*"))
    run()
    return bool(set(directory.glob("*")) - before)


def test_enable_and_disable(tmp_path):
    assert not grappler_go.is_enabled()
    step = _program()
    assert not _ran(tmp_path, lambda: step(_X))
    grappler_go.enable(report=str(tmp_path))
    assert grappler_go.is_enabled()
    assert _ran(tmp_path, lambda: step(_X)), "a function that was traced before"
    assert _ran(tmp_path, lambda: _program()(_X)), "a function that was not"
    grappler_go.disable()
    assert not grappler_go.is_enabled()
    assert not _ran(tmp_path, lambda: step(_X))
    assert not _ran(tmp_path, lambda: _program()(_X))
    grappler_go.disable()


def test_enabling_again_replaces_the_options(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    grappler_go.enable(report=str(first), candidates="random", seed=3)
    grappler_go.enable(report=str(second))
    first.mkdir()
    second.mkdir()
    assert _ran(second, lambda: _program()(_X))
    assert not list(first.glob("*"))
    # One for each time that Grappler ran the pass: a graph that stayed as it was is not marked.
    report = _passes.read_reports(second)[-1]
    assert "random" not in {candidate["source"] for candidate in report["candidates"]}
    grappler_go.disable()
    assert not grappler_go.is_enabled()


def test_enabled_again_after_off_and_on(tmp_path):
    step = _program()
    for round_number in range(3):
        directory = tmp_path / str(round_number)
        with _passes.enabled(directory, **_passes.RANDOM):
            step(_X)
        assert len(_passes.read_reports(directory)) == 1


def test_other_settings_survive(tmp_path):
    tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
    try:
        with _passes.enabled(tmp_path, **_passes.RANDOM):
            assert tf.config.optimizer.get_experimental_options()["layout_optimizer"] is False
            _program()(_X)
        assert _passes.read_reports(tmp_path)
        assert tf.config.optimizer.get_experimental_options()["layout_optimizer"] is False
    finally:
        tf.config.optimizer.set_experimental_options({"layout_optimizer": True})


def test_settings_made_afterwards_leave_it_on(tmp_path):
    grappler_go.enable(report=str(tmp_path))
    tf.config.optimizer.set_experimental_options({"layout_optimizer": True})
    assert grappler_go.is_enabled()
    tmp_path.mkdir(exist_ok=True)
    assert _ran(tmp_path, lambda: _program()(_X))


@pytest.mark.parametrize(
    "call", [grappler_go.enable, grappler_go.rewriter_config, grappler_go.session_config]
)
def test_wrong_options(call):
    with pytest.raises(ValueError, match=r"unknown option 'sampels'; known are .*samples"):
        call(sampels=3)
    with pytest.raises(TypeError, match="option 'samples' is 3.5, must be of type int"):
        call(samples=3.5)
    with pytest.raises(TypeError, match="option 'samples' is True, must be of type int"):
        call(samples=True)
    with pytest.raises(TypeError, match="option 'keep_default' is 1, must be of type bool"):
        call(keep_default=1)
    with pytest.raises(TypeError, match="option 'policy' is None, must be of type str"):
        call(policy=None)
    assert not grappler_go.is_enabled()


def test_options_become_parameters():
    config = grappler_go.rewriter_config(
        candidates=["random", "m_etf"], margin=0, seed=7, keep_default=False, policy="none"
    )
    (optimizer,) = config.custom_optimizers
    parameters = optimizer.parameter_map
    assert optimizer.name == "grappler_go"
    assert parameters["candidates"].s == b"random,m_etf"
    assert parameters["margin"].f == 0.0 and parameters["margin"].WhichOneof("value") == "f"
    assert parameters["seed"].i == 7
    assert parameters["keep_default"].b is False
    assert parameters["policy"].s == b"none"


def test_options_of_python_and_of_the_library_are_the_same():
    from grappler_go import config

    with tf.Graph().as_default() as graph:
        tf.constant(1.0)
    opened = grappler_go.OpGraph(
        graph.as_graph_def(), ["/job:localhost/replica:0/task:0/device:CPU:0"]
    )
    optimizer = config.custom_optimizer()
    optimizer.parameter_map["no_such_option"].i = 1
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        _library.ops().grappler_go_choose(opened._handle, optimizer.SerializeToString())
    known = raised.value.message.partition("known are ")[2].partition(" [Op:")[0]
    assert sorted(known.strip().split(", ")) == sorted(config.OPTION_TYPES)


def test_session_config(tmp_path):
    config = grappler_go.session_config(report=str(tmp_path), **_passes.RANDOM)
    config.device_count["CPU"] = 4
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [4, 4])
        y = tf.sin(x) @ tf.cos(x)
        with v1.Session(config=config) as session:
            session.run(y, {x: np.eye(4)})
    assert _passes.read_reports(tmp_path)[0]["applied"]
    assert not grappler_go.is_enabled()


def test_report_says_what_was_decided(tmp_path):
    with _passes.enabled(tmp_path, **_passes.RANDOM | {"samples": 4}):
        _program()(_X)
    (report,) = _passes.read_reports(tmp_path)
    assert report["version"] == 1 and report["source"] == "random" and report["applied"]
    assert "step" in report["graph"] and "random" in report["reason"]
    assert report["candidates"][0]["tried"] == 4
    assert len(report["devices"]) == 4
    assert sum(report["ops_per_device"]) == len(report["nodes"])
    names = [node["name"] for node in report["nodes"]]
    assert len(set(names)) == len(names)
    assert report["predicted_step_us"] == max(node["end_us"] for node in report["nodes"])
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("device", [1, 3])
def test_the_policy_is_obeyed(tmp_path, device):
    policy = _policies.save(tmp_path / "policy", _policies.prefers(device))
    step = _program()
    want = step(_X)
    reports = tmp_path / "reports"
    with (
        _passes.enabled(reports, policy=policy, **_passes.RANDOM | {"candidates": "policy"}),
        _passes.executed() as devices,
    ):
        _passes.assert_same(step(_X), want, rtol=1e-6, what="the policy's plan")
    (report,) = _passes.read_reports(reports)
    assert report["source"] == "policy"
    free = [node for node in report["nodes"] if node["rule"] == "free"]
    assert free and {node["device"] for node in free} == {device}
    assert f"CPU:{device}" in "".join(devices)


def test_threads(tmp_path):
    grappler_go.enable(report=str(tmp_path), **_passes.RANDOM)
    program = _program()
    want = (tf.sin(_X) @ tf.cos(_X) + tf.tanh(_X) @ _X).numpy()
    failures = []

    def work(number: int) -> None:
        try:
            assert grappler_go.is_enabled()
            for step in (program, _program()):
                for _ in range(5):
                    np.testing.assert_allclose(step(_X), want, rtol=1e-5)
        except BaseException as error:
            failures.append((number, error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads), failures
    assert len(_passes.read_reports(tmp_path)) >= 6


def test_thread_that_called_before_enabling_can_be_switched(tmp_path):
    ran = []

    def work() -> None:
        step = _program()
        step(_X)
        with _passes.enabled(tmp_path, **_passes.RANDOM):
            step(_X)
        ran.append(len(_passes.read_reports(tmp_path)))
        step(_X)
        ran.append(len(_passes.read_reports(tmp_path)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert ran == [1, 1]


@pytest.mark.parametrize("version", ["2.20.0", "2.22.1", "1.15", "2.210.0", "3.21.0"])
def test_another_tensorflow(version):
    with pytest.raises(ImportError, match=rf"2\.21\.\*, but {version} is loaded; fix: pip install"):
        _library.check_tensorflow_version(version)


@pytest.mark.parametrize("version", ["2.21.0", "2.21.3", "2.21.0rc1"])
def test_this_tensorflow(version):
    _library.check_tensorflow_version(version)


@contextlib.contextmanager
def _not_loaded():
    _library.ops.cache_clear()
    try:
        yield
    finally:
        _library.ops.cache_clear()


def test_another_tensorflow_stops_enable(monkeypatch):
    monkeypatch.setattr(tf, "__version__", "2.19.0")
    with _not_loaded(), pytest.raises(ImportError, match="pip install 'tensorflow==2.21"):
        grappler_go.enable()
    assert not grappler_go.is_enabled()


def test_missing_library(monkeypatch, tmp_path):
    monkeypatch.setattr(_library, "LIBRARY_PATH", tmp_path / "libgrappler_go.so")
    with _not_loaded(), pytest.raises(ImportError, match="libgrappler_go.so is missing; fix: `pip"):
        grappler_go.enable()
    assert not grappler_go.is_enabled()


def test_pass_that_tensorflow_does_not_know(monkeypatch):
    monkeypatch.setattr(_library, "PASS_NAME", "grappler_went")
    with (
        _not_loaded(),
        pytest.raises(ImportError, match="does not know the optimizer 'grappler_went'.*fix: reb"),
    ):
        grappler_go.enable()
    monkeypatch.undo()
    assert not grappler_go.is_enabled()


_FOREIGN = ("tensorflow_gnn", "tf_keras", "keras", "go_train", "go_bench")


def test_import_is_light():
    code = f"""
import sys
import tensorflow as tf
before = set(sys.modules)
import grappler_go
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
grappler_go.enable()
tf.function(lambda x: tf.sin(x) @ tf.cos(x))(tf.eye(3))
new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
assert not new & set({_FOREIGN!r}), new & set({_FOREIGN!r})
assert not set({_FOREIGN!r}) - {{"keras"}} & {{name.partition(".")[0] for name in sys.modules}}
print("light")
"""
    done = _passes.run_python(code)
    assert done.returncode == 0 and "light" in done.stdout, done.stderr[-3000:]
