"""How good a policy is: imitation accuracy, and simulated step time against heuristics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from go_train import dataset, losses
from go_train.dataset import Example
from go_train.network import Features


@dataclasses.dataclass(frozen=True)
class Score:
    """Result of one example.

    Attributes:
        name: the example.
        family: its family.
        ops: number of ops.
        devices: number of devices.
        accuracy: share of ops, by weight, placed as the label says.
        greedy_us: simulated step time of the policy's most likely plan, microseconds.
        best_us: of the policy's best sample.
        label_us: of the plan to imitate.
        m_etf_us: of m-ETF.
        incoming_us: of the graph as it came.
    """

    name: str
    family: str
    ops: int
    devices: int
    accuracy: float
    greedy_us: float
    best_us: float
    label_us: float
    m_etf_us: float
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
    if example.graph is None:
        raise ValueError(f"{example.name}: the example was built without its graph")
    logits = policy(example.features)
    groups = np.asarray(example.graph.groups)
    drawn = sample_placements(logits.numpy(), groups, samples=samples, seed=seed)
    plans = [example.graph.repair(plan) for plan in drawn]
    plans += [
        example.labels,
        example.graph.heuristic("m_etf"),
        example.graph.heuristic(dataset.INCOMING),
    ]
    step_us = np.asarray(example.graph.simulate(np.stack(plans)).step_us)
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
        best_us=float(step_us[:samples].min()),
        label_us=float(step_us[-3]),
        m_etf_us=float(step_us[-2]),
        incoming_us=float(step_us[-1]),
    )


@dataclasses.dataclass(frozen=True)
class Summary:
    """Means over examples; speed-ups are geometric means of t_baseline / t_policy.

    Attributes:
        examples: how many.
        accuracy: mean imitation accuracy.
        greedy_over_m_etf: the most likely plan against m-ETF.
        best_over_m_etf: the best sample against m-ETF.
        best_over_label: the best sample against the plan to imitate.
        best_over_incoming: the best sample against the graph as it came.
        label_over_incoming: the plan to imitate against the graph as it came.
    """

    examples: int
    accuracy: float
    greedy_over_m_etf: float
    best_over_m_etf: float
    best_over_label: float
    best_over_incoming: float
    label_over_incoming: float


def summarize(scores: Sequence[Score]) -> Summary:
    """Returns the means of `scores`.

    Raises:
        ValueError: there are none.
    """
    if not scores:
        raise ValueError("summarize: scores is empty")

    def speedup(plan: str, baseline: str) -> float:
        ratios = [getattr(s, f"{baseline}_us") / getattr(s, f"{plan}_us") for s in scores]
        return float(np.exp(np.log(ratios).mean()))

    return Summary(
        examples=len(scores),
        accuracy=float(np.mean([s.accuracy for s in scores])),
        greedy_over_m_etf=speedup("greedy", "m_etf"),
        best_over_m_etf=speedup("best", "m_etf"),
        best_over_label=speedup("best", "label"),
        best_over_incoming=speedup("best", "incoming"),
        label_over_incoming=speedup("label", "incoming"),
    )
