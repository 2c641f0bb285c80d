"""How good a policy is: imitation accuracy, and simulated step time against heuristics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from go_train import losses
from go_train.dataset import Example
from go_train.table import Features


@dataclasses.dataclass(frozen=True)
class Score:
    """Result of one example; step times in microseconds, all simulated with one schedule.

    Attributes:
        name: the example.
        family: its family.
        ops: number of ops.
        devices: number of devices.
        accuracy: share of ops, by weight, placed as the label says.
        greedy_us: step time of the policy's most likely plan.
        best_us: of the policy's best feasible sample; of its fastest where none is feasible.
        feasible: whether that is within memory limits.
        label_us: of the plan to imitate.
        list_us: of the best list schedule.
        single_us: of the best plan on one device.
        incoming_us: of the graph as it came.
    """

    name: str
    family: str
    ops: int
    devices: int
    accuracy: float
    greedy_us: float
    best_us: float
    feasible: bool
    label_us: float
    list_us: float
    single_us: float
    incoming_us: float


def block_means(values: np.ndarray, block_of: np.ndarray) -> np.ndarray:
    """Returns [blocks, any]: means of `values` [ops, any] over the ops of each block."""
    count = int(block_of.max()) + 1
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, block_of, values)
    return sums / np.maximum(np.bincount(block_of, minlength=count), 1)[:, np.newaxis]


def sample_placements(
    logits: np.ndarray, blocks: np.ndarray, mask: np.ndarray, *, samples: int, seed: int
) -> np.ndarray:
    """Draws placements int32 [samples, ops], as the pass does (cc/policy.h).

    Each is drawn by the blocks of one level, which have the mean logits of their ops: first the
    most likely plan of each level, then draws at temperatures that rise to 1.

    Args:
        logits: scores of devices by op.
        blocks: the block of each op by level [levels, ops], from `OpGraph.blocks`.
        mask: [ops, devices], above 0 where legal.
        samples: how many placements.
        seed: equal seeds give equal draws.
    """
    rng = np.random.default_rng(seed)
    last_turn = max(1, (samples - 1) // len(blocks))
    means = [block_means(logits, block_of) for block_of in blocks]
    drawn = []
    for k in range(samples):
        level = k % len(blocks)
        temperature = (k // len(blocks)) / last_turn
        scores = means[level] + temperature * rng.gumbel(size=means[level].shape)
        of_ops = np.where(mask > 0, scores[blocks[level]], -np.inf)
        drawn.append(of_ops.argmax(axis=1))
    return np.stack(drawn).astype(np.int32)


def score(
    example: Example,
    policy: Callable[[Features], tf.Tensor],
    *,
    samples: int = 16,
    seed: int = 0,
) -> Score:
    """Scores the policy alone on an example, with no heuristic plans beside it.

    Raises:
        ValueError: the example cannot be simulated.
    """
    graph, plan = example.graph, example.plan
    if plan is None:
        raise ValueError(f"{example.name}: the example was built without its plan")
    logits = policy(example.features)
    drawn = sample_placements(
        logits.numpy(),
        graph.blocks(),
        example.features["node_device_mask"],
        samples=samples,
        seed=seed,
    )
    result = graph.simulate(drawn, example.priority[np.newaxis])
    step_us = np.asarray(result.step_us)
    times = np.where(result.feasible, step_us, np.inf)
    feasible = bool(np.isfinite(times).any())
    accuracy = losses.placement_accuracy(
        logits, tf.constant(example.labels), tf.constant(example.weights)
    )
    return Score(
        name=example.name,
        family=example.family,
        ops=logits.shape[0],
        devices=logits.shape[1],
        accuracy=float(accuracy),
        greedy_us=float(step_us[0]),
        best_us=float(times.min() if feasible else step_us.min()),
        feasible=feasible,
        label_us=plan.step_us,
        list_us=plan.list_us,
        single_us=plan.single_us,
        incoming_us=plan.incoming_us,
    )


@dataclasses.dataclass(frozen=True)
class Summary:
    """Means over examples; speed-ups are geometric means of t_baseline / t_policy.

    Attributes:
        examples: how many; those with no feasible list schedule are left out of `*_over_list`.
        accuracy: mean imitation accuracy.
        infeasible: for how many no sample fitted into memory.
        greedy_over_list: the most likely plan against the best list schedule.
        best_over_list: the best sample against the best list schedule.
        best_over_single: the best sample against the best single device.
        best_over_label: the best sample against the plan to imitate.
        best_over_incoming: the best sample against the graph as it came.
        label_over_list: the plan to imitate against the best list schedule.
    """

    examples: int
    accuracy: float
    infeasible: int
    greedy_over_list: float
    best_over_list: float
    best_over_single: float
    best_over_label: float
    best_over_incoming: float
    label_over_list: float


def summarize(scores: Sequence[Score]) -> Summary:
    """Returns the means of `scores`.

    Raises:
        ValueError: there are none.
    """
    if not scores:
        raise ValueError("summarize: scores is empty")

    def speedup(plan: str, baseline: str) -> float:
        ratios = [getattr(s, f"{baseline}_us") / getattr(s, f"{plan}_us") for s in scores]
        ratios = [ratio for ratio in ratios if np.isfinite(ratio)]
        return float(np.exp(np.log(ratios).mean())) if ratios else float("nan")

    return Summary(
        examples=len(scores),
        accuracy=float(np.mean([s.accuracy for s in scores])),
        infeasible=sum(not s.feasible for s in scores),
        greedy_over_list=speedup("greedy", "list"),
        best_over_list=speedup("best", "list"),
        best_over_single=speedup("best", "single"),
        best_over_label=speedup("best", "label"),
        best_over_incoming=speedup("best", "incoming"),
        label_over_list=speedup("label", "list"),
    )
