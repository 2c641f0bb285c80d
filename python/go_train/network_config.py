"""Settings of the policy network."""

from __future__ import annotations

import dataclasses

_SWITCHES = ("modulation", "task_recurrence", "segment_memory")
_MAY_BE_ZERO = ("attention_layers",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Settings of the policy network.

    Attributes:
        width: units of an op's state.
        layers: GraphSAGE layers over the op graph; information travels so many hops each way.
        op_type_buckets: rows of the op-type embedding; ids come hashed from the C++ side.
        op_type_width: units of the op-type embedding.
        device_width: units of a device's state.
        device_layers: GraphSAGE layers over the device links.
        score_width: hidden units of the node-device score.
        rank_slots: how many look-alike devices get an embedding of their own; the rest share the
            last.
        attention_layers: recurrent attention layers, shared by all tasks and rounds; 0 = none.
        attention_heads: of each; they divide the width.
        segment: ops that attend to each other.
        priority_levels: of the schedule.
        rounds: how often the placement is decided, each time with the decisions before as input.
        modulation: whether the graph's embedding gates the attention's inputs.
        task_recurrence: whether scheduling sees the state and decisions of placement, and fusion
            those of scheduling.
        segment_memory: whether ops also attend to the segment before theirs.
    """

    width: int = 64
    layers: int = 2
    op_type_buckets: int = 1024
    op_type_width: int = 16
    device_width: int = 32
    device_layers: int = 1
    score_width: int = 32
    rank_slots: int = 16
    attention_layers: int = 1
    attention_heads: int = 4
    segment: int = 128
    priority_levels: int = 20
    rounds: int = 3
    modulation: bool = True
    task_recurrence: bool = True
    segment_memory: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in _SWITCHES:
                if not isinstance(value, bool):
                    raise ValueError(
                        f"NetworkConfig.{field.name}: want true or false, got {value!r}"
                    )
                continue
            least = 0 if field.name in _MAY_BE_ZERO else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f"NetworkConfig.{field.name}: want an integer of at least {least},"
                    f" got {value!r}"
                )
        if self.width % self.attention_heads:
            raise ValueError(
                f"NetworkConfig.attention_heads: want a divisor of width {self.width},"
                f" got {self.attention_heads}"
            )
