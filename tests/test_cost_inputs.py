"""Graphs with known costs: step times worked out by hand, and the public profiled graphs."""

import copy
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import grappler_go
from grappler_go import inputs
from grappler_go.errors import BadInput

v1 = tf.compat.v1
_TASK = "/job:localhost/replica:0/task:0/device"
CPU, GPU_0, GPU_1 = f"{_TASK}:CPU:0", f"{_TASK}:GPU:0", f"{_TASK}:GPU:1"
WORKERS = [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)]
# A byte is a microsecond on the link, after 5.
_PROFILE = json.dumps(
    {
        "version": 1,
        "links": [
            {
                "source": "CPU",
                "target": "CPU",
                "scope": "remote",
                "latency_us": 5,
                "gb_per_s": 1e-3,
            }
        ],
    }
)
_CHAIN = """
node {
  name: "a" id: 7 compute_cost: 10 device: "/job:worker/replica:0/task:0/device:CPU:0"
  output_info { size: 3 } output_info { size: -1 }
  persistent_memory_size: 100 temporary_memory_size: 50
}
node {
  name: "b" id: 9 compute_time: 12 memory_time: 8 is_final: true
  device: "/job:worker/replica:0/task:1/device:CPU:0"
  input_info { preceding_node: 7 }
}
node {
  name: "c" id: 2 compute_cost: 4 device: "/job:worker/replica:0/task:1/device:CPU:0"
  control_input: 9
}
"""


def _open(graph, devices=None, profile=None):
    return grappler_go.OpGraph(
        graph.graph_def, devices or graph.devices, profile=profile or graph.profile
    )


def _simulate(opened, devices):
    """A step with the ops on the devices of these names."""
    placement = np.asarray([opened.devices.index(devices[name]) for name in opened.names])
    assert opened.legal(placement) == ""
    return opened.simulate(placement[None])


class TestCostGraphs:
    @pytest.fixture(name="chain")
    def fixture_chain(self, tmp_path):
        path = tmp_path / "chain.pbtxt"
        path.write_text(_CHAIN)
        return inputs.read(path)

    def test_times_and_sizes(self, chain):
        assert chain.declared and chain.fetch == ("b",)
        assert list(chain.devices) == WORKERS
        assert chain.placement == {"a": WORKERS[0], "b": WORKERS[1], "c": WORKERS[1]}
        assert chain.node_ids == {7: "a", 9: "b", 2: "c"}
        opened = _open(chain)
        assert opened.rules == ["free"] * 3
        times = dict(zip(opened.names, opened.op_us[:, 0], strict=True))
        assert times == {"a": 10, "b": 20, "c": 4}

    def test_a_chain_by_hand(self, chain):
        opened = _open(chain, profile=_PROFILE)
        together = _simulate(opened, dict.fromkeys("abc", WORKERS[0]))
        assert together.step_us[0] == 10 + 20 + 4
        # 100 kept, 50 to work with and the outputs, of which one is not known.
        assert together.peak_bytes[0].tolist() == [153, 0]
        apart = _simulate(opened, chain.placement)
        assert apart.step_us[0] == 10 + (5 + 3) + 20 + 4
        assert apart.peak_bytes[0].tolist() == [153, 3]

    def test_times_hold_for_their_type_of_device(self, tmp_path):
        path = tmp_path / "gpu.pbtxt"
        path.write_text(
            'node { name: "a" id: 1 compute_cost: 2 device: "/device:GPU:3" }'
            'node { name: "b" id: 2 compute_cost: 3 }'
        )
        graph = inputs.read(path)
        assert graph.devices == () and graph.placement == {}
        before = graph.graph_def.SerializeToString(deterministic=True)
        inputs.check_devices(graph, [CPU, GPU_0])
        opened = _open(graph, [CPU, GPU_0, GPU_1])
        assert opened.legal(np.asarray([opened.devices.index(GPU_1), 0])) == ""
        assert "op 'a'" in opened.legal(np.asarray([0, 0]))
        with pytest.raises(BadInput, match="time of op 'a' is for a GPU, and there is none among"):
            inputs.check_devices(graph, WORKERS)
        assert graph.graph_def.SerializeToString(deterministic=True) == before

    def test_what_tensorflow_records_is_read(self, tmp_path):
        config = v1.ConfigProto(graph_options=v1.GraphOptions(build_cost_model=1))
        with tf.Graph().as_default() as graph, v1.Session(graph=graph, config=config) as session:
            x = tf.random.normal([300, 300], name="x")
            y = tf.matmul(x, x, name="product")
            z = tf.reduce_sum(y, name="sum")
            for _ in range(2):
                metadata = v1.RunMetadata()
                session.run(z, run_metadata=metadata)
        path = tmp_path / "recorded.pbtxt"
        path.write_text(str(metadata.cost_graph))
        read = inputs.read(path)
        recorded = {node.name: node for node in metadata.cost_graph.node}
        assert {"x/RandomStandardNormal", "product", "sum"} <= set(recorded)
        assert {node.name for node in read.graph_def.node} == set(recorded)
        nodes = {node.name: node for node in read.graph_def.node}
        assert nodes["product"].attr["us_cpu"].f == recorded["product"].compute_cost
        assert nodes["product"].attr["output_bytes"].list.f[0] == 4 * 300 * 300
        step = _simulate(_open(read), dict.fromkeys(nodes, read.devices[0]))
        assert step.step_us[0] >= recorded["product"].compute_cost > 0

    @pytest.mark.parametrize(
        ("old", "new", "cause"),
        [
            ('"b" id: 9', '"b" id: 7', r"node\[1\].id is 7, which 'a' has too"),
            ('name: "b"', 'name: "a"', r"node\[1\].name is 'a', must be one of its own"),
            ("preceding_node: 7", "preceding_node: 8", r"node\[1\] 'b': preceding_node is 8"),
            (
                "preceding_node: 7",
                "preceding_node: 7 preceding_port: 2",
                "port is 2, and 'a' has 2",
            ),
            ("control_input: 9", "control_input: 5", r"node\[2\] 'c': control_input is 5"),
            ("compute_cost: 10", "compute_cost: -1", r"node\[0\] 'a': compute_cost is -1"),
            ("task:0/device:CPU:0", "task:0/device:TPU:0", r"node\[0\] 'a': device is .*TPU"),
            ("/job:worker/replica:0/task:0", "/here", r"node\[0\] 'a': device is '/here"),
        ],
    )
    def test_a_wrong_field_is_one_line(self, tmp_path, old, new, cause):
        assert old in _CHAIN
        path = tmp_path / "wrong.pbtxt"
        path.write_text(_CHAIN.replace(old, new, 1))
        with pytest.raises(BadInput, match=cause) as raised:
            inputs.read(path)
        assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


