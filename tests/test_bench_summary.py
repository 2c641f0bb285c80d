"""Speed-ups by hand, what they leave out, and how they are shown."""

import itertools
import json
import math
import re

import pytest
from _bench import FakeSuite, row
from go_bench import paper, rows, summary, summary_text, tables
from go_bench.suites import simulator
from go_bench.workloads import registry

from grappler_go.errors import BadInput

GPUS = tuple(f"/device:GPU:{number}" for number in range(2))


def _timed(method, workload, *step_s, **fields):
    return [
        row(method=method, workload=workload, seed=seed, step_s=each, case="c", **fields)
        for seed, each in enumerate(step_s)
    ]


def _text(found, baseline=None):
    result = summary.summarize(FakeSuite(), found)
    shown = tables.tables(result, summary.baseline_of(found, baseline, "f.jsonl"))
    return summary_text.to_text("fake", shown, result["warnings"])


def _cells(text, title):
    """The table below a title: cells by the row's name, then by the column's."""
    lines = itertools.takewhile(bool, text.split(f"\n{title}\n")[1].splitlines())
    head, _, *body = (re.split(r" {2,}", line.strip()) for line in lines)
    return {row[0]: dict(zip(head, row, strict=True)) for row in body if len(row) == len(head)}


class TestSpeedups:
    def test_by_hand(self):
        found = [
            *_timed("ours", "a", 1, 2, 9),
            *_timed("base", "a", 4.0),
            *_timed("ours", "b", 1.0),
            *_timed("base", "b", 9.0),
            *_timed("base", "c", 5.0),  # Ours has no row.
        ]
        table = summary.speedups(found)
        assert table["ours"]["base"] == {
            "geomean": pytest.approx(math.sqrt(2 * 9)),
            "min": 2.0,
            "n": 2,
        }
        assert table["base"]["ours"]["min"] == pytest.approx(1 / 9)

    def test_the_spread_is_that_of_the_geomean_over_seeds(self):
        found = [*_timed("ours", "a", 1.0, 2.0, 4.0), *_timed("base", "a", 4.0)]
        found += [*_timed("ours", "b", 1.0), *_timed("base", "b", 1.0)]
        # Geomeans sqrt(4 * 1), sqrt(2 * 1), sqrt(1 * 1): quartiles halfway to the middle.
        assert summary.details(found)["ours"]["base"]["spread"] == pytest.approx(
            (2 + math.sqrt(2)) / 2 - (math.sqrt(2) + 1) / 2
        )
        assert summary.details(found)["base"]["ours"]["spread"] is None

    @pytest.mark.parametrize(
        "other",
        [{"workload": "b"}, {"mode": "forward"}, {"preset": "cpu"}, {"device_spec": "v100:1"}],
    )
    def test_only_like_rows_are_compared(self, other):
        fields = {"workload": "a", "device_spec": "p100:1", "step_s": 1.0}
        found = [row(method="ours", **fields), row(method="base", **{**fields, **other})]
        assert summary.speedups(found) == {}
        assert summary.speedups([found[0], row(method="base", **fields)])["ours"]["base"]["n"] == 1

    def test_repeated_seeds_count_once(self):
        found = [row(method="ours", seed=seed, step_s=t) for seed, t in ((0, 1), (0, 3), (1, 4))]
        found.append(row(method="base", step_s=6.0))
        # Seed 0 took 2 s in the median, so both seeds 3 s.
        assert summary.speedups(found)["ours"]["base"]["geomean"] == pytest.approx(2.0)

    def test_rows_that_are_not_about_steps_are_left_out(self):
        assert summary.summarize(FakeSuite(), [row(timed=False)])["steps"] == []
        assert summary.failures([row(timed=False)]) == {}


