"""What must be ruled out before a verdict is certain: by the cards, an input of it that is gone costs confidence."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import cards, made
from tests.verdict.situations import BOTTLENECKS
from tests.verdict.test_live_removal import picture_of, removals
from tui.model.history import History
from tui.model.readings import GpuSet
from tui.model.settings import Slo, Thresholds
from tui.model.status import Observed
from tui.model.verdicts import CALM
from tui.verdict.assess import assess
from tui.verdict.live import pictures
from tui.verdict.observation import picture_from_observation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.verdicts import Verdict
    from tui.verdict.assess import Assessment

LIMITS, SLO = Thresholds(), Slo()
LEVELS = ("low", "medium", "high")
EACH = 25
DECISIVE: dict[str, tuple[str, ...]] = {
    "kv_cache": ("engine.max_num_seqs",),
    "gpu_memory": ("engine.kv_usage",),
    "scheduler_limit": ("engine.kv_usage", "host.busiest_thread_cpu_pct"),
    "compute": (
        "gpus.clock_sm_mhz", "gpus.clock_max_mhz", "gpus.power_w", "gpus.power_limit_w", "engine.kv_usage",
        "engine.max_num_seqs", "engine.waiting",
    ),
    "network": ("gpus.mem_ctrl_pct", "host.busiest_thread_cpu_pct"),
    "io_disk": ("host.busiest_thread_cpu_pct",),
    "lock_contention": ("host.busiest_thread_cpu_pct",),
    "queueing_upstream": ("engine.kv_usage", "gpus.sm_pct", "host.busiest_thread_cpu_pct", "engine.waiting"),
    "degraded_cache": ("engine.preemptions_per_s", "engine.max_num_seqs", "engine.waiting", "host.busiest_thread_cpu_pct"),
}  # fmt: skip
"""By verdict, the inputs that rule out another explanation of at least some of its pictures."""


def whole(verdict: str, seed: int) -> dict[str, Any]:
    line, _ = cards.BUILDERS[verdict](cards.Maker(seed))
    return line


def without(line: dict[str, Any], *names: str) -> dict[str, Any]:
    changed = copy.deepcopy(line)
    for name in names:
        cards.remove_field(changed["observations"], name)
    return changed


def assessed(line: dict[str, Any]) -> Assessment:
    return assess(picture_from_observation(line), LIMITS, SLO)


def surer(verdict: Verdict, than: Verdict) -> int:
    return LEVELS.index(verdict.confidence) - LEVELS.index(than.confidence)


@pytest.mark.parametrize(("verdict", "name"), [(v, name) for v, names in DECISIVE.items() for name in names])
def test_an_input_that_rules_something_out_costs_confidence_and_is_named(verdict: str, name: str) -> None:
    counted = 0
    for seed in range(EACH):
        line = whole(verdict, seed)
        before, after = assessed(line).verdict, assessed(without(line, name)).verdict
        if before.verdict == after.verdict == verdict and before.confidence != "low":
            counted += (
                surer(after, before) < 0
                and name.removeprefix("engine.").removeprefix("host.") in after.missing
            )
    assert counted


@pytest.mark.parametrize("verdict", cards.BUILDERS)
def test_nothing_that_is_taken_away_makes_a_verdict_surer_or_its_rule_quiet(verdict: str) -> None:
    """What a rule cannot see it does not deny; a figure close to its limit is the one that may be worse than none."""
    for seed in range(EACH):
        line = whole(verdict, seed)
        before = assessed(line)
        if before.verdict.verdict != verdict or any("close to" in word for word in before.verdict.certainty):
            continue
        for name in cards.fields(line["observations"]):
            after = assessed(without(line, name))
            if after.verdict.verdict == verdict:
                stands_in = name == "engine.ttft_p95_s" and "generate" in line["observations"]["probes"]
                assert stands_in or surer(after.verdict, before.verdict) <= 0, (seed, name)
            elif name not in DEFINING:
                state = after.outcomes[verdict].state
                assert state != "quiet" or (after.verdict.missing and after.verdict.confidence != "high"), (
                    seed,
                    name,
                )


DEFINING = frozenset(("phase", "duration_s"))
"""Without these the picture is another one: the same figures in a start are not those of a server at work."""


@pytest.mark.parametrize("verdict", cards.BUILDERS)
def test_a_whole_source_that_is_gone_costs_confidence(verdict: str) -> None:
    for seed in range(EACH):
        line = whole(verdict, seed)
        before = assessed(line).verdict
        for source in ("gpus", "engine", "host", "probes"):
            if before.confidence == "low" or source not in line["observations"]:
                continue
            after = assessed(without(line, source)).verdict
            if after.verdict == before.verdict:
                assert surer(after, before) < 0, (seed, source)
                assert any(missing.startswith(source) for missing in after.missing), (seed, source)
            if before.verdict not in CALM:
                assert after.verdict not in CALM or after.confidence != "high", (seed, source)


def live_removals() -> Iterator[tuple[str, str, Assessment, Assessment]]:
    for name in BOTTLENECKS:
        picture = picture_of(name)
        before = assess(picture, LIMITS, SLO)
        for where, changed in removals(picture):
            yield name, where, before, assess(changed, LIMITS, SLO)


def test_nothing_that_is_taken_from_a_live_picture_makes_a_bottleneck_surer() -> None:
    for name, where, before, after in live_removals():
        if after.verdict.verdict == name:
            assert surer(after.verdict, before.verdict) <= 0, (name, where)


# ---------------------------------------------------------------------------------------- by name

AT_ITS_CAP: dict[str, Any] = {
    "gpus": [{
        "sm_pct": 100, "mem_ctrl_pct": 70, "power_w": 699, "power_limit_w": 700, "mem_used_mib": 70000,
        "mem_total_mib": 81559, "temp_c": 70, "throttle": ["sw_power_cap"], "clock_sm_mhz": 1900, "clock_max_mhz": 1980,
    }],
    "engine": {
        "running": 90, "waiting": 60, "kv_usage": 0.5, "preemptions_per_s": 0, "gen_tok_s": 3000, "ttft_p95_s": 9,
        "itl_p95_s": 0.3, "queue_p95_s": 5, "error_ratio": 0, "max_num_seqs": 256,
    },
    "host": {
        "cpu_pct_total": 8, "cpu_cores": 64, "busiest_thread_cpu_pct": 50, "iowait_pct": 0, "psi_io": 0, "psi_cpu": 0,
        "disk_util_pct": 0, "disk_read_mb_s": 0, "net_mb_s": 3, "ctx_switches_s": 20000,
    },
    "probes": {"liveness": {"status": 200, "latency_s": 0.004}, "readiness": {"status": 200, "latency_s": 0.004}},
    "phase": "serving", "duration_s": 300,
}  # fmt: skip


def test_a_card_at_its_cap_whose_clock_is_unknown_may_be_held_down() -> None:
    line = {"engine": "vllm", "observations": AT_ITS_CAP}
    assert (assessed(line).verdict.verdict, assessed(line).verdict.confidence) == ("compute", "high")
    blind = assessed(without(line, "gpus.throttle", "gpus.clock_sm_mhz")).verdict
    assert (blind.verdict, blind.confidence) == ("compute", "medium")
    assert {"gpus.throttle", "gpus.clock_sm_mhz"} <= set(blind.missing)
    assert blind.certainty[0] == "power thermal not ruled out without SM clock, throttle reasons"


def test_many_that_wait_before_unknown_seats_may_lack_seats() -> None:
    line = {"engine": "vllm", "observations": AT_ITS_CAP}
    blind = assessed(without(line, "engine.max_num_seqs")).verdict
    assert (blind.verdict, blind.confidence) == ("compute", "medium")
    assert blind.certainty[0] == "scheduler limit not ruled out without seats"
    assert "max_num_seqs" in blind.missing


def test_what_a_known_figure_rules_out_costs_nothing() -> None:
    """A clock at its maximum is held down by nothing, whatever the reasons may be."""
    line = without({"engine": "vllm", "observations": AT_ITS_CAP}, "gpus.throttle")
    assert assessed(line).verdict.confidence == "high"


def test_a_busy_thread_of_unknown_role_may_only_poll() -> None:
    between = made.reading(ttft_p95_s=1.5, itl_p95_s=0.06)
    hot = Observed(made.host(busiest_thread_cpu_pct=100.0), made.FRESH)
    (picture,) = pictures(made.snapshot(made.view(between), host=hot), History())
    found = assess(picture, LIMITS, SLO).verdict
    assert found.verdict == "cpu"
    assert "busiest_thread_pid" in found.missing
    assert "a thread that only polls not ruled out without who the busiest thread is" in found.certainty


def test_a_soft_cap_before_unknown_seats_may_be_no_limit() -> None:
    seen = {**AT_ITS_CAP, "gpus": [{**AT_ITS_CAP["gpus"][0], "clock_sm_mhz": 1400}]}
    line = {"engine": "vllm", "observations": seen}
    whole, blind = assessed(line).verdict, assessed(without(line, "engine.max_num_seqs")).verdict
    assert whole.verdict == blind.verdict == "power_thermal"
    assert (surer(blind, whole), blind.missing) == (-1, ("max_num_seqs",))


def test_a_stall_on_devices_of_unknown_power_may_be_one_long_prefill() -> None:
    still = made.reading(
        stalled_scrapes=9, stalled_s=9.0, since_last_step_s=9.0, gen_tok_s=0.0, prompt_tok_s=0.0, ttft_p95_s=None,
        itl_p95_s=None, queue_p95_s=None,
    )  # fmt: skip
    resident = made.gpu(sm_pct=100.0, mem_ctrl_pct=12.0, power_w=None)
    gpus = Observed(GpuSet((resident,)), made.FRESH)
    (picture,) = pictures(made.snapshot(made.view(still), gpus=gpus), History())
    found = assess(picture, LIMITS, SLO).verdict
    assert (found.verdict, found.confidence) == ("engine_hung", "low")
    assert "a long prefill not ruled out without GPU power" in found.certainty