# a -> b and c -> d, and e, which goes with c: a fork over two accelerators. Milliseconds.
_FORK = {
    "maxSizePerFPGA": 1000.0,
    "maxFPGAs": 2,
    "maxCPUs": 3,
    "nodes": [
        {"id": 4, "name": "a", "cpuLatency": 10, "fpgaLatency": 1.0, "size": 400.0},
        {"id": 5, "name": "b", "cpuLatency": 30, "fpgaLatency": 3.0, "size": 300.0},
        {"id": 6, "name": "c", "cpuLatency": 20, "fpgaLatency": 2, "colorClass": 1, "size": 200},
        {"id": 7, "name": "d", "cpuLatency": 10, "fpgaLatency": 1.0, "supportedOnFpga": 1},
        {"id": 8, "name": "e", "cpuLatency": 0, "fpgaLatency": 0, "colorClass": 1, "size": 500.0},
    ],
    "edges": [
        {"sourceId": 4, "destId": 5, "cost": 0.5},
        {"sourceId": 4, "destId": 6, "cost": 0.5},
        {"sourceId": 5, "destId": 7, "cost": 0.125},
        {"sourceId": 6, "destId": 7, "cost": 0.25},
    ],
}


def _write(tmp_path, value, name="graph.json"):
    path = tmp_path / name
    path.write_text(json.dumps(value))
    return path


