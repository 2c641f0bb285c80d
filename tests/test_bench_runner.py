"""Running: each row at once, and resuming without losing or doubling any."""

import pytest
from _bench import FakeSuite, row
from go_bench import rows, runner
from go_bench.suites import simulator

from grappler_go.errors import BadInput


@pytest.fixture(name="path")
def fixture_path(tmp_path):
    return tmp_path / "r.jsonl"


def _cases(path):
    return [(each.case, each.method, each.last) for each in rows.read(path)]


_WHOLE = [
    (case, method, method == "tf_default") for case in "abc" for method in ("ours", "tf_default")
]


def test_each_row_is_on_the_disk_before_the_next_is_asked_for(path):
    seen = []

    class Watching(FakeSuite):
        def run(self, case, settings):
            for each in super().run(case, settings):
                yield each
                seen.append(len(rows.read(path)))

    runner.run(Watching(), runner.Settings(), path)
    assert seen == [1, 2, 3, 4, 5, 6]
    assert _cases(path) == _WHOLE


def test_rows_say_what_was_asked_for(path):
    class Own(FakeSuite):
        def run(self, case, settings):
            yield row(device_spec="p100:4", last=True)
            yield row()

    runner.run(Own(), runner.Settings(workloads=("a",), devices="p100"), path)
    first, second = rows.read(path)
    assert (first.device_spec, second.device_spec) == ("p100:4", "p100")
    assert (first.last, second.last) == (False, True)
    assert second.settings == {
        "workloads": ["a"],
        "methods": [],
        "devices": "p100",
        "seeds": 3,
        "preset": "cpu",
    }


def test_an_interrupted_run_is_resumed_where_it_was(path):
    with pytest.raises(KeyboardInterrupt):
        runner.run(FakeSuite(breaks="b"), runner.Settings(), path)
    assert len(rows.read(path)) == 3
    # Killed in the middle of a line, too.
    path.write_text(path.read_text() + '{"version": 1, "sui')
    suite = FakeSuite()
    seen = []
    runner.run(
        suite, runner.Settings(), path, resume=True, progress=lambda *each: seen.append(each)
    )
    assert suite.ran == ["b", "c"]
    assert seen == [("a", 0, 3), ("b", 1, 3), ("c", 2, 3)]
    assert _cases(path) == _WHOLE


def test_a_case_broken_off_between_rows_runs_again_whole(path):
    runner.run(FakeSuite(), runner.Settings(), path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))
    suite = FakeSuite()
    runner.run(suite, runner.Settings(), path, resume=True)
    assert suite.ran == ["b", "c"]
    assert _cases(path) == _WHOLE


def test_complete_rows_are_kept_to_the_letter(path):
    runner.run(FakeSuite(), runner.Settings(), path)
    lines = path.read_text().splitlines(keepends=True)
    first = "".join(lines[:2]).replace('"seed": 0', '"seed":  0')  # As another program has it.
    path.write_text(first + lines[2])
    runner.run(FakeSuite(), runner.Settings(), path, resume=True)
    assert path.read_text().startswith(first)


def test_a_resumed_run_that_is_whole_does_nothing(path):
    runner.run(FakeSuite(), runner.Settings(), path)
    before = path.read_bytes()
    suite = FakeSuite()
    runner.run(suite, runner.Settings(), path, resume=True)
    assert suite.ran == []
    assert path.read_bytes() == before


def test_resuming_without_a_file_starts(path):
    runner.run(FakeSuite(), runner.Settings(), path, resume=True)
    assert _cases(path) == _WHOLE


class Refusing(FakeSuite):
    def cases(self, settings):
        raise BadInput("--workloads x: unknown")


class Failing(FakeSuite):
    def run(self, case, settings):
        raise BadInput("--devices x: not there")
        yield


@pytest.mark.parametrize(
    ("suite", "settings", "message"),
    [
        (FakeSuite(), runner.Settings(seeds=5), "field 'settings.seeds' is 3, this run's is 5"),
        (FakeSuite(name="other"), runner.Settings(), "'suite' is 'fake', this run's is 'other'"),
        (Refusing(), runner.Settings(), "--workloads x: unknown"),
        (Failing(), runner.Settings(), "--devices x: not there"),
    ],
)
def test_a_resume_that_is_refused_leaves_the_file_as_it_was(path, suite, settings, message):
    with pytest.raises(KeyboardInterrupt):
        runner.run(FakeSuite(breaks="b"), runner.Settings(), path)
    path.write_text(path.read_text() + '{"version": 2, "sui')
    before = path.read_bytes()
    with pytest.raises(BadInput, match=message):
        runner.run(suite, settings, path, resume=True)
    assert path.read_bytes() == before


def test_a_file_in_the_way_is_kept(path):
    runner.run(FakeSuite(), runner.Settings(), path)
    before = path.read_bytes()
    with pytest.raises(BadInput, match="exists; --resume"):
        runner.run(FakeSuite(), runner.Settings(), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seeds": 0}, "--seeds 0: must be at least 1"),
        ({"methods": ("go", "hdp", "go")}, "--methods go: given twice"),
    ],
)
def test_settings_out_of_place_are_named(settings, message):
    with pytest.raises(BadInput, match=message):
        runner.Settings(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workloads": ("rnnlm-3",)}, "--workloads rnnlm-3: unknown; known are rnnlm-2"),
        ({"methods": ("go",)}, "--methods go: 'simulator' has no methods to choose from"),
        ({"preset": "huge"}, "--preset huge: unknown; known are tiny, cpu, paper"),
        ({"devices": "p100:2"}, "--devices p100:2: must be attached, to be measured"),
    ],
)
def test_the_simulator_suite_refuses_what_it_does_not_know(settings, message):
    with pytest.raises(BadInput, match=message):
        simulator.SimulatorSuite().cases(runner.Settings(**settings))
