"""Compiles the C++ of Grappler GO for pip, the checkout and its tests (metadata: pyproject.toml).

`pip install .`            builds the library and packs it into the wheel
`python setup.py build_cc` builds it and puts it into the checkout, grappler_go/_lib/
`python setup.py test_cc`  builds and runs the C++ tests

All three share one incremental build in build/cc/: a file is compiled again if it, a header of ours
that it includes, the flags or TensorFlow changed. Environment: CXX (g++), CXXFLAGS (appended),
GRAPPLER_GO_PCH=0 (no precompiled header), GRAPPLER_GO_SKIP_CC=1 (package without compiling; for
installing the checkout itself, which `make` does).
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import fnmatch
import functools
import glob
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

import setuptools
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError, SetupError

_TENSORFLOW = "2.21"
_ROOT = pathlib.Path(__file__).resolve().parent
_BUILD = pathlib.Path("build/cc")
_LIBRARY = _BUILD / "libgrappler_go.so"
_INSTALLED_LIBRARY = pathlib.Path("grappler_go/_lib/libgrappler_go.so")

# NDEBUG as in TensorFlow's own build: some of its classes are laid out differently without it.
# Default visibility: the tests link against the library, and what is inline in TensorFlow's headers
# must be one with the same in its libraries.
_COMPILE_FLAGS = ("-O2", "-DNDEBUG", "-fPIC", "-fvisibility=default", "-Wall", "-Wextra", "-I.")
# tf.sysconfig names the framework library alone; Grappler, the C++ clients and SavedModel are in
# _cc. Both are kept even if the linker sees no use of them: their static initialisers register the
# operations and kernels.
_TENSORFLOW_LIBRARIES = (
    "-Wl,--no-as-needed",
    "-l:libtensorflow_cc.so.2",
    "-l:libtensorflow_framework.so.2",
    "-Wl,--as-needed",
)
_LIBRARY_LINK_FLAGS = (
    "-shared",
    "-Wl,-soname,libgrappler_go.so",
    "-Wl,-z,defs",  # A symbol that TensorFlow does not export is an error now, not when called.
    "-Wl,-rpath,$ORIGIN/../../tensorflow",  # From site-packages/grappler_go/_lib.
)
# It reads TensorFlow's 1 GB in 2 s, where the default linker takes 8 s and twice the memory.
_LINKER_FLAGS = ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()
_TEST_LIBRARIES = ("-lgmock_main", "-lgmock", "-lgtest", "-lpthread")

# What nearly every source includes; parsing these headers is two thirds of a compilation.
_PRECOMPILED = """\
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"
#include "tensorflow/core/grappler/grappler_item.h"
"""

# Looks TensorFlow up without importing it (seconds).
_PROBE_LOCATION = """
import importlib.metadata, importlib.util, json
spec = importlib.util.find_spec("tensorflow")
if spec and spec.origin:
    print(json.dumps([importlib.metadata.version("tensorflow"), spec.origin]))
