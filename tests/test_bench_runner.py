"""Rows, resuming, and the figures of a file of rows."""

import dataclasses
import json
import math

import pytest
from go_bench import rows, runner, suites, summary
from go_bench.suites import simulator

from grappler_go import cli
from grappler_go.errors import BadInput


def _row(**fields):
    base = {
        "suite": "fake",
        "case": "",
        "workload": "w",
        "preset": "tiny",
        "mode": "train",
        "nodes": 3,
        "devices": ("/device:CPU:0",),
        "method": "m",
    }
    return rows.Row(**{**base, **fields})


@dataclasses.dataclass
class FakeSuite:
    """Two rows a case; breaks off in the middle of the case `breaks`."""

    breaks: str = ""
    name: str = "fake"
    description: str = "a fake"
    ran: list = dataclasses.field(default_factory=list)

    def cases(self, settings):
        return settings.workloads or ("a", "b", "c")

    def run(self, case, settings):
        self.ran.append(case)
        yield _row(workload=case, method="ours", step_s=1.0)
        if case == self.breaks:
            raise KeyboardInterrupt
        yield _row(workload=case, method="tf_default", step_s=2.0)

    def summarize(self, all_rows):
        return {"count": len(all_rows)}


def test_rows_come_back_as_they_were(tmp_path):
    path = tmp_path / "r.jsonl"
    written = [_row(step_s=0.5, peak_bytes=(1.0,), extra={"x": [1]}), _row(seed=2)]
    for row in written:
        rows.append(path, row)
    assert rows.read(path) == written


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 7}, "r.jsonl:1: field 'version' is 7, this program reads 1"),
        ({"color": "red"}, "r.jsonl:1: unknown field 'color'"),
        ({"devices": "gpu"}, "r.jsonl:1: field 'devices' is 'gpu', must be a list"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, change, message):
    path = tmp_path / "r.jsonl"
    rows.append(path, _row())
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}) + "\n")
    with pytest.raises(BadInput, match=message):
        rows.read(path)


def test_a_missing_field_is_named(tmp_path):
    path = tmp_path / "r.jsonl"
    rows.append(path, _row())
    value = json.loads(path.read_text())
    del value["nodes"]
    path.write_text(json.dumps(value) + "\n")
    with pytest.raises(BadInput, match="missing field 'nodes'"):
        rows.read(path)


def test_a_line_cut_short_is_left_out_only_at_the_end(tmp_path):
    path = tmp_path / "r.jsonl"
    rows.append(path, _row())
    whole = path.read_text()
    path.write_text(whole + whole[:40])
    assert len(rows.read(path)) == 1
    path.write_text(whole[:40] + "\n" + whole)
    with pytest.raises(BadInput, match="r.jsonl:1: not JSON"):
        rows.read(path)


def test_an_interrupted_run_is_resumed_where_it_was(tmp_path):
    path = tmp_path / "r.jsonl"
    settings = runner.Settings()
    with pytest.raises(KeyboardInterrupt):
        runner.run(FakeSuite(breaks="b"), settings, path)
    # Killed in the middle of a line, too.
    path.write_text(path.read_text() + '{"version": 1, "sui')
    suite = FakeSuite()
    seen = []
    runner.run(suite, settings, path, resume=True, progress=lambda *each: seen.append(each))
    assert suite.ran == ["b", "c"]
    assert seen == [("a", 0, 3), ("b", 1, 3), ("c", 2, 3)]
    found = rows.read(path)
    assert [(row.case, row.method) for row in found] == [
        (case, method) for case in "abc" for method in ("ours", "tf_default")
    ]


def test_a_case_broken_off_between_rows_runs_again_whole(tmp_path):
    path = tmp_path / "r.jsonl"
    runner.run(FakeSuite(), runner.Settings(), path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))
    suite = FakeSuite()
    runner.run(suite, runner.Settings(), path, resume=True)
    assert suite.ran == ["b", "c"]
    assert len(rows.read(path)) == 6