class TestFailures:
    def _found(self):
        return [
            *_timed("ours", "a", 1.0),
            *_timed("base", "a", 2.0),
            *_timed("ours", "b", None),
            *_timed("base", "b", 2.0),
            *_timed("ours", "c", 1.0),
            *_timed("base", "c", None),
            *_timed("ours", "d", 1.0, None, None),  # Most seeds fail, so the method does.
            *_timed("base", "d", 2.0),
        ]

    def test_they_are_counted_and_named(self):
        found = self._found()
        assert summary.speedups(found)["ours"]["base"] == {"geomean": 2.0, "min": 2.0, "n": 1}
        detail = summary.details(found)["ours"]["base"]
        assert (detail["oom"], detail["baseline_oom"]) == (2, 1)
        assert summary.failures(found) == {
            "ours": ["b train tiny: OOM", "d train tiny: OOM with 2 of 3 seeds"],
            "base": ["c train tiny: OOM"],
        }

    def test_a_method_that_always_fails_is_still_shown(self):
        found = [*_timed("ours", "a", None), *_timed("base", "a", 2.0)]
        assert summary.speedups(found) == {}
        cells = _cells(_text(found, "base"), "speed-up over base")["ours"]
        assert (cells["geomean"], cells["n"], cells["OOM"]) == ("-", "0", "1")
        assert _cells(_text(found, "base"), "a train tiny")["ours"]["step [ms]"] == "OOM"

    def test_a_failure_in_few_seeds_leaves_the_median(self):
        found = [*_timed("ours", "a", 1.0, 3.0, None), *_timed("base", "a", 6.0)]
        assert summary.speedups(found)["ours"]["base"]["geomean"] == pytest.approx(2.0)
        assert _cells(_text(found, "base"), "a train tiny")["ours"]["seeds"] == "3 (1 failed)"

    def test_another_reason_is_given_in_words(self):
        found = [row(method="ours", failure="worker 1 ended"), row(method="base", step_s=1.0)]
        assert summary.failures(found) == {"ours": ["w train tiny: worker 1 ended"]}
        assert "failed: worker 1 ended" in _text(found, "base")


class TestWarnings:
    def test_of_what_is_not_comparable(self):
        found = [
            row(method="ours", fingerprint="01", versions={"tensorflow": "2.21.0"}, last=True),
            row(method="base", fingerprint="02", versions={"tensorflow": "2.21.1"}),
            row(workload="v", case="v"),
        ]
        assert summary.warnings(found[:2]) == [
            "w train tiny: rows of 2 graphs: 01, 02",
            "rows of 2 versions of tensorflow: 2.21.0, 2.21.1",
        ]
        assert "case v: broken off; --resume runs it again" in summary.warnings(found)
        assert "warning: case v: broken off" in _text(found, "base")

    def test_of_nothing(self):
        assert summary.warnings([row(), row(last=True)]) == []


class TestPaper:
    def test_the_headlines_follow_from_the_rows(self):
        for baseline, wanted in (("human_expert", 1.258), ("hdp", 1.245)):
            ratios = [
                paper.speedup(name, each.devices, "go", baseline)
                for name, each in paper.ROWS.items()
            ]
            assert math.exp(sum(map(math.log, ratios)) / 14) == pytest.approx(wanted, abs=5e-4)

    def test_its_rows_are_workloads_on_as_many_devices(self):
        assert {name: each.devices for name, each in paper.ROWS.items()} == {
            name: registry.entry(name).paper_devices
            for name in registry.names()
            if registry.entry(name).paper_devices
        }

    def test_only_the_same_row_is_compared(self):
        assert paper.speedup("rnnlm-2", 2, "go", "hdp") == pytest.approx(0.191 / 0.173)
        assert paper.speedup("rnnlm-8", 8, "metis", "hdp") == rows.OOM
        assert paper.speedup("rnnlm-8", 8, "hdp", "metis") is None
        assert paper.speedup("rnnlm-2", 4, "go", "hdp") is None
        assert paper.speedup("rnnlm-2", 2, "heft", "hdp") is None
        assert paper.speedup("nasnet", 2, "go", "hdp") is None

    def test_it_stands_beside_ours(self):
        devices = ("/device:CPU:0", *GPUS)  # The host does not count.
        found = [
            *_timed("go", "rnnlm-2", 1.0, devices=devices),
            *_timed("human_expert", "rnnlm-2", 2.0, devices=devices),
            *_timed("go", "unknown", 1.0, devices=devices),
            *_timed("human_expert", "unknown", 2.0, devices=devices),
        ]
        assert summary.paper_speedups(found)["go"]["human_expert"] == {
            "geomean": pytest.approx(0.192 / 0.173),
            "min": pytest.approx(0.192 / 0.173),
            "n": 1,
        }
        text = _text(found, "human_expert")
        cells = _cells(text, "speed-up over human_expert")["go"]
        assert (cells["geomean"], cells["paper"]) == ("2.00", "1.11 (n 1)")
        assert _cells(text, "rnnlm-2 train tiny")["go"]["paper"] == "1.11"
        assert "paper" not in _cells(text, "unknown train tiny")["go"]


class TestBaseline:
    def test_the_usual_ones_come_first(self):
        found = [row(method=name, step_s=1.0) for name in ("go", "human_expert", "tf_default")]
        assert summary.baseline_of(found, None, "f") == "tf_default"
        assert summary.baseline_of(found[:2], None, "f") == "human_expert"
        assert summary.baseline_of(found[:1], None, "f") == "go"
        assert summary.baseline_of([row(timed=False)], None, "f") is None

    def test_an_unknown_one_is_named(self):
        with pytest.raises(BadInput, match="--baseline hdp: no such method in f; there are go, m"):
            summary.baseline_of([row(method="go"), row()], "hdp", "f")


