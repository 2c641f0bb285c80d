"""Small made-up policy inputs for tests."""

from __future__ import annotations

import numpy as np

from go_train.dataset import Example
from go_train.table import GROUP, FeatureTable

TABLE = FeatureTable.from_rows(
    [
        "node/log_time_share",
        "node/level",
        "node/upward_rank",
        "node/downward_rank",
        "node/log_matmul_flops",
        "edge/log_bytes",
        "edge/is_control",
        "edge/log_transfer_time",
        "device/is_gpu",
        "device/parallelism",
        "node_device/is_incoming",
        "node_device/log_relative_time",
        "link/log_latency",
        "link/log_rate",
        "version/1",
    ]
)


def random_features(ops: int, devices: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns the ten inputs of a random graph on devices that all differ, each op a group."""
    rng = np.random.default_rng(seed)
    edges = 2 * ops
    source = rng.integers(0, ops - 1, edges)
    target = np.minimum(source + rng.integers(1, 5, edges), ops - 1)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    mask = (rng.random((ops, devices)) < 0.8).astype(np.float32)
    mask[np.arange(ops), rng.integers(0, devices, ops)] = 1.0
    nodes = normal(ops, TABLE.width("node"))
    nodes[:, TABLE.column("node/log_time_share")] = rng.uniform(-0.3, 0.3, ops)
    ready = np.sort(rng.random(ops))
    nodes[:, TABLE.column("node/downward_rank")] = ready
    nodes[:, TABLE.column("node/upward_rank")] = 1 - ready
    flow = normal(edges, TABLE.width("edge"))
    flow[:, TABLE.column("edge/log_transfer_time")] = rng.uniform(-0.3, 0.3, edges)
    flow[:, TABLE.column("edge/is_control")] = rng.random(edges) < 0.1
    device = normal(devices, TABLE.width("device"))
    device[:, TABLE.column("device/parallelism")] = 1.5
    return {
        "node_features": nodes,
        "op_type": rng.integers(0, 1024, ops).astype(np.int32),
        "edge_source": source.astype(np.int32),
        "edge_target": target.astype(np.int32),
        "edge_features": flow,
        "device_features": device,
        "node_device_features": normal(ops, devices, TABLE.width("node_device")),
        "node_device_mask": mask,
        "link_features": normal(devices, devices, TABLE.width("link")),
        GROUP: np.arange(ops, dtype=np.int32),
    }


def permute_devices(features: dict[str, np.ndarray], order: np.ndarray) -> dict[str, np.ndarray]:
    """Returns `features` with device `order[i]` at position i."""
    return {
        **features,
        "device_features": features["device_features"][order],
        "node_device_features": features["node_device_features"][:, order],
        "node_device_mask": features["node_device_mask"][:, order],
        "link_features": features["link_features"][np.ix_(order, order)],
    }


def make_alike(features: dict[str, np.ndarray], devices: list[int]) -> dict[str, np.ndarray]:
    """Returns `features` where nothing tells `devices` apart."""
    alike = {name: value.copy() for name, value in features.items()}
    first = devices[0]
    link = alike["link_features"]
    for device in devices:
        alike["device_features"][device] = alike["device_features"][first]
        alike["node_device_features"][:, device] = alike["node_device_features"][:, first]
        alike["node_device_mask"][:, device] = 1.0
        link[device, :], link[:, device] = link[first, :].copy(), link[:, first].copy()
    for a in devices:
        for b in devices:
            link[a, b] = 0.25 if a == b else 0.5
    return alike


def learnable_examples(count: int, *, ops: int = 20) -> list[Example]:
    """Returns examples whose label is the device of the smaller "log_relative_time"."""
    examples = []
    for seed in range(count):
        features = random_features(ops, 2, seed=seed)
        features["node_device_mask"] = np.ones_like(features["node_device_mask"])
        times = features["node_device_features"][
            :, :, TABLE.column("node_device/log_relative_time")
        ]
        labels = times.argmin(axis=1).astype(np.int32)
        examples.append(
            Example(
                name=f"made-up-{seed}",
                family="made-up",
                features=features,
                labels=labels,
                weights=np.ones(ops, np.float32),
                priority=np.zeros(ops, np.int32),
                fusion=np.zeros(len(features["edge_source"]), np.float32),
            )
        )
    return examples
