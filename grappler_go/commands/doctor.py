"""`grappler-go doctor`: checks the installation; measures the devices of a local cluster."""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable, Iterator

from grappler_go import files
from grappler_go.errors import BadInput

EXIT_FAILED = 1


def add_commands(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser("doctor", help="check that the installation works")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure single-core workers of this machine and the link between them, and write a "
        "device profile",
    )
    parser.add_argument("--workers", type=int, default=2, help="of --calibrate, 2 by default")
    parser.add_argument(
        "--out", default="device_profile.json", help="of --calibrate: the file, %(default)s"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from grappler_go import doctor

    if arguments.calibrate:
        # Before the measuring, not after it.
        if arguments.workers < 1:
            raise BadInput(f"--workers is {arguments.workers}, must be at least 1")
        if not pathlib.Path(arguments.out).resolve().parent.is_dir():
            raise BadInput(f"--out {arguments.out}: its directory does not exist")
    checks = doctor.diagnose()
    ok = all(check.ok for check in checks)
    if not arguments.json:
        for check in checks:
            print(f"{'ok    ' if check.ok else 'FAILED'} {check.name}: {check.detail}", flush=True)
    profile = None
    if arguments.calibrate and ok:
        ok = _calibrate(arguments.workers, arguments.out)
        profile = arguments.out if ok else None
    if arguments.json:
        result = {"ok": ok, "checks": [dataclasses.asdict(check) for check in checks]}
        print(json.dumps(result | ({"profile": profile} if arguments.calibrate else {})))
    elif profile is not None:
        print(f"wrote {profile}; use it as --devices {profile}:{arguments.workers}")
    return 0 if ok else EXIT_FAILED


def _calibrate(workers: int, out: str) -> bool:
    """Writes the profile of a local cluster; whether the cluster lasted that long."""
    import grappler_go
    from grappler_go import calibrate

    try:
        with (
            grappler_go.local_cluster(workers) as cluster,
            _progress(calibrate.num_steps(workers)) as progress,
        ):
            if len(set(cluster.cores)) < workers:
                print(
                    f"grappler-go: {workers} workers share {len(set(cluster.cores))} cores: the "
                    "figures are those of shared cores",
                    file=sys.stderr,
                )
            profile = calibrate.calibrate(cluster, progress=progress)
    except grappler_go.ClusterError as error:
        print(f"grappler-go: {error}", file=sys.stderr)
        return False
    files.write_atomically(out, json.dumps(profile, indent=1) + "\n")
    return True


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[], object]]:
    """A progress bar where tqdm is installed."""
    try:
        import tqdm
    except ModuleNotFoundError:
        yield lambda: None
        return
    with tqdm.tqdm(total=total, desc="calibrating", unit="measurement") as bar:
        yield bar.update
