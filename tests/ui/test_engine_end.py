"""What a zoomed engine tells of its end, and of a stop that is under way."""

from __future__ import annotations

from dataclasses import replace

from tests.ui import scenes
from tests.ui.test_engine_sheet import FRESH, zoomed
from tui.model.death import DeathReading, ExitReading, KernelLine
from tui.model.readings import Missing
from tui.model.status import Observed


def test_why_it_went_stands_in_the_zoomed_pane() -> None:
    death = DeathReading(
        ExitReading("docker", "llm", 137, oom_killed=True, restarts=2),
        (KernelLine("oom", "Killed process 7 (VLLM::Worker)"),),
        ("KeyError: 1", "RuntimeError: [bold]x"),
        "log of container llm",
    )
    text = zoomed(replace(scenes.engine(), death=Observed(death, FRESH)))
    assert "last end exited 137, OOMKilled, restarted 2 times" in text
    assert "kernel Killed process 7 (VLLM::Worker)" in text
    assert "its log KeyError: 1" in text
    assert "its log RuntimeError: [bold]x" in text


def test_what_is_not_known_of_it_is_said() -> None:
    death = DeathReading(missing=(Missing("exit", "nobody kept it", "a unit"),))
    assert "last end exit not known: nobody kept it" in zoomed(
        replace(scenes.engine(), death=Observed(death, FRESH))
    )
    assert "last end" not in zoomed(scenes.engine())


def test_what_nobody_would_tell_is_among_what_is_not_known() -> None:
    untold = (Missing("draining", "no route tells", "set log"),)
    assert "not known draining: no route tells (set log)" in zoomed(replace(scenes.engine(), untold=untold))


def test_a_stop_that_is_under_way() -> None:
    text = zoomed(replace(scenes.engine(), stopping="systemd stops vllm.service within 90s"))
    assert "stops systemd stops vllm.service within 90s" in text
