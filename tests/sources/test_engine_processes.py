"""What the kernel says of an engine's processes: real ones, and control groups in a made-up tree."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.clock import ManualClock
from tests.support.engine_like import LOCK, SPIN, engine_like, scanned
from tests.support.proctree import ProcTree
from tests.support.waiting import wait_for
from tui.model.readings import EngineProcess
from tui.sources.engine_processes import EngineProcessSource, EngineTree
from tui.sources.kernel.cgroup_limits import CgroupMeter
from tui.sources.kernel.mounts import filesystem, is_remote
from tui.sources.kernel.process_io import IoFigures, IoMeter
from tui.sources.kernel.threads import ThreadFigures, ThreadMeter
from tui.sources.processes import ProcessSource

if TYPE_CHECKING:
    from pathlib import Path

URL = "http://127.0.0.1:8000"


# ------------------------------------------------------------------------------------- threads


def test_the_thread_that_spins_is_named_with_what_it_does() -> None:
    with engine_like(SPIN) as process:
        figures = scanned(process, lambda f: bool(f.threads), "rates")
        spinning = figures.threads[0]
        # on a full machine it gets less of a core, and waits for the rest
        assert spinning.wait_pct is not None
        assert spinning.cpu_pct + spinning.wait_pct > 70.0
        assert (spinning.name, spinning.role) == ("tokenizer-0", "tokenizer")
        assert spinning.tid != spinning.pid == process.pid
        still = next(t for t in figures.threads if t.tid == process.pid)
        assert (still.name, still.role) == ("VLLM::EngineCore", "engine_core")
        assert still.cpu_pct < 20.0
        assert figures.count == 2
        assert (figures.cpu_pct or 0.0) >= spinning.cpu_pct
        assert not figures.no_waits


def test_the_process_table_knows_such_a_child_for_an_engine_core() -> None:
    with engine_like(SPIN) as process:
        table = ProcessSource().read()
        found = next(p for p in table.processes if p.pid == process.pid)
        assert (found.role, found.title) == ("engine_core", "VLLM::EngineCore")


def test_threads_that_fight_for_a_lock_switch_by_their_own_will_and_wait_for_it() -> None:
    with engine_like(LOCK) as process:
        figures = scanned(
            process, lambda f: f.futex_share is not None or f.waits_hidden, "twenty looks at waits"
        )
        if figures.waits_hidden:
            pytest.skip("wchan may not be read here")
        assert figures.futex_share is not None
        assert figures.futex_share > 0.5
        assert (figures.switches_s or 0.0) > 500.0
        assert (figures.voluntary_s or 0.0) > (figures.involuntary_s or 0.0)


def test_one_that_spins_waits_for_no_lock() -> None:
    with engine_like(SPIN) as process:
        figures = scanned(process, lambda f: f.window_s is not None, "rates")
        assert not figures.futex_share


def tree_with_threads(folder: Path) -> tuple[ProcTree, EngineProcess]:
    tree = ProcTree(folder)
    tree.process(7, comm="vllm", threads={7: ("vllm", 100), 8: ("asyncio_0", 0)})
    return tree, EngineProcess(7, 1, "vllm", "api_server", "vllm", start_ticks=1000)


def test_without_run_queue_statistics_ticks_have_to_do_and_waits_are_missing(tmp_path: Path) -> None:
    tree, process = tree_with_threads(tmp_path)
    for tid in (7, 8):
        (tree.proc / f"7/task/{tid}/schedstat").write_text("0 0 0\n")
    meter = ThreadMeter(str(tree.proc))
    assert meter.scan((process,), 10.0) == ThreadFigures(count=2)
    hz = os.sysconf("SC_CLK_TCK")
    tree.process(7, comm="vllm", threads={7: ("vllm", 100), 8: ("asyncio_0", hz)})
    figures = meter.scan((process,), 12.0)
    assert [(t.tid, t.cpu_pct, t.wait_pct, t.switches_s) for t in figures.threads] == [
        (8, 50.0, None, None),
        (7, 0.0, None, None),
    ]
    assert (figures.wait_pct, figures.switches_s, figures.no_waits) == (None, None, True)


def test_a_new_thread_counts_whole_and_a_new_process_from_its_second_look_on(tmp_path: Path) -> None:
    tree, process = tree_with_threads(tmp_path)

    def spent(pid: int, tid: int, run_ns: int, wait_ns: int = 0, runs: int = 1) -> None:
        (tree.proc / f"{pid}/task/{tid}").mkdir(parents=True, exist_ok=True)
        (tree.proc / f"{pid}/task/{tid}/schedstat").write_text(f"{run_ns} {wait_ns} {runs}\n")

    meter = ThreadMeter(str(tree.proc))
    spent(7, 7, 9_000_000_000)
    spent(7, 8, 1)
    meter.scan((process,), 10.0)
    spent(7, 9, 500_000_000, 500_000_000, 201)
    tree.process(20, comm="worker")
    spent(20, 20, 50_000_000_000)
    other = EngineProcess(20, 7, "worker", "worker", "vllm", start_ticks=2000)
    figures = meter.scan((process, other), 12.0)
    new = figures.threads[0]
    assert (new.tid, new.cpu_pct, new.wait_pct, new.switches_s) == (9, 25.0, 25.0, 100.5)
    assert (figures.cpu_pct, figures.wait_pct, figures.count) == (25.0, 50.0, 4)
    spent(20, 20, 52_000_000_000)
    figures = meter.scan((process, other), 14.0)
    assert figures.threads[0].tid == 20
    assert figures.threads[0].cpu_pct == 100.0


def test_waits_that_are_hidden_are_told_from_none(tmp_path: Path) -> None:
    tree, process = tree_with_threads(tmp_path)

    def at(number: int) -> None:
        for tid in (7, 8):
            folder = tree.proc / f"7/task/{tid}"
            (folder / "schedstat").write_text(
                f"{1000 + number * 1000 * (tid == 8)} 0 {1 + number * 500 * (tid == 8)}\n"
            )
            (folder / "wchan").write_text("0")

    meter = ThreadMeter(str(tree.proc))
    at(0)
    meter.scan((process,), 10.0)
    at(1)
    figures = meter.scan((process,), 11.0)
    assert figures.waits_hidden
    assert figures.futex_share is None


# ------------------------------------------------------------------------------------- bytes


def test_reads_that_reach_the_disk_are_told_from_all_reads(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(os.urandom(1 << 20))
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system has no O_DIRECT")
    body = """
    import mmap
    direct, room = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 1 << 20)
    written = os.open(sys.argv[1] + ".out", os.O_WRONLY | os.O_CREAT)
    def load():
        while True:
            os.preadv(direct, [room], 0)
            os.pwrite(written, room, 0)
            os.fsync(written)
    run(load, b"loader")
    """
    with engine_like(body, str(file)) as process:
        meter = IoMeter("/proc")
        meter.read((process,), time.monotonic())

        def both() -> IoFigures | None:
            found = meter.read((process,), time.monotonic())
            return found if found.disk_write_mb_s and found.disk_read_mb_s else None

        figures = wait_for(both, 20.0, "reads and writes")
        assert (figures.disk_read_mb_s or 0.0) > 0.5
        assert (figures.read_mb_s or 0.0) > 0.5
        assert (figures.read_total_mib or 0.0) >= 1.0


def test_bytes_of_a_process_that_is_new_here_are_no_rate(tmp_path: Path) -> None:
    tree, process = tree_with_threads(tmp_path)

    def io(pid: int, rchar: int, read: int) -> None:
        (tree.proc / f"{pid}/io").write_text(f"rchar: {rchar}\nread_bytes: {read}\nwrite_bytes: 0\n")

    meter = IoMeter(str(tree.proc))
    io(7, 5 << 20, 0)
    assert meter.read((process,), 10.0).read_mb_s is None
    tree.process(20, comm="worker")
    io(20, 900_000_000, 900_000_000)
    other = EngineProcess(20, 7, "worker", "worker", "vllm", start_ticks=2000)
    io(7, (5 << 20) + 4_000_000, 2_000_000)
    figures = meter.read((process, other), 12.0)
    assert (figures.read_mb_s, figures.disk_read_mb_s) == (2.0, 1.0)
    assert figures.read_total_mib == pytest.approx((4_000_000 + 900_000_000) / 2**20 + 5)


# ------------------------------------------------------------------------------------- control groups


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_DOT_", ".")).write_text(text)


def test_the_tightest_limit_above_counts_in_version_2(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path)
    root = tree.sys / "fs/cgroup"
    write(root, cgroup_DOT_controllers="cpu memory\n")
    write(root / "kube", cpu_DOT_max="400000 100000\n", memory_DOT_max="max\n")
    tree_stat = "usage_usec 5\nnr_periods {}\nnr_throttled {}\nthrottled_usec 5\n"
    pod = root / "kube/pod"
    write(pod, cpu_DOT_max="150000 100000\n", memory_DOT_max=str(64 << 20), memory_DOT_current=str(48 << 20))
    own = pod / "own"
    write(own, cpu_DOT_max="max 100000\n", memory_DOT_max="max\n", memory_DOT_current="9")
    for resource, value in (("cpu", "12.50"), ("io", "3.00"), ("memory", "0.00")):
        (own / f"{resource}.pressure").write_text(f"some avg10={value} avg60=0.00 avg300=0.00 total=0\n")
    (own / "memory.events").write_text("low 0\noom 0\noom_kill 2\n")
    (pod / "cpu.stat").write_text(tree_stat.format(100, 10))
    tree.process(7, comm="vllm")
    tree.write("7/cgroup", "0::/kube/pod/own\n")
    meter = CgroupMeter(str(tree.proc), str(tree.sys))
    first = meter.read(7, 10.0)
    assert (first.quota_cores, first.throttled_share) == (1.5, None)
    assert (first.mem_mib, first.mem_max_mib, first.oom_kills, first.oom_age_s) == (48.0, 64.0, 0, None)
    assert (first.psi_cpu, first.psi_io, first.psi_mem) == (12.5, 3.0, 0.0)
    (pod / "cpu.stat").write_text(tree_stat.format(120, 25))
    (own / "memory.events").write_text("low 0\noom 1\noom_kill 3\n")
    second = meter.read(7, 12.0)
    assert (second.throttled_share, second.oom_kills, second.oom_age_s) == (0.75, 1, 0.0)
    # its processes have gone: the group still tells
    gone = meter.read(None, 15.0)
    assert (gone.oom_kills, gone.oom_age_s) == (1, 3.0)


def test_version_1_has_its_own_files(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path)
    root = tree.sys / "fs/cgroup"
    write(root / "cpu,cpuacct/box", cpu_DOT_cfs_quota_us="50000\n", cpu_DOT_cfs_period_us="100000\n")
    write(root / "cpu,cpuacct/box", cpu_DOT_stat="nr_periods 4\nnr_throttled 1\nthrottled_time 9\n")
    write(
        root / "memory/box",
        memory_DOT_limit_in_bytes=str(32 << 20),
        memory_DOT_usage_in_bytes=str(31 << 20),
        memory_DOT_oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
    )
    tree.process(7, comm="vllm")
    tree.write("7/cgroup", "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n")
    meter = CgroupMeter(str(tree.proc), str(tree.sys))
    meter.read(7, 10.0)
    write(root / "cpu,cpuacct/box", cpu_DOT_stat="nr_periods 8\nnr_throttled 2\nthrottled_time 9\n")
    found = meter.read(7, 12.0)
    assert (found.quota_cores, found.throttled_share) == (0.5, 0.25)
    assert (found.mem_mib, found.mem_max_mib, found.oom_kills) == (31.0, 32.0, 0)


def test_no_limit_is_none_and_a_group_out_of_sight_says_why(tmp_path: Path) -> None:
    tree = ProcTree(tmp_path)
    write(tree.sys / "fs/cgroup", cgroup_DOT_controllers="cpu memory\n")
    write(tree.sys / "fs/cgroup/free", cpu_DOT_max="max 100000\n", memory_DOT_max="max\n")
    tree.process(7, comm="vllm")
    tree.write("7/cgroup", "0::/free\n")
    found = CgroupMeter(str(tree.proc), str(tree.sys)).read(7, 10.0)
    assert (found.quota_cores, found.throttled_share, found.mem_max_mib, found.why) == (None, None, None, "")
    tree.write("7/cgroup", "0::/../../elsewhere\n")
    assert "outside" in CgroupMeter(str(tree.proc), str(tree.sys)).read(7, 10.0).why


# ------------------------------------------------------------------------------------- file systems


def test_the_file_system_of_a_directory_is_found_by_its_device(tmp_path: Path) -> None:
    found = filesystem("/proc", os.getpid(), tmp_path.stat().st_dev)
    assert found is None or not is_remote(found)
    tree = ProcTree(tmp_path / "made")
    tree.process(7, comm="vllm")
    tree.write(
        "7/mountinfo",
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "40 27 0:45 / /models rw,relatime shared:1 master:2 - nfs4 store:/models rw,vers=4.2\n",
    )
    assert filesystem(str(tree.proc), 7, os.makedev(0, 45)) == "nfs4"
    assert filesystem(str(tree.proc), 7, os.makedev(0, 99)) is None


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "lustre", "ceph", "gpfs", "9p", "fuse.s3fs", "fuse"])
def test_remote_file_systems(kind: str) -> None:
    assert is_remote(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "overlay", "tmpfs", "zfs", "fuse.fuse-overlayfs", "fuseblk"])
def test_local_file_systems(kind: str) -> None:
    assert not is_remote(kind)


# ------------------------------------------------------------------------------------- the source


def test_connections_that_nobody_accepts_pile_up() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=4) as listener:
        port = listener.getsockname()[1]
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        process = EngineProcess(
            os.getpid(), 1, "vllm", "api_server", "vllm", port=port, listening=True, start_ticks=1
        )
        source = EngineProcessSource()
        source.watch({URL: EngineTree((process,))})
        try:
            reading = source.read()[URL]
        finally:
            for client in clients:
                client.close()
    if any(m.field == "backlog" for m in reading.missing):
        pytest.skip("no inet_diag here")
    assert (reading.backlog, reading.backlog_limit, reading.connections) == (3, 4, 3)


def test_a_port_in_another_network_is_missing_and_says_so(tmp_path: Path) -> None:
    tree, _ = tree_with_threads(tmp_path)
    process = EngineProcess(
        7, 1, "vllm", "api_server", "vllm", port=8000, listening=True, other_network=True, start_ticks=1000
    )
    source = EngineProcessSource(tree.proc, tree.sys)
    source.watch({URL: EngineTree((process,))})
    reading = source.read()[URL]
    assert reading.backlog is None
    assert "network namespace" in next(m.why for m in reading.missing if m.field == "backlog")


def test_a_look_that_costs_much_comes_rarely(tmp_path: Path) -> None:
    tree, process = tree_with_threads(tmp_path)
    clock, spent = ManualClock(), 0.0

    def thread_time() -> float:
        nonlocal spent
        spent += 0.010
        return spent

    source = EngineProcessSource(tree.proc, tree.sys, clock.monotonic, thread_time)
    source.watch({URL: EngineTree((process,))})
    first = source.read()
    assert source.read() is first
    clock.now += 0.2
    second = source.read()
    assert second is not first
    assert second[URL].window_s == pytest.approx(0.2)
    # 10 ms at a fifth of a percent of a core: every 5 s
    clock.now += 4.4
    assert source.read() is second
    clock.now += 0.2
    assert source.read() is not second


def test_an_engine_that_was_never_seen_has_no_reading_and_one_that_has_gone_keeps_its_own(
    tmp_path: Path,
) -> None:
    tree, process = tree_with_threads(tmp_path)
    clock = ManualClock()
    source = EngineProcessSource(tree.proc, tree.sys, clock.monotonic)
    source.watch({URL: EngineTree(())})
    assert source.read() == {}
    source.watch({URL: EngineTree((process,))})
    assert source.read()[URL].thread_count == 2
    source.watch({URL: EngineTree(())})
    clock.now += 30.0
    assert source.read()[URL].thread_count == 0
    source.watch({})
    clock.now += 30.0
    assert source.read() == {}
    assert source.doing == ""
