"""All placement methods by name: GO's and those it is compared with."""

from __future__ import annotations

from collections.abc import Mapping

from go_bench import methods_go
from go_bench.baselines import registry
from go_bench.baselines.method import Method

TF_DEFAULT = "tf_default"
HUMAN_EXPERT = "human_expert"
EXACT = "exact"

METHODS: Mapping[str, Method] = {
    **registry.METHODS,
    "go_policy": methods_go.go_policy,
    "go": methods_go.go,
}

# All but the exact one, which is for tiny graphs.
DEFAULT: tuple[str, ...] = tuple(name for name in METHODS if name != EXACT)

_OURS = ("go_policy", "go")


def needs_search(name: str) -> bool:
    """Whether the method draws lots, so that it is run with several seeds."""
    return name in _OURS or registry.needs_search(name)
