"""`local_cluster`: real worker processes, how they start and, above all, how they end."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from grappler_go import _worker, _worker_options, cluster

v1 = tf.compat.v1
_ROOT = pathlib.Path(cluster.__file__).resolve().parent.parent
_END_TIMEOUT_S = 15.0


@pytest.fixture(scope="module", name="pair")
def fixture_pair():
    with cluster.local_cluster(2, library="") as running:
        yield running


def _runs(pid: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _wait_until_ended(pids) -> bool:
    deadline = time.monotonic() + _END_TIMEOUT_S
    while time.monotonic() < deadline and any(map(_runs, pids)):
        time.sleep(0.05)
    return not any(map(_runs, pids))


def _sum_over_devices(devices) -> tuple[tf.Graph, tf.Tensor]:
    graph = tf.Graph()
    with graph.as_default():
        parts = []
        for number, device in enumerate(devices):
            with tf.device(device):
                parts.append(tf.constant(float(number + 1)) * 2.0)
        with tf.device(devices[0]):
            return graph, tf.add_n(parts)


def _run_on(running):
    graph, total = _sum_over_devices(running.devices)
    config = v1.ConfigProto(operation_timeout_in_ms=5000)
    with v1.Session(running.master, graph=graph, config=config) as session:
        return session.run(total)


def test_workers_answer_and_compute_together(pair):
    assert pair.alive()
    pair.check()
    assert pair.master == pair.targets[0]
    assert all(target.startswith("grpc://127.0.0.1:") for target in pair.targets)
    assert pair.devices == tuple(
        f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)
    )
    graph, total = _sum_over_devices(pair.devices)
    for target in pair.targets:
        with v1.Session(target, graph=graph) as session:
            assert session.run(total) == 6.0


def test_each_thread_of_a_worker_is_pinned_to_its_core(pair):
    allowed = sorted(os.sched_getaffinity(0))
    assert pair.cores == tuple(allowed[task % len(allowed)] for task in range(2))
    for pid, core in zip(pair.pids, pair.cores, strict=True):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(ProcessLookupError):  # It has ended since.
                assert os.sched_getaffinity(int(thread)) == {core}


def test_workers_see_no_gpu(pair):
    for pid in pair.pids:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert b"CUDA_VISIBLE_DEVICES=-1" in environment


def test_a_listener_is_restricted_to_loopback():
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        _worker._restrict_listener(os.dup(listener.fileno()))
        bound = listener.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
    assert bound.rstrip(b"\0") == b"lo"


def test_descriptors_that_do_not_listen_are_left_alone(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    with socket.socket() as plain, open(tmp_path / "file", "w", encoding="utf-8") as file:
        for descriptor in (plain.fileno(), file.fileno()):
            _worker._restrict_listener(os.dup(descriptor))
        assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16) == b""
    assert len(os.listdir("/proc/self/fd")) == before


def test_workers_share_a_core_and_end_after_an_exception():
    core = min(os.sched_getaffinity(0))
    running = cluster.local_cluster(2, cores=[core], library="")
    assert running.cores == (core, core)
    with pytest.raises(KeyError), running:
        raise KeyError("in the block")
    assert not any(map(_runs, running.pids))
    assert not running.alive()
    running.close()
    with pytest.raises(cluster.ClusterError, match="has been closed"):
        running.check()


def test_the_death_of_a_worker_is_told_in_words():
    running = cluster.local_cluster(2, library="")
    os.kill(running.pids[1], signal.SIGKILL)
    assert _wait_until_ended(running.pids[1:])
    # The kernel tells the parent a moment after the process shows as ended.
    deadline = time.monotonic() + 10
    while running.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running.alive()
    with pytest.raises(cluster.ClusterError, match=rf"worker 1 \(pid {running.pids[1]}\) ended"):
        running.check()
    with pytest.raises(cluster.ClusterError, match="worker 1") as raised, running:
        _run_on(running)
    assert "signal 9 (SIGKILL)" in str(raised.value)
    assert "last lines of its log" in str(raised.value)
    assert isinstance(raised.value.__cause__, tf.errors.OpError)
    assert not any(map(_runs, running.pids))


def test_a_library_that_does_not_load_is_told_in_words(tmp_path):
    library = tmp_path / "broken.so"
    library.write_text("not a library")
    with pytest.raises(
        cluster.ClusterError, match=r"(?s)worker 0 \(pid \d+\) ended with exit code 1.*broken\.so"
    ):
        cluster.local_cluster(1, library=str(library))


def test_a_library_that_does_not_exist_is_named():
    with pytest.raises(FileNotFoundError, match="library /nowhere/lib.so does not exist"):
        cluster.local_cluster(1, library="/nowhere/lib.so")


def test_a_worker_that_is_late_is_named():
    with pytest.raises(cluster.ClusterError, match=r"worker 0 .* did not answer in time"):
        cluster.local_cluster(1, library="", start_timeout_s=0.05)


def test_ports_that_are_taken_are_replaced(monkeypatch):
    free_ports = cluster._free_ports
    asked = []
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()

        def ports(n):
            asked.append(n)
            return [taken.getsockname()[1]] if len(asked) == 1 else free_ports(n)

        monkeypatch.setattr(cluster, "_free_ports", ports)
        with cluster.local_cluster(1, library="") as running:
            assert running.alive()
    assert asked == [1, 1]


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_their_parent(ending):
    script = (
        "import signal, time\n"
        # A shell starts background jobs with Ctrl-C ignored, and Python leaves it so.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from grappler_go import cluster\n"
        "with cluster.local_cluster(1, library='') as running:\n"
        "    print(*running.pids, flush=True)\n"
        "    # Short naps: a signal just before a sleep does not end it.\n"
        "    [time.sleep(0.1) for _ in iter(int, 1)]\n"
    )
    environment = dict(os.environ, PYTHONPATH=str(_ROOT))
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    ) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert pids and all(map(_runs, pids))
        parent.send_signal(ending)
        try:
            parent.wait(_END_TIMEOUT_S)
        finally:
            parent.kill()
    assert _wait_until_ended(pids)


@pytest.mark.parametrize(
    ("n", "options", "message"),
    [
        (0, {}, "n must be at least 1, got 0"),
        (1, {"intra_op": 0}, "intra_op must be at least 1, got 0"),
        (1, {"inter_op": -1}, "inter_op must be at least 1, got -1"),
        (1, {"cores": [4096]}, r"cores must be out of \[.*\], got \[4096\]"),
        (1, {"cores": []}, r"cores must be out of \[.*\], got \[\]"),
    ],
)
def test_bad_options_are_named(n, options, message):
    with pytest.raises(ValueError, match=message):
        cluster.local_cluster(n, **options)


def test_worker_options_survive_the_command_line():
    options = _worker_options.WorkerOptions(
        ports=(1, 2), task=1, core=3, intra_op=4, inter_op=5, library="", parent=6
    )
    command = _worker_options.command(options)
    assert command[:2] == ["-m", "grappler_go._worker"]
    assert _worker_options.parse(command[2:]) == options
