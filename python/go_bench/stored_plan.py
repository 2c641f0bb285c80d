"""Plans as they are kept in rows: small enough to stand there, and safe against silent damage."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import zlib

import numpy as np

_DEVICE = np.dtype("<i1")  # A graph has at most 64 devices.
_PRIORITY = np.dtype("<i4")
_CHECKSUM_DIGITS = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredPlan:
    """Where each op runs, and in which order.

    Attributes:
      nodes: number of ops, in the order of `grappler_go.OpGraph`.
      device: base64 of the zlib-compressed device indices, an i8 each.
      priority: likewise the priorities, a little-endian i32 each; None = TensorFlow's order.
      checksum: first 16 hexadecimal digits of the SHA-256 of the device bytes, then the priority
        bytes, uncompressed.
    """

    nodes: int
    device: str
    priority: str | None = None
    checksum: str


def pack(placement: np.ndarray, priority: np.ndarray | None = None) -> StoredPlan:
    """Returns the plan of N ops as a row keeps it.

    Args:
      placement: device indices, integer [N].
      priority: higher goes first, integer [N]; None = as TensorFlow does.

    Raises:
      ValueError: an index or a priority out of range, or arrays of unlike shapes.
    """
    device = _narrow("placement", placement, _DEVICE)
    if device.ndim != 1 or (device < 0).any():
        raise ValueError("pack: placement must be a list of device indices from 0 on")
    order = None if priority is None else _narrow("priority", priority, _PRIORITY)
    if order is not None and order.shape != device.shape:
        raise ValueError(f"pack: {device.shape} devices, but {order.shape} priorities")
    return StoredPlan(
        nodes=len(device),
        device=_compress(device),
        priority=None if order is None else _compress(order),
        checksum=_checksum(device, order),
    )


def unpack(plan: StoredPlan) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns placement and priority, i32 [N] each, the latter None where the plan has none.

    Raises:
      ValueError: the plan was damaged; the message says in which field.
    """
    device = _expand("device", plan.device, _DEVICE, plan.nodes)
    order = (
        None if plan.priority is None else _expand("priority", plan.priority, _PRIORITY, plan.nodes)
    )
    if _checksum(device, order) != plan.checksum:
        raise ValueError(f"field 'checksum' is '{plan.checksum}', but the plan's own is another")
    if (device < 0).any():
        raise ValueError("field 'device' has an index below 0")
    return device.astype(np.int32), None if order is None else order.astype(np.int32)


def _narrow(name: str, values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    wide = np.asarray(values)
    if wide.dtype.kind not in "iu":
        raise ValueError(f"pack: {name} must be integers, got {wide.dtype}")
    narrow = wide.astype(dtype)
    if not np.array_equal(wide, narrow):
        raise ValueError(f"pack: {name} has values out of range of {dtype}")
    return narrow


def _compress(values: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(values.tobytes(), 9)).decode()


def _expand(name: str, text: str, dtype: np.dtype, nodes: int) -> np.ndarray:
    # One byte more than wanted is enough to see that there are too many.
    limit = nodes * dtype.itemsize + 1
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), limit)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"field '{name}' cannot be unpacked: {error}") from error
    if len(raw) != nodes * dtype.itemsize:
        raise ValueError(f"field '{name}' does not have {nodes} ops")
    return np.frombuffer(raw, dtype)


def _checksum(device: np.ndarray, order: np.ndarray | None) -> str:
    digest = hashlib.sha256(device.tobytes())
    digest.update(b"" if order is None else order.tobytes())
    return digest.hexdigest()[:_CHECKSUM_DIGITS]
