"""The benchmark's suites by name."""

from __future__ import annotations

from collections.abc import Sequence

from go_bench.runner import Suite
from go_bench.suites.msr_fiddle import MsrFiddleSuite
from go_bench.suites.placement_measured import PlacementMeasuredSuite
from go_bench.suites.placement_simulated import PlacementSimulatedSuite
from go_bench.suites.simulator import SimulatorSuite
from grappler_go.errors import BadInput

ALL: Sequence[Suite] = (
    SimulatorSuite(),
    PlacementSimulatedSuite(),
    PlacementMeasuredSuite(),
    MsrFiddleSuite(),
)


def find(name: str) -> Suite:
    """Returns a suite.

    Raises:
      BadInput: there is none of this name.
    """
    for suite in ALL:
        if suite.name == name:
            return suite
    known = ", ".join(suite.name for suite in ALL)
    raise BadInput(f"--suite {name}: unknown; known are {known}")
