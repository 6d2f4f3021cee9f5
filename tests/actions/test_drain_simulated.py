"""Drain tests of the simulated engine in each of its SIGTERM modes: the report against what it really did."""

from __future__ import annotations

import asyncio
import json
import stat
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.actions.simulated import Told, run, simulated, slack
from tests.demo.clients import complete
from tests.support.fake_nvml import MIB
from tests.support.waiting import until
from tui.actions import drain_run, fill, report, session
from tui.actions.audit import AuditLog, cut_off, log_path
from tui.actions.drain import StopRules
from tui.actions.plan import RefusedError, Start, Stop, Traffic
from tui.actions.runs import reports_dir
from tui.actions.traffic import OwnRequest
from tui.actions.watch import Watch, established
from tui.lint import measured
from tui.model.settings import EngineTarget

if TYPE_CHECKING:
    from tests.actions.simulated import Simulated
    from tests.support.fake_nvml import FakeNvml
    from tui.actions.audit import What
    from tui.actions.plan import Plan


pytest_plugins = ("tests.support.nvml_plugin",)


@pytest.fixture(autouse=True)
def _short_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own; and the waits of a test as much shorter as the simulated engine is faster."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(fill, "MEASURE_S", 0.3)
    monkeypatch.setattr(fill, "CONFIRM_S", 0.2)
    monkeypatch.setattr(session, "GAUGES_LAG_S", 0.3)
    monkeypatch.setattr(drain_run, "StopRules", partial(StopRules, closed_wait_s=0.6))


def outcomes(told: Told, kind: str = "in_flight") -> list[tuple[Any, ...]]:
    return sorted(
        {(r["outcome"], r["http_status"], r["finish_reason"]) for r in told.requests(kind)}, key=str
    )


