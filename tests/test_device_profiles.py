"""Device profiles: the files of the package and a user's, and what is said of a wrong one."""

import json

import pytest
from tensorflow.core.framework import graph_pb2

import grappler_go
from grappler_go import device_profiles
from grappler_go.errors import BadInput

_TASK = "/job:localhost/replica:0/task:0/device"
_DATA_SHEETS = {"p100": (9300, 732, 16), "v100": (14000, 900, 16)} | {
    "a100": (156000, 1555, 40),
    "h100": (494500, 3350, 80),
}


def _write(tmp_path, **fields):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"version": 1} | fields))
    return path


def test_names():
    assert device_profiles.names() == ("a100", "h100", "local_cluster", "p100", "v100")


@pytest.mark.parametrize("name", ["p100", "v100", "a100", "h100"])
def test_gpus_and_their_host(name):
    profile = device_profiles.load(f"{name}:4")
    assert profile.name == name
    assert profile.devices == (f"{_TASK}:CPU:0", *(f"{_TASK}:GPU:{i}" for i in range(4)))
    assert len(device_profiles.load(name).devices) == 1 + device_profiles.DEFAULT_COUNT


@pytest.mark.parametrize(("name", "sheet"), _DATA_SHEETS.items())
def test_no_figure_is_above_the_data_sheet(name, sheet):
    gflops, gb_per_s, gib = sheet
    profile = json.loads(device_profiles.load(name).json)
    figures = profile["devices"]["GPU"]
    assert 0.4 * gflops <= figures["matmul_gflops"] <= 0.8 * gflops
    assert 0.6 * gb_per_s <= figures["memory_gb_per_s"] <= 0.85 * gb_per_s
    assert 0.9 * gib * 2**30 <= figures["memory_bytes"] <= gib * 2**30
    assert "data sheet" in profile["source"] and "assum" in profile["notes"]
    assert {(link["source"], link["target"]) for link in profile["links"]} == {
        ("CPU", "GPU"),
        ("GPU", "CPU"),
        ("GPU", "GPU"),
    }


def test_workers():
    profile = device_profiles.load("local_cluster:3")
    assert profile.devices == tuple(
        f"/job:worker/replica:0/task:{i}/device:CPU:0" for i in range(3)
    )


def test_the_figures_reach_the_simulator(tmp_path):
    # A product of two [100, 100] matrices is 2e6 operations: 1 us at 2000 GFLOP/s, and 2 to launch.
    gpu = {"matmul_gflops": 2000, "memory_gb_per_s": 1e6, "launch_us": 2}
    path = _write(tmp_path, devices={"GPU": gpu})
    profile = device_profiles.load(f"{path}:1")
    assert profile.name == "mine"
    graph = graph_pb2.GraphDef()
    constant = graph.node.add(name="a", op="Const")
    constant.attr["dtype"].type = 1
    tensor = constant.attr["value"].tensor
    tensor.dtype = 1
    tensor.float_val.append(1)
    for _ in range(2):
        tensor.tensor_shape.dim.add(size=100)
    product = graph.node.add(name="b", op="MatMul", input=["a", "a"])
    product.attr["T"].type = 1
    opened = grappler_go.OpGraph(graph, profile.devices, profile=profile.json)
    assert opened.op_us[opened.names.index("b"), 1] == pytest.approx(3)


def test_a_layout_follows_from_the_figures(tmp_path):
    path = _write(tmp_path, devices={"CPU": {}})
    assert device_profiles.load(f"{path}:1").devices == (
        "/job:worker/replica:0/task:0/device:CPU:0",
    )
    path = _write(tmp_path, devices={"CPU": {}}, layout="gpus", name="said")
    assert device_profiles.load(f"{path}:1").devices == (f"{_TASK}:CPU:0", f"{_TASK}:GPU:0")
    assert device_profiles.load(str(path)).name == "said"


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"layout": "ring"}, "field 'layout' is 'ring', must be one of gpus, workers"),
        ({"layout": ["gpus"]}, "field 'layout' is .'gpus'., must be"),
        ({"version": 2}, "field 'version' is 2"),
        ({"devices": {"TPU": {}}}, "field 'devices' names type 'TPU'"),
        ({"devices": {"GPU": {"launch_us": -3}}}, "devices.GPU: field 'launch_us' is -3"),
        ({"devices": {"GPU": {"speed": 1}}}, "devices.GPU: unknown field 'speed'"),
        ({"links": [{"source": "CPU", "target": "CPU"}]}, r"links\[0\]: field 'scope' is ''"),
        ({"colour": 1}, "unknown field 'colour'"),
    ],
)
def test_a_wrong_field_is_one_line_that_names_file_and_field(tmp_path, fields, cause):
    path = _write(tmp_path, **fields)
    with pytest.raises(BadInput, match=cause) as raised:
        device_profiles.load(f"{path}:2")
    text = str(raised.value)
    assert text.startswith(f"{path}: ") and "\n" not in text and "{{" not in text


def test_what_is_no_profile(tmp_path):
    with pytest.raises(BadInput, match="'p10': no such file, and none of a100, h100"):
        device_profiles.load("p10:4")
    with pytest.raises(BadInput, match="'': empty"):
        device_profiles.load("")
    path = tmp_path / "text.json"
    path.write_text("{\n1")
    with pytest.raises(BadInput, match="text.json: not JSON: .* in line 2"):
        device_profiles.load(str(path))
    path.write_text("[]")
    with pytest.raises(BadInput, match="text.json: not a JSON object"):
        device_profiles.load(str(path))


@pytest.mark.parametrize("count", ["", "0", "64", "x", "-1", "1.5"])
def test_a_wrong_number_of_devices_is_named(count):
    with pytest.raises(BadInput, match=f"the number of devices is '{count}', must be .* 1..63"):
        device_profiles.load(f"p100:{count}")


def test_unknown_layouts_are_refused():
    with pytest.raises(ValueError, match="kind must be one of .*, got 'ring'"):
        device_profiles.layout("ring", 2)


def test_specs_and_device_names():
    assert device_profiles.is_spec("p100:4") and device_profiles.is_spec("here/mine.json")
    for text in ("", "/job:a/replica:0/task:0/device:CPU:0", "/device:CPU:0,/device:CPU:1"):
        assert not device_profiles.is_spec(text)
