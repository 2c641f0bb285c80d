"""Whatever goes wrong leaves the graph as it was with one warning, or raises if so asked."""

import json
import os
import re

import _passes
import _policies
import numpy as np
import pytest
import tensorflow as tf

import grappler_go

DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(4)]
# A plan is wanted, so that nothing is skipped; of its own, none of these would fail.
_FORCED = {"keep_default": False, "samples": 1, "search": 0}
_WARNING = re.compile(r"^W\d.*grappler_go: '(.*)' is left as it was: (.*)$")


def _program(depth: int = 1):
    """A function of one tensor, with enough in it to plan."""

    @tf.function
    def step(x):
        for i in range(depth):
            x = tf.tanh(x @ x + float(i)) + tf.sin(x)
        return x, tf.reduce_sum(tf.cos(x))

    return step


_X = tf.constant(np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32))


def _warnings(capfd) -> list[str]:
    lines = capfd.readouterr().err.splitlines()
    return [match.group(2) for line in lines if (match := _WARNING.match(line))]


def _assert_harmless(capfd, cause: str, *, depth: int = 1, directory=None, **options):
    """Asserts one warning that names the cause, equal outputs, and an error if one is wanted."""
    step = _program(depth)
    want = step(_X)
    capfd.readouterr()
    report = {"report": str(directory)} if directory else {}
    # The error first: what has been warned of once is not warned of again.
    grappler_go.enable(fail_on_error=True, **_FORCED | report | options)
    with pytest.raises(tf.errors.OpError, match=cause) as raised:
        step(_X)
    assert "grappler_go" in raised.value.message
    assert _warnings(capfd) == []
    grappler_go.enable(**_FORCED | report | options)
    with _passes.executed() as devices:
        got = step(_X)
        step(_X)
    _passes.assert_same(got, want, rtol=0.0, what="after a failure")
    assert len(devices) == 1, devices
    (warning,) = _warnings(capfd)
    assert re.search(cause, warning), warning
    # Also for another graph, and in a session.
    _program(depth)(_X)
    assert _warnings(capfd) == []
    if directory is not None:
        assert not list(directory.glob("*.json"))
    return raised.value


def test_missing_policy(tmp_path, capfd):
    missing = tmp_path / "nowhere"
    _assert_harmless(capfd, f"policy '{missing}' cannot be read", policy=str(missing))


def test_empty_policy_directory(tmp_path, capfd):
    _assert_harmless(capfd, f"policy '{tmp_path}' cannot be read", policy=str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"not a protocol buffer", b"\x00\xff" * 50])
def test_corrupt_policy(tmp_path, capfd, content):
    (tmp_path / "saved_model.pb").write_bytes(content)
    _assert_harmless(capfd, f"policy '{tmp_path}'", policy=str(tmp_path))


def test_truncated_policy(tmp_path, capfd):
    _policies.save(tmp_path / "policy")
    path = tmp_path / "policy" / "saved_model.pb"
    path.write_bytes(path.read_bytes()[:-100])
    _assert_harmless(capfd, f"policy '{tmp_path}/policy'", policy=str(tmp_path / "policy"))


def _renamed_row():
    table = list(grappler_go.feature_table())
    table[2] = "node/something_else"
    return table


@pytest.mark.parametrize(
    ("cause", "wrong"),
    [
        ("'node/something_else', this library has 'node/", {"table": _renamed_row}),
        ("is 'nothing', this library has", {"table": lambda: grappler_go.feature_table()[:-1]}),
        (
            "is 'version/9', this library has 'nothing'",
            {"table": lambda: [*grappler_go.feature_table(), "version/9"]},
        ),
        (r"scores of shape \[\d+,5\], expected \[\d+,4\]", {"scores": "one_device_too_many"}),
        ("scores", {"scores": "of_another_type"}),
        ("a score is not finite", {"scores": "not_a_number"}),
        ("no scores today", {"scores": "failing"}),
        ("no output 'placement_logits'", {"output": "logits"}),
        ("unknown input 'temperature'", {"extra_input": "temperature"}),
        ("input 'edge_features' has the wrong type", {"retyped_input": "edge_features"}),
        ("no signature 'feature_table'", {"signatures": ["serving_default"]}),
        ("no signature 'serving_default'", {"signatures": ["feature_table"]}),
    ],
)
def test_policy_of_another_kind(tmp_path, capfd, cause, wrong):
    wrong = dict(wrong)
    if "table" in wrong:
        wrong["table"] = wrong["table"]()
    if "scores" in wrong:
        wrong["scores"] = getattr(_policies, wrong["scores"])
    policy = _policies.save(tmp_path / "policy", **wrong)
    error = _assert_harmless(capfd, cause, policy=policy, directory=tmp_path / "reports")
    assert policy in error.message


