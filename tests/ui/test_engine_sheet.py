"""What a zoomed engine tells: its arguments, its place, its memory; and what is said where something is hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui import scenes
from tui.model.memory import EngineMemory, GpuShare
from tui.model.places import ContainerReading, Place, UnitReading
from tui.model.status import Observed, SourceState, SourceStatus
from tui.ui.draw import as_text

if TYPE_CHECKING:
    from tui.model.snapshot import EngineView
    from tui.ui.view import View

FRESH = SourceStatus(SourceState.FRESH, age_s=0.0)
ID = "3f2a" * 16


def zoomed(engine: EngineView, **host: Any) -> str:
    return as_text(view(engine, **host), 160, 45)


def view(engine: EngineView, full: str | None = "engines", **host: Any) -> View:
    found = scenes.calm_view(full=full)
    return replace(found, snapshot=replace(found.snapshot, engines=(engine,), **host))


def test_arguments_and_defaults_are_told_apart() -> None:
    engine = replace(
        scenes.engine(), args={"max-num-seqs": "64", "port": "1"}, defaults={"gpu-memory-utilization": "0.92"}
    )
    text = zoomed(engine)
    assert "started with max-num-seqs 64" in text
    assert "by default gpu-memory-utilization 0.92" in text


def test_a_container_and_why_it_is_not_known() -> None:
    reading = ContainerReading(
        ID,
        name="llm",
        state="exited",
        restart_policy="always",
        oom_killed=True,
        mem_limit_mib=65536.0,
        cpus=8.0,
    )
    engine = replace(scenes.engine(), place=Place(ID, "docker"), container=Observed(reading, FRESH))
    words = "runs in container llm  exited  killed for memory  restart policy always  memory limit 64.0 GiB  8.0 CPUs"
    assert words in zoomed(engine)
    status = SourceStatus(SourceState.FAILED, "no_permission", "may not connect")
    refused: Observed[ContainerReading] = Observed(None, status)
    text = zoomed(replace(engine, container=refused))
    assert f"container {ID[:12]}  Docker: may not connect  its socket needs root or the group docker" in text


def test_a_pod_and_a_unit() -> None:
    pod = replace(scenes.engine(), place=Place(ID, "containerd", "0a1b"))
    assert f"runs in pod 0a1b  container {ID[:12]}" in zoomed(pod)
    reading = UnitReading("vllm.service", "active", "running", 7, "on-failure", 2, 90.0, "mixed", 1024.0)
    unit = replace(scenes.engine(), place=Place(unit="vllm.service"), unit=Observed(reading, FRESH))
    words = "unit vllm.service  active (running)  Restart=on-failure  restarted 2 times  stops within 90s"
    assert words in zoomed(unit)


def test_memory_expected_beside_measured() -> None:
    memory = EngineMemory(
        (GpuShare(0, 55000.0, 4604.0, 21000.0, 81559.0),),
        weights_mib=24796.0,
        kv_mib=25600.0,
        kv_predicted_mib=26624.0,
        sequences=8,
        sequence_tokens=4096,
        origin="safetensors index",
    )
    text = zoomed(replace(scenes.engine(), memory=memory))
    assert "weights 24.2 GiB (safetensors index)  KV 25.0 GiB (expected 26.0)" in text
    assert "room for 8 sequences of 4096 tokens" in text
    assert "of GPU 0: engine 53.7, rest 4.5, free 20.5 of 79.6 GiB" in text
    unknown = zoomed(replace(scenes.engine(), memory=EngineMemory(why="the files of m were not found")))
    assert "not known: the files of m were not found" in unknown


def test_an_unchecked_certificate_is_in_the_header_and_in_the_pane() -> None:
    engine = replace(scenes.engine(), unverified=True)
    assert "its certificate is not checked" in zoomed(engine)
    for size in ((160, 45), (80, 24)):
        assert "! certificate not checked" in as_text(view(engine, None), *size)


@pytest.mark.parametrize("engines", [0, 1])
def test_what_is_hidden_is_said_in_the_pane_of_the_engines(engines: int) -> None:
    found = view(scenes.engine(), hidden="other users' processes are hidden: run as root")
    if not engines:
        found = replace(found, snapshot=replace(found.snapshot, engines=()))
    assert "other users' processes are hidden: run as root" in as_text(found, 160, 45)


def test_a_proxy_on_the_way_is_named() -> None:
    text = zoomed(replace(scenes.engine(), proxy="proxy.example:3128"))
    assert "access through the proxy proxy.example:3128; probes go past it" in text
    assert "proxy" not in zoomed(scenes.engine())
