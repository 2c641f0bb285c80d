"""Profiled graphs in JSON and splits of them over devices, as in msr-fiddle/dnn-partitioning.

A graph: `maxFPGAs` accelerators with `maxSizePerFPGA` bytes each, `maxCPUs` CPU cores; `nodes` with
`id`, `cpuLatency` and `fpgaLatency` (the time on an accelerator), `size` in bytes,
`supportedOnFpga`, `colorClass` (nodes of one class share a device); `edges` with `sourceId`,
`destId` and `cost`, the time to move the source's output between an accelerator and host memory.
Times are in milliseconds. A split: `fpgas` and `cpus`, a list of devices with the ids in `nodes`.

Here an accelerator is a GPU, and all cores are one CPU device. A byte stands for a microsecond of
transfer: from an accelerator to another one it goes through host memory, so takes two. A node's
size has its output in it, hence the memory limit is raised by all these bytes together.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from tensorflow.core.framework import graph_pb2

from grappler_go import cost_graph, device_profiles, files
from grappler_go.errors import BadInput
from grappler_go.graph_input import GraphInput

_US_PER_MS = 1000.0
_GB_PER_S = 1e-3  # A byte in a microsecond.
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_MAX_THREADS = 64  # cc/device_set.cc

_Object = dict[str, Any]


def parse_graph(source: str, text: str) -> GraphInput:
    """Reads a graph.

    Raises:
      BadInput: the text is no such graph, or one with a wrong field.
    """
    top = _parse(source, text)
    nodes, edges = (_objects(source, top, name) for name in ("nodes", "edges"))
    if not nodes:
        raise BadInput(f"{source}: nodes is empty")
    names = _names(source, nodes)
    outputs, inputs = _wire(source, edges, names)
    graph = graph_pb2.GraphDef()
    first_of_class: dict[Any, str] = {}
    for index, node in enumerate(nodes):
        where = f"nodes[{index}]."
        us = {"CPU": _US_PER_MS * _number(source, where, node, "cpuLatency")}
        if _flag(source, where, node, "supportedOnFpga", default=True):
            us["GPU"] = _US_PER_MS * _number(source, where, node, "fpgaLatency")
        name = names[node["id"]]
        head = name
        if node.get("colorClass") is not None:
            head = first_of_class.setdefault(_integer(source, where, node, "colorClass"), name)
        op = cost_graph.make_op(
            name,
            inputs[node["id"]],
            us=us,
            output_bytes=outputs[node["id"]],
            persistent_bytes=round(_number(source, where, node, "size", default=0)),
            colocate_with="" if head == name else head,
        )
        graph.node.append(op)
    on_links = sum(sum(sizes) for sizes in outputs.values())
    return GraphInput(
        source=source,
        graph_def=graph,
        declared=True,
        devices=device_profiles.layout("gpus", _accelerators(source, top)),
        profile=_profile(source, top, on_links),
        node_ids=names,
    )


def read_split(path: files.Path, graph: GraphInput) -> dict[str, str]:
    """Reads a split: the full device name of each op of a profiled graph, by the op's name.

    A node that the split does not list is where a node of its class is: a split for inference
    serves the training graph.

    Raises:
      BadInput: the file is no split, or one of another graph, or one that needs more devices.
    """
    source = str(path)
    top = _parse(source, files.read_text(path))
    by_type = {kind: [d for d in graph.devices if f":{kind}:" in d] for kind in ("CPU", "GPU")}
    listed: dict[str, str] = {}
    for field, devices in (("fpgas", by_type["GPU"]), ("cpus", by_type["CPU"])):
        for index, part in enumerate(_objects(source, top, field)):
            numbers = part.get("nodes")
            if not isinstance(numbers, list):
                raise BadInput(f"{source}: {field}[{index}].nodes is {numbers!r}, must be a list")
            if numbers and index >= len(devices):
                raise BadInput(
                    f"{source}: {field}[{index}] has nodes, and {graph.source} has {len(devices)} "
                    "such devices"
                )
            for number in numbers:
                name = graph.node_ids.get(number) if isinstance(number, int) else None
                if name is None or name in listed:
                    cause = "listed twice" if name else f"no node of {graph.source}"
                    raise BadInput(f"{source}: {field}[{index}].nodes has {number!r}, {cause}")
                listed[name] = devices[index]
    return _complete(source, listed, graph.graph_def)


def _complete(source: str, listed: Mapping[str, str], graph: graph_pb2.GraphDef) -> dict[str, str]:
    """Adds the nodes that the split leaves to their class."""
    heads = {node.name: _head(node) for node in graph.node}
    of_class: dict[str, tuple[str, str]] = {}  # By head: a node and its device.
    for name, device in listed.items():
        other, where = of_class.setdefault(heads[name], (name, device))
        if where != device:
            raise BadInput(
                f"{source}: nodes '{other}' and '{name}' are of one class, on {where} and {device}"
            )
    missing = next((name for name, head in heads.items() if head not in of_class), None)
    if missing is not None:
        raise BadInput(f"{source}: no device for node '{missing}', nor for one of its class")
    return {name: of_class[head][1] for name, head in heads.items()}


def _head(node: Any) -> str:
    """The node that a node must be with: the first of its class."""
    classes = node.attr["_class"].list.s if "_class" in node.attr else ()
    return classes[0].decode().removeprefix("loc:@") if classes else node.name


def _names(source: str, nodes: list[_Object]) -> dict[int, str]:
    """The op's name by id: the node's own where all have one that TensorFlow can use."""
    own = [node.get("name") for node in nodes]
    usable = len(set(map(str, own))) == len(own) and all(
        isinstance(name, str) and _NAME.fullmatch(name) for name in own
    )
    names: dict[int, str] = {}
    for index, node in enumerate(nodes):
        number = _integer(source, f"nodes[{index}].", node, "id")
        if number in names:
            raise BadInput(f"{source}: nodes[{index}].id is {number}, a second one")
        names[number] = str(own[index]) if usable else f"node{number}"
    return names


def _wire(
    source: str, edges: list[_Object], names: Mapping[int, str]
) -> tuple[dict[int, list[float]], dict[int, list[str]]]:
    """The size of each output and the inputs of each node; an output for each cost of a source."""
    outputs: dict[int, list[float]] = {number: [] for number in names}
    inputs: dict[int, list[str]] = {number: [] for number in names}
    for index, edge in enumerate(edges):
        where = f"edges[{index}]."
        for end in ("sourceId", "destId"):
            if _integer(source, where, edge, end) not in names:
                raise BadInput(f"{source}: {where}{end} is {edge[end]}, the id of no node")
        size = _US_PER_MS * _number(source, where, edge, "cost")
        sizes = outputs[edge["sourceId"]]
        if size not in sizes:
            sizes.append(size)
        text = f"{names[edge['sourceId']]}:{sizes.index(size)}"
        if text not in inputs[edge["destId"]]:
            inputs[edge["destId"]].append(text)
    return outputs, inputs


def _accelerators(source: str, top: _Object) -> int:
    count = _integer(source, "", top, "maxFPGAs")
    if not 0 <= count <= device_profiles.MAX_COUNT:
        raise BadInput(f"{source}: maxFPGAs is {count}, must be in 0..{device_profiles.MAX_COUNT}")
    return count


def _profile(source: str, top: _Object, on_links: float) -> str:
    cores = min(max(1, _integer(source, "", top, "maxCPUs")), _MAX_THREADS)
    limit = _number(source, "", top, "maxSizePerFPGA")
    links = [
        {"source": a, "target": b, "scope": "local", "latency_us": 0, "gb_per_s": rate}
        for a, b, rate in (
            ("CPU", "GPU", _GB_PER_S),
            ("GPU", "CPU", _GB_PER_S),
            ("GPU", "GPU", _GB_PER_S / 2),
        )
    ]
    return json.dumps(
        {
            "version": 1,
            "name": "profiled_graph",
            "layout": "gpus",
            "notes": "A byte stands for a microsecond of transfer to or from host memory.",
            "devices": {
                "CPU": {"launch_us": 0, "threads": cores, "cores": cores},
                # 0 would be no limit.
                "GPU": {"launch_us": 0, "memory_bytes": max(limit + on_links, 1)},
            },
            "links": links,
        }
    )


def _parse(source: str, text: str) -> _Object:
    try:
        top = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{source}: not JSON: {error.msg} in line {error.lineno}") from error
    if not isinstance(top, dict):
        raise BadInput(f"{source}: not a JSON object")
    return top


def _objects(source: str, top: _Object, name: str) -> list[_Object]:
    values = top.get(name)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise BadInput(f"{source}: {name} is {_short(values)}, must be a list of objects")
    return values


def _number(
    source: str, where: str, fields: _Object, name: str, default: float | None = None
) -> float:
    value = fields.get(name, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or not is_number or not math.isfinite(value) or value < 0:
        raise BadInput(
            f"{source}: {where}{name} is {_short(value)}, must be a number of at least 0"
        )
    return float(value)


def _integer(source: str, where: str, fields: _Object, name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadInput(f"{source}: {where}{name} is {_short(value)}, must be a whole number")
    return value


def _flag(source: str, where: str, fields: _Object, name: str, *, default: bool) -> bool:
    value = fields.get(name, default)
    if value not in (0, 1):
        raise BadInput(f"{source}: {where}{name} is {_short(value)}, must be true or false")
    return bool(value)


def _short(value: Any) -> str:
    """A value as JSON, cut to a few words."""
    text = "missing" if value is None else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
