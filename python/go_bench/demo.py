"""Shows the pass at work: `python -m go_bench.demo [--devices auto|gpu|cluster] [--out DIR]`."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence

_EXIT_WRONG_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo and returns the exit status."""
    flags = _parse(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # Read when TensorFlow is imported.
    import tqdm

    from go_bench import attached as attached_lib
    from go_bench import demo_lib

    cases = [demo_lib.CASES[name] for name in flags.models]
    flags.out.mkdir(parents=True, exist_ok=True)
    try:
        with (
            attached_lib.attach(flags.devices) as attached,
            tqdm.tqdm(total=sum(case.steps for case in cases), unit="step") as bar,
        ):
            bar.write(f"devices: {attached.kind}", file=sys.stdout)
            results = []
            for case in cases:
                bar.set_description(case.title)
                results.append(demo_lib.run_case(case, attached, flags.out, progress=bar.update))
                bar.write(demo_lib.describe(results[-1]), file=sys.stdout)
                demo_lib.write_results(flags.out / "results.json", attached, results)
    except attached_lib.NoDevicesError as error:
        sys.stderr.write(f"{error}\n")
        return _EXIT_WRONG_INPUT
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="go_bench.demo", description=__doc__)
    parser.add_argument(
        "--devices",
        choices=("auto", "gpu", "cluster"),
        default="auto",
        help="GPUs of this process or two single-core workers; auto: GPUs where there are two",
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo_out"))
    parser.add_argument(
        "--models",
        nargs="+",
        choices=("rnnlm", "inception"),
        default=("rnnlm", "inception"),
        help="which models to show",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
