"""`grappler-go finetune`: fits a plan to one's own model by measuring it."""

from __future__ import annotations

import argparse
import pathlib
import sys

from grappler_go.errors import BadInput


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "finetune", help="fit a plan to one model by measuring it on the attached devices"
    )
    parser.add_argument(
        "model",
        help="SavedModel directory; or module:function, which returns a workload of go_bench or "
        "the directory of a SavedModel",
    )
    parser.add_argument("--devices", default="auto", choices=("auto", "gpu", "cluster"))
    parser.add_argument("--budget", type=int, default=24, help="plans to measure; default: 24")
    parser.add_argument("--batch", type=int, default=1, help="size of the model's open dimensions")
    parser.add_argument("--signature", default="serving_default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out",
        required=True,
        type=pathlib.Path,
        help="directory for plan.json, plan.html and measurements.jsonl; that of an earlier run "
        "is gone on with",
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    for name in ("budget", "batch"):
        if getattr(arguments, name) < 1:
            raise BadInput(f"--{name} {getattr(arguments, name)}: must be at least 1")
    from go_bench import finetune, model_workload
    from go_bench.attached import NoDevicesError, attach

    workload = model_workload.read(
        arguments.model, batch=arguments.batch, signature=arguments.signature
    )

    def progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        with attach(arguments.devices) as attached:
            outcome = finetune.finetune(
                workload,
                attached,
                arguments.out,
                finetune.Settings(budget=arguments.budget, seed=arguments.seed),
                progress=progress,
            )
    except NoDevicesError as error:
        raise BadInput(str(error)) from error
    print(outcome.reason)
    if outcome.plan is not None:
        plan = arguments.out / "plan.json"
        print(f"use it: grappler_go.enable(plan={str(plan)!r}); see {arguments.out / 'plan.html'}")
    return 0
