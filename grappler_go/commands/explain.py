"""`grappler-go explain`: what a plan decides and why."""

import argparse
import json
import typing

from grappler_go import files
from grappler_go.commands import plan as plan_command
from grappler_go.errors import BadInput

if typing.TYPE_CHECKING:
    from grappler_go import plans


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser("explain", help="say what a plan decides and why")
    plan_command.add_graph_arguments(
        parser, "a plan or report, .json; or what `plan` takes, which is planned first"
    )
    parser.add_argument(
        "--format", choices=("text", "json", "html"), default="text", help="default: text"
    )
    parser.add_argument("--out", default="-", help="file to write; - = standard output")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    import grappler_go

    plan = _stored(arguments.graph)
    if plan is None:
        plan = plan_command.make_plan(arguments)
    try:
        explanation = grappler_go.explain(plan)
    except ValueError as error:
        raise BadInput(f"{arguments.graph}: {error}") from error
    formats = {
        "text": explanation.to_text,
        "json": explanation.to_json,
        "html": explanation.to_html,
    }
    content = formats[arguments.format]()
    if arguments.out == "-":
        print(content, end="")
    else:
        files.write_atomically(arguments.out, content)
    return 0


def _stored(source: str) -> "plans.Plan | None":
    """Returns the plan in a file; None where the source is something to plan."""
    if not source.endswith(".json"):
        return None
    from grappler_go.plans import Plan

    try:
        value = json.loads(files.read_text(source))
    except json.JSONDecodeError as error:
        raise BadInput(f"{source}: not JSON: {error}") from error
    # A profiled graph is JSON, too.
    if not isinstance(value, dict) or "nodes" not in value or "devices" not in value:
        return None
    return Plan(json.dumps(value))
