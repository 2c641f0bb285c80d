"""A graph as it was read from a file or made by a function, and what came with it."""

import dataclasses
import types
from collections.abc import Mapping

from tensorflow.core.framework import graph_pb2


def _nothing() -> Mapping:
    return types.MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphInput:
    """A graph to plan.

    Attributes:
      source: the path, or module and function, that it was read from.
      graph_def: the graph.
      fetch: names of fetched tensors and ops; none = not known.
      feed: names of fed tensors.
      declared: the ops have declared costs (cc/cost_graph.h): the graph can be planned and
        simulated, not run.
      devices: full names of the devices that the source speaks of; none = it does not.
      profile: figures of these devices, JSON; "" = not known.
      placement: the device of each op by name, as far as the source says.
      node_ids: the op's name by its number in the source.
    """

    source: str
    graph_def: graph_pb2.GraphDef
    fetch: tuple[str, ...] = ()
    feed: tuple[str, ...] = ()
    declared: bool = False
    devices: tuple[str, ...] = ()
    profile: str = ""
    placement: Mapping[str, str] = dataclasses.field(default_factory=_nothing)
    node_ids: Mapping[int, str] = dataclasses.field(default_factory=_nothing)
