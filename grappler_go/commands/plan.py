"""`grappler-go plan`: plans a graph for devices that need not be attached."""

import argparse
import typing

from grappler_go import files
from grappler_go.errors import BadInput, plain

if typing.TYPE_CHECKING:
    from grappler_go import plans


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser("plan", help="plan a graph for given devices")
    add_graph_arguments(parser, "what to plan")
    parser.add_argument("--out", default="-", help="file for the plan, JSON; - = standard output")
    parser.set_defaults(run=_run)


def add_graph_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds the arguments that say what is planned, and for which devices."""
    parser.add_argument(
        "graph",
        help=f"{what}: SavedModel directory; GraphDef or MetaGraphDef, .pb or .pbtxt; "
        "module:function; simulated also CostGraphDef, .pbtxt, and profiled graphs, .json",
    )
    parser.add_argument(
        "--devices",
        default="",
        help="full device names, comma-separated, or a device profile and a number of devices, as "
        "p100:4 or my_profile.json:2; they need not be attached",
    )
    parser.add_argument(
        "--fetch", default="", help="fetched ops, comma-separated; default: those of the graph file"
    )
    parser.add_argument(
        "--profile", default="", help="file with a device profile, JSON, for full device names"
    )
    parser.add_argument("--costs", default="", help="file with measured op costs, JSON")


def make_plan(arguments: argparse.Namespace) -> "plans.Plan":
    """Plans what the arguments of `add_graph_arguments` say.

    Raises:
      BadInput: the graph or the devices cannot be used.
    """
    import tensorflow as tf

    import grappler_go
    from grappler_go import device_profiles, inputs

    graph = inputs.read(arguments.graph)
    devices, profile = graph.devices, graph.profile
    if device_profiles.is_spec(arguments.devices):
        if arguments.profile:
            raise BadInput(
                f"--profile {arguments.profile}: --devices {arguments.devices} brings its own"
            )
        loaded = device_profiles.load(arguments.devices)
        devices, profile = loaded.devices, loaded.json
    elif arguments.devices:
        devices = tuple(arguments.devices.split(","))
    if not devices:
        raise BadInput(f"--devices is missing, and {arguments.graph} names none")
    if arguments.profile:
        profile = files.read_text(arguments.profile)
    inputs.check_devices(graph, devices)
    fetch = tuple(name for name in arguments.fetch.split(",") if name) or graph.fetch
    try:
        return grappler_go.plan(
            graph.graph_def,
            devices,
            fetch=fetch,
            feed=graph.feed,
            profile=profile,
            costs=arguments.costs,
        )
    except tf.errors.OpError as error:
        raise BadInput(f"{arguments.graph}: {plain(error.message)}") from error


def _run(arguments: argparse.Namespace) -> int:
    plan = make_plan(arguments)
    if arguments.out == "-":
        print(plan.json, end="")
    else:
        files.write_atomically(arguments.out, plan.json)
    return 0
