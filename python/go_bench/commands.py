"""`grappler-go bench`: runs suites, and says what their rows amount to."""

from __future__ import annotations

import argparse
import pathlib
import shlex
import shutil
import sys

from grappler_go.errors import BadInput

_INTERRUPTED = 130  # As the shell has it for Ctrl-C.
_DIFFERS = 1


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
    summary.add_argument("--baseline", help="method to compare with; default: tf_default")
    summary.add_argument("--format", choices=("text", "markdown", "json"), default="text")
    summary.set_defaults(run=_summary)
    replay = commands.add_parser(
        "replay", help="run rows again from their plans; exit status 1 if any differs"
    )
    replay.add_argument("rows", type=pathlib.Path)
    replay.add_argument(
        "--tolerance",
        type=float,
        help="allowed difference of a step time, as a share of it; default: 1e-6 simulated, "
        "0.10 and both spreads measured",
    )
    replay.set_defaults(run=_replay)
    report = commands.add_parser("report", help="draw the rows; one HTML page, and its pictures")
    report.add_argument("rows", type=pathlib.Path)
    report.add_argument("--baseline", help="method to compare with; default: tf_default")
    report.add_argument("--out", required=True, type=pathlib.Path, help="directory for the files")
    report.set_defaults(run=_report)
    workloads = commands.add_parser(
        "workloads", help="count the workloads' ops and parameters, in Markdown"
    )
    workloads.add_argument("--preset", default="cpu", help="tiny, cpu or paper")
    workloads.add_argument("--workloads", default="", help="names, comma-separated; default: all")
    workloads.set_defaults(run=_workloads)
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
    try:
        # No bar in a pipe, nor for a run that is refused at once.
        with tqdm.tqdm(unit="case", disable=None, delay=0.1) as bar:

            def progress(case: str, done: int, cases: int) -> None:
                bar.total = cases
                bar.set_description(case)
                bar.update(done - bar.n)

            runner.run(suite, settings, arguments.out, resume=arguments.resume, progress=progress)
            bar.update((bar.total or 0) - bar.n)
    except KeyboardInterrupt:
        print(
            "grappler-go: interrupted; all rows so far are kept; go on with\n"
            f"  {_resume_command(arguments)}",
            file=sys.stderr,
        )
        return _INTERRUPTED
    return 0


def _summary(arguments: argparse.Namespace) -> int:
    from go_bench import rows, suites, summary, summary_text, tables

    found = rows.read_suite(arguments.rows)
    suite = suites.find(found[0].suite)
    baseline = summary.baseline_of(found, arguments.baseline, str(arguments.rows))
    result = summary.summarize(suite, found)
    if arguments.format == "json":
        print(summary.to_json(result))
        return 0
    shown = tables.tables(result, baseline)
    if arguments.format == "markdown":
        print(summary_text.to_markdown(suite.name, shown, result["warnings"]), end="")
    else:
        heading = f"{suite.name}: {suite.description}"
        print(
            summary_text.to_text(heading, shown, result["warnings"], width=_terminal_width()),
            end="",
        )
    return 0


def _replay(arguments: argparse.Namespace) -> int:
    import tqdm

    from go_bench import replay, rows, suites, summary_text

    if arguments.tolerance is not None and not 0 <= arguments.tolerance < 1:
        raise BadInput(f"--tolerance {arguments.tolerance}: must be a number from 0 to below 1")
    found = rows.read_suite(arguments.rows)
    if all(row.plan is None for row in found):
        raise BadInput(f"{arguments.rows}: no row has a plan to replay (field 'plan')")
    suite = suites.find(found[0].suite)
    verdicts = list(
        tqdm.tqdm(
            replay.replay(suite, found, arguments.tolerance),
            total=len(found),
            unit="row",
            disable=None,
        )
    )
    outcome = replay.describe(verdicts)
    width = _terminal_width()
    print(summary_text.to_text(outcome, [replay.table(verdicts)], [], width=width), end="")
    return _DIFFERS if any(verdict.differs for verdict in verdicts) else 0


def _report(arguments: argparse.Namespace) -> int:
    from go_bench import report, rows, suites

    found = rows.read_suite(arguments.rows)
    suite = suites.find(found[0].suite)
    for path in report.write(
        suite, found, arguments.out, source=str(arguments.rows), baseline=arguments.baseline
    ):
        print(path)
    return 0


def _workloads(arguments: argparse.Namespace) -> int:
    import tqdm

    from go_bench import summary_text, workload_table
    from go_bench.runner import check_names
    from go_bench.workloads import registry

    names = _names(arguments.workloads)
    check_names("--workloads", names, registry.names())
    check_names("--preset", (arguments.preset,), registry.PRESETS)
    bar = tqdm.tqdm(names or registry.names(), unit="workload", disable=None)
    counted = workload_table.table(arguments.preset, bar)
    print(summary_text.to_markdown("Counted", [counted], []), end="")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from go_bench import suites

    del arguments
    for suite in suites.ALL:
        print(f"{suite.name:20} {suite.description}")
    return 0


def _resume_command(arguments: argparse.Namespace) -> str:
    """Returns the command that goes on with a run, as a shell takes it."""
    command = ["grappler-go", "bench", "run"]
    for name in ("suite", "workloads", "methods", "devices", "seeds", "preset"):
        value = str(getattr(arguments, name))
        command += [f"--{name}", value] if value else []
    return shlex.join([*command, "--resume", "--out", str(arguments.out)])


def _terminal_width() -> int | None:
    """Returns the width of the terminal that is printed to; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)