"""
_PROBE_FLAGS = """
import json
import tensorflow as tf
flags = [tf.sysconfig.get_compile_flags(), tf.sysconfig.get_link_flags()]
print(json.dumps([*flags, tf.sysconfig.get_lib()]))
"""


@dataclasses.dataclass(frozen=True)
class TensorFlow:
    """The installed TensorFlow: its version, what tf.sysconfig reports and its library folder."""

    version: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    library_dir: str


def _python_says(options: list[str], program: str):
    """The last line that `program` prints, as JSON; None if it fails or prints nothing."""
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3")
    command = [sys.executable, *options, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else None


@functools.cache
def _locate_tensorflow():
    """(interpreter options, version, path) of TensorFlow, or None.

    pip's build isolation hides the environment that it installs into, through PYTHONPATH; -E lifts
    that, so the code is compiled against the TensorFlow that will load it and no second one is
    fetched. Without such an environment (`python -m build`) it is the one of the build environment,
    which _setup_requires asks for. -P: a `tensorflow` in the working folder is none.
    """
    for options in (["-E", "-P"], ["-P"]):
        found = _python_says(options, _PROBE_LOCATION)
        if found:
            return (options, *found)
    return None


def _setup_requires() -> list[str]:
    """TensorFlow, for pip to fetch into the build environment, only where none is installed.

    A direct call of setup.py would fetch it into the checkout: it gets a plain error instead.
    """
    called_by_pip = "setuptools.build_meta" in sys.modules
    return [f"tensorflow=={_TENSORFLOW}.*"] if called_by_pip and not _locate_tensorflow() else []


def find_tensorflow() -> TensorFlow:
    """Asks TensorFlow for its flags; the answer is kept in build/cc until it is reinstalled."""
    advice = f"pip install 'tensorflow=={_TENSORFLOW}.*'"
    located = _locate_tensorflow()
    if located is None:
        raise SetupError(f"tensorflow: not installed for {sys.executable}; {advice}")
    options, version, path = located
    if version.rpartition(".")[0] != _TENSORFLOW:
        needed = f"Grappler GO needs {_TENSORFLOW}.*; {advice}"
        raise SetupError(f"tensorflow: {version} in {path}, {needed}")
    key = [version, path, os.stat(path).st_mtime_ns]
    cache = _BUILD / "tensorflow.json"
    with contextlib.suppress(OSError, ValueError):
        known_key, flags = json.loads(cache.read_text())
        if known_key == key:
            return TensorFlow(version, tuple(flags[0]), tuple(flags[1]), flags[2])
    flags = _python_says(options, _PROBE_FLAGS)
    if flags is None:
        raise SetupError(
            f"tensorflow: {path} does not import; try `{sys.executable} -c 'import tensorflow'`"
        )
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps([key, flags]))
    return TensorFlow(version, tuple(flags[0]), tuple(flags[1]), flags[2])


@dataclasses.dataclass(frozen=True)
class Step:
    """One compiler call.

    Attributes:
        output: the file it makes.
        command: without the output, which is added.
        inputs: files that it depends on.
        name: how the progress calls it.
        has_depfile: whether it compiles, so that the compiler can list the headers.
    """

    output: pathlib.Path
    command: tuple[str, ...]
    inputs: tuple[str, ...]
    name: str
    has_depfile: bool = False


def _with_suffix(path: pathlib.Path, suffix: str) -> pathlib.Path:
    return path.with_name(path.name + suffix)


def _dependencies(step: Step) -> list[str]:
    """The files that `step` reads: its inputs and those the compiler listed at the last run."""
    depfile = _with_suffix(step.output, ".d")
    if not (step.has_depfile and depfile.exists()):
        return list(step.inputs)
    _, _, listed = depfile.read_text().partition(":")
    return [*step.inputs, *listed.replace("\\\n", " ").split()]


def _is_current(step: Step) -> bool:
    """Whether the output is there, made by this command, and newer than what it depends on."""
    try:
        made = step.output.stat().st_mtime_ns
        same_command = _with_suffix(step.output, ".cmd").read_text() == shlex.join(step.command)
        return same_command and all(
            os.stat(path).st_mtime_ns <= made for path in _dependencies(step)
        )
    except FileNotFoundError:
        return False


def _run(step: Step) -> str:
    """Makes the output of `step`; returns what the compiler said, CompileError if it failed."""
    step.output.parent.mkdir(parents=True, exist_ok=True)
    started_ns, partial = time.time_ns(), _with_suffix(step.output, ".part")
    command = [*step.command, "-o", str(partial)]
    if step.has_depfile:
        command += ["-MMD", "-MF", str(_with_suffix(step.output, ".d")), "-MT", str(step.output)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        partial.unlink(missing_ok=True)
        raise CompileError(f"{shlex.join(command)}\n{done.stdout}")
    # Dated by its start: a source saved while the compiler runs is newer, so compiled again.
    os.utime(partial, ns=(started_ns, started_ns))
    partial.replace(step.output)
    _with_suffix(step.output, ".cmd").write_text(shlex.join(step.command))
    return done.stdout


def _run_all(steps: list[Step], jobs: int) -> None:
    """Runs the steps that are not current, `jobs` at a time; all, so that every error shows."""
    steps = [step for step in steps if not _is_current(step)]
    failed = []

    def timed(step: Step) -> tuple[str, float]:
        start = time.monotonic()
        return _run(step), time.monotonic() - start

    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        futures = {pool.submit(timed, step): step.name for step in steps}
        for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
            label = f"[{count}/{len(steps)}] {futures[future]}"
            try:
                output, seconds = future.result()
                print(f"{label} ({seconds:.1f} s)\n{output}", end="", flush=True)
            except CompileError as error:
                failed.append(futures[future])
                print(f"{label} FAILED\n{error}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)  # On Ctrl-C none of those that wait is started.
    if failed:
        raise CompileError(f"{len(failed)} of {len(steps)} failed: {', '.join(sorted(failed))}")


@contextlib.contextmanager
def _locked():
    """One build at a time in build/cc: the others wait."""
    _BUILD.mkdir(parents=True, exist_ok=True)
    with open(_BUILD / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Builder:
    """The steps of the C++ build, incremental, in build/cc."""

    def __init__(self, *, jobs: int):
        self._jobs = jobs
        self._tensorflow = find_tensorflow()
        self._cxx = os.environ.get("CXX", "g++")
        # -isystem: our own code is compiled with warnings, TensorFlow's headers without.
        reported = [
            f"-isystem{flag[2:]}" if flag.startswith("-I") else flag
            for flag in self._tensorflow.compile_flags
        ]
        extra = shlex.split(os.environ.get("CXXFLAGS", ""))
        self._flags = (self._cxx, *reported, *_COMPILE_FLAGS, *extra)
        self._link_flags = (*_LINKER_FLAGS, *self._tensorflow.link_flags, *_TENSORFLOW_LIBRARIES)
        # An input of every step: it changes when TensorFlow does.
        self._stamp = str(_BUILD / "tensorflow.json")

    def library(self) -> pathlib.Path:
        """Builds the shared library and puts it into the checkout's package."""
        sources = sorted(set(glob.glob("cc/*.cc")) - set(glob.glob("cc/*_test.cc")))
        objects = self._compile(sources)
        command = (self._cxx, *_LIBRARY_LINK_FLAGS, *objects, *self._link_flags)
        _run_all([Step(_LIBRARY, command, (self._stamp, *objects), str(_LIBRARY))], 1)
        _install(_LIBRARY, _INSTALLED_LIBRARY)
        return _LIBRARY

    def tests(self, sources: list[str]) -> list[pathlib.Path]:
        """Builds one program a test source, linked with the shared library."""
        library = str(self.library())
        run_paths = ("-Wl,-rpath,$ORIGIN/..", f"-Wl,-rpath,{self._tensorflow.library_dir}")
        link_flags = (library, *self._link_flags, *_TEST_LIBRARIES, *run_paths)
        steps = []
        for built in self._compile(sources):
            program = _BUILD / "tests" / pathlib.Path(built).stem
            # The library is no input: it is linked at run time, and a link takes seconds.
            command = (self._cxx, built, *link_flags)
            steps.append(Step(program, command, (self._stamp, built), str(program)))
        _run_all(steps, self._jobs)
        return [step.output for step in steps]

    def _compile(self, sources: list[str]) -> list[str]:
        """Compiles `sources`; the object files in their order."""
        flags, inputs = self._flags, (self._stamp,)
        if os.environ.get("GRAPPLER_GO_PCH", "1") != "0":
            header, precompiled = self._precompile()
            flags, inputs = (*flags, "-Winvalid-pch", "-include", header), (precompiled,)
        steps = []
        for source in sources:
            built = _BUILD / "obj" / f"{pathlib.Path(source).stem}.o"
            steps.append(Step(built, (*flags, "-c", source), (source, *inputs), source, True))
        _run_all(steps, self._jobs)
        return [str(step.output) for step in steps]

    def _precompile(self) -> tuple[str, str]:
        """Compiles TensorFlow's headers once; the header to include and what it was compiled to."""
        header = _BUILD / "precompiled.h"
        if not header.exists() or header.read_text() != _PRECOMPILED:
            header.write_text(_PRECOMPILED)
        output = _with_suffix(header, ".gch")
        command = (*self._flags, "-x", "c++-header", str(header))
        _run_all([Step(output, command, (self._stamp, str(header)), "TensorFlow's headers")], 1)
        return str(header), str(output)


