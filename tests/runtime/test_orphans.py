"""Memory held for nothing, as told from the process table and the driver's lists."""

from __future__ import annotations

from dataclasses import replace

from tui.model.memory import grouped
from tui.model.readings import EngineProcess, GpuProcess, GpuReading, GpuSet, ProcessTable
from tui.runtime.orphans import OrphanWatch

CORE = EngineProcess(
    11,
    1,
    "VLLM::EngineCor",
    "engine_core",
    "vllm",
    started_at=40.0,
    title="VLLM::EngineCore",
    orphan=True,
    user="alice",
)
SERVER = EngineProcess(21, 1, "vllm", "api_server", "vllm")


def card(index: int, used: float | None, *held: GpuProcess, listed: bool = True) -> GpuReading:
    return GpuReading(index, mem_used_mib=used, mem_total_mib=80000.0, processes=held if listed else None)


def watch(*gone: int) -> OrphanWatch:
    return OrphanWatch(lambda pid: pid in gone)


def test_an_engines_part_without_its_server() -> None:
    table = ProcessTable((CORE, SERVER))
    gpus = GpuSet((card(0, 500.0, GpuProcess(11, "x", 300.0)), card(1, 500.0, GpuProcess(11, "x", 200.0))))
    (orphan,) = watch().update(table, gpus, 100.0) or ()
    assert (orphan.pid, orphan.name, orphan.age_s) == (11, "VLLM::EngineCore", 60.0)
    assert (orphan.gpu_mem_mib, orphan.gpus, orphan.command) == (500.0, (0, 1), "kill -TERM 11")


def test_a_worker_is_told_with_its_core() -> None:
    worker = replace(CORE, pid=12, ppid=11, title="VLLM::Worker")
    rows = watch().update(ProcessTable((CORE, worker, replace(worker, pid=13, ppid=12))), None, 100.0) or ()
    assert [(row.pid, row.ends_with) for row in rows] == [(11, None), (12, 11), (13, 11)]
    assert {row.user for row in rows} == {"alice"}
    (group,) = grouped(rows)
    assert (group.head.pid, group.parts, group.gpu_mem_mib) == (11, 2, None)


def test_nobody_is_told_to_end_what_may_be_anybodys() -> None:
    (orphan,) = watch().update(ProcessTable((replace(CORE, user=""),)), None, 100.0) or ()
    assert orphan.command is None


def test_what_the_driver_does_not_tell_is_unknown() -> None:
    (orphan,) = watch().update(ProcessTable((CORE,)), None, 100.0) or ()
    assert orphan.gpu_mem_mib is None
    assert watch().update(None, None, 100.0) is None
    assert watch().update(ProcessTable((SERVER,)), GpuSet(), 100.0) == ()


def test_a_pid_without_a_process_counts_once_two_readings_agree() -> None:
    found = watch(33)
    table = ProcessTable()
    readings = [GpuSet((card(0, 9000.0, GpuProcess(33, None, 9000.0)),)) for _ in range(3)]
    assert found.update(table, readings[0], 1.0) == ()
    assert found.update(table, readings[0], 2.0) == ()  # the same reading is no second one
    (orphan,) = found.update(table, readings[1], 3.0) or ()
    assert (orphan.pid, orphan.gpu_mem_mib, orphan.command) == (33, 9000.0, None)
    assert found.update(table, readings[1], 4.0) == (orphan,)
    assert found.update(table, GpuSet((card(0, 10.0),)), 5.0) == ()


def test_memory_that_nobody_accounts_for() -> None:
    found = watch()
    for _ in range(2):
        gpus = GpuSet((card(0, 40000.0), card(1, 40000.0, listed=False), card(2, 700.0), card(3, None)))
        rows = found.update(ProcessTable(), gpus, 1.0)
    (orphan,) = rows or ()
    assert (orphan.pid, orphan.gpu_mem_mib, orphan.gpus) == (None, 40000.0, (0,))


def test_where_processes_are_hidden_absence_means_nothing() -> None:
    found = watch(33)
    for _ in range(3):
        gpus = GpuSet((card(0, 40000.0, GpuProcess(33, None, 900.0)),))
        assert found.update(ProcessTable(complete=False), gpus, 1.0) == ()