def test_no_policy_was_asked_for(tmp_path, capfd):
    step = _program()
    want = step(_X)
    with _passes.enabled(tmp_path, policy="none", fail_on_error=True, **_FORCED):
        _passes.assert_same(step(_X), want, rtol=1e-6, what="without a policy")
    assert _passes.read_reports(tmp_path)[0]["applied"]
    assert _warnings(capfd) == []


_DEVICE_FIELDS = [
    "matmul_gflops",
    "elementwise_gops",
    "memory_gb_per_s",
    "launch_us",
    "memory_bytes",
]
_LINK = {"source": "CPU", "target": "CPU", "scope": "local"}
_BAD_PROFILES = [
    ("not JSON", "is not a JSON object", "{"),
    ("a list", "is not a JSON object", "[]"),
    ("no version", "'version'", "{}"),
    ("another version", "'version' is 2", {"version": 2}),
    ("a stray field", "unknown field 'speed'", {"version": 1, "speed": 1}),
    ("another type", "'TPU'", {"version": 1, "devices": {"TPU": {}}}),
    ("devices no object", "'devices'", {"version": 1, "devices": [1]}),
    ("a device no object", "devices.CPU", {"version": 1, "devices": {"CPU": 3}}),
    ("a stray rate", "'flops'", {"version": 1, "devices": {"CPU": {"flops": 1}}}),
    *[
        (
            f"{name} {value}",
            f"devices.CPU.*'{name}'",
            {"version": 1, "devices": {"CPU": {name: value}}},
        )
        for name in _DEVICE_FIELDS
        for value in (-1, "fast")
    ],
    ("links no list", "'links'", {"version": 1, "links": {}}),
    ("a link no object", r"links\[0\]", {"version": 1, "links": [1]}),
    ("no scope", r"links\[0\].*'scope'", {"version": 1, "links": [_LINK | {"scope": ""}]}),
    ("a scope", "'scope' is 'far'", {"version": 1, "links": [_LINK | {"scope": "far"}]}),
    ("a source", "'source' is 'TPU'", {"version": 1, "links": [_LINK | {"source": "TPU"}]}),
    ("a target", "'target' is 'TPU'", {"version": 1, "links": [_LINK | {"target": "TPU"}]}),
    ("a source no text", "'source'", {"version": 1, "links": [_LINK | {"source": 1}]}),
    (
        "a stray link",
        r"links\[1\].*'colour'",
        {"version": 1, "links": [_LINK, _LINK | {"colour": 1}]},
    ),
    *[
        (
            f"{name} {value}",
            rf"links\[0\].*'{name}'",
            {"version": 1, "links": [_LINK | {name: value}]},
        )
        for name in ("latency_us", "gb_per_s", "busy_us", "busy_gb_per_s")
        for value in (-1, "fast")
    ],
]


def _text(profile) -> str:
    return profile if isinstance(profile, str) else json.dumps(profile)


@pytest.mark.parametrize(
    ("cause", "profile"),
    [(c, p) for _, c, p in _BAD_PROFILES],
    ids=[n for n, _, _ in _BAD_PROFILES],
)
def test_bad_profile_is_named_by_field(cause, profile):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"device profile.*{cause}"):
        grappler_go.OpGraph(tf.Graph().as_graph_def(), DEVICES, profile=_text(profile))


def test_bad_profile_leaves_the_graph(capfd):
    profile = {"version": 1, "devices": {"CPU": {"matmul_gflops": 0}}}
    _assert_harmless(capfd, "devices.CPU: field 'matmul_gflops' is 0", profile=_text(profile))


def test_bad_profile_of_no_json_leaves_the_graph(capfd):
    _assert_harmless(capfd, "device profile is not a JSON object", profile="{")


def test_missing_costs_file(tmp_path, capfd):
    path = str(tmp_path / "costs.json")
    _assert_harmless(capfd, f"cannot read op costs '{path}'", costs=path)


@pytest.mark.parametrize(
    ("cause", "content"),
    [
        ("is not a JSON object", "{"),
        ("'version' is 3", '{"version": 3}'),
        ("'ops'", '{"version": 1}'),
        (r"ops\['MatMul'\]", '{"version": 1, "ops": {"MatMul": -1}}'),
        (r"ops\['MatMul'\]", '{"version": 1, "ops": {"MatMul": "slow"}}'),
        ("'device_type'", '{"version": 1, "device_type": 1, "ops": {}}'),
    ],
)
def test_bad_costs_file(tmp_path, capfd, cause, content):
    path = tmp_path / "costs.json"
    path.write_text(content)
    _assert_harmless(capfd, f"{re.escape(str(path))}.*{cause}", costs=str(path))


