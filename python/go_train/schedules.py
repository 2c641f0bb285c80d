"""Learning rates and the order of graphs, as functions of the update alone.

So a resumed run sees what an unbroken one would have seen.
"""

from __future__ import annotations

import numpy as np


def learning_rate(peak: float, *, step: int, steps: int, warmup: int) -> float:
    """Returns the rate of update `step` (from 0): a linear rise, then a cosine to 0."""
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return peak * 0.5 * (1.0 + float(np.cos(np.pi * done)))


def batch_indices(seed: int, *, step: int, size: int, examples: int) -> np.ndarray:
    """Returns the examples of update `step`; each epoch has all of them, in its own order."""
    positions = np.arange(step * size, (step + 1) * size)
    orders = {
        epoch: np.random.default_rng([seed, epoch]).permutation(examples)
        for epoch in np.unique(positions // examples)
    }
    return np.array([orders[p // examples][p % examples] for p in positions])


def falling(start: float, end: float, *, step: int, steps: int) -> float:
    """Returns a value that goes from `start` to `end` evenly."""
    return start + (end - start) * min(1.0, step / max(1, steps - 1))
