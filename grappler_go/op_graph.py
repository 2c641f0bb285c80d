"""A graph as the pass sees it: features, legality, heuristics, simulation, all from C++."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from grappler_go import _library, config

FEATURE_NAMES = (
    "node_features",
    "op_type",
    "edge_source",
    "edge_target",
    "edge_features",
    "device_features",
    "node_device_features",
    "node_device_mask",
    "link_features",
)


@dataclasses.dataclass(frozen=True)
class Simulation:
    """Simulated steps of K placements on D devices.

    Attributes:
      step_us: step time in microseconds, f64 [K].
      feasible: whether peak memory is within every device's limit, bool [K].
      busy_us: compute time of each device's executor, copying included, f64 [K, D].
      peak_bytes: peak memory, f64 [K, D].
      why_infeasible: the devices over their limit, in words; "" for a feasible placement. Length K.
      seconds: what the simulation took, the checks of the input apart.
    """

    step_us: np.ndarray
    feasible: np.ndarray
    busy_us: np.ndarray
    peak_bytes: np.ndarray
    why_infeasible: tuple[str, ...]
    seconds: float


@dataclasses.dataclass(frozen=True)
class Timeline:
    """A simulated step of N ops and T transfers, times in microseconds.

    Attributes:
      start_us, end_us: of each op, f64 [N].
      transfer_ends: op that made the tensor, device it left, device it went to, i32 [T, 3].
      transfer_us: start and end on the link, and the bytes, f64 [T, 3].
      longest_path: the ops of the longest path, transfers included, if nothing ever waited.
    """

    start_us: np.ndarray
    end_us: np.ndarray
    transfer_ends: np.ndarray
    transfer_us: np.ndarray
    longest_path: np.ndarray


@dataclasses.dataclass(frozen=True)
class Dataflow:
    """The edges of N ops, E of them, with their T tensors, on D devices.

    Attributes:
      source, target, tensor: the op that made the tensor, the op that reads it, and which tensor it
        is; control edges carry a tensor of no bytes. i32 [E], targets ascending.
      tensor_op: the op that made each tensor, i32 [T].
      tensor_bytes: size of each tensor, f64 [T].
      mask: whether each op may go to each device, bool [N, D].
      transfer_us: fixed time of a transfer, and time a byte, f64 [D, D, 2].
      memory_bytes: limit of each device, 0 = none, f64 [D].
    """

    source: np.ndarray
    target: np.ndarray
    tensor: np.ndarray
    tensor_op: np.ndarray
    tensor_bytes: np.ndarray
    mask: np.ndarray
    transfer_us: np.ndarray
    memory_bytes: np.ndarray


def feature_table() -> tuple[str, ...]:
    """The names of all features in order ("node/log_bytes", ...), which a policy is trained on."""
    with tf.init_scope():
        return tuple(_texts(_library.ops().grappler_go_feature_table()))


class OpGraph:
    """A GraphDef read for planning on given devices. Nodes are in a canonical topological order.

    Attributes:
      names, op_types, rules: of each op; a rule says why an op cannot move ("free" if it can).
        Length N.
      devices: full device names in canonical order. Length D.
      groups: ops with one number must share a device, i32 [N].
      op_us: estimated compute time of each op on each device in microseconds, f32 [N, D].
      cost_sources: where each op's time is from: measured, cached, interpolated, scaled,
        analytical or free (cc/cost_model.h). Length N.
      cost_keys: what each op's cost depends on, "" for ops of no cost (cc/op_key.h). Length N.
      work_size: operations and bytes of each op, f64 [N].
      persistent_bytes: of each op, what outlives the step: variables and constants, f64 [N].
      critical_path_us, work_us, fixed_us: lower bounds of the step time in microseconds
        (cc/simulator.h).
      memory_share: persistent memory over all that the devices have; above 1, no placement fits. 0
        where some device has no limit.
    """

    def __init__(
        self,
        graph_def: graph_pb2.GraphDef,
        devices: Sequence[str],
        *,
        profile: str | None = None,
        fetch: Iterable[str] = (),
        feed: Iterable[str] = (),
        costs: str = "",
        override_user_devices: bool = False,
        move_state: bool = False,
    ):
        """Reads the graph.

        Args:
          graph_def: the graph. Ops without a device count as where TensorFlow's placer would put
            them.
          devices: full device names; they need not be attached.
          profile: device profile, JSON text; None = built-in figures.
          fetch: names of fetched ops or tensors.
          feed: names of fed ops or tensors; those ops stay.
          costs: file of measured op times, JSON; "" = analytical estimates.
          override_user_devices: ops with a device that the user asked for may move too.
          move_state: the graph has not run yet, so variables may move together with their users.

        Raises:
          tf.errors.InvalidArgumentError: a malformed graph, device name, profile or costs file.
        """
        self._ops = _library.ops()
        fetch, feed = list(fetch), list(feed)
        with tf.init_scope():
            self._handle = self._ops.grappler_go_open(
                graph_def.SerializeToString(),
                tf.constant(list(devices), tf.string),
                tf.constant(fetch, tf.string, shape=[len(fetch)]),
                tf.constant(feed, tf.string, shape=[len(feed)]),
                profile or "",
                costs,
                override_user_devices=override_user_devices,
                move_state=move_state,
            )
            info = self._ops.grappler_go_info(self._handle)
        self.names = _texts(info.names)
        self.op_types = _texts(info.ops)
        self.rules = _texts(info.rules)
        self.devices = _texts(info.devices)
        self.groups: np.ndarray = info.groups.numpy()
        self.op_us: np.ndarray = info.op_us.numpy()
        self.cost_keys = _texts(info.cost_keys)
        self.work_size: np.ndarray = info.work_size.numpy()
        self.cost_sources = _texts(info.cost_sources)
        self.persistent_bytes: np.ndarray = info.persistent_bytes.numpy()
        self.critical_path_us, self.work_us, self.fixed_us, self.memory_share = (
            float(bound) for bound in info.bounds.numpy()
        )

    @property
    def num_nodes(self) -> int:
        """The number of ops."""
        return len(self.names)

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.devices)

    def features(self) -> dict[str, np.ndarray]:
        """The inputs of a policy by name, of N ops, E edges, D devices, as `feature_table` says."""
        with tf.init_scope():
            values = self._ops.grappler_go_features(self._handle)
        return {name: value.numpy() for name, value in zip(FEATURE_NAMES, values, strict=True)}

    def dataflow(self) -> Dataflow:
        """The edges, where each op may go, and what transfers take."""
        with tf.init_scope():
            result = self._ops.grappler_go_dataflow(self._handle)
        return Dataflow(
            source=result.source.numpy(),
            target=result.target.numpy(),
            tensor=result.tensor.numpy(),
            tensor_op=result.tensor_op.numpy(),
            tensor_bytes=result.tensor_bytes.numpy(),
            mask=result.mask.numpy().astype(bool),
            transfer_us=result.links.numpy(),
            memory_bytes=result.memory_bytes.numpy(),
        )

    def blocks(self) -> np.ndarray:
        """What a policy decides as one, by level: the block of each op, i32 [L, N].

        Level 0 has the groups; each next one joins blocks that are dear to part (cc/policy.h).
        """
        with tf.init_scope():
            return self._ops.grappler_go_blocks(self._handle).numpy()

    def priorities(self) -> np.ndarray:
        """The priorities that the pass orders ops by, the longest remaining path first, i32 [N]."""
        with tf.init_scope():
            return self._ops.grappler_go_priorities(self._handle).numpy()

    def heuristic(self, name: str, *, seed: int = 0, transfer_weight: float = 1.0) -> np.ndarray:
        """The placement of a heuristic, i32 [N] device indices.

        Args:
          name: incoming, single_device (`seed` = which), random, m_etf, critical_path, heft, m_topo
            or celeritas.
          seed: of random, or the device of single_device.
          transfer_weight: how shy of transfers list schedulers (all but m_topo) are, 1 = as the
            links are.
        """
        with tf.init_scope():
            placement = self._ops.grappler_go_heuristic(
                self._handle, heuristic=name, seed=seed, transfer_weight=transfer_weight
            )
        return placement.numpy()

    def simulate(
        self, placements: np.ndarray, priorities: np.ndarray | None = None, *, threads: int = 0
    ) -> Simulation:
        """Simulates a step of each placement, i32 [K, N].

        Args:
          placements: device indices.
          priorities: each ready queue's order, higher first, i32 [K, N] or [1, N] for all; None =
            first come, first served, as TensorFlow's executor does.
          threads: to use, 0 = one a core; the answer is the same with any number.

        Raises:
          tf.errors.FailedPreconditionError: a placement is not legal.
        """
        with tf.init_scope():
            result = self._ops.grappler_go_simulate(
                self._handle,
                _matrix(placements),
                self._priorities(priorities),
                threads=threads,
            )
        return Simulation(
            step_us=result.step_us.numpy(),
            feasible=result.feasible.numpy().astype(bool),
            busy_us=result.busy_us.numpy(),
            peak_bytes=result.peak_bytes.numpy(),
            why_infeasible=tuple(_texts(result.why_infeasible)),
            seconds=float(result.seconds.numpy()),
        )

    def timeline(self, placement: np.ndarray, priority: np.ndarray | None = None) -> Timeline:
        """The simulated step of one placement, i32 [N], op by op; `priority` likewise or None."""
        with tf.init_scope():
            result = self._ops.grappler_go_timeline(
                self._handle,
                _matrix(placement[None]),
                self._priorities(None if priority is None else priority[None]),
            )
        return Timeline(
            start_us=result.start_us.numpy(),
            end_us=result.end_us.numpy(),
            transfer_ends=result.transfer_ends.numpy(),
            transfer_us=result.transfer_us.numpy(),
            longest_path=result.longest_path.numpy(),
        )

    def _priorities(self, priorities: np.ndarray | None) -> tf.Tensor:
        empty = np.zeros((0, self.num_nodes), np.int32)
        return _matrix(empty if priorities is None else priorities)

    def legal(self, placement: np.ndarray) -> str:
        """The first violation of a placement, i32 [N], in words; "" for a legal one."""
        with tf.init_scope():
            violations = self._ops.grappler_go_check(self._handle, _matrix(placement[None]))
        return _texts(violations)[0]

    def repair(self, placement: np.ndarray) -> np.ndarray:
        """The nearest legal placement, i32 [N]: each group where most of its compute was wanted."""
        with tf.init_scope():
            return self._ops.grappler_go_repair(self._handle, _matrix(placement[None])).numpy()[0]

    def choose(self, **options: Any) -> str:
        """What the pass would decide with these options of `enable`, as JSON (see cc/report.h)."""
        serialized = config.custom_optimizer(**options).SerializeToString()
        with tf.init_scope():
            return self._ops.grappler_go_choose(self._handle, serialized).numpy().decode()

    def apply(self, plan_json: str) -> graph_pb2.GraphDef:
        """The graph with a plan in it.

        Raises:
          tf.errors.FailedPreconditionError: the plan is not legal for this graph.
          tf.errors.NotFoundError: the plan names an op that the graph does not have.
          tf.errors.InvalidArgumentError: the plan is malformed.
        """
        with tf.init_scope():
            serialized = self._ops.grappler_go_apply(self._handle, plan_json).numpy()
        return graph_pb2.GraphDef.FromString(serialized)


def _texts(tensor: Any) -> list[str]:
    return [text.decode() for text in np.asarray(tensor)]


def _matrix(placements: np.ndarray) -> tf.Tensor:
    return tf.constant(np.asarray(placements, np.int32), tf.int32)
