"""Calibration: the line through what was measured, and the profile of a real cluster."""

import json

import pytest

from grappler_go import calibrate, cluster, device_profiles


@pytest.fixture(scope="module", name="pair")
def fixture_pair():
    with cluster.local_cluster(2, library="") as running:
        yield running


def test_the_line_through_exact_points():
    line = calibrate.fit_line([4, 1000, 1_000_000], [100.004, 101.0, 1100.0])
    assert line.fixed_us == pytest.approx(100.0)
    assert line.us_per_byte == pytest.approx(1e-3)


def test_neither_part_of_the_line_is_negative():
    falling = calibrate.fit_line([1, 1000], [10.0, 5.0])
    assert falling.us_per_byte == 0.0
    assert 5.0 <= falling.fixed_us <= 10.0
    steep = calibrate.fit_line([100, 1000], [1.0, 100.0])
    assert steep.fixed_us == 0.0
    assert 0.01 <= steep.us_per_byte <= 0.1


def test_one_point_is_no_line():
    with pytest.raises(ValueError, match="sizes must be at least 2, got 1"):
        calibrate.fit_line([4], [1.0])


def test_a_local_cluster_gives_a_whole_profile(pair, tmp_path):
    steps = []
    profile = calibrate.calibrate(pair, progress=lambda: steps.append(0))
    assert len(steps) == calibrate.num_steps(2)
    assert json.loads(json.dumps(profile)) == profile
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(profile))
    assert device_profiles.load(f"{path}:3").devices == (
        *pair.devices,
        "/job:worker/replica:0/task:2/device:CPU:0",
    )
    assert "2 workers" in profile["source"]
    (link,) = profile["links"]
    assert (link["source"], link["target"], link["scope"]) == ("CPU", "CPU", "remote")
    assert 10 < link["latency_us"] + 2 * link["busy_us"] < 1e5
    assert link["gb_per_s"] > 0.01
    assert link["busy_gb_per_s"] > 0.01
    figures = profile["devices"]["CPU"]
    assert 0.5 < figures["matmul_gflops"] < 1e4
    assert 0.05 < figures["elementwise_gops"] < 1e4
    assert 0.1 < figures["memory_gb_per_s"] < 1e4
    assert 0 < figures["launch_us"] < 1e3


def test_devices_of_one_process_have_a_local_link():
    device = "/job:localhost/replica:0/task:0/device:CPU:0"
    link = calibrate.link_figures("", [device, device])
    assert link["busy_us"] == link["busy_gb_per_s"] == 0.0
    assert link["gb_per_s"] > 0
