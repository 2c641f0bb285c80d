"""`grappler-go bake`: writes a SavedModel with a plan in it."""

import argparse
import json

from grappler_go import files
from grappler_go.errors import BadInput


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "bake", help="write a SavedModel with a plan in it, to be served without this library"
    )
    parser.add_argument("model", help="SavedModel directory")
    parser.add_argument("--plan", required=True, help="file of the plan, JSON, as `plan` writes it")
    parser.add_argument("--out", required=True, help="directory to write; must not exist")
    parser.add_argument("--signature", default="serving_default", help="which one is planned")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    import grappler_go

    text = files.read_text(arguments.plan)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{arguments.plan}: not JSON: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("devices"), list):
        raise BadInput(f"{arguments.plan}: field 'devices' is missing or no list")
    grappler_go.bake(
        arguments.model, grappler_go.Plan(text), arguments.out, signature=arguments.signature
    )
    return 0
