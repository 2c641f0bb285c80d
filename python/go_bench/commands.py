"""`grappler-go bench`: runs suites, and says what their rows amount to."""

from __future__ import annotations

import argparse
import pathlib

from grappler_go.errors import BadInput


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    bench = subparsers.add_parser("bench", help="measure placements against other methods")
    commands = bench.add_subparsers(dest="bench_command", required=True)
    run = commands.add_parser("run", help="run a suite; one row a line")
    run.add_argument("--suite", required=True)
    run.add_argument("--workloads", default="", help="names, comma-separated; default: the suite's")
    run.add_argument("--methods", default="", help="names, comma-separated; default: the suite's")
    run.add_argument(
        "--devices", default="auto", help="auto, gpu, cluster or a device profile as p100:4"
    )
    run.add_argument("--seeds", type=int, default=3)
    run.add_argument("--preset", default="cpu", help="sizes of the workloads: tiny, cpu, paper")
    run.add_argument("--resume", action="store_true", help="go on with the file of an earlier run")
    run.add_argument("--out", required=True, type=pathlib.Path, help="file for the rows")
    run.set_defaults(run=_run)
    summary = commands.add_parser("summary", help="say what the rows amount to")
    summary.add_argument("rows", type=pathlib.Path)
    summary.add_argument("--baseline", default="tf_default")
    summary.add_argument("--format", choices=("markdown", "json"), default="markdown")
    summary.set_defaults(run=_summary)
    commands.add_parser("list", help="list the suites").set_defaults(run=_list)


def _run(arguments: argparse.Namespace) -> int:
    import tqdm

    from go_bench import runner, suites

    settings = runner.Settings(
        workloads=_names(arguments.workloads),
        methods=_names(arguments.methods),
        devices=arguments.devices,
        seeds=arguments.seeds,
        preset=arguments.preset,
    )
    suite = suites.find(arguments.suite)
    with tqdm.tqdm(unit="case") as bar:

        def progress(case: str, done: int, cases: int) -> None:
            bar.total = cases
            bar.set_description(case)
            bar.update(done - bar.n)

        runner.run(suite, settings, arguments.out, resume=arguments.resume, progress=progress)
        bar.update((bar.total or 0) - bar.n)
    return 0


def _summary(arguments: argparse.Namespace) -> int:
    from go_bench import rows, suites, summary

    found = rows.read(arguments.rows)
    if not found:
        raise BadInput(f"{arguments.rows}: no rows")
    result = summary.summarize(suites.find(found[0].suite), found)
    if arguments.format == "json":
        print(summary.to_json(result))
    else:
        print(summary.to_markdown(result, arguments.baseline), end="")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from go_bench import suites

    del arguments
    for suite in suites.ALL:
        print(f"{suite.name:20} {suite.description}")
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)