def _install(source: pathlib.Path, target: pathlib.Path) -> None:
    """Copies `source` unless it is there; a process that has the old `target` mapped keeps it."""
    if not target.exists() or target.stat().st_mtime_ns != source.stat().st_mtime_ns:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = _with_suffix(target, ".part")
        shutil.copy2(source, partial)
        partial.replace(target)


class BuildCc(setuptools.Command):
    """Builds libgrappler_go.so and puts it into grappler_go/_lib/ of the checkout."""

    description = "compile the C++ library"
    user_options = [("jobs=", "j", "compilations at a time (default: the cores of this process)")]

    def initialize_options(self):
        self.jobs = None

    def finalize_options(self):
        self.jobs = int(self.jobs) if self.jobs else len(os.sched_getaffinity(0))

    def run(self):
        with _locked():
            Builder(jobs=self.jobs).library()


class TestCc(BuildCc):
    """Builds and runs the C++ tests; the last line counts the test cases."""

    description = "compile and run the C++ tests"
    user_options = [
        *BuildCc.user_options,
        ("only=", None, "test files to run, a glob on the name without _test.cc"),
        ("gtest-filter=", None, "test cases to run, as in GoogleTest"),
    ]

    def initialize_options(self):
        super().initialize_options()
        self.only, self.gtest_filter = "*", "*"

    def run(self):
        sources = [
            path
            for path in sorted(glob.glob("cc/*_test.cc"))
            if fnmatch.fnmatch(pathlib.Path(path).name.removesuffix("_test.cc"), self.only)
        ]
        if not sources:
            raise SetupError(f"only: no test matches cc/{self.only}_test.cc")
        with _locked():
            programs = Builder(jobs=self.jobs).tests(sources)
        if not _run_tests(programs, self.gtest_filter):
            raise SystemExit(1)


