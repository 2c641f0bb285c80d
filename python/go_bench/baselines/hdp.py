"""The hierarchical device placer (HDP): a grouper and a seq2seq placer, trained by REINFORCE.

Mirhoseini et al., "A Hierarchical Model for Device Placement", ICLR 2018. What differs from it:
ops that must share a device are grouped as one; several placements are sampled for each update.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from go_bench.baselines import hdp_network, reinforce, reinforce_units
from go_bench.baselines.contracted import compute_devices
from go_bench.baselines.method import Evaluator, Found, Task

_US_PER_SECOND = 1e6
_NEIGHBOURS = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class HdpConfig:
    """Settings; the defaults are published (the paper, and TensorFlow's hierarchical controller).

    Attributes:
      grouper_hidden: width of the grouper's hidden layer.
      groups_per_device, max_groups: number of groups = min(max_groups, groups_per_device x D).
      hidden: width of the decoder's LSTM; each direction of the encoder has half of it.
      learning_rate: of Adam.
      decay_start, decay_steps, decay: from update `decay_start` on, the learning rate is multiplied
        by `decay` every `decay_steps` updates.
      clip_norm: bound of the gradients' global norm.
      baseline_decay: weight of the past in the moving average of rewards.
      baseline_at_failing: start the average at a failure's reward; else at the first mean.
      failing_signal: step time that a placement without enough memory counts as.
      relative_time: step times count in units of the first batch's median; else in seconds.
      scale_advantages: divide each batch's advantages by their root mean square.
      tanh_constant: logits of devices are this times their hyperbolic tangent; 0 = as they are.
      logits_noise: standard deviation of the noise on those logits.
      samples: placements an update.
    """

    grouper_hidden: int = 64
    groups_per_device: int = 20
    max_groups: int = 256
    hidden: int = 512
    learning_rate: float = 0.1
    decay_start: int = 400
    decay_steps: int = 50
    decay: float = 0.95
    clip_norm: float = 1.0
    baseline_decay: float = 0.9
    baseline_at_failing: bool = True
    failing_signal: float = 100.0
    relative_time: bool = False
    scale_advantages: bool = False
    tanh_constant: float = 1.0
    logits_noise: float = 0.5
    samples: int = 16


PUBLISHED = HdpConfig()
TUNED = HdpConfig(
    learning_rate=0.0003,
    baseline_at_failing=False,
    relative_time=True,
    scale_advantages=True,
    tanh_constant=0.0,
    logits_noise=0.0,
)

# Called after each update with its number and its mean reward.
Watch = Callable[[int, float], None]


def hdp(
    task: Task,
    budget: int,
    seed: int,
    *,
    config: HdpConfig = TUNED,
    watch: Watch | None = None,
) -> Found:
    """Searches for a placement.

    Args:
      task: what is placed.
      budget: simulated steps.
      seed: of the weights and of all samples.
      config: settings.
      watch: sees the learning curve.
    """
    evaluator = Evaluator(task, budget)
    random = np.random.default_rng(seed)
    parts = reinforce_units.units(task.graph)
    if not parts.movable.any():
        evaluator.evaluate(task.graph.heuristic("incoming")[np.newaxis])
        return evaluator.found()
    targets = compute_devices(task.graph)
    num_groups = min(config.max_groups, config.groups_per_device * len(targets))
    inputs = _Inputs(task, parts, num_groups)
    network = hdp_network.Network(
        inputs.op_features,
        group_width=inputs.group_width,
        num_groups=num_groups,
        num_devices=len(targets),
        config=config,
        random=random,
    )
    failing = config.failing_signal
    baseline = reinforce.MovingBaseline(
        config.baseline_decay, -np.sqrt(failing) if config.baseline_at_failing else None
    )
    unit_seconds = None if config.relative_time else 1.0
    update = 0
    while evaluator.left:
        groups = reinforce.sample(
            network.group_probabilities(), random.random((inputs.num_movable, config.samples))
        ).T
        embedded = inputs.group_embeddings(groups)
        noise = config.logits_noise * random.standard_normal(
            (config.samples, num_groups, len(targets))
        )
        uniform = random.random((config.samples, num_groups))
        devices = network.sample_devices(embedded, noise, uniform)
        plans = inputs.placements(groups, targets[devices])
        seconds = evaluator.evaluate(plans) / _US_PER_SECOND
        if unit_seconds is None and np.isfinite(seconds).any():
            unit_seconds = float(np.median(seconds[np.isfinite(seconds)]))
        values = reinforce.rewards(seconds / (unit_seconds or 1.0), failing)
        if watch is not None:
            watch(update, float(np.mean(values)))
        if not evaluator.left:
            break
        advantages = baseline.advantages(values)
        if config.scale_advantages:
            advantages = reinforce.scaled(advantages)
        network.update(groups, embedded, noise, devices, advantages, _rate(config, update))
        update += 1
    return evaluator.found()


def _rate(config: HdpConfig, update: int) -> float:
    """The learning rate of an update."""
    decays = max(0, update - config.decay_start) // config.decay_steps
    return float(config.learning_rate * config.decay**decays)


class _Inputs:
    """What the grouper and the placer see of a graph.

    Attributes:
      op_features: type, sizes and neighbours of each movable unit, f32 [M, F].
      group_width: width of a group's embedding.
      num_movable: M.
    """

    def __init__(self, task: Task, parts: reinforce_units.Units, num_groups: int):
        self._graph = task.graph
        self._parts = parts
        self._num_groups = num_groups
        self._movable = np.flatnonzero(parts.movable)
        self.num_movable = len(self._movable)
        features = task.graph.features()
        first = np.unique(parts.of_op, return_index=True)[1][self._movable]
        kinds, kind = np.unique(features["op_type"][first], return_inverse=True)
        sizes = features["node_features"][first]
        self._own = np.concatenate([np.eye(len(kinds), dtype=np.float32)[kind], sizes], axis=1)
        number = np.full(len(parts), -1)
        number[self._movable] = np.arange(self.num_movable)
        self._edges = number[parts.edges]
        self._edges = self._edges[(self._edges >= 0).all(axis=1)]
        self.op_features = np.concatenate([self._own, self._neighbours()], axis=1)
        # Types and sizes, share of the ops, groups that it feeds, groups that feed it.
        self.group_width = self._own.shape[1] + 1 + 2 * num_groups

    def _neighbours(self) -> np.ndarray:
        """Own place in topological order, then neighbours' places, negative for inputs."""
        place = (np.arange(self.num_movable) + 1) / self.num_movable
        table = np.zeros((self.num_movable, 1 + _NEIGHBOURS), np.float32)
        table[:, 0] = place
        filled = np.ones(self.num_movable, np.int64)
        for source, target in self._edges:
            for one, other, sign in ((source, target, 1.0), (target, source, -1.0)):
                if filled[one] <= _NEIGHBOURS:
                    table[one, filled[one]] = sign * place[other]
                    filled[one] += 1
        return table

    def group_embeddings(self, groups: np.ndarray) -> np.ndarray:
        """Embeddings of groups, f32 [samples, G, group_width], by units' groups, [samples, M]."""
        samples, count = len(groups), self._num_groups
        result = np.zeros((samples, count, self.group_width), np.float32)
        width = self._own.shape[1]
        for k, group in enumerate(groups):
            members = np.bincount(group, minlength=count)
            order = np.argsort(group, kind="stable")
            present = np.flatnonzero(members)
            starts = np.concatenate([[0], np.cumsum(members[present])[:-1]])
            totals = np.add.reduceat(self._own[order], starts, axis=0)
            result[k, present, :width] = totals / members[present, np.newaxis]
            result[k, :, width] = members / max(1, self.num_movable)
            pair = group[self._edges[:, 0]] * count + group[self._edges[:, 1]]
            between = np.bincount(pair, minlength=count * count).reshape(count, count) > 0
            result[k, :, width + 1 : width + 1 + count] = between
            result[k, :, width + 1 + count :] = between.T
        return result

    def placements(self, groups: np.ndarray, devices: np.ndarray) -> np.ndarray:
        """Legal placements, i32 [samples, N], of units' groups and groups' devices."""
        wanted = np.broadcast_to(self._parts.home, (len(groups), len(self._parts))).copy()
        wanted[:, self._movable] = np.take_along_axis(devices, groups, axis=1)
        return reinforce_units.legal_placements(self._graph, self._parts, wanted)
