"""Snapshots to verdicts: phases from scrape, probes and processes, whose GPUs, and the host's verdict."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import made
from tui.model.history import History
from tui.model.memory import Orphan
from tui.model.readings import EngineProcess, GpuSet
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed, SourceState, SourceStatus
from tui.verdict.judge import Judge, judge_all

if TYPE_CHECKING:
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.model.verdicts import Judgement, Verdict

LIMITS, SLO = Thresholds(), Slo()


def judged(snapshot: HostSnapshot, history: History | None = None) -> Judgement:
    return judge_all(snapshot, history or History(), LIMITS, SLO)


def verdict_of(view: EngineView, **changes: Any) -> Verdict:
    result = judged(made.snapshot(view, **changes))
    return next(v for v in result.verdicts if v.scope == view.url)


def refused(**changes: Any) -> EngineView:
    base: dict[str, Any] = {
        "engine": Observed(None, made.failed("refused")), "probes": made.probes("refused"), "ever_served": False,
        "served_last": None,
    }  # fmt: skip
    return made.view(**(base | changes))


# ---------------------------------------------------------------------------------------- calm


def test_good_engine_is_healthy_with_high_confidence() -> None:
    verdict = verdict_of(made.view())
    assert (verdict.verdict, verdict.confidence, verdict.state, verdict.since) == (
        "healthy",
        "high",
        "held",
        None,
    )
    assert verdict.title == "HEALTHY"


@pytest.mark.parametrize(("now", "said"), [(0.24, "kv max 0.40"), (0.39, "kv 0.40")])
def test_a_maximum_of_the_cache_is_called_one_beside_a_lower_figure_of_now(now: float, said: str) -> None:
    verdict = verdict_of(made.view(made.reading(kv_usage=now, kv_usage_max=0.4)))
    (room,) = (e.text for e in verdict.evidence if e.text.startswith("room:"))
    assert room.endswith(said)


def test_idle_names_the_request_that_would_prove_it() -> None:
    verdict = verdict_of(made.view(made.nothing_to_do()))
    assert (verdict.verdict, verdict.confidence) == ("idle", "medium")
    assert "generate probe" in verdict.missing
    proven = made.view(made.nothing_to_do(), probes=(*made.probes(), made.probe("generate", 200)))
    assert verdict_of(proven).confidence == "high"


def test_host_without_gpus_can_be_healthy_but_never_surely() -> None:
    without: Observed[GpuSet] = Observed(None, SourceStatus(SourceState.UNSUPPORTED, "no_driver"))
    verdict = verdict_of(made.view(), gpus=without)
    assert (verdict.verdict, verdict.confidence) == ("healthy", "medium")
    assert "gpus (no_driver)" in verdict.missing


@pytest.mark.parametrize("state", [SourceState.STALE, SourceState.FAILED])
def test_old_figures_are_no_evidence_of_progress(state: SourceState) -> None:
    status = SourceStatus(
        state, "5xx" if state is SourceState.FAILED else None, since=made.NOW - 20, age_s=20.0
    )
    verdict = verdict_of(made.view(engine=Observed(made.reading(), status)))
    assert verdict.verdict == "unknown"
    assert any(m.startswith("engine") for m in verdict.missing)


def test_statistics_that_are_off_are_unknown_and_named() -> None:
    verdict = verdict_of(
        made.view(made.reading(reason="stats_off", running=None, waiting=None, gen_tok_s=None))
    )
    assert verdict.verdict == "unknown"
    assert "engine (stats_off)" in verdict.missing


# ---------------------------------------------------------------------------------------- hung


def still(scrapes: int, seconds: float) -> EngineView:
    return made.view(
        made.reading(
            gen_tok_s=0.0,
            prompt_tok_s=0.0,
            ttft_p95_s=None,
            itl_p95_s=None,
            queue_p95_s=None,
            req_s=0.0,
            error_ratio=None,
            stalled_scrapes=scrapes,
            stalled_s=seconds,
            since_last_step_s=seconds,
            window_s=seconds,
        )
    )


def test_counters_that_stand_still_for_two_scrapes_are_neither_hung_nor_calm() -> None:
    verdict = verdict_of(still(2, 1.0))
    assert verdict.verdict == "unknown"
    assert "--samples 7" in verdict.missing[0]


def test_no_step_for_five_seconds_with_work_is_hung_whatever_health_says() -> None:
    assert verdict_of(still(2, 5.0)).verdict == "unknown"
    assert verdict_of(still(4, 4.0)).verdict == "unknown"
    verdict = verdict_of(
        still(6, 5.0), gpus=Observed(GpuSet((made.gpu(sm_pct=0.0, mem_ctrl_pct=0.0),)), made.FRESH)
    )
    assert (verdict.verdict, verdict.confidence) == ("engine_hung", "medium")  # its gauges may be stale
    assert "generate probe" in verdict.missing
    assert any("no step for" in e.text for e in verdict.evidence)
    spins = Observed(GpuSet((made.gpu(sm_pct=100.0, mem_ctrl_pct=0.0),)), made.FRESH)
    assert verdict_of(still(6, 5.0), gpus=spins).confidence == "high"
    assert verdict.advice


def test_device_that_does_real_work_may_be_in_a_long_prefill() -> None:
    busy = made.gpu(sm_pct=100.0, mem_ctrl_pct=50.0, power_w=650.0)
    assert verdict_of(still(6, 6.0), gpus=Observed(GpuSet((busy,)), made.FRESH)).verdict == "unknown"
    assert verdict_of(still(130, 130.0), gpus=Observed(GpuSet((busy,)), made.FRESH)).verdict == "engine_hung"


def test_the_first_steps_of_an_engine_may_compile() -> None:
    idle = Observed(GpuSet((made.gpu(sm_pct=0.0, mem_ctrl_pct=0.0),)), made.FRESH)

    def after(steps: float, seconds: float) -> str:
        view = still(int(seconds), seconds)
        assert view.engine.reading is not None
        reading = dataclasses.replace(view.engine.reading, progress=steps)
        return verdict_of(dataclasses.replace(view, engine=Observed(reading, made.FRESH)), gpus=idle).verdict

    assert after(2.0, 25.0) == "unknown"
    assert after(2.0, 130.0) == "engine_hung"
    assert after(500.0, 6.0) == "engine_hung"


def test_stale_gauge_is_not_a_hang_when_a_request_is_served() -> None:
    view = dataclasses.replace(still(60, 60.0), probes=(*made.probes(), made.probe("generate", 200)))
    rests = Observed(GpuSet((made.gpu(sm_pct=0.0, mem_ctrl_pct=0.0),)), made.FRESH)
    assert verdict_of(view, gpus=rests).verdict == "idle"
    assert verdict_of(view).verdict != "idle"  # devices at work have some


def test_server_that_served_and_no_longer_answers_is_hung() -> None:
    view = made.view(
        engine=Observed(made.reading(), made.failed("timeout", made.NOW - 6.0)), probes=made.probes("timeout")
    )
    idle = Observed(GpuSet((made.gpu(sm_pct=0.0),)), made.FRESH)
    assert verdict_of(view, gpus=idle).verdict == "engine_hung"
    assert verdict_of(view).verdict == "unknown"  # the device works: only its front is blocked
    early = dataclasses.replace(view, engine=Observed(made.reading(), made.failed("timeout", made.NOW - 1.0)))
    assert verdict_of(early, gpus=idle).verdict == "unknown"


def test_server_that_never_answered_is_unknown_and_says_so() -> None:
    view = made.view(
        engine=Observed(None, made.failed("timeout", made.NOW - 60.0)),
        probes=(),
        ever_served=False,
        processes=None,
    )
    verdict = verdict_of(view)
    assert verdict.verdict == "unknown"
    assert "engine (timeout)" in verdict.missing


# ---------------------------------------------------------------------------------------- down, loading, draining


def test_refused_by_a_process_that_has_not_served_is_loading() -> None:
    verdict = verdict_of(refused())
    assert verdict.verdict == "loading"


def test_refused_without_a_process_is_down() -> None:
    assert verdict_of(refused(processes=())).verdict == "engine_down"
    assert verdict_of(refused(processes=(), ever_served=True)).verdict == "engine_down"


def test_a_refused_scrape_is_the_evidence_where_no_probe_was_made() -> None:
    texts = [e.text for e in verdict_of(refused(processes=(), probes=())).evidence]
    assert texts[0] == "connection refused"
    texts = [e.text for e in verdict_of(refused(processes=())).evidence]
    assert "connection refused" not in texts
    assert any(text.startswith("liveness refused") for text in texts)


def test_refused_by_the_process_that_served_is_down_and_by_a_new_one_is_loading() -> None:
    served = made.NOW - 30.0
    assert verdict_of(refused(ever_served=True, served_last=served)).verdict == "engine_down"
    new = made.tree(started_at=made.WALL - 10.0, pid=900)
    assert verdict_of(refused(ever_served=True, served_last=served, processes=new)).verdict == "loading"


def test_an_engine_that_our_restart_test_has_ended_is_no_start_that_takes_its_age() -> None:
    """For 2 s its process is still in the table, with hours of age, and its cards have their last load."""
    spins = made.gpu_of(0, 102, sm_pct=100.0, mem_ctrl_pct=0.0, power_w=120.0)
    old = made.tree(started_at=made.WALL - 10_000.0)
    said = "our restart test: down for 1.0s as planned"
    view = refused(
        ever_served=True, served_last=made.NOW - 1.5, processes=old, our_test=said, as_planned=True
    )
    verdict = verdict_of(view, gpus=Observed(GpuSet((spins,)), made.FRESH))
    assert (verdict.verdict, verdict.secondary) == ("loading", ())
    assert not any(evidence.signal == "held_s" for evidence in verdict.evidence)


def test_refused_elsewhere_is_down_although_nothing_else_is_known() -> None:
    verdict = verdict_of(refused(local=False, processes=None, probes=()))
    assert verdict.verdict == "engine_down"
    assert verdict.confidence == "low"


def test_zombie_core_is_down_while_every_route_still_says_200() -> None:
    server, core, worker = made.tree()
    view = made.view(processes=(server, dataclasses.replace(core, zombie=True), worker))
    verdict = verdict_of(view)
    assert verdict.verdict == "engine_down"
    assert any("zombie" in e.text for e in verdict.evidence)


def test_core_that_vanishes_under_its_server_is_down_at_once() -> None:
    judge = Judge(LIMITS, SLO)
    judge.update(made.snapshot(made.view()), History())
    gone = made.view(processes=made.tree()[:1])
    verdicts = judge.update(made.snapshot(gone, at=made.NOW + 1), History()).verdicts
    assert verdicts[1].verdict == "engine_down"
    restarted = made.view(processes=made.tree(pid=300)[:1])
    judge.update(made.snapshot(restarted, at=made.NOW + 2), History())
    assert judge.update(made.snapshot(restarted, at=made.NOW + 9), History()).verdicts[1].verdict == "healthy"


def test_engine_that_never_had_a_core_process_is_not_missing_one() -> None:
    assert verdict_of(made.view(processes=made.tree()[:1])).verdict == "healthy"


def test_sglang_unready_with_running_requests_drains() -> None:
    sglang = made.reading(engine="sglang")
    view = made.view(sglang, probes=(made.probe("liveness", 503), made.probe("readiness", 503)))
    assert verdict_of(view).verdict == "draining"


def test_sglang_unready_and_young_without_work_is_loading() -> None:
    young = made.tree(started_at=made.WALL - 25.0)
    sglang = made.nothing_to_do(engine="sglang")
    view = made.view(sglang, probes=made.probes(503), processes=young)
    assert verdict_of(view).verdict == "loading"


def test_old_server_that_answers_503_is_down() -> None:
    old = made.tree(started_at=made.WALL - 90000.0)
    view = made.view(made.nothing_to_do(), probes=made.probes(503), processes=old)
    assert verdict_of(view).verdict == "engine_down"


def test_orphans_hold_memory_and_are_named() -> None:
    left = (made.process(101, "engine_core"), made.process(102, "worker", 101))
    result = judged(made.snapshot(refused(processes=left, ever_served=True)))
    engine = result.verdicts[1]
    assert (engine.verdict, engine.secondary) == ("engine_down", ("gpu_memory",))
    assert any(f.id == "orphans" and "101, 102" in f.text and f.level == "error" for f in result.findings)


# ---------------------------------------------------------------------------------------- GPUs and host


def two_engines(**first: Any) -> tuple[EngineView, EngineView]:
    other = "http://127.0.0.1:8001"
    return (
        made.view(**first),
        made.view(
            made.reading(other), url=other, processes=made.tree(pid=200), probes=made.probes(url=other)
        ),
    )


def test_throttled_gpu_is_blamed_on_the_engine_that_uses_it() -> None:
    slow = {"ttft_p95_s": 4.0, "itl_p95_s": 0.2}
    mine = made.gpu_of(0, 102)
    sick = made.gpu_of(
        1, 202, sm_pct=100.0, clock_sm_mhz=700.0, throttle=("hw_thermal_slowdown",), temp_c=92.0
    )
    first, second = two_engines()
    second = dataclasses.replace(second, engine=Observed(made.reading(second.url, **slow), made.FRESH))
    result = judged(made.snapshot(first, second, gpus=Observed(GpuSet((mine, sick)), made.FRESH)))
    found = {v.scope: v.verdict for v in result.verdicts}
    assert found == {"host": "power_thermal", first.url: "healthy", second.url: "power_thermal"}
    assert [v.scope for v in result.verdicts] == ["host", second.url, first.url]


def test_lost_gpu_that_no_engine_uses_is_the_hosts_fault() -> None:
    lost = made.gpu(2, state="lost", reason="lost")
    gpus = Observed(GpuSet((made.gpu_of(0, 102), made.gpu_of(1, 202), lost)), made.FRESH)
    result = judged(made.snapshot(*two_engines(), gpus=gpus))
    assert [v.verdict for v in result.verdicts] == ["gpu_fault", "healthy", "healthy"]
    assert any(f.id == "gpu-unreadable" for f in result.findings)


def test_engine_elsewhere_is_not_judged_by_this_hosts_devices() -> None:
    hot = made.gpu(sm_pct=100.0, clock_sm_mhz=500.0, throttle=("hw_slowdown",))
    view = made.view(made.reading(ttft_p95_s=1.5), local=False, processes=None)
    verdict = verdict_of(view, gpus=Observed(GpuSet((hot,)), made.FRESH))
    assert verdict.verdict == "healthy"
    assert "host" in verdict.missing


def test_busy_polling_core_counts_only_with_users_waiting() -> None:
    hot = Observed(made.host(busiest_thread_cpu_pct=100.0, busiest_thread_pid=101), made.FRESH)
    between = made.reading(ttft_p95_s=1.5, itl_p95_s=0.06)
    assert verdict_of(made.view(between), host=hot).verdict == "healthy"
    server = Observed(made.host(busiest_thread_cpu_pct=100.0, busiest_thread_pid=100), made.FRESH)
    assert verdict_of(made.view(between), host=server).verdict == "cpu"
    late = made.reading(ttft_p95_s=6.0)
    assert verdict_of(made.view(late), host=hot).verdict == "cpu"
    stranger = Observed(made.host(busiest_thread_cpu_pct=100.0, busiest_thread_pid=77), made.FRESH)
    assert verdict_of(made.view(late), host=stranger).verdict == "unknown"


def test_host_without_engines_says_what_it_lacks() -> None:
    nothing = judged(made.snapshot()).verdicts
    assert [(v.scope, v.verdict, v.missing) for v in nothing] == [("host", "unknown", ("no engine found",))]
    looking = judged(made.snapshot(discovery_done=False)).verdicts
    assert looking[0].missing == ("engines: still looking",)
    lost = Observed(GpuSet((made.gpu(0, state="lost", reason="lost"), made.gpu(1))), made.FRESH)
    assert judged(made.snapshot(gpus=lost)).verdicts[0].verdict == "gpu_fault"


# ---------------------------------------------------------------------------------------- trends


def test_running_that_falls_as_waiting_rises_is_preemption_before_it_is_counted() -> None:
    history = History()
    for second in range(20):
        at = made.NOW - 20.0 + second
        history.add(made.URL, "running", at, 8.0 - second / 4)
        history.add(made.URL, "waiting", at, 12.0 + second / 4)
    found = made.reading(
        running=3.0, waiting=17.0, kv_usage_max=0.88, req_s=0.0, max_num_seqs=None, ttft_p95_s=None, itl_p95_s=None,
        queue_p95_s=None, error_ratio=None,
    )  # fmt: skip
    result = judged(made.snapshot(made.view(found)), history)
    assert result.verdicts[1].verdict == "kv_cache"
    assert any(e.text == "waiting 17 rising" for e in result.verdicts[1].evidence)


def test_preemptions_of_the_last_seconds_count_between_bursts() -> None:
    history = History()
    for second in range(20):
        history.add(made.URL, "preemptions_per_s", made.NOW - 20 + second, 3.0 if second == 8 else 0.0)
    found = made.reading(kv_usage=0.7, kv_usage_max=0.98, preemptions_per_s=0.0, itl_p95_s=0.2)
    assert judged(made.snapshot(made.view(found)), history).verdicts[1].verdict == "kv_cache"


def test_cache_is_cold_against_its_own_last_half_hour() -> None:
    history = History()
    for second in range(1700):
        history.add(made.URL, "prefix_hit_ratio", made.NOW - 1740 + second, 0.9)
    late = made.reading(prefix_hit_ratio=0.35, ttft_p95_s=4.0, itl_p95_s=0.03, queue_p95_s=0.2)
    assert judged(made.snapshot(made.view(late)), history).verdicts[1].verdict == "degraded_cache"
    assert judged(made.snapshot(made.view(late))).verdicts[1].verdict != "degraded_cache"


def series(signal: str, values: dict[int, float], history: History | None = None) -> History:
    """One value a second for a minute; ``values`` by the second from which they hold."""
    history = history or History()
    current = 0.0
    for second in range(61):
        current = values.get(second, current)
        history.add(made.URL, signal, made.NOW - 60 + second, current)
    return history


def test_tokens_of_requests_that_have_ended_are_no_work() -> None:
    ended = made.nothing_to_do(gen_tok_s=180.0, window_s=10.0)
    just, long = series("running", {0: 6.0, 59: 0.0}), series("running", {0: 6.0, 50: 0.0})
    for history in (just, long):
        series("waiting", {}, history)
    assert judged(made.snapshot(made.view(ended)), just).verdicts[1].verdict == "healthy"
    assert judged(made.snapshot(made.view(ended)), long).verdicts[1].verdict == "idle"


def test_late_first_tokens_of_a_queue_that_has_gone_are_not_held_against_now() -> None:
    late = made.reading(ttft_p95_s=70.0, queue_p95_s=60.0, latency_window_s=60.0)
    after = series("waiting", {0: 20.0, 40: 0.0})
    verdict = judged(made.snapshot(made.view(late)), after).verdicts[1]
    assert (verdict.verdict, verdict.confidence) == ("healthy", "medium")
    assert "ttft_p95_s" in verdict.missing
    assert judged(made.snapshot(made.view(late)), series("waiting", {})).verdicts[1].verdict == "unknown"


def test_a_full_cache_of_half_a_minute_ago_is_over_once_there_is_room() -> None:
    before = series("preemptions_per_s", {0: 2.0, 40: 0.0})
    room = made.reading(kv_usage=0.2, kv_usage_max=1.0)
    assert judged(made.snapshot(made.view(room)), before).verdicts[1].verdict == "healthy"
    swing = made.reading(kv_usage=0.7, kv_usage_max=1.0)
    assert judged(made.snapshot(made.view(swing)), before).verdicts[1].verdict == "kv_cache"


def test_rates_of_a_window_that_began_before_the_hang_do_not_hide_it() -> None:
    reading = made.reading(
        gen_tok_s=300.0, window_s=10.0, stalled_scrapes=6, stalled_s=5.1, since_last_step_s=5.1
    )
    assert verdict_of(made.view(reading)).verdict == "engine_hung"
    early = dataclasses.replace(reading, stalled_scrapes=3, stalled_s=2.0, since_last_step_s=2.0)
    verdict = verdict_of(made.view(early))
    assert verdict.verdict == "healthy"
    assert verdict.confidence == "medium"


def test_failing_requests_that_nothing_explains_point_at_the_log() -> None:
    verdict = verdict_of(made.view(made.reading(error_ratio=0.4, running=100.0)))
    assert verdict.verdict == "unknown"
    assert verdict.missing[0] == "why requests fail: see the engine's log"


# ---------------------------------------------------------------------------------------- findings


def test_findings_name_stale_sources_and_full_caches() -> None:
    stale = SourceStatus(SourceState.STALE, since=made.NOW - 9, age_s=9.0)
    full = made.view(made.reading(kv_usage_max=0.97))
    snapshot = made.snapshot(full, host=Observed(made.host(), stale))
    found = {f.id: f for f in judge_all(snapshot, History(), LIMITS, SLO).findings}
    assert found["stale-host"].text == "host figures stale, figures 9.0s old"
    assert found["kv-high"].level == "warning"


def test_many_orphans_are_a_few_findings_that_name_whose_they_are() -> None:
    cores = [
        Orphan(n, "VLLM::EngineCore", gpu_mem_mib=1024.0, command=f"kill -TERM {n}", gpus=(0,), user="eve")
        for n in range(100, 400)
    ]
    workers = [
        Orphan(n + 1000, "VLLM::Worker", gpu_mem_mib=9216.0, gpus=(1,), ends_with=n) for n in (100, 101)
    ]
    found = judged(made.snapshot(made.view(), orphans=(*cores, *workers))).findings
    texts = [f.text for f in found if f.id == "orphan"]
    assert len(texts) == 9
    assert texts[0].startswith(
        "VLLM::EngineCore pid 100 of eve with 1 that ends with it holds 10.0 GiB of GPU 0, 1"
    )
    assert texts[-1] == "292 more such processes, none of which is known to hold more"


def test_engines_on_unix_sockets_are_told_how_to_be_named() -> None:
    servers = tuple(
        EngineProcess(n, 1, "vllm", "api_server", "vllm", unix_socket=f"/run/{n}.sock") for n in range(20)
    )
    found = judged(made.snapshot(made.view(), on_sockets=servers)).findings
    texts = [f.text for f in found if f.id == "unix-socket"]
    assert len(texts) == 9
    assert 'metrics_url = "unix:///run/0.sock"' in texts[0]


def test_spin_of_an_idle_gpu_is_a_note_not_a_verdict() -> None:
    spin = Observed(GpuSet((made.gpu(sm_pct=100.0, mem_ctrl_pct=0.0, power_w=150.0),)), made.FRESH)
    result = judged(made.snapshot(made.view(made.nothing_to_do()), gpus=spin))
    assert result.verdicts[1].verdict == "idle"
    assert any(f.id == "idle-spin" and f.level == "info" for f in result.findings)


def test_advice_speaks_the_engines_own_flags_with_the_values_in_force() -> None:
    vllm = verdict_of(made.view(made.full_cache(), args={"max-model-len": "32768"}))
    fewer = "lower --max-num-seqs (now 256) below the 12 that run: fewer preemptions, others wait longer"
    assert vllm.advice[:2] == (fewer, "shorter --max-model-len (now 32768): prompts over it are refused")
    sglang = made.view(dataclasses.replace(made.full_cache(), engine="sglang", max_num_seqs=None))
    advice = verdict_of(sglang).advice
    assert any(line.startswith("lower --max-running-requests below the 12 that run") for line in advice)


def test_a_port_that_has_just_opened_is_not_down_by_an_older_probe() -> None:
    up = dataclasses.replace(made.FRESH, since=made.NOW - 2.0)
    older = tuple(dataclasses.replace(p, age_s=8.0) for p in made.probes("refused"))
    assert verdict_of(made.view(engine=Observed(made.reading(), up), probes=older)).verdict == "healthy"
    newer = tuple(dataclasses.replace(p, age_s=1.0) for p in older)
    assert verdict_of(made.view(engine=Observed(made.reading(), up), probes=newer)).verdict != "healthy"


def test_a_port_that_has_just_closed_does_not_serve_by_an_older_probe() -> None:
    older = tuple(dataclasses.replace(p, age_s=8.0) for p in made.probes(200))
    view = refused(processes=(), ever_served=True, probes=older)
    assert verdict_of(view).verdict == "engine_down"


def test_memory_of_another_engine_is_no_evidence_against_a_dead_one() -> None:
    """Where the driver's pids tell nothing (containers) the cards may all be the living engine's."""
    nobodys = Observed(GpuSet((made.gpu(processes=()),)), made.FRESH)
    dead = dataclasses.replace(refused(processes=(), probes=()), url="http://127.0.0.1:9")
    result = judged(made.snapshot(made.view(), dead, gpus=nobodys))
    down = next(v for v in result.verdicts if v.scope == dead.url)
    assert down.verdict == "engine_down"
    assert not any("GPU memory" in e.text for e in down.evidence)
    alone = judged(made.snapshot(refused(processes=(), probes=()), gpus=nobodys)).verdicts[0]
    assert any("GPU memory still held" in e.text for e in alone.evidence)


def test_a_broken_answer_is_not_a_closed_port() -> None:
    view = refused(engine=Observed(made.reading(), made.failed("reset")), probes=(), ever_served=True)
    assert verdict_of(view).verdict != "engine_down"
    gone = dataclasses.replace(view, processes=())
    assert verdict_of(gone).verdict == "engine_down"


def test_a_thread_of_another_engine_does_not_limit_this_one() -> None:
    first, second = two_engines()
    assert second.processes
    busy = made.host(
        busiest_thread_cpu_pct=100.0, busiest_thread="x", busiest_thread_pid=second.processes[0].pid
    )
    slow = {"ttft_p95_s": 4.0, "itl_p95_s": 0.2}
    mine = dataclasses.replace(
        first, processes=(), engine=Observed(made.reading(first.url, **slow), made.FRESH)
    )
    idle = Observed(GpuSet((made.gpu(sm_pct=30.0),)), made.FRESH)
    result = judged(made.snapshot(mine, second, gpus=idle, host=Observed(busy, made.FRESH)))
    assert next(v for v in result.verdicts if v.scope == mine.url).verdict != "cpu"


@pytest.mark.parametrize(
    ("reason", "said"), [("dns", "host name"), ("tls", "ca_file"), ("404", "--metrics-url")]
)
def test_what_cannot_be_read_says_what_to_do(reason: Any, said: str) -> None:
    view = made.view(engine=Observed(None, made.failed(reason)), probes=(), processes=None, ever_served=False)
    verdict = verdict_of(view)
    assert verdict.verdict == "unknown"
    assert said in verdict.advice[0]
    finding = judged(made.snapshot(view)).findings
    assert any(":8000" in f.text for f in finding)


def test_a_short_queue_before_a_quick_first_token_is_no_limit_of_unknown_seats() -> None:
    batching = made.reading(running=24.0, waiting=8.0, max_num_seqs=None, queue_p95_s=None, ttft_p95_s=0.24)
    assert verdict_of(made.view(batching)).verdict in ("healthy", "unknown")
    queueing = made.reading(running=24.0, waiting=80.0, max_num_seqs=None, queue_p95_s=None, ttft_p95_s=0.24)
    assert verdict_of(made.view(queueing)).verdict == "scheduler_limit"