def _run_tests(programs: list[pathlib.Path], gtest_filter: str) -> bool:
    """Runs the programs in turn, shows the output of those that fail; whether all passed."""
    total = collections.Counter()
    for program in programs:
        start = time.monotonic()
        counts, output = _run_test(program, gtest_filter)
        total += counts
        if counts["failed"]:
            print(output)
        shown = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "no tests"
        print(f"{program.name}: {shown} ({time.monotonic() - start:.1f} s)", flush=True)
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    print(f"{total['passed']} passed, {total['failed']} failed{skipped}", flush=True)
    return not total["failed"]


def _run_test(program: pathlib.Path, gtest_filter: str, timeout_s: float = 600.0):
    """(outcomes of the test cases, output) of one program; one that crashes or hangs has failed."""
    report = _with_suffix(program, ".xml")
    report.unlink(missing_ok=True)
    flags = (f"--gtest_filter={gtest_filter}", f"--gtest_output=xml:{report}")
    command = [str(program.resolve()), *flags]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        done = subprocess.run(command, **pipes, timeout=timeout_s, check=False)
        output, ended = done.stdout, f"exit status {done.returncode}"
        passed = done.returncode == 0
    except subprocess.TimeoutExpired as late:
        output, ended, passed = late.stdout or b"", f"no end after {timeout_s:.0f} s", False
    counts = _count_cases(report)
    if not passed and not counts["failed"]:
        counts["failed"] += 1
    return counts, f"{output.decode(errors='replace')}\n{program.name}: {ended}"


def _count_cases(report: pathlib.Path) -> collections.Counter:
    """Outcomes of the cases in GoogleTest's report; none if the program did not get to write it."""
    counts = collections.Counter()
    if report.exists():
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            if case.get("status") == "run":
                failed, skipped = case.find("failure") is not None, case.find("skipped") is not None
                counts["failed" if failed else "skipped" if skipped else "passed"] += 1
    return counts


class BuildPy(build_py):
    """Compiles the library before the package data is collected."""

    def run(self):
        if os.environ.get("GRAPPLER_GO_SKIP_CC") != "1":
            self.run_command("build_cc")
        if not self.editable_mode:
            # What an earlier build left would get into the wheel, modules since removed too.
            for package in {name.partition(".")[0] for name in self.packages}:
                shutil.rmtree(pathlib.Path(self.build_lib) / package, ignore_errors=True)
        super().run()


class BdistWheel(bdist_wheel):
    """A wheel for any Python 3 of this platform: the library does not use Python's C API."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Distribution(setuptools.Distribution):
    """Says that the package holds compiled code, though it has no extension modules."""

    def has_ext_modules(self):
        return True


os.chdir(_ROOT)  # All paths here, and #include "cc/...", are relative to the checkout.
setuptools.setup(
    cmdclass={
        "bdist_wheel": BdistWheel,
        "build_cc": BuildCc,
        "build_py": BuildPy,
        "test_cc": TestCc,
    },
    distclass=Distribution,
    setup_requires=_setup_requires(),
)
