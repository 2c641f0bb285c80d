"""The program `grappler-go`: a command each, from here and from the packages beside this one.

A package offers commands through a module `commands` with a function `add_commands(subparsers)`;
each parser that it adds sets `run`, a function from the parsed arguments to the exit status.
"""

import argparse
import dataclasses
import importlib
import os
import sys
from collections.abc import Sequence

from grappler_go.commands import bake, doctor, explain, plan
from grappler_go.errors import BadInput

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130  # As the shell has it for Ctrl-C.


@dataclasses.dataclass(frozen=True)
class Extension:
    """Commands of another package.

    Attributes:
      module: where they are.
      extra: the optional part of this distribution that has all they need.
      commands: their names, and what the list of commands says of each.
    """

    module: str
    extra: str
    commands: dict[str, str]


EXTENSIONS = (
    Extension(
        "go_bench.commands",
        "bench",
        {"bench": "measure placements against other methods"},
    ),
    Extension(
        "go_bench.finetune_commands",
        "bench",
        {"finetune": "fit a plan to one model by measuring it on the attached devices"},
    ),
    Extension(
        "go_train.commands",
        "train",
        {"pretrain": "train a policy on many graphs"},
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit status: 0, 1 for a failed check, 2 for a bad input."""
    argv = sys.argv[1:] if argv is None else list(argv)
    # Before what loads TensorFlow's C++ library reads it.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        arguments = _parser(argv).parse_args(argv)
        return arguments.run(arguments)
    except BadInput as error:
        print(f"grappler-go: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print("grappler-go: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="grappler-go", description="Learned op placement for TensorFlow."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    plan.add_commands(commands)
    explain.add_commands(commands)
    bake.add_commands(commands)
    doctor.add_commands(commands)
    wanted = next((argument for argument in argv if not argument.startswith("-")), None)
    for extension in EXTENSIONS:
        _add_extension(commands, extension, wanted)
    return parser


def _add_extension(
    commands: argparse._SubParsersAction, extension: Extension, wanted: str | None
) -> None:
    """Adds the commands; loads their module, which takes long, only where one of them is wanted.

    Raises:
      BadInput: one of them is wanted, and the module or what it needs is not installed.
    """
    if wanted not in extension.commands:
        for name, text in extension.commands.items():
            commands.add_parser(name, help=text)
        return
    try:
        module = importlib.import_module(extension.module)
    except ModuleNotFoundError as error:
        raise BadInput(
            f"command '{wanted}' needs the module '{error.name}', which is not installed; "
            f"fix: pip install 'grappler-go[{extension.extra}]'"
        ) from error
    except ImportError as error:  # Installed, but not to be had in this process.
        raise BadInput(f"command '{wanted}': {error}") from error
    module.add_commands(commands)


if __name__ == "__main__":
    sys.exit(main())
