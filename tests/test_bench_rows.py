"""Rows: written and read as they were, and refused by name where they are wrong."""

import json
import logging
import pathlib

import numpy as np
import pytest
from _bench import plan, row
from go_bench import rows, stored_plan

from grappler_go.errors import BadInput

RESULTS = pathlib.Path(__file__).parent.parent / "docs" / "results"


@pytest.fixture(name="path")
def fixture_path(tmp_path):
    return tmp_path / "r.jsonl"


def _change(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}) + "\n")


def test_rows_come_back_as_they_were(path):
    written = [
        row(
            step_s=0.5,
            spread_s=0.1,
            n=6,
            peak_bytes=(1.0,),
            device_spec="p100:1",
            fingerprint="0123",
            plan_source="search",
            evaluations=10,
            search_s=2.5,
            compile_s=0.3,
            plan=plan(0, 0, 0, priority=[3, -1, 2]),
            curve=((1, 0.7), (10, 0.5)),
            extra={"x": [1]},
        ),
        row(seed=2, failure="GPU:0 needs 17 GB"),
    ]
    for each in written:
        rows.append(path, each)
    assert rows.read(path) == written


def test_numbers_of_numpy_are_written_as_numbers(path):
    rows.append(path, row(nodes=np.int64(3), step_s=np.float32(0.5), extra={"a": np.arange(2)}))
    (found,) = rows.read(path)
    assert (found.nodes, found.step_s, found.extra) == (3, 0.5, {"a": [0, 1]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 7}, "field 'version' is 7, this program reads 1 to 2"),
        ({"version": True}, "field 'version' is True"),
        ({"color": "red"}, "unknown field 'color'"),
        ({"devices": "gpu"}, "field 'devices' is 'gpu', must be a list of device names"),
        ({"step_s": -1.0}, "field 'step_s' is -1.0, must be a number of seconds above 0, or null"),
        ({"step_s": 0}, "field 'step_s' is 0, must be a number of seconds above 0"),
        ({"step_s": float("nan")}, "field 'step_s' is nan, must be a number of seconds above 0"),
        ({"step_s": "fast"}, "field 'step_s' is 'fast', must be a number of seconds above 0"),
        ({"step_s": True}, "field 'step_s' is True, must be a number of seconds above 0"),
        ({"spread_s": float("inf")}, "field 'spread_s' is inf, must be a number of seconds from 0"),
        ({"nodes": 0}, "field 'nodes' is 0, must be a whole number from 1 on"),
        ({"nodes": 2.5}, "field 'nodes' is 2.5, must be a whole number from 1 on"),
        ({"method": ""}, "field 'method' is '', must be a text that is not empty"),
        ({"seed": -1}, "field 'seed' is -1, must be a whole number from 0 on"),
        ({"peak_bytes": [1, 2]}, "field 'peak_bytes' has 2 values, field 'devices' 1"),
        ({"peak_bytes": [-1]}, "field 'peak_bytes' is \\[-1\\], must be a list of numbers"),
        ({"curve": [[1]]}, "field 'curve' is \\[\\[1\\]\\], must be a list of pairs"),
        ({"versions": {"a": 1}}, "field 'versions' is {'a': 1}, must be an object of texts"),
        ({"failure": "x", "step_s": 1.0}, "field 'failure' is 'x', but 'step_s' has a value"),
        ({"last": 1}, "field 'last' is 1, must be true or false"),
        ({"plan": {"nodes": 3}}, "field 'plan' is {'nodes': 3}, must be null, or an object"),
    ],
)
def test_a_wrong_field_is_named(path, change, message):
    rows.append(path, row())
    _change(path, **change)
    with pytest.raises(BadInput, match=f"r.jsonl:1: {message}"):
        rows.read(path)


def test_a_missing_field_is_named(path):
    rows.append(path, row())
    value = json.loads(path.read_text())
    del value["nodes"]
    path.write_text(json.dumps(value) + "\n")
    with pytest.raises(BadInput, match="missing field 'nodes'"):
        rows.read(path)


def test_what_could_not_be_read_is_not_written(path):
    with pytest.raises(BadInput, match="row w/m: field 'step_s' is nan"):
        rows.append(path, row(step_s=float("nan")))
    with pytest.raises(BadInput, match="row w/m: field 'plan.nodes' is 2, 'nodes' is 3"):
        rows.append(path, row(plan=plan(0, 0)))
    with pytest.raises(BadInput, match="row w/m: field 'plan.device' has index 1, but there are 1"):
        rows.append(path, row(plan=plan(0, 1, 0)))
    assert not path.exists()


