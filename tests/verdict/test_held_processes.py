"""An engine whose processes cannot run hangs at once, asked or not; and what lets them go on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import made
from tui.model.history import History
from tui.model.readings import GpuSet
from tui.model.settings import ProbeSpec, Slo, Thresholds
from tui.model.status import Observed
from tui.verdict.judge import judge_all
from tui.verdict.texts import SPIN

if TYPE_CHECKING:
    from tui.model.readings import EngineReading, ProbeKind
    from tui.model.snapshot import EngineView
    from tui.model.verdicts import Finding, Verdict

CARDS = Observed(GpuSet((made.gpu(sm_pct=0.0, mem_ctrl_pct=0.0),)), made.FRESH)
NO_CARDS: Observed[GpuSet] = Observed(None, made.failed("no_driver"))


def with_process(role: str, found: EngineReading | None = None, **changes: Any) -> EngineView:
    """An engine one of whose processes is changed."""
    tree = tuple(dataclasses.replace(p, **changes) if p.role == role else p for p in made.tree())
    return made.view(found or made.nothing_to_do(), processes=tree)


def judged(view: EngineView, cards: Observed[GpuSet] = CARDS) -> tuple[Verdict, tuple[Finding, ...]]:
    judgement = judge_all(made.snapshot(view, gpus=cards), History(), Thresholds(), Slo())
    return next(v for v in judgement.verdicts if v.scope == made.URL), judgement.findings


@pytest.mark.parametrize("reading", [made.nothing_to_do(), made.reading()], ids=["idle", "just busy"])
@pytest.mark.parametrize(("role", "pid"), [("engine_core", 101), ("worker", 102), ("api_server", 100)])
def test_a_stopped_process_is_a_hang_at_once(role: str, pid: int, reading: EngineReading) -> None:
    found, _ = judged(with_process(role, reading, stopped=True, title="VLLM::EngineCore"))
    assert (found.verdict, found.confidence) == ("engine_hung", "high")
    assert found.evidence[0].text == f"VLLM::EngineCore pid {pid} is stopped (SIGSTOP)"
    assert found.advice[0] == f"VLLM::EngineCore pid {pid} is stopped (SIGSTOP): kill -CONT {pid}"
    assert not [line for line in found.advice if "restart" in line]


@pytest.mark.parametrize(
    ("role", "reading", "changes", "words"),
    [
        ("engine_core", made.reading(), {"traced": True}, "engine core pid 101 is held by a debugger"),
        ("worker", made.nothing_to_do(), {"blocked_s": 45.0}, "worker pid 102 has been blocked .* for 45s"),
        ("worker", made.nothing_to_do(), {"zombie": True}, "worker pid 102 is dead"),
        ("worker", made.nothing_to_do(), {"blocked_s": 8.0}, None),
        ("worker", made.reading(), {"blocked_s": 45.0}, None),  # steps are made all the same
        ("worker", made.reading(), {"zombie": True}, None),
        ("engine_core", made.nothing_to_do(), {"stopped": False, "traced": False}, None),
    ],
)
def test_what_else_keeps_a_process_from_running(
    role: str, reading: EngineReading, changes: dict[str, Any], words: str | None
) -> None:
    found, _ = judged(with_process(role, reading, **changes))
    assert (found.verdict == "engine_hung") == (words is not None)
    if words is not None:
        made_of = found.evidence[0].text
        assert all(part in made_of for part in words.split(" .* "))
        assert found.advice[0].startswith(made_of)


def test_a_dead_core_is_no_hang() -> None:
    assert judged(with_process("engine_core", zombie=True))[0].verdict == "engine_down"


def test_many_ranks_are_not_all_named() -> None:
    ranks = tuple(made.process(200 + rank, "worker", 101, stopped=True) for rank in range(8))
    found, _ = judged(made.view(made.nothing_to_do(), processes=(*made.tree(), *ranks)))
    assert sum("kill -CONT" in line for line in found.advice) == 3
    assert "and 5 more" in found.advice


def test_a_host_without_devices_hears_nothing_of_theirs() -> None:
    still = made.reading(
        gen_tok_s=0.0, prompt_tok_s=0.0, stalled_scrapes=40, stalled_s=40.0, since_last_step_s=40.0
    )
    spin = Observed(GpuSet((made.gpu(sm_pct=100.0, mem_ctrl_pct=0.0, power_w=180.0),)), made.FRESH)
    for cards, said in ((spin, True), (CARDS, False), (NO_CARDS, False)):
        found, _ = judged(made.view(still), cards)
        assert found.verdict == "engine_hung"
        assert (SPIN in found.advice) == said


# ---------------------------------------------------------------------------------------- blind liveness


def blind(view: EngineView, path: str = "/health") -> list[Finding]:
    specs: dict[ProbeKind, ProbeSpec] = {"liveness": ProbeSpec(path, period_s=10.0, failure_threshold=3)}
    _, findings = judged(dataclasses.replace(view, probe_specs=specs))
    return [f for f in findings if f.id == "probe-blind"]


def test_a_hang_that_liveness_cannot_see_is_told_with_what_would() -> None:
    still = made.reading(
        gen_tok_s=0.0, prompt_tok_s=0.0, stalled_scrapes=40, stalled_s=40.0, since_last_step_s=40.0
    )
    (found,) = blind(made.view(still))
    assert (found.level, found.scope) == ("warning", made.URL)
    assert found.text == "liveness on /health would never notice this hang"
    assert found.arithmetic.startswith("/health passed 5 times in a row, no step since ")
    assert found.arithmetic.endswith("(40s); a look at progress at its pace would within 4 * 10 = 40 s")
    assert "infertop check --as liveness" in found.instead


def test_it_is_told_of_a_stopped_core_too_and_of_no_engine_that_works() -> None:
    (found,) = blind(with_process("engine_core", stopped=True))
    assert "no step since" not in found.arithmetic
    assert blind(made.view(made.reading())) == []
    assert blind(with_process("engine_core", stopped=True), "/own/route") == []


def test_with_a_generation_under_way_it_says_when_that_would_notice() -> None:
    view = with_process("engine_core", stopped=True)
    ours = dataclasses.replace(made.probe("generate", "timeout"), notice_in_s=20.0)
    (found,) = blind(dataclasses.replace(view, probes=(*view.probes, ours)))
    assert "would never notice this hang; one that generates would at " in found.text