def test_a_file_in_the_way_is_kept(tmp_path):
    path = tmp_path / "r.jsonl"
    runner.run(FakeSuite(), runner.Settings(), path)
    before = path.read_text()
    with pytest.raises(BadInput, match="exists; --resume"):
        runner.run(FakeSuite(), runner.Settings(), path)
    with pytest.raises(BadInput, match="field 'settings.seeds' is 3, this run's is 5"):
        runner.run(FakeSuite(), runner.Settings(seeds=5), path, resume=True)
    assert path.read_text() == before


def test_speedups_by_hand():
    found = [
        *[_row(method="ours", workload="a", seed=s, step_s=t) for s, t in enumerate((1, 2, 9))],
        _row(method="base", workload="a", step_s=4.0),
        _row(method="ours", workload="b", step_s=1.0),
        _row(method="base", workload="b", step_s=9.0),
        _row(method="base", workload="c", step_s=5.0),  # Ours has no row.
    ]
    entry = summary.speedups(found)["ours"]["base"]
    assert entry == {"geomean": pytest.approx(math.sqrt(2 * 9)), "min": 2.0, "n": 2}
    result = summary.summarize(FakeSuite(), found)
    assert result["count"] == len(result["rows"]) == 7
    text = summary.to_markdown(result, "base")
    assert "| speed-up over base | geomean | min | n |" in text
    assert "| ours               | 4.24    | 2   | 2 |" in text


def test_rank_correlation_by_hand():
    assert simulator.spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert simulator.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    # Ranks 1, 2, 3, 4 against 2, 1, 4, 3: 1 - 6 * 4 / (4 * 15).
    assert simulator.spearman([1, 2, 3, 4], [2, 1, 4, 3]) == pytest.approx(0.6)
    # A tie has the mean rank: 1, 2.5, 2.5 against 1, 2, 3.
    assert simulator.spearman([1, 2, 2], [1, 2, 3]) == pytest.approx(math.sqrt(3) / 2)


def test_the_simulators_figures_by_hand():
    def row(predicted, measured, peak, predicted_peak):
        return _row(
            suite="simulator",
            step_s=measured,
            peak_bytes=(peak, 1.0),
            extra={"predicted_s": predicted, "predicted_peak_bytes": [predicted_peak, 0.0]},
        )

    found = [row(1.1, 1.0, 100, 120), row(1.8, 2.0, 100, 90), row(4.0, 4.0, 200, 200)]
    result = simulator.SimulatorSuite().summarize(found)
    assert result["spearman_median"] == pytest.approx(1)
    assert result["abs_error_median"] == pytest.approx(0.1)
    assert result["memory_error_median"] == pytest.approx(0.1)
    assert result["workloads"]["w"]["plans"] == 3
    speed = _row(workload="speed", nodes=10000, extra={"node_events_per_s": 5e6})
    assert simulator.SimulatorSuite().summarize([speed])["node_events_per_s"] == 5e6


def test_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(suites, "ALL", (FakeSuite(),))
    out = str(tmp_path / "r.jsonl")
    assert cli.main(["bench", "run", "--suite", "fake", "--out", out]) == 0
    assert cli.main(["bench", "run", "--suite", "fake", "--out", out]) == 2
    assert cli.main(["bench", "run", "--suite", "nope", "--out", out]) == 2
    assert "--suite nope: unknown; known are fake" in capsys.readouterr().err
    assert cli.main(["bench", "summary", out, "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["speedup"]["ours"]["tf_default"] == {"geomean": 2.0, "min": 2.0, "n": 3}
    assert cli.main(["bench", "summary", out]) == 0
    assert "speed-up over tf_default" in capsys.readouterr().out
    assert cli.main(["bench", "summary", str(tmp_path / "none.jsonl")]) == 2
    assert cli.main(["bench", "list"]) == 0


def test_unknown_workloads_are_named():
    with pytest.raises(BadInput, match="--workloads rnnlm-3: unknown; known are rnnlm-2"):
        simulator.SimulatorSuite().cases(runner.Settings(workloads=("rnnlm-3",)))