def test_a_line_cut_short_is_left_out_only_at_the_end(path, caplog):
    rows.append(path, row())
    whole = path.read_text()
    path.write_text(whole + whole[:40])
    with caplog.at_level(logging.WARNING):
        assert len(rows.read(path)) == 1
    assert "r.jsonl:2: cut short, left out" in caplog.text
    path.write_text(whole[:40] + "\n" + whole)
    with pytest.raises(BadInput, match="r.jsonl:1: not JSON"):
        rows.read(path)


def test_a_last_row_without_a_line_break_counts_if_it_is_whole(path):
    rows.append(path, row())
    path.write_text(path.read_text().rstrip("\n"))
    assert rows.read(path) == [row()]


def test_the_last_row_is_marked_in_place(path):
    rows.append(path, row(seed=1))
    rows.append(path, row(seed=2))
    size = path.stat().st_size
    rows.mark_last(path)
    assert path.stat().st_size == size
    assert [each.last for each in rows.read(path)] == [False, True]
    with pytest.raises(ValueError, match="does not end with a row that is not the last"):
        rows.mark_last(path)


def test_files_of_version_1_are_read(path):
    old = {
        "version": 1,
        **{name: "x" for name in ("suite", "case", "workload", "preset", "mode", "method")},
        "nodes": 2,
        "devices": ["a"],
        "seed": 0,
        "step_s": 0.5,
        "spread_s": None,
        "n": 3,
        "peak_bytes": [],
        "bound_s": None,
        "extra": {"last": True, "y": 1},
        "versions": {},
        "settings": {"devices": "cluster"},
    }
    path.write_text(json.dumps(old) + "\n")
    (found,) = rows.read(path)
    assert (found.last, found.extra, found.device_spec, found.plan) == (
        True,
        {"y": 1},
        "cluster",
        None,
    )
    _change(path, plan=None)
    with pytest.raises(BadInput, match="unknown field 'plan'; version 1 does not have it"):
        rows.read(path)


def test_the_published_rows_are_read():
    found = rows.read_suite(RESULTS / "simulator.jsonl")
    assert {each.device_spec for each in found} == {"cluster"}
    assert [each for each in found if not each.timed] == [
        each for each in found if each.workload == "speed"
    ]
    assert {each.case for each in found} == {each.case for each in found if each.last}


def test_a_file_is_of_one_suite(path):
    rows.append(path, row())
    rows.append(path, row(suite="other"))
    with pytest.raises(BadInput, match="'suite' is 'other', the first row's is 'fake'"):
        rows.read_suite(path)
    path.write_text("\n")
    with pytest.raises(BadInput, match="r.jsonl: no rows"):
        rows.read_suite(path)


class TestStoredPlan:
    def test_plans_come_back(self):
        devices = np.repeat([0, 1, 63], 1000).astype(np.int32)
        priority = np.arange(3000) * 100000 - (1 << 27)
        packed = stored_plan.pack(devices, priority)
        placement, order = stored_plan.unpack(packed)
        np.testing.assert_array_equal(placement, devices)
        np.testing.assert_array_equal(order, priority)
        assert len(packed.device) < 100
        assert stored_plan.unpack(plan(0, 1))[1] is None

    @pytest.mark.parametrize("field", ["device", "priority", "checksum"])
    def test_damage_is_seen(self, path, field):
        rows.append(path, row(plan=plan(0, 0, 0, priority=[1, 2, 3])))
        value = json.loads(path.read_text())["plan"]
        # What another plan has in this field, well-formed by itself.
        other = plan(0, 0, 0, priority=[1, 2, 4]) if field != "device" else plan(1, 0, 0)
        _change(path, plan={**value, field: getattr(other, field)})
        with pytest.raises(BadInput, match="field 'plan': field 'checksum' is '"):
            rows.read(path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"device": "?"}, "field 'device' cannot be unpacked"),
            ({"device": "AAAA"}, "field 'device' cannot be unpacked"),
            ({"device": plan(0, 0).device}, "field 'device' does not have 3 ops"),
            ({"priority": plan(0).device}, "field 'priority' does not have 3 ops"),
        ],
    )
    def test_the_damaged_field_is_named(self, path, change, message):
        rows.append(path, row(plan=plan(0, 0, 0)))
        _change(path, plan={**json.loads(path.read_text())["plan"], **change})
        with pytest.raises(BadInput, match=f"r.jsonl:1: field 'plan': {message}"):
            rows.read(path)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((np.array([128]),), "placement has values out of range"),
            ((np.array([-1]),), "must be a list of device indices from 0 on"),
            ((np.array([0.0]),), "placement must be integers"),
            ((np.array([0]), np.array([1, 2])), "devices, but"),
        ],
    )
    def test_no_plan_is_packed_that_is_none(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            stored_plan.pack(*arguments)
