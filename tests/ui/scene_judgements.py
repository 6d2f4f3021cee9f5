"""What is said of the scenes that the rules did not judge, and how it stood before."""

from __future__ import annotations

from dataclasses import replace

from tests.ui.scene_parts import URLS, WALL
from tui.model.verdicts import Evidence, Finding, Judgement, Verdict

TIMELINE = (
    (WALL - 1750, "idle"),
    (WALL - 1500, "healthy"),
    (WALL - 900, "kv_cache"),
    (WALL - 840, "healthy"),
)
CALM_TIMELINES = {"host": ((WALL - 1700, "healthy"),), **dict.fromkeys(URLS, TIMELINE[:2]), URLS[0]: TIMELINE}


def healthy(url: str = URLS[0], since: float | None = None) -> Verdict:
    """Since when its strip says so, if no other instant is given."""
    return Verdict(
        scope=url,
        verdict="healthy",
        title="HEALTHY",
        confidence="high",
        since=CALM_TIMELINES[url][-1][0] if since is None else since,
        evidence=(
            Evidence("ttft_p95_s", 0.41, "s", "<=", 2.0, "ttft 0.41s (target 2.0s)"),
            Evidence("itl_p95_s", 0.034, "s", "<=", 0.1, "itl 34ms (target 0.10s)"),
            Evidence("waiting", 0.0, "", "<=", 0.0, "nobody waiting"),
            Evidence("kv_usage", 0.42, "", "<", 0.9, "kv 0.42 (limit 0.90)"),
        ),
    )


def kv_cache(url: str = URLS[0]) -> Verdict:
    """For 85 s."""
    return Verdict(
        scope=url,
        verdict="kv_cache",
        title="KV CACHE FULL",
        confidence="high",
        since=WALL - 85,
        evidence=(
            Evidence("kv_usage", 0.99, "", ">=", 0.9, "kv 0.99 (limit 0.90)"),
            Evidence("waiting", 37.0, "", ">", 0.0, "waiting 37 rising"),
            Evidence("preemptions_per_s", 3.1, "1/s", ">", 0.0, "preempting 3.1/s"),
            Evidence("sm_pct", 61.0, "%", "<", 90.0, "SM 61 % (high is 90 %)"),
            Evidence("cpu_pct_total", 22.0, "%", "<", 80.0, "cpu 22 %"),
        ),
        missing=("generate probe",),
        advice=(
            "lower --max-num-seqs (now 256)",
            "shorter --max-model-len",
            "--kv-cache-dtype fp8 where the model allows it",
            "add a replica",
        ),
    )


HOST_IDLE = Verdict("host", "healthy", "HEALTHY", confidence="high", since=WALL - 1700)
FINDINGS = (
    Finding(
        "P03",
        "warning",
        URLS[0],
        "timeout 1 s < 2 * probe p99 0.78 s: a busy server looks dead to liveness",
        "1.0 < 2 * 0.78",
    ),
    Finding("T01", "info", "host", "drain never tested"),
)
CALM = Judgement((HOST_IDLE, healthy(URLS[0]), healthy(URLS[1])))
SICK = Judgement((replace(kv_cache(), scope="host"), kv_cache(), healthy(URLS[1])), FINDINGS)


def turned(name: str, since_s: float) -> dict[str, tuple[tuple[float, str], ...]]:
    """The strips of a host whose first engine was well until so many seconds ago."""
    now = (WALL - since_s, name)
    host = CALM_TIMELINES["host"]
    return {**CALM_TIMELINES, "host": (*host, now), URLS[0]: (*TIMELINE, now)}


SICK_TIMELINES = turned("kv_cache", 85)
