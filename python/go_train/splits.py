"""What is trained on and what is held out: the one place that says so.

A family that is held out for zero-shot appears in no training or validation example, under any
name: the workload family, the random family that has its structure, and the small Keras models of
its kind go together.
"""

from __future__ import annotations

from collections.abc import Mapping

TRAIN = "train"
VALIDATION = "validation"
HELD_OUT = "held_out"

# Held-out family -> what else has its structure.
KIN: Mapping[str, tuple[str, ...]] = {
    "rnnlm": ("lstm", "keras/rnn", "keras/gru"),
    "gnmt": ("msr/gnmt",),
    "transformer_xl": ("transformer", "msr/bert"),
    "inception_v3": ("inception", "keras/branched_cnn", "msr/inceptionv3"),
    "amoebanet": ("keras/mobilenet",),
    "wavenet": (),
}


def split_of(family: str, index: int, *, held_out: str, validation_every: int) -> str:
    """Returns the side of graph `index` of `family`.

    Args:
        family: its family.
        index: its number within the family.
        held_out: the family that must not be seen in training; "" = none.
        validation_every: every so many graphs of a family are for validation.

    Raises:
        ValueError: `held_out` is not one that can be held out.
    """
    if held_out and held_out not in KIN:
        raise ValueError(f"held_out: want one of {', '.join(KIN)} or nothing, got {held_out!r}")
    if held_out and family == held_out:
        return HELD_OUT
    if held_out and family in KIN[held_out]:
        return ""  # Neither trained on nor scored.
    return VALIDATION if index % validation_every == 0 else TRAIN