def test_deadline(capfd):
    error = _assert_harmless(
        capfd, "longer than optimize_timeout_ms", depth=100, optimize_timeout_ms=1
    )
    assert isinstance(error, tf.errors.DeadlineExceededError)


def test_no_deadline(tmp_path):
    step = _program()
    with _passes.enabled(tmp_path, optimize_timeout_ms=0, fail_on_error=True, **_FORCED):
        step(_X)
    assert _passes.read_reports(tmp_path)[0]["applied"]


def test_report_directory_that_cannot_be_made(tmp_path, capfd):
    (tmp_path / "file").write_text("")
    _assert_harmless(capfd, "file", report=str(tmp_path / "file" / "reports"))


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("candidates", "m_etf,best", "option 'candidates' is 'best', must be out of policy"),
        ("candidates", "", "option 'candidates' is ''"),
        ("margin", 1.5, "option 'margin'.*must be a number in"),
        ("margin", -0.1, "option 'margin'"),
        ("samples", 0, "option 'samples'.*must be an integer in 1"),
        ("search", -2, "option 'search'"),
        ("seed", -1, "option 'seed'"),
        ("optimize_timeout_ms", -1, "option 'optimize_timeout_ms'"),
        ("tasks", "growing", "option 'tasks' is 'growing'"),
        ("expected_steps", 0, "option 'expected_steps'"),
    ],
)
def test_option_out_of_range(capfd, name, value, cause):
    _assert_harmless(capfd, cause, **{name: value})


def test_option_that_the_library_does_not_know(capfd):
    config = grappler_go.session_config()
    config.device_count["CPU"] = 4
    (optimizer,) = config.graph_options.rewrite_options.custom_optimizers
    optimizer.parameter_map["sampels"].i = 3
    with tf.Graph().as_default() as graph:
        y = tf.sin(tf.constant([1.0, 2.0])) + tf.cos(tf.compat.v1.placeholder(tf.float32, [2]))
    feed = {op.outputs[0]: [0.0, 1.0] for op in graph.get_operations() if op.type == "Placeholder"}
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        np.testing.assert_allclose(session.run(y, feed), np.sin([1, 2]) + np.cos([0, 1]), rtol=1e-6)
    (warning,) = _warnings(capfd)
    assert "unknown option 'sampels'; known are" in warning and "samples" in warning
    optimizer.parameter_map["fail_on_error"].b = True
    config.graph_options.rewrite_options.fail_on_optimizer_errors = True
    with (
        tf.compat.v1.Session(graph=graph, config=config) as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="unknown option 'sampels'"),
    ):
        session.run(y, feed)


def test_session_fails_and_goes_on_as_asked(tmp_path, capfd):
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [4, 4])
        y = tf.sin(x) @ tf.cos(x)
    feed = {x: np.eye(4)}
    with tf.compat.v1.Session(graph=graph) as session:
        want = session.run(y, feed)
    options = _FORCED | {"policy": str(tmp_path / "gone")}
    config = grappler_go.session_config(**options)
    config.device_count["CPU"] = 4
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        np.testing.assert_array_equal(session.run(y, feed), want)
    assert len(_warnings(capfd)) == 1
    config = grappler_go.session_config(fail_on_error=True, **options)
    config.device_count["CPU"] = 4
    with (
        tf.compat.v1.Session(graph=graph, config=config) as session,
        pytest.raises(tf.errors.NotFoundError, match="gone"),
    ):
        session.run(y, feed)


def test_after_a_failure_the_pass_works_again(tmp_path):
    step = _program()
    want = step(_X)
    grappler_go.enable(policy=str(tmp_path / "broken"), **_FORCED)
    step(_X)
    with _passes.enabled(tmp_path / "reports", **_passes.RANDOM):
        _passes.assert_same(step(_X), want, rtol=1e-6, what="afterwards")
    assert _passes.read_reports(tmp_path / "reports")[0]["applied"]


def test_a_replaced_policy_is_read_again(tmp_path):
    step = _program()
    used = []
    for device in (1, 2):
        policy = _policies.save(tmp_path / "policy", _policies.prefers(device))
        # Found by its time, which TensorFlow's file system gives in whole seconds.
        os.utime(tmp_path / "policy" / "saved_model.pb", (device, device))
        reports = tmp_path / str(device)
        with _passes.enabled(
            reports, candidates="policy", policy=policy, fail_on_error=True, **_FORCED
        ):
            step(_X)
        used.append(_passes.read_reports(reports)[0]["ops_per_device"])
    assert used[0][1] > 0 == used[0][2] and used[1][2] > 0 == used[1][1], used
