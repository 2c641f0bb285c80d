"""The policy network: from a graph and devices to placement, schedule and fusion.

Data flows from features through the encoder (graph updates of TF-GNN) to states of ops and devices,
then through rounds. In each round a recurrent attention layer over the ops and a head decide all
placements at once, with what the decisions of the round before amount to as input. Then the same
attention layer decides priorities, with the placement as input, and fusion, with both. The number
of ops and devices is free, and the devices are a set: permuting them permutes the logits.

GO: Zhou et al., https://arxiv.org/abs/2010.12438.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from go_train.attention import SegmentAttention
from go_train.encoder import OpGraphEncoder, op_graph_tensor
from go_train.feedback import Columns, feedback, setting_of
from go_train.heads import (
    FusionHead,
    PlacementHead,
    PriorityHead,
    group_logits,
    legal_shares,
)
from go_train.network_config import NetworkConfig
from go_train.table import Features, FeatureTable, smallest_input

_PLACEMENT, _SCHEDULING, _FUSION = range(3)


@dataclasses.dataclass(frozen=True)
class Decisions:
    """What the policy thinks of a graph.

    Attributes:
        rounds: placement logits [ops, devices] of each round, equal within a colocation group; the
            last is the answer.
        priority: logits of priority levels [ops, levels], later levels go first.
        fusion: logits of fusing an edge's consumer with its producer [edges].
    """

    rounds: tuple[tf.Tensor, ...]
    priority: tf.Tensor
    fusion: tf.Tensor

    @property
    def placement(self) -> tf.Tensor:
        """The placement logits of the last round."""
        return self.rounds[-1]


class TaskAttention(tf.keras.layers.Layer):
    """The recurrent attention layers that all tasks and rounds share, gated by the graph."""

    def __init__(self, config: NetworkConfig, **kwargs: Any):
        super().__init__(**kwargs)
        self._modulation = config.modulation
        self._tasks = tf.keras.layers.Embedding(3, config.width, name="task")
        self._feedback = tf.keras.layers.Dense(config.width, name="feedback")
        self._summary = tf.keras.layers.Dense(config.width, activation="relu", name="summary")
        self._gate = tf.keras.layers.Dense(config.width, kernel_initializer="zeros", name="gate")
        self._layers = [
            SegmentAttention(
                config.width,
                config.attention_heads,
                config.segment,
                memory=config.segment_memory,
                name=f"attention_{index}",
            )
            for index in range(config.attention_layers)
        ]

    def gate(self, ops: tf.Tensor, devices: tf.Tensor) -> tf.Tensor | None:
        """Returns what the graph's embedding multiplies the inputs with [width], near 1 at first.

        Parameter superposition, https://arxiv.org/abs/1902.05522: unlike graphs use unlike
        subspaces of the same weights.
        """
        if not self._modulation:
            return None
        pooled = [
            reduce(states, axis=0)
            for states in (ops, devices)
            for reduce in (tf.reduce_mean, tf.reduce_max)
        ]
        summary = self._summary(tf.concat(pooled, axis=0)[tf.newaxis])
        return 2.0 * tf.sigmoid(self._gate(summary)[0])

    def call(
        self, states: tf.Tensor, task: int, feedback: tf.Tensor, gate: tf.Tensor | None
    ) -> tf.Tensor:
        """Returns the states [ops, width] in which `task` is decided."""
        states += self._feedback(feedback) + self._tasks(tf.constant([task]))
        for layer in self._layers:
            states = layer(states, gate)
        return states


class PolicyNetwork(tf.keras.Model):
    """The policy: from the ten named inputs to decisions, see `table.input_signature`."""

    def __init__(self, config: NetworkConfig, table: FeatureTable):
        super().__init__(name="policy")
        self.settings = config
        self.table = table
        self._columns = Columns.of(table)
        self._remaining = table.column("node/upward_rank")
        self._encoder = OpGraphEncoder(config, name="encoder")
        self._attention = TaskAttention(config, name="tasks")
        self._placement = PlacementHead(config, name="placement")
        self._priority = PriorityHead(config.priority_levels, name="scheduling")
        self._fusion = FusionHead(config, name="fusion")
        self.decide(smallest_input(table))  # Creates the variables.

    def set_moments(self, moments: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
        """Takes the moments of the training data, see `table.feature_moments`."""
        for name, layer in self._encoder.standardize.items():
            mean, deviation = moments[name]
            if name == "link_features":  # An edge between devices carries both directions.
                mean, deviation = np.tile(mean, 2), np.tile(deviation, 2)
            layer.set_moments(mean, deviation)
        self._placement.standardize.set_moments(*moments["node_device_features"])

    def decide(self, features: Features) -> Decisions:
        """Returns all decisions of all rounds."""
        encoded, devices = self._encoder(op_graph_tensor(features))
        gate = self._attention.gate(encoded, devices)
        setting = setting_of(features, self._columns)
        mask = features["node_device_mask"]
        prepared = self._placement.prepare(features)
        probability = legal_shares(mask)
        rounds = []
        states = encoded
        for _ in range(self.settings.rounds):
            pairs, seen = feedback(setting, probability, mask)
            states = self._attention(encoded, _PLACEMENT, seen, gate)
            scores = self._placement(states, devices, prepared, pairs, probability)
            rounds.append(group_logits(scores, features))
            probability = tf.stop_gradient(tf.nn.softmax(rounds[-1]))
        recurrent = self.settings.task_recurrence
        _, seen = feedback(setting, probability, mask)
        if not recurrent:
            states, seen = encoded, tf.zeros_like(seen)
        states = self._attention(states, _SCHEDULING, seen, gate)
        remaining = features["node_features"][:, self._remaining]
        remaining /= tf.maximum(tf.reduce_max(remaining), 1e-6)
        priority = self._priority(states, remaining)
        # What fusion hears of the schedule: the middle of each op's levels, in place of one input.
        level = tf.linalg.matvec(
            tf.nn.softmax(priority), tf.linspace(0.0, 1.0, self.settings.priority_levels)
        )
        told = tf.concat([seen[:, :-1], tf.stop_gradient(level)[:, tf.newaxis]], axis=1)
        if not recurrent:
            states, told = encoded, tf.zeros_like(told)
        states = self._attention(states, _FUSION, told, gate)
        fusion = self._fusion(states, features, probability, self._columns.control)
        return Decisions(tuple(rounds), priority, fusion)

    def call(self, features: Features) -> tf.Tensor:
        """Returns the placement logits [ops, devices]."""
        return self.decide(features).placement
