"""No scene shows what no host could: a picture whose figures contradict each other teaches people to doubt all."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui import drill_scenes, scenes, verdict_scenes
from tests.ui.scene_faults import faults
from tui.model.readings import GpuSet
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed
from tui.verdict.judge import judge_all

if TYPE_CHECKING:
    from tui.ui.view import View

NAMES = [*scenes.SCENES, *verdict_scenes.SNAPSHOTS]
NOT_AS_JUDGED = {"stale"}
"""A driver that hangs while an engine is down is a fault of the GPUs to the rules; the picture is of both."""


def view_of(name: str) -> View:
    made = scenes.SCENES.get(name)
    return made() if made is not None else verdict_scenes.judged(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_figures_of_a_scene_can_be_true_together(name: str) -> None:
    assert list(faults(view_of(name))) == []


@pytest.mark.parametrize("name", [name for name in scenes.SCENES if name not in NOT_AS_JUDGED])
def test_a_scene_says_what_the_rules_say_of_it(name: str) -> None:
    view = view_of(name)
    rules = judge_all(view.snapshot, view.trends._history, Thresholds(), Slo())
    said = {verdict.scope: (verdict.verdict, verdict.secondary) for verdict in view.judgement.verdicts}
    assert said == {v.scope: (v.verdict, v.secondary) for v in rules.verdicts if v.scope in said}


def broken(view: View, **changes: Any) -> View:
    """With other figures of its first engine."""
    first, *others = view.snapshot.engines
    assert first.engine.reading is not None
    reading = dataclasses.replace(first.engine.reading, **changes)
    other = dataclasses.replace(first, engine=dataclasses.replace(first.engine, reading=reading))
    return dataclasses.replace(view, snapshot=dataclasses.replace(view.snapshot, engines=(other, *others)))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"ttft_p99_s": 0.2}, "percentiles of ttft fall"),
        ({"e2e_p95_s": 0.4}, "p95: queue, ttft, e2e are not each a part of the next"),
        ({"prefix_hit_ratio": 31.0}, "prefix_hit_ratio 31.0"),
        ({"running": 257.0, "gen_tok_s": 12_000.0, "req_s": 48.0}, "more running than seats"),
        ({"waiting": 3.0}, "the reasons to wait do not add up"),
        ({"gen_tok_s": 9.0}, "9.0 tok/s of 41.0 requests, not 804 to 2929"),
        ({"kv_usage": 0.6, "kv_usage_max": 0.7}, "kv_usage 0.42, shown 0.6"),
        ({"kv_usage": 0.3}, "kv_usage: 0.3, its chart ends at 0.42"),
    ],
)
def test_what_cannot_be_is_found(changes: dict[str, Any], fault: str) -> None:
    assert fault in "\n".join(faults(broken(scenes.calm_view(), **changes)))


def shown_with(view: View, **changes: Any) -> View:
    return dataclasses.replace(view, snapshot=dataclasses.replace(view.snapshot, **changes))


def with_card(**changes: Any) -> View:
    cards = GpuSet((scenes.gpu(0, **changes),))
    return shown_with(scenes.calm_view(), gpus=Observed(cards, scenes.FRESH))


def with_host(**changes: Any) -> View:
    return shown_with(scenes.calm_view(), host=Observed(scenes.host(**changes), scenes.FRESH))


def with_probes(**changes: Any) -> View:
    view = scenes.calm_view()
    (first, *others) = view.snapshot.engines
    probed = dataclasses.replace(first, probes=scenes.probes(first.url, **changes))
    return shown_with(view, engines=(probed, *others))


@pytest.mark.parametrize(
    ("view", "fault"),
    [
        (with_card(power_w=800.0), "power above its limit"),
        (with_card(mem_used_mib=90_000.0), "more memory used than there is"),
        (with_card(sm_pct=10.0, gpm_sm_active=0.8), "SMs busy while no kernel ran"),
        (with_card(throttle=("hw_thermal_slowdown",)), "held down for heat while it is cool"),
        (with_card(sm_pct=120.0), "sm_pct 120.0"),
        (with_card(sm_pct=50.0), "sm_pct: 50.0, its chart ends at 96.0"),
        (with_host(cpu_pct_per_core=(50.0,) * 64), "the cores' mean is 50.0, not 22.0"),
        (with_host(net_mb_s=300.0), "network is not in and out"),
        (with_host(disk_util_pct=70.0), "the busiest disk is another"),
        (
            with_host(busiest_thread_cpu_pct=99.0, busiest_process_cpu_pct=50.0),
            "busier than the busiest process",
        ),
        (with_probes(latency_p99_s=0.5), "percentiles fall"),
        (with_probes(latency_p99_s=1.4, latency_max_s=1.5), "slower than its timeout lets it be"),
        (with_probes(status=503), "liveness: 503, streak 412, last result (True,)"),
        (with_probes(decided_at=scenes.WALL - 60, decisions=1), "decided within its streak"),
        (dataclasses.replace(scenes.calm_view(), judgement=scenes.SICK), "kv_cache since 85 s, strip"),
        (shown_with(scenes.calm_view(), gpus=Observed(None, scenes.FRESH)), "fresh without a fresh reading"),
    ],
)
def test_what_no_host_shows_is_found(view: View, fault: str) -> None:
    assert fault in "\n".join(faults(view))


@pytest.mark.parametrize("report", [drill_scenes.report(), drill_scenes.good_report()])
def test_the_report_of_a_test_is_possible(report: dict[str, Any]) -> None:
    ours = [one for one in report["requests"] if one["kind"] == "in_flight"]
    finished = [one for one in ours if one["outcome"] == "finished"]
    assert len(ours) == 8
    assert all(one["finish_reason"] in ("stop", "length") for one in finished)
    assert all(one["tokens"] <= one["tokens_wanted"] for one in ours)
    assert all(one["started_s"] < one["ended_s"] <= report["exit"]["after_s"] for one in ours)
    lost = len(finished) < 8 or report["leftovers"] or report["clients_closed"]
    assert bool(lost) is bool(report["findings"])
    assert [event["t_s"] for event in report["events"]] == sorted(event["t_s"] for event in report["events"])
