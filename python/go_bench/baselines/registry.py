"""The methods that GO is compared with, by name."""

from __future__ import annotations

from collections.abc import Mapping

from go_bench.baselines import annealing, direct, evolutionary, exact, m_sct, metis
from go_bench.baselines.hdp import hdp
from go_bench.baselines.method import Method
from go_bench.baselines.placeto import placeto

METHODS: Mapping[str, Method] = {
    "tf_default": direct.tf_default,
    "single_device": direct.single_device,
    "human_expert": direct.human_expert,
    "metis": metis.metis,
    "metis_memory": metis.metis_memory,
    "m_topo": direct.list_scheduler("m_topo", weights=(1.0,)),
    "m_etf": direct.list_scheduler("m_etf"),
    "m_sct": m_sct.m_sct,
    "critical_path": direct.list_scheduler("critical_path"),
    "heft": direct.list_scheduler("heft"),
    "celeritas": direct.list_scheduler("celeritas"),
    "random": evolutionary.random,
    "evolutionary": evolutionary.evolutionary,
    "annealing": annealing.annealing,
    "hdp": hdp,
    "placeto": placeto,
    "exact": exact.exact,
}

_SEARCHES = frozenset(
    {"metis", "metis_memory", "random", "evolutionary", "annealing", "hdp", "placeto"}
)


def needs_search(name: str) -> bool:
    """Whether a method draws lots and spends a budget, so that it is run with several seeds."""
    return name in _SEARCHES
