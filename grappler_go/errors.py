"""Errors that a program shows to its user as they are."""

import re

_CONTEXT = re.compile(r"^(\{\{[^{}]*\}\} )+|( \[Op:\w+\])?\s*$")


class BadInput(Exception):
    """An input that cannot be used; one line that names the file, the field and the value."""


def plain(message: str) -> str:
    """A message of TensorFlow's as one line, without the op that it came through."""
    return " ".join(_CONTEXT.sub("", message).split())