class TestProfiledGraphs:
    @pytest.fixture(name="fork")
    def fixture_fork(self, tmp_path):
        return inputs.read(_write(tmp_path, _FORK))

    def test_devices_and_classes(self, fork):
        assert fork.declared and fork.devices == (CPU, GPU_0, GPU_1)
        opened = _open(fork)
        groups = dict(zip(opened.names, opened.groups.tolist(), strict=True))
        assert groups["c"] == groups["e"] and len(set(groups.values())) == 4
        us = dict(zip(opened.names, opened.op_us.tolist(), strict=True))
        assert us["b"] == [30000, 3000, 3000] and us["e"] == [0, 0, 0]

    def test_a_fork_by_hand(self, fork):
        opened = _open(fork)
        one = _simulate(opened, dict.fromkeys("abcde", GPU_0))
        assert one.step_us[0] == 7000
        assert not one.feasible[0]
        # c: from 1 + 2 * 0.5 to 4, its output arrives at 4 + 2 * 0.25; b is done at 4.
        two = _simulate(opened, dict.fromkeys("abd", GPU_0) | dict.fromkeys("ce", GPU_1))
        assert two.step_us[0] == 5500
        assert two.feasible[0]
        # c: from 1 + 0.5 to 21.5, and back in 0.25.
        host = _simulate(opened, dict.fromkeys("abd", GPU_0) | dict.fromkeys("ce", CPU))
        assert host.step_us[0] == 22750

    @pytest.mark.parametrize(("limit", "fits"), [(1400, True), (1399, False)])
    def test_the_memory_limit_is_that_of_the_sizes(self, tmp_path, limit, fits):
        graph = inputs.read(_write(tmp_path, _FORK | {"maxSizePerFPGA": limit}))
        step = _simulate(_open(graph), dict.fromkeys("abcde", GPU_0))
        # The bytes that stand for the time on links are on top of both: all live while c runs.
        on_links = 500 + 125 + 250
        assert json.loads(graph.profile)["devices"]["GPU"]["memory_bytes"] == limit + on_links
        assert step.peak_bytes[0, 1] == 1400 + on_links
        assert step.feasible[0] == fits

    def test_the_cores_of_the_host_work_side_by_side(self, fork):
        profile = json.loads(fork.profile)
        assert (profile["devices"]["CPU"]["threads"], profile["devices"]["CPU"]["cores"]) == (3, 3)

    def test_what_an_accelerator_cannot_run_stays_on_the_host(self, tmp_path):
        value = copy.deepcopy(_FORK)
        value["nodes"][1] = {"id": 5, "name": "b", "cpuLatency": 2, "supportedOnFpga": False}
        opened = _open(inputs.read(_write(tmp_path, value)))
        on_gpu = np.full(5, opened.devices.index(GPU_0))
        assert "op 'b'" in opened.legal(on_gpu)
        assert opened.legal(np.where(np.asarray(opened.names) == "b", 0, on_gpu)) == ""

    def test_outputs_of_different_cost(self, tmp_path):
        value = copy.deepcopy(_FORK)
        value["edges"][1]["cost"] = 1.5
        graph = inputs.read(_write(tmp_path, value))
        nodes = {node.name: node for node in graph.graph_def.node}
        assert list(nodes["a"].attr["output_bytes"].list.f) == [500, 1500]
        assert list(nodes["b"].input) == ["a:0"] and list(nodes["c"].input) == ["a:1"]

    def test_names_that_tensorflow_cannot_use(self, tmp_path):
        for name in ("b", "not a name", None):
            value = copy.deepcopy(_FORK)
            value["nodes"][0]["name"] = name
            graph = inputs.read(_write(tmp_path, value))
            assert [node.name for node in graph.graph_def.node] == [f"node{i}" for i in range(4, 9)]

    @pytest.mark.parametrize(
        ("where", "value", "cause"),
        [
            (["nodes"], {}, "nodes is {}, must be a list of objects"),
            (["nodes"], [], "nodes is empty"),
            (["edges"], None, "edges is missing, must be a list of objects"),
            (["maxFPGAs"], 1.5, "maxFPGAs is 1.5, must be a whole number"),
            (["maxFPGAs"], 64, "maxFPGAs is 64, must be in 0..63"),
            (["maxCPUs"], True, "maxCPUs is true, must be a whole number"),
            (["maxSizePerFPGA"], -1, "maxSizePerFPGA is -1, must be a number of at least 0"),
            (["nodes", 2, "id"], "6", r'nodes\[2\].id is "6", must be a whole number'),
            (["nodes", 2, "id"], 4, r"nodes\[2\].id is 4, a second one"),
            (
                ["nodes", 1, "fpgaLatency"],
                None,
                r"nodes\[1\].fpgaLatency is missing, must be a num",
            ),
            (["nodes", 1, "cpuLatency"], float("nan"), r"nodes\[1\].cpuLatency is NaN, must be"),
            (["nodes", 1, "size"], "big", r'nodes\[1\].size is "big", must be a number'),
            (["nodes", 2, "colorClass"], "x", r'nodes\[2\].colorClass is "x", must be a whole'),
            (["nodes", 3, "supportedOnFpga"], 2, r"nodes\[3\].supportedOnFpga is 2, must be true"),
            (["edges", 3, "sourceId"], 99, r"edges\[3\].sourceId is 99, the id of no node"),
            (["edges", 3, "cost"], [], r"edges\[3\].cost is \[\], must be a number"),
        ],
    )
    def test_a_wrong_field_is_one_line(self, tmp_path, where, value, cause):
        changed = copy.deepcopy(_FORK)
        at = changed
        for key in where[:-1]:
            at = at[key]
        at[where[-1]] = value
        path = _write(tmp_path, changed)
        with pytest.raises(BadInput, match=cause) as raised:
            inputs.read(path)
        assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)

    def test_what_is_no_graph(self, tmp_path):
        path = tmp_path / "graph.json"
        for text, cause in (("[1]", "not a JSON object"), ("{\n\nx", "not JSON: .* in line 3")):
            path.write_text(text)
            with pytest.raises(BadInput, match=f"graph.json: {cause}"):
                inputs.read(path)


