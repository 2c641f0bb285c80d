"""`grappler-go bench`: exit statuses, and what is said where."""

import json
import shlex

import pytest
from _bench import FakeSuite, plan, row
from go_bench import rows, suites

from grappler_go import cli


@pytest.fixture(name="out")
def fixture_out(tmp_path):
    return tmp_path / "r.jsonl"


@pytest.fixture(name="offer")
def fixture_offer(monkeypatch):
    def offer(suite):
        monkeypatch.setattr(suites, "ALL", (suite,))
        return suite

    offer(FakeSuite())
    return offer


def _bench(*arguments):
    return cli.main(["bench", *map(str, arguments)])


def test_run_and_summary(out, offer, capsys):
    assert _bench("run", "--suite", "fake", "--out", out) == 0
    assert _bench("run", "--suite", "fake", "--out", out, "--resume") == 0
    assert _bench("summary", out, "--format", "json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["speedup"]["ours"]["tf_default"] == {"geomean": 2.0, "min": 2.0, "n": 3}
    assert len(result["rows"]) == 6
    assert _bench("summary", out) == 0
    text = capsys.readouterr().out
    assert text.startswith("fake: a fake\n\nspeed-up over tf_default\n")
    assert _bench("summary", out, "--baseline", "ours", "--format", "markdown") == 0
    assert "### speed-up over ours\n" in capsys.readouterr().out
    assert _bench("list") == 0
    assert capsys.readouterr().out.split() == ["fake", "a", "fake"]


def test_wrong_inputs_are_one_line(out, offer, capsys, tmp_path):
    assert _bench("run", "--suite", "fake", "--out", out) == 0
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text(out.read_text() + out.read_text().replace('"fake"', '"other"'))
    negative = tmp_path / "negative.jsonl"
    negative.write_text(out.read_text().replace('"step_s": 1.0', '"step_s": -1.0'))
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    capsys.readouterr()
    for arguments, message in (
        (("run", "--suite", "fake", "--out", out), f"{out}: exists; --resume goes on with it"),
        (("run", "--suite", "nope", "--out", out), "--suite nope: unknown; known are fake"),
        (
            ("run", "--suite", "fake", "--out", out, "--seeds", "0"),
            "--seeds 0: must be at least 1",
        ),
        (("summary", tmp_path / "none.jsonl"), f"{tmp_path}/none.jsonl: No such file or directory"),
        (("summary", empty), f"{empty}: no rows"),
        (
            ("summary", mixed),
            f"{mixed}: row 7: field 'suite' is 'other', the first row's is 'fake'",
        ),
        (
            ("summary", negative),
            f"{negative}:1: field 'step_s' is -1.0, must be a number of seconds above 0, or null",
        ),
        (
            ("summary", out, "--baseline", "hdp"),
            f"--baseline hdp: no such method in {out}; there are ours, tf_default",
        ),
        (("replay", out, "--tolerance", "-1"), "--tolerance -1.0: must be a number from 0 to"),
        (("report", empty, "--out", tmp_path / "d"), f"{empty}: no rows"),
    ):
        assert _bench(*arguments) == 2
        error = capsys.readouterr().err
        assert f"grappler-go: {message}" in error
        assert error.count("\n") == 1


def test_an_interrupted_run_says_how_to_go_on(out, offer, capsys):
    out = out.with_name("with space.jsonl")
    suite = offer(FakeSuite(breaks="b"))
    flags = ["--devices", "p100:4", "--seeds", "2", "--workloads", "a,b"]
    assert _bench("run", "--suite", "fake", *flags, "--out", out) == 130
    assert len(rows.read(out)) == 3
    said = capsys.readouterr().err.splitlines()
    assert said[-2] == "grappler-go: interrupted; all rows so far are kept; go on with"
    command = shlex.split(said[-1])
    suite.breaks = ""
    assert command[0] == "grappler-go"
    assert cli.main(command[1:]) == 0
    assert suite.ran == ["a", "b", "b"]
    assert len(rows.read(out)) == 4


def test_replay(out, offer, capsys):
    assert _bench("run", "--suite", "fake", "--out", out) == 0
    capsys.readouterr()
    assert _bench("replay", out) == 0
    text = capsys.readouterr().out
    assert text.startswith("3 rows replayed, 0 differ, 3 not run again\n")
    offer(FakeSuite(now={"ours": 1.05}))
    assert _bench("replay", out) == 1
    assert "differs: 1000 ms before, 1050 ms now (+5.00%)" in capsys.readouterr().out
    assert _bench("replay", out, "--tolerance", "0.1") == 0
    offer(FakeSuite(now={"ours": 1.05}, measured=True))
    assert _bench("replay", out) == 0


def test_rows_without_plans_cannot_be_replayed(out, offer, capsys):
    rows.append(out, row(step_s=1.0))
    assert _bench("replay", out) == 2
    assert f"{out}: no row has a plan to replay (field 'plan')" in capsys.readouterr().err


def test_a_damaged_plan_is_not_replayed(out, offer, capsys):
    rows.append(out, row(step_s=1.0, plan=plan(0, 0, 0)))
    out.write_text(out.read_text().replace(plan(0, 0, 0).checksum, "0" * 16))
    assert _bench("replay", out) == 2
    assert "field 'plan': field 'checksum' is '0000000000000000'" in capsys.readouterr().err
