"""Why an engine went, in words: each exit code by its reason, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import made
from tui.model.death import DeathReading, ExitReading, KernelLine
from tui.model.history import History
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed
from tui.verdict.death import death_advice, exit_text
from tui.verdict.judge import judge_all
from tui.verdict.texts import FIND_OUT

if TYPE_CHECKING:
    from tui.model.snapshot import EngineView
    from tui.model.verdicts import Verdict

OOM = KernelLine("oom", "Out of memory: Killed process 7 (VLLM::Worker)", 1.0)


def reading(code: int | None = None, **changes: Any) -> DeathReading:
    of_exit = {k: changes.pop(k) for k in list(changes) if k in ExitReading.__dataclass_fields__}
    return DeathReading(ExitReading("docker", "llm", code, **of_exit), **changes)


@pytest.mark.parametrize(
    ("death", "text", "advice"),
    [
        (reading(137, oom_killed=True, mem_limit_mib=65536.0), "exited 137, OOMKilled, 12s ago", "now 64.0 GiB"),
        (reading(137, kernel=(OOM,)), "exited 137, OOMKilled, 12s ago", "raise the limit"),
        (reading(137, oom_killed=False), "exited 137, SIGKILL, not for memory, 12s ago", "somebody sent SIGKILL"),
        (reading(137), "exited 137, SIGKILL, 12s ago", "for memory or by somebody"),
        (reading(137, oom_killed=False, asked_to_stop=True, grace_s=10.0),
         "exited 137, SIGKILL after it was asked to stop, 12s ago", "the grace (now 10s) ran out"),
        (reading(137, result="timeout", oom_killed=False, grace_s=float("inf")),
         "exited 137, the grace ran out, 12s ago", "the grace ran out before"),
        (reading(143), "exited 143, SIGTERM, 12s ago", "before it could drain"),
        (reading(139), "exited 139, SIGSEGV, 12s ago", "Triton"),
        (reading(134), "exited 134, SIGABRT, 12s ago", "native code"),
        (reading(135), "exited 135, SIGBUS, 12s ago", "--shm-size"),
        (reading(0, core_crashed=True, policy="on-failure"), "exited 0, after its core had crashed, 12s ago",
         "exit 0 after a core crash: Restart=on-failure will not start it again"),
        (reading(0, core_crashed=True, policy="always"), "exited 0, after its core had crashed, 12s ago",
         "counts as a clean stop"),
        (reading(0, asked_to_stop=True), "exited 0, as it was asked to, 12s ago", "asked to stop"),
        (reading(0, policy="on-failure"), "exited 0, 12s ago", "Restart=on-failure will not start it again"),
        (reading(0), "exited 0, 12s ago", "stopped by somebody, or a crash"),
        (reading(1, restarts=3), "exited 1, 12s ago, restarted 3 times", "stands in its log"),
        (reading(1, result="start-limit-hit"), "exited 1, systemd has given up starting it, 12s ago",
         "systemctl reset-failed llm"),
        (reading(134, result="watchdog"), "exited 134, systemd's watchdog, 12s ago", "WatchdogSec"),
        (reading(127, error="exec: no such file"), "exited 127, not started, 12s ago", "exec: no such file"),
        (reading(None, restarted=True, restarts=1), "started again, 12s ago, restarted once", "started again"),
    ],
)  # fmt: skip
def test_an_end_by_its_reason_and_what_to_do(death: DeathReading, text: str, advice: str) -> None:
    assert exit_text(death, 12.0) == text
    assert any(advice in line for line in death_advice(death)), death_advice(death)


def test_without_a_supervisor_only_what_was_seen_is_said() -> None:
    assert (exit_text(DeathReading(), None), death_advice(DeathReading()), death_advice(None)) == (
        None,
        (),
        (),
    )
    assert exit_text(DeathReading(asked_to_stop=True), None) == "it was asked to stop"
    assert "asked to stop" in death_advice(DeathReading(asked_to_stop=True))[0]
    assert "for memory" in death_advice(DeathReading(kernel=(OOM,)))[0]
    crashed = death_advice(DeathReading(core_crashed=True, log=("EngineDeadError",)))
    assert crashed[0].startswith("its core crashed")
    assert "Restart=on-failure" in crashed[1]


# ------------------------------------------------------------------------------- verdicts


def verdict_of(view: EngineView) -> Verdict:
    found = judge_all(made.snapshot(view), History(), Thresholds(), Slo())
    return next(v for v in found.verdicts if v.scope == view.url)


def test_the_exit_leads_the_evidence_of_an_engine_that_is_down() -> None:
    death = reading(
        137, oom_killed=True, ended_at=made.WALL - 12, kernel=(OOM,), log=("KeyError: 1", "RuntimeError: x")
    )
    view = made.view(
        engine=Observed(None, made.failed("refused")),
        probes=made.probes("refused"),
        processes=(),
        death=Observed(death, made.FRESH),
    )
    verdict = verdict_of(view)
    assert verdict.verdict == "engine_down"
    assert [e.text for e in verdict.evidence[:3]] == [
        "exited 137, OOMKilled, 12s ago",
        'kernel "Out of memory: Killed process 7 (VLLM::Worker)"',
        'log "RuntimeError: x"',
    ]
    assert verdict.advice[0].startswith("memory of the host")
    assert FIND_OUT not in verdict.advice
    unknown = verdict_of(made.view(
        engine=Observed(None, made.failed("refused")), probes=made.probes("refused"), processes=()))  # fmt: skip
    assert FIND_OUT in unknown.advice


def test_a_stop_that_its_source_tells_of_is_a_drain_though_health_says_200() -> None:
    verdict = verdict_of(made.view(stopping="systemd stops vllm.service within 90s"))
    assert (verdict.verdict, verdict.confidence) == ("draining", "high")
    assert verdict.evidence[0].text == "systemd stops vllm.service within 90s"
    assert verdict_of(made.view()).verdict == "healthy"


def test_a_stop_counts_while_its_process_lives_and_no_longer() -> None:
    refused: dict[str, Any] = {
        "engine": Observed(None, made.failed("refused")), "probes": made.probes("refused"), "stopping": "log x",
    }  # fmt: skip
    assert verdict_of(made.view(**refused)).verdict == "draining"
    assert verdict_of(made.view(**refused, processes=())).verdict == "engine_down"
    # of another host nothing tells whether it lives: a closed port is its end
    assert verdict_of(made.view(**refused, processes=None, local=False)).verdict == "engine_down"