def mode(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


async def _free_when_exited(engine: Simulated, nvml: FakeNvml) -> float:
    """The driver frees the memory a moment after the exit; when."""
    await until(lambda: any(line.startswith("exited") for _, line in engine.seen), 20)
    nvml.processes(1, [])
    return time.time()


async def test_vllm_by_default_leaves_its_streams_silent() -> None:
    async with simulated(decode_step_s=0.02) as engine:
        seen = await run(engine, grace_s=1.1)
        exited_at = engine.exited_at()
    assert seen.status == 1 and seen.report["passed"] is False
    assert outcomes(seen) == [("silent", 200, None)] and len(seen.requests("in_flight")) == 4
    assert all(r["tokens"] < r["tokens_wanted"] and r["ended_s"] >= 1.1 for r in seen.requests("in_flight"))
    assert set(seen.report["outcomes"]) == {"refused"}
    assert seen.report["clients_closed"] is True and seen.report["leftovers"] == []
    assert seen.report["exit"]["signal"] is None and seen.report["exit"]["code"] in (0, None)
    assert seen.t("clients_closed") == pytest.approx(1.1, abs=slack())
    assert seen.at("main_exit") == pytest.approx(exited_at, abs=slack())
    # the engine ends 0.8 s after the last client, scaled by 0.2
    assert seen.t("main_exit") - seen.t("clients_closed") == pytest.approx(0.16, abs=slack())
    assert seen.t("port_closed") == pytest.approx(0.05, abs=slack())
    assert seen.t("readiness_down") == pytest.approx(0.1, abs=slack() + 0.1)
    assert seen.report["reasons"][0].startswith("4 of 4 requests in flight silent: ")
    assert "only after we had hung up" in seen.report["reasons"][2]
    finding = next(f for f in seen.report["findings"] if f["id"] == "D03")
    assert "--shutdown-timeout" in finding["instead"]


async def test_vllm_with_a_shutdown_timeout_finishes_them_and_refuses_with_500() -> None:
    async with simulated(sigterm="drain-500", shutdown_timeout_s=30.0, decode_step_s=0.01) as engine:
        seen = await run(engine)
        exited_at = engine.exited_at()
    assert seen.status == 0 and seen.report["passed"] is True
    assert outcomes(seen) == [("finished", 200, "length")] and len(seen.requests("in_flight")) == 4
    assert all(r["tokens"] == r["tokens_wanted"] for r in seen.requests("in_flight"))
    new = set(outcomes(seen, "new"))  # the last of them may meet the end of the engine
    assert ("error", 500, None) in new
    assert new <= {("error", 500, None), ("cut", None, None), ("refused", None, None)}
    assert seen.at("main_exit") == pytest.approx(exited_at, abs=slack())
    assert seen.report["exit"]["after_s"] == pytest.approx(seen.t("main_exit"), abs=0.001)
    last = max(r["ended_s"] for r in seen.requests("in_flight"))
    assert last < seen.t("port_closed") < seen.t("main_exit")
    # /health says 200 until the port closes: that is its lie
    assert seen.t("readiness_down") >= last
    assert seen.report["reasons"][0].startswith("4/4 requests finished, exit after ")


async def test_a_drain_behind_a_closed_port_and_what_is_kept_of_it(nvml_here: FakeNvml) -> None:
    async with simulated(sigterm="drain-refused", decode_step_s=0.01) as engine:
        plan = engine.plan()
        nvml_here.processes(1, [(engine.pids["VLLM::Worker_0"], 4000 * MIB)])
        freeing = asyncio.ensure_future(_free_when_exited(engine, nvml_here))
        seen = await run(engine)
        exited_at = engine.exited_at()
    assert seen.status == 0 and outcomes(seen) == [("finished", 200, "length")]
    assert outcomes(seen, "new") == [("refused", None, None)]
    assert seen.t("port_closed") == pytest.approx(0.05, abs=slack())
    assert seen.at("main_exit") == pytest.approx(exited_at, abs=slack())
    assert (
        seen.t("main_exit")
        <= seen.t("gpu_released")
        == pytest.approx(await freeing - seen.at("signal_sent"), abs=1)
    )
    figures = measured.parse(json.dumps(seen.report))[0]
    assert (figures.in_flight, figures.lost) == (4, 0)
    home = reports_dir()
    assert home is not None
    assert figures.exit_s == seen.report["exit"]["after_s"]
    kept = sorted(home.iterdir())
    assert [path.suffix for path in kept] == [".json", ".md"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in kept)
    assert [row["exit_s"] for row in report.previous(plan)] == [figures.exit_s]
    assert cut_off() == ""


async def test_sglang_serves_new_requests_while_it_drains() -> None:
    async with simulated(dialect="sglang", decode_step_s=0.01) as engine:
        long = Traffic(4, max_tokens=190, outlast_s=1.2, model="demo-8b")  # beyond the first look, after 1 s
        seen = await run(engine, grace_s=12.0, traffic=long)
        exited_at = engine.exited_at()
    assert seen.status == 0 and outcomes(seen) == [("finished", 200, "length")]
    assert outcomes(seen, "new")[0][:2] == ("finished", 200)
    assert sum(r["outcome"] == "finished" for r in seen.requests("new")) <= 3
    assert seen.report["events"][1]["event"] == "readiness_down"
    assert seen.report["events"][1]["detail"] == "503"
    assert seen.t("readiness_down") == pytest.approx(0.0, abs=slack() + 0.1)
    assert seen.at("main_exit") == pytest.approx(exited_at, abs=slack())


async def test_what_was_found_stands_where_its_end_can_be_neither_logged_nor_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = AuditLog.write

    def full(log: AuditLog, what: What, run: str, plan: Plan, outcome: str = "") -> None:
        if what == "ended":
            raise RefusedError("the audit log cannot be written: No space left on device")
        write(log, what, run, plan, outcome)

    monkeypatch.setattr(AuditLog, "write", full)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = reports_dir()
    assert home is not None
    home.parent.mkdir()
    home.write_text("in the way of every report")
    async with simulated(sigterm="abort-finish", decode_step_s=0.02) as engine:
        seen = await run(engine)
    assert seen.status == 1 and seen.report["passed"] is False
    path, reasons = seen.done["report"], seen.done["reasons"][-3:]
    assert path.startswith(f"{tmp_path}/infertop-drain-")
    assert mode(path) == 0o600
    assert reasons == [
        "the report could not be written to the state directory: File exists",
        f"it is in {path}, and will not be found among the earlier ones",
        "the audit log cannot be written: No space left on device",
    ]
    assert not seen.files.spare.exists()


async def test_an_abort_with_status_200_is_told() -> None:
    async with simulated(sigterm="abort-finish", decode_step_s=0.02) as engine:
        seen = await run(engine)
        exited_at = engine.exited_at()
    assert seen.status == 1 and outcomes(seen) == [("aborted", 200, "abort")]
    assert max(r["ended_s"] for r in seen.requests("in_flight")) < slack()
    assert seen.at("main_exit") == pytest.approx(exited_at, abs=slack())
    assert seen.report["reasons"] == ["4 of 4 requests in flight aborted by the engine"]
    assert seen.report["clients_closed"] is False


async def test_one_that_ignores_the_signal_is_left_as_it_is() -> None:
    async with simulated(sigterm="ignore", decode_step_s=0.02) as engine:
        seen = await run(
            engine, grace_s=0.6, traffic=Traffic(2, max_tokens=150, outlast_s=1.0, model="demo-8b")
        )
        assert not any(line.startswith("exited") for _, line in engine.seen)
        unable = await run(engine, stop=Stop("command", "x", ("/nonexistent/x",)))
        assert engine.supervisor.pid == engine.pids["api"]
    assert (unable.status, unable.done["report"]) == (2, None)
    assert unable.done["reasons"] == ["/nonexistent/x cannot be run: No such file or directory"]
    assert seen.status == 1 and outcomes(seen) == [("timeout", 200, None)]
    assert seen.report["exit"] == {"code": None, "signal": None, "after_s": None}
    assert seen.report["leftovers"] is None and not seen.has("killed")
    assert any("still runs" in reason for reason in seen.report["reasons"])


async def test_one_that_hangs_is_killed_where_that_was_confirmed() -> None:
    async with simulated(sigterm="hang", decode_step_s=0.02) as engine:
        seen = await run(engine, grace_s=0.6, kill_after_grace=True)
        exited_at = engine.exited_at()
    assert seen.status == 1 and outcomes(seen) == [("silent", 200, None)]
    assert seen.t("killed") - seen.t("clients_closed") == pytest.approx(0.6, abs=slack())
    assert seen.at("main_exit") == pytest.approx(exited_at, abs=slack())
    assert seen.report["exit"]["signal"] in (9, None)
    assert any("was killed" in reason for reason in seen.report["reasons"])
    assert '"signal"' in log_path().read_text()  # type: ignore[union-attr]


async def test_requests_of_others_or_a_recycled_pid_keep_the_test_from_beginning() -> None:
    async with simulated(decode_step_s=0.02) as engine:
        watch = Watch(engine.plan(), EngineTarget(engine.url), lambda _what: None)
        reading = await watch.read_engine()
        assert reading is not None and reading.running == 0
        # a connection of ours that stays would hold up the exit of some engines
        assert established(int(engine.url.rpartition(":")[2])) == 0
        await watch.close()
        foreign = asyncio.ensure_future(complete(engine.url, 3000))
        await until(lambda: engine.supervisor.load.running == 1, 10)
        seen = await run(engine)
        assert not any(line.startswith("exited") for _, line in engine.seen)
        foreign.cancel()
        plan = engine.plan()
        main = plan.target.main
        assert main is not None
        stale = replace(main, start_ticks=main.start_ticks - 1)
        refused = await run(engine, target=replace(plan.target, main=stale, tree=(stale,)))
    assert (refused.status, refused.done["report"]) == (2, None)
    assert refused.done["reasons"] == [f"pid {main.pid} is another process now: api has ended"]
    assert seen.status == 2 and seen.done["passed"] is None
    assert seen.done["reasons"] == ["others use it: 1 requests in flight beside ours"]
    assert seen.done["report"] is None


async def test_a_stop_command_of_an_engine_whose_processes_are_not_known() -> None:
    async with simulated(sigterm="drain-refused", decode_step_s=0.01) as engine:
        pid = str(engine.pids["api"])
        target = replace(engine.plan().target, kind="command", main=None, tree=())
        stop = Stop("command", f"kill {pid}", ("/bin/sh", "-c", f"kill {pid}"))
        start = Start("command", "true", ("/bin/sh", "-c", "echo begun"))
        seen = await run(engine, target=target, stop=stop, start=start)
        assert await until(lambda: "begun\n" in seen.files.engine_log.read_text(), 5)
    assert seen.status == 0 and outcomes(seen) == [("finished", 200, "length")]
    assert seen.report["exit"] == {"code": None, "signal": None, "after_s": None}
    assert seen.report["leftovers"] is None and not seen.has("main_exit") and seen.has("port_closed")
    assert seen.has("spawned") and seen.report["target"]["pid"] is None
    assert seen.report["reasons"] == ["4/4 requests finished"]


async def test_requests_are_as_long_as_the_model_allows() -> None:
    async with simulated(
        sigterm="abort-finish", decode_step_s=0.02, max_model_len=164, kv_tokens=4096
    ) as engine:
        seen = await run(engine, traffic=Traffic(2, max_tokens=20, outlast_s=5.0, model="demo-8b"))
    # 20 tokens ended before the action, 100 do not outlast it by 5 s, and there is no room for more
    assert [r["tokens_wanted"] for r in seen.requests("in_flight")] == [100, 100]
    assert outcomes(seen) == [("aborted", 200, "abort")]
    assert seen.report["notes"] == [
        "the model's limit of 164 tokens ends our requests within 5 s: one that finishes so early shows little"
    ]


async def test_a_slow_engine_is_not_failed_for_the_length_of_our_requests() -> None:
    async with simulated(sigterm="drain-refused", decode_step_s=0.15) as engine:
        seen = await run(engine, traffic=Traffic(2, max_tokens=512, outlast_s=0.2, model="demo-8b"))
    assert seen.status == 0 and outcomes(seen) == [("finished", 200, "length")]
    assert all(r["tokens_wanted"] <= 8 for r in seen.requests("in_flight"))


@pytest.mark.parametrize(
    ("tokens", "after_s", "fitting"),
    [(50, 1.0, False), (15, 1.0, True), (80, 1.0, False), (5, 1.0, False), (1, 1.0, False), (2, 9.0, False)],
)
def test_a_request_fits_when_it_ends_between_the_action_and_the_grace(
    tokens: int, after_s: float, fitting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "CONFIRM_S", 1.0)
    request = OwnRequest(1, "in_flight", 0.0, 200, first_byte=0.0, last_byte=after_s, tokens=tokens)
    assert fill.fits(request, 0.5, outlast_s=5.0, grace_s=30.0) is fitting