class TestFormats:
    def _found(self):
        return [
            row(method="go", step_s=0.5, peak_bytes=(2e6,), bound_s=0.25, evaluations=40),
            row(method="tf_default", step_s=1.0, search_s=1.5, last=True),
        ]

    def test_text(self):
        text = _text(self._found())
        assert text.startswith("fake\n\nspeed-up over tf_default\n")
        assert "\x1b" not in text
        cells = _cells(text, "w train tiny")
        assert cells["go"] == {
            "method": "go",
            "step [ms]": "500.0",
            "seeds": "1",
            "speed-up": "2.00",
            "of bound": "2.00",
            "peak [MB]": "2.0",
            "evaluations": "40",
            "search [s]": "-",
        }
        assert cells["tf_default"]["search [s]"] == "1.5"
        assert _cells(text, "figures")["count"] == {"figure": "count", "value": "2"}

    def test_a_terminal_gets_colours_and_no_line_too_long(self):
        result = summary.summarize(FakeSuite(), self._found())
        shown = tables.tables(result, "tf_default")
        text = summary_text.to_text("fake", shown, [], width=60)
        assert "\x1b[1m" in text
        plain = summary_text.to_text("fake", shown, [])
        assert max(map(len, plain.splitlines())) > 60

    def test_names_are_shown_as_they_are(self):
        assert "a[bold]:GPU:" in _text([row(method="a[bold]:GPU:", step_s=1.0)])

    def test_markdown(self):
        result = summary.summarize(FakeSuite(), self._found())
        text = summary_text.to_markdown("fake", tables.tables(result, "tf_default"), ["w"])
        assert text.splitlines()[:6] == [
            "## fake",
            "",
            "### speed-up over tf_default",
            "",
            "| method | geomean |  min | spread |   n | OOM | OOM of baseline | paper |",
            "|--------|--------:|-----:|--------|----:|----:|----------------:|-------|",
        ]
        assert text.endswith("\n- Warning: w\n")

    def test_json_holds_all_and_is_strict(self):
        class Odd(FakeSuite):
            def summarize(self, all_rows):
                return {"spearman_median": math.nan}

        result = json.loads(
            summary.to_json(summary.summarize(Odd(), self._found())), parse_constant=pytest.fail
        )
        assert result["speedup"]["go"]["tf_default"] == {"geomean": 2.0, "min": 2.0, "n": 1}
        assert result["spearman_median"] is None
        assert [each["method"] for each in result["rows"]] == ["go", "tf_default"]

    def test_a_suite_cannot_hide_a_figure(self):
        class Clashing(FakeSuite):
            def summarize(self, all_rows):
                return {"speedup": {}}

        with pytest.raises(ValueError, match="a figure of its own called 'speedup'"):
            summary.summarize(Clashing(), self._found())


class TestSimulatorSuite:
    def test_rank_correlation_by_hand(self):
        assert simulator.spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
        assert simulator.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
        # Ranks 1, 2, 3, 4 against 2, 1, 4, 3: 1 - 6 * 4 / (4 * 15).
        assert simulator.spearman([1, 2, 3, 4], [2, 1, 4, 3]) == pytest.approx(0.6)
        # A tie has the mean rank: 1, 2.5, 2.5 against 1, 2, 3.
        assert simulator.spearman([1, 2, 2], [1, 2, 3]) == pytest.approx(math.sqrt(3) / 2)

    def test_figures_by_hand(self):
        def measured(predicted, step_s, peak, predicted_peak):
            return row(
                suite="simulator",
                step_s=step_s,
                devices=("a", "b"),
                peak_bytes=(peak, 1.0),
                extra={"predicted_s": predicted, "predicted_peak_bytes": [predicted_peak, 0.0]},
            )

        found = [
            measured(1.1, 1.0, 100, 120),
            measured(1.8, 2.0, 100, 90),
            measured(4.0, 4.0, 200, 200),
        ]
        result = simulator.SimulatorSuite().summarize(found)
        assert result["spearman_median"] == pytest.approx(1)
        assert result["abs_error_median"] == pytest.approx(0.1)
        assert result["memory_error_median"] == pytest.approx(0.1)
        assert result["workloads"]["w"]["plans"] == 3
        speed = row(workload="speed", nodes=10000, extra={"node_events_per_s": 5e6}, timed=False)
        assert simulator.SimulatorSuite().summarize([speed])["node_events_per_s"] == 5e6
