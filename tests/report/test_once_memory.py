"""What ``once`` says of memory: where an engine's went, and what holds it for nothing."""

from __future__ import annotations

from dataclasses import replace

from tui.model.memory import EngineMemory, GpuShare, Orphan
from tui.model.readings import EngineReading
from tui.model.snapshot import EngineView, HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import Judgement, Verdict
from tui.report import once_json, once_text

URL, OTHER = "http://127.0.0.1:8000", "http://127.0.0.1:8001"
FRESH = SourceStatus(SourceState.FRESH, age_s=0.1)
GIB = 1024.0


def view(url: str = URL, *, simulated: bool = False, memory: EngineMemory | None = None) -> EngineView:
    reading = EngineReading(url, engine="vllm", simulated=simulated)
    return EngineView(url, Observed(reading, FRESH), memory=memory)


def snapshot(*engines: EngineView, orphans: tuple[Orphan, ...] = ()) -> HostSnapshot:
    simulated = any(e.engine.reading is not None and e.engine.reading.simulated for e in engines)
    return HostSnapshot(10.0, 1_700_000_000.0, engines=engines, orphans=orphans, simulated=simulated)


def lines(*engines: EngineView, orphans: tuple[Orphan, ...] = ()) -> list[str]:
    verdicts = tuple(Verdict(e.url, "idle", "IDLE") for e in engines)
    shown = snapshot(*engines, orphans=orphans)
    return once_text.render(shown, Judgement((Verdict("host", "idle", "IDLE"), *verdicts))).splitlines()


def test_the_memory_of_an_engine_is_one_line() -> None:
    shares = (GpuShare(0, 60 * GIB, 12 * GIB, 20 * GIB, 80 * GIB),)
    memory = EngineMemory(shares, 24 * GIB, 819200.0, 24 * GIB, 26 * GIB, 8, 4096)
    (line,) = [line for line in lines(view(memory=memory)) if "memory of a GPU" in line]
    assert line == (
        f"  {URL} memory of a GPU, GiB: weights 24.0  KV 24.0 (26.0 predicted)"
        "  GPU 0 holds 60.0, rest 12.0, free 20.0 of 80.0; room for 8 sequences of 4096 tokens"
    )


def test_of_many_gpus_the_fullest_is_told_and_what_is_unknown_is_no_zero() -> None:
    shares = tuple(GpuShare(n, None, None, 20 * GIB - n * GIB, 80 * GIB) for n in range(8))
    (line,) = [s for s in lines(view(memory=EngineMemory(shares, why="gone"))) if "memory of a GPU" in s]
    assert line.endswith("GiB: fullest of 8 GPUs:  GPU 7 holds –, free 13.0 of 80.0 (gone)")
    assert not any("memory of a GPU" in line for line in lines(view(memory=EngineMemory())))
    assert not any("memory of a GPU" in line for line in lines(view()))


def test_one_simulated_engine_among_others_is_marked_alone() -> None:
    shown = lines(view(), view(OTHER, simulated=True))
    assert "SIMULATED" not in shown[0]
    assert all(("SIMULATED" in line) is (OTHER in line) for line in shown if URL in line or OTHER in line)
    assert any("SIMULATED" in line and line.startswith("IDLE") for line in shown)
    assert lines(view(simulated=True), view(OTHER, simulated=True))[0] == "SIMULATED"
    assert once_json.document(snapshot(view(), view(OTHER, simulated=True)), Judgement())["simulated"]


def test_many_orphans_are_a_few_rows_and_all_that_matter_in_the_json() -> None:
    core = Orphan(1, "VLLM::EngineCore", 60.0, GIB, "kill -TERM 1", (0,), "its server is gone", "eve")
    orphans = tuple(replace(core, pid=n, command=f"kill -TERM {n}") for n in range(1, 301))
    orphans += (replace(core, pid=400, ends_with=3, gpus=(1,)), Orphan(None, gpu_mem_mib=GIB, gpus=(2,)))
    shown = lines(view(), orphans=orphans)
    rows = [line for line in shown if line.startswith("VLLM::EngineCore")]
    assert len(rows) == 8
    assert rows[0].split() == ["VLLM::EngineCore", "eve", "3", "+1", "60s", "2.0", "0,1"]
    assert "  and 292 more, none of which is known to hold more" in shown
    assert "  to end it: kill -TERM 3  (a process of eve)" in shown
    assert len(shown) < 40
    document = once_json.document(snapshot(view(), orphans=orphans), Judgement())
    assert (len(document["orphans"]), document["orphans_left_out"]) == (64, 238)
    assert document["orphans"][0]["user"] == "eve"
