"""The placement suites: rows that replay, and settings that are refused."""

import json

import _cost_graphs
import numpy as np
import pytest
from go_bench import methods, replay, runner, suites
from go_bench.suites import placement

from grappler_go.errors import BadInput

_METHODS = ("tf_default", "human_expert", "m_etf", "go_policy", "go")


@pytest.fixture(scope="module", name="rows")
def fixture_rows():
    settings = runner.Settings(
        workloads=("rnnlm-2",), methods=_METHODS, devices="p100:2", seeds=2, preset="tiny"
    )
    return list(suites.find("placement-simulated").run("rnnlm-2", settings))


class TestPlacementSimulated:
    def test_has_a_row_a_method_and_seed(self, rows):
        got = [(row.method, row.seed) for row in rows]
        once = [(name, 0) for name in _METHODS[:3]]
        assert got == [*once, ("go_policy", 0), ("go_policy", 1), ("go", 0), ("go", 1)]
        assert all(row.step_s >= row.bound_s for row in rows)
        assert all(row.evaluations <= placement.BUDGET for row in rows)
        assert len({row.fingerprint for row in rows}) == 1

    def test_go_is_never_worse_than_what_it_starts_from(self, rows):
        step = {(row.method, row.seed): row.step_s for row in rows}
        for seed in range(2):
            others = (step["tf_default", 0], step["m_etf", 0], step["go_policy", seed])
            assert step["go", seed] <= min(others) * (1 + 1e-9)

    def test_every_row_replays(self, rows):
        verdicts = list(replay.replay(suites.find("placement-simulated"), rows))
        assert len(verdicts) == len(rows)
        assert [verdict.differs for verdict in verdicts] == [""] * len(rows)

    def test_the_papers_rows_are_the_default(self):
        cases = suites.find("placement-simulated").cases(runner.Settings())
        assert len(cases) == 14


@pytest.mark.parametrize(
    ("suite", "options", "message"),
    [
        ("placement-simulated", {"devices": "cluster"}, "--devices cluster: this suite takes"),
        ("placement-simulated", {"methods": ("magic",)}, "--methods magic: unknown"),
        ("placement-simulated", {"preset": "huge"}, "--preset huge: unknown"),
        ("placement-measured", {"devices": "p100:2"}, "--devices p100:2: must be attached"),
        ("placement-measured", {"workloads": ("magic",)}, "--workloads magic: unknown"),
        ("msr-fiddle", {}, "--workloads: must name a folder"),
        ("msr-fiddle", {"workloads": ("nowhere",)}, "--workloads nowhere: no such file"),
        ("msr-fiddle", {"devices": "p100"}, "--devices p100: this suite takes the devices of"),
    ],
)
def test_settings_out_of_place_are_refused(suite, options, message):
    with pytest.raises(BadInput, match=message):
        suites.find(suite).cases(runner.Settings(**options))


def test_all_methods_are_known_by_name():
    assert {"go", "go_policy", "tf_default", "single_device", "human_expert", "metis"} <= set(
        methods.METHODS
    )
    assert methods.needs_search("go")
    assert not methods.needs_search("m_etf")
    assert "exact" not in methods.DEFAULT


class TestMsrFiddle:
    @pytest.fixture(name="folder")
    def fixture_folder(self, tmp_path):
        """A graph of six ops in a chain, and an expert's split of it."""
        graphs = tmp_path / "latency-inputs" / "Layers"
        graphs.mkdir(parents=True)
        nodes = [
            {
                "id": k,
                "name": f"op{k}",
                "fpgaLatency": 1.0,
                "cpuLatency": 10.0,
                "supportedOnFpga": 1,
                "size": 10.0,
                "isBackwardNode": 0,
            }
            for k in range(6)
        ]
        edges = [{"sourceId": k, "destId": k + 1, "cost": 0.01} for k in range(5)]
        graph = {
            "maxSizePerFPGA": 1000.0,
            "maxFPGAs": 2,
            "maxCPUs": 1,
            "nodes": nodes,
            "edges": edges,
        }
        (graphs / "toy_inference.json").write_text(json.dumps(graph))
        split = {"fpgas": [{"nodes": [0, 1, 2]}, {"nodes": [3, 4, 5]}], "cpus": []}
        experts = tmp_path / "human-experts"
        experts.mkdir()
        (experts / "toy_inference_expert.json").write_text(json.dumps(split))
        return tmp_path

    def test_takes_the_experts_split_and_replays(self, folder):
        suite = suites.find("msr-fiddle")
        settings = runner.Settings(
            workloads=(str(folder),), methods=("human_expert", "single_device", "exact"), seeds=1
        )
        (case,) = suite.cases(settings)
        rows = {row.method: row for row in suite.run(case, settings)}
        # Six milliseconds of compute, and one transfer through the host's memory.
        assert rows["human_expert"].step_s == pytest.approx(6.02e-3)
        assert rows["single_device"].step_s == pytest.approx(6e-3)
        assert rows["exact"].step_s == pytest.approx(6e-3)
        verdicts = list(replay.replay(suite, list(rows.values())))
        assert [verdict.differs for verdict in verdicts] == [""] * 3


def test_bound_ratios_are_geometric_means():
    graph = _cost_graphs.open_graph(_cost_graphs.chains(2, 2))
    assert placement.bound_s(graph) == pytest.approx(200e-6)
    assert placement.simulate(graph, np.zeros(4, np.int32), None) == pytest.approx(400e-6)