class TestSplits:
    @pytest.fixture(name="fork")
    def fixture_fork(self, tmp_path):
        return inputs.read(_write(tmp_path, _FORK))

    def test_a_node_follows_its_class(self, fork, tmp_path):
        split = {
            "cpus": [{"nodes": [7]}],
            "fpgas": [{"nodes": [4, 5]}, {"nodes": [6]}, {"nodes": []}],
        }
        assert inputs.read_split(_write(tmp_path, split, "split.json"), fork) == {
            "a": GPU_0,
            "b": GPU_0,
            "c": GPU_1,
            "d": CPU,
            "e": GPU_1,
        }

    @pytest.mark.parametrize(
        ("fpgas", "cause"),
        [
            ([[4, 5], [6]], "no device for node 'd', nor for one of its class"),
            ([[4, 5, 6, 7], [8]], "nodes 'c' and 'e' are of one class, on .*GPU:0 and .*GPU:1"),
            ([[4, 5, 6, 7, 9]], r"fpgas\[0\].nodes has 9, no node of .*graph.json"),
            ([[4, 5], [5]], r"fpgas\[1\].nodes has 5, listed twice"),
            ([["4"]], r"fpgas\[0\].nodes has '4', no node"),
            ([[4, 5], [], [6, 7]], r"fpgas\[2\] has nodes, and .*graph.json has 2 such devices"),
            ([None], r"fpgas\[0\].nodes is None, must be a list"),
        ],
    )
    def test_a_wrong_split_is_one_line(self, fork, tmp_path, fpgas, cause):
        split = {"cpus": [], "fpgas": [{"nodes": nodes} for nodes in fpgas]}
        path = _write(tmp_path, split, "split.json")
        with pytest.raises(BadInput, match=cause) as raised:
            inputs.read_split(path, fork)
        assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


# The public graphs lie beside a checkout, where they are.
_PUBLIC = pathlib.Path(__file__).resolve().parents[2] / "shared" / "graphs" / "msr-fiddle"
_SPLITS = {
    "latency-inputs/LayerGraphs/inceptionv3_inference": "inceptionv3_inference_expert",
    "throughput-inputs/LayerGraphs/inceptionv3_training": "inceptionv3_inference_expert",
    "throughput-inputs/LayerGraphs/gnmt_training": "gnmt_training_expert",
    "throughput-inputs/OperatorGraphs/bert_l-3_training": "",
    "throughput-inputs/OperatorGraphs/bert_l-6_training": "",
    "throughput-inputs/OperatorGraphs/resnet50_training": "",
}


@pytest.mark.skipif(not _PUBLIC.is_dir(), reason="the public graphs are not here")
@pytest.mark.parametrize(("name", "expert"), _SPLITS.items())
def test_public_graphs(name, expert):
    path = _PUBLIC / f"{name}.json"
    value = json.loads(path.read_text())
    graph = inputs.read(path)
    opened = _open(graph)
    assert opened.num_nodes == len(value["nodes"])
    assert opened.num_devices == value["maxFPGAs"] + 1
    assert set(opened.rules) == {"free"}
    names = graph.node_ids
    classes = {names[node["id"]]: node.get("colorClass") for node in value["nodes"]}
    groups = dict(zip(opened.names, opened.groups.tolist(), strict=True))
    pairs = {(classes[n], groups[n]) for n in opened.names if classes[n] is not None}
    assert len(pairs) == len({c for c, _ in pairs}) == len({g for _, g in pairs})
    one = _simulate(opened, dict.fromkeys(opened.names, GPU_0))
    total_us = 1000 * sum(node["fpgaLatency"] for node in value["nodes"])
    assert one.step_us[0] == pytest.approx(total_us, rel=1e-5)
    assert one.feasible[0] == (
        sum(node["size"] for node in value["nodes"]) <= value["maxSizePerFPGA"]
    )
    if expert:
        split = inputs.read_split(_PUBLIC / "human-experts" / f"{expert}.json", graph)
        step = _simulate(opened, split)
        bound_us = max(opened.critical_path_us, opened.work_us)
        assert bound_us < step.step_us[0] < 3 * total_us
        assert len(set(split.values())) == 6
