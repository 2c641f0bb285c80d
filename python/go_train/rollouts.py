"""Plans drawn from the policy for one graph, their rewards, and what is remembered of the graph."""

from __future__ import annotations

import dataclasses

import numpy as np

from go_train.dataset import Example

_LEAST_SPREAD = 1e-3  # Of -sqrt(step / reference): a fifth of a percent of the step.


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Options drawn for choices.

    Attributes:
        actions: int32 [rollouts, choices].
        logs: log p of each, float32 [rollouts, choices].
        drawn: 1 where an action was drawn, 0 where the best was taken, float32 [rollouts, choices].
    """

    actions: np.ndarray
    logs: np.ndarray
    drawn: np.ndarray


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Returns log p [choices, options]."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def draw(logits: np.ndarray, *, rollouts: int, explore: float, rng: np.random.Generator) -> Drawn:
    """Draws options for all choices, in each rollout for some of them.

    If thousands of choices are drawn at once, the few that a rollout did well drown in the many
    that it did badly. So each rollout draws a random share of its choices and takes the best option
    in the others, which is a sample of a policy in its own right: one choice's gradient is that of
    the expected reward while most others are at their best. The first rollout draws none.

    Args:
        logits: scores [choices, options].
        rollouts: how many.
        explore: the share that is drawn.
        rng: of all draws.
    """
    logs = log_softmax(logits.astype(np.float64))
    choices = len(logits)
    best = logs.argmax(axis=1)
    drawn = rng.random((rollouts, choices)) < explore
    drawn[:1] = False
    noise = rng.gumbel(size=(rollouts, *logs.shape)).astype(np.float32)
    sampled = (logs[np.newaxis].astype(np.float32) + noise).argmax(axis=2)
    actions = np.where(drawn, sampled, best[np.newaxis]).astype(np.int32)
    return Drawn(
        actions=actions,
        logs=logs[np.arange(choices)[np.newaxis], actions].astype(np.float32),
        drawn=drawn.astype(np.float32),
    )


@dataclasses.dataclass(frozen=True)
class Choices:
    """The placement choices of a graph: its blocks with more than one device legal for all ops.

    Attributes:
        of_op: the choice of each op, -1 for none, int32 [ops].
        weights: how much each choice counts, float32 [choices].
    """

    of_op: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, block_of: np.ndarray, mask: np.ndarray, weights: np.ndarray) -> Choices:
        """Returns the choices of a graph.

        Args:
            block_of: the block of each op, numbered from 0.
            mask: [ops, devices], above 0 where legal.
            weights: of ops [ops].
        """
        count = int(block_of.max()) + 1
        common = np.ones((count, mask.shape[1]), bool)
        np.logical_and.at(common, block_of, mask > 0)
        free = common.sum(axis=1) > 1
        number = np.where(free, np.cumsum(free) - 1, -1).astype(np.int32)
        sums = np.bincount(block_of, weights, minlength=count)[free]
        return cls(number[block_of], sums.astype(np.float32))

    def logits(self, logits: np.ndarray) -> np.ndarray:
        """Returns the mean logits [choices, devices] of each choice's ops, of [ops, devices]."""
        free = self.of_op >= 0
        sums = np.zeros((len(self.weights), logits.shape[1]))
        np.add.at(sums, self.of_op[free], logits[free])
        counts = np.bincount(self.of_op[free], minlength=len(sums))
        return (sums / counts[:, np.newaxis]).astype(np.float32)

    def placements(self, actions: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
        """Returns int32 [rollouts, ops].

        Args:
            actions: devices [rollouts, choices].
            otherwise: devices of ops without a choice [ops].
        """
        padded = np.concatenate([actions, np.zeros((len(actions), 1), np.int32)], axis=1)
        return np.where(self.of_op >= 0, padded[:, self.of_op], otherwise).astype(np.int32)


def rewards(
    step_us: np.ndarray,
    feasible: np.ndarray,
    peak_bytes: np.ndarray,
    *,
    reference_us: float,
    limits: np.ndarray | None,
    penalty: float,
) -> np.ndarray:
    """Returns -sqrt(step / reference), less a penalty that grows with the memory that is lacking.

    Args:
        step_us: simulated step times [rollouts].
        feasible: whether each fits into memory [rollouts].
        peak_bytes: [rollouts, devices].
        reference_us: step time of the best heuristic.
        limits: bytes that each device may hold [devices]; None = no limits.
        penalty: for a plan that does not fit, up to twice that with how far it does not.
    """
    result = -np.sqrt(step_us / reference_us)
    if limits is None:
        return result
    over = np.maximum(peak_bytes / limits[np.newaxis] - 1.0, 0.0).max(axis=1)
    return result - np.where(feasible, 0.0, penalty * (1.0 + np.minimum(over, 1.0)))


def advantages(reward: np.ndarray, baseline: float) -> np.ndarray:
    """Returns rewards over the baseline in units of their own spread, float32 [rollouts].

    Rewards that hardly differ say nothing: their spread counts as _LEAST_SPREAD at least.
    """
    return ((reward - baseline) / max(float(reward.std()), _LEAST_SPREAD)).astype(np.float32)


def reference_us(example: Example) -> float:
    """Returns the step time of the best heuristic that fits, or of the incoming graph."""
    if example.plan is None:
        raise ValueError(f"{example.name}: the example was built without its plan")
    known = [example.plan.list_us, example.plan.single_us, example.plan.incoming_us]
    return min(time for time in known if np.isfinite(time))


@dataclasses.dataclass
class Memory:
    """What is remembered of a graph between updates; part of the checkpoint.

    Attributes:
        baseline: running mean of rewards; NaN before the first.
        best_us: step time of the best feasible plan seen.
        best: that plan, int8 [ops].
    """

    baseline: float
    best_us: float
    best: np.ndarray

    @classmethod
    def of(cls, example: Example) -> Memory:
        """Returns the memory of a graph that was not yet seen: its label is the best plan."""
        step_us = np.inf if example.plan is None else example.plan.step_us
        return cls(float("nan"), step_us, example.labels.astype(np.int8))

    def learn(self, reward: np.ndarray, *, decay: float) -> float:
        """Takes the rewards into the running mean, and returns it."""
        mean = float(np.mean(reward))
        self.baseline = (
            mean if np.isnan(self.baseline) else decay * self.baseline + (1 - decay) * mean
        )
        return self.baseline

    def offer(self, placements: np.ndarray, step_us: np.ndarray, feasible: np.ndarray) -> None:
        """Takes the best of the plans if it beats the best so far."""
        times = np.where(feasible, step_us, np.inf)
        at = int(times.argmin())
        if times[at] < self.best_us:
            self.best_us, self.best = float(times[at]), placements[at].astype(np.int8)
