"""The cache of measured op costs: what is remembered holds in other graphs."""

import concurrent.futures
import json

import numpy as np
import pytest
import tensorflow as tf

import grappler_go
from grappler_go import costs
from grappler_go.errors import BadInput

_DEVICES = ["/job:worker/replica:0/task:0/device:CPU:0"]


def _products(prefix, rows, costs_file=""):
    graph = tf.Graph()
    with graph.as_default():
        w = tf.compat.v1.placeholder(tf.float32, [64, 64], name=f"{prefix}w")
        for n in rows:
            x = tf.compat.v1.placeholder(tf.float32, [n, 64], name=f"{prefix}x{n}")
            tf.matmul(x, w, name=f"{prefix}{n}")
    return grappler_go.OpGraph(graph.as_graph_def(), _DEVICES, costs=str(costs_file))


def _us(graph, name):
    index = graph.names.index(name)
    return graph.op_us[index, 0], graph.cost_sources[index]


def test_what_was_measured_holds_in_another_graph(tmp_path):
    path = tmp_path / "cache.json"
    first = _products("a", [64, 256])
    assert (
        costs.remember(path, first, {"a64": 10.0, "a256": 160.0, "no": 1.0}, device_type="CPU") == 2
    )
    graph = _products("b", [64, 128, 256], path)
    assert _us(graph, "b64") == (10.0, "cached")
    assert _us(graph, "b256") == (160.0, "cached")
    us, source = _us(graph, "b128")
    assert source == "interpolated" and 10 < us < 160


def test_repeated_measurements_are_averaged(tmp_path):
    path = tmp_path / "cache.json"
    graph = _products("a", [64])
    for us in (10.0, 20.0, 60.0):
        costs.remember(path, graph, {"a64": us}, device_type="CPU")
    (entry,) = json.loads(path.read_text())["cache"].values()
    assert entry["us"] == pytest.approx(30) and entry["n"] == 3


def test_writers_at_once_lose_nothing(tmp_path):
    path = tmp_path / "cache.json"
    graphs = [_products("a", [n]) for n in (8, 16, 24, 32)]

    def write(index):
        n = (8, 16, 24, 32)[index % 4]
        costs.remember(path, graphs[index % 4], {f"a{n}": 5.0}, device_type="CPU")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(32)))
    cache = json.loads(path.read_text())["cache"]
    assert sorted(entry["n"] for entry in cache.values()) == [8, 8, 8, 8]


def test_costs_by_name_go_first(tmp_path):
    path = tmp_path / "costs.json"
    costs.write(path, {"b64": 33.0}, device_type="CPU")
    graph = _products("b", [64, 128], path)
    assert _us(graph, "b64") == (33.0, "measured")
    assert _us(graph, "b128")[1] == "scaled"
    assert _us(_products("b", [64]), "b64")[1] == "analytical"
    assert np.isfinite(graph.op_us).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"version": 9}', "field 'version' is 9, must be 2"),
        ('{"version": 2, "device_type": "GPU"}', "field 'device_type' is 'GPU', must be 'CPU'"),
        ('{"version": 2, "device_type": "CPU"}', "field 'cache' is not an object"),
        (
            '{"version": 2, "device_type": "CPU", "cache": {"k": {"us": 1, "n": 1}}}',
            r"cache\['k'\].size is not a number",
        ),
    ],
)
def test_a_damaged_cache_is_named_and_kept(tmp_path, text, message):
    path = tmp_path / "cache.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=f"cache.json: {message}"):
        costs.remember(path, _products("a", [8]), {"a8": 1.0}, device_type="CPU")
    assert path.read_text() == text
