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


def sample_placements(
    logits: np.ndarray, groups: np.ndarray, *, samples: int, seed: int
) -> np.ndarray:
    """Draws placements int32 [samples, ops] from logits [ops, devices].

    A colocation group has the mean logits of its ops and is drawn once. The first placement is the
    most likely one; the others are drawn at temperatures that rise evenly to 1, since samples at
    full temperature cut every chain of which the policy is not sure.

    Args:
        logits: scores of devices by op.
        groups: the group of each op, numbered from 0.
        samples: how many placements.
        seed: equal seeds give equal draws.
    """
    rng = np.random.default_rng(seed)
    temperatures = np.linspace(0.0, 1.0, samples) if samples > 1 else np.zeros(1)
    sums = np.zeros((int(groups.max()) + 1, logits.shape[1]))
    np.add.at(sums, groups, logits)
    means = sums / np.maximum(np.bincount(groups, minlength=len(sums)), 1)[:, None]
    noise = rng.gumbel(size=(samples, *means.shape))
    drawn = np.argmax(means + temperatures[:, None, None] * noise, axis=2)
    return drawn[:, groups].astype(np.int32)


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
    groups = np.asarray(graph.groups)
    drawn = sample_placements(logits.numpy(), groups, samples=samples, seed=seed)
    # Legal as they are: groups are drawn as one, and illegal devices have no chance.
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
