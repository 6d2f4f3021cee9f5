"""Settings that are wrong, told by the real program beside an engine that loads."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
import stat
import time
from typing import TYPE_CHECKING, Any

from tests.demo.running import running
from tests.support.program import run

if TYPE_CHECKING:
    from pathlib import Path

# the article's 30/10/3 against a load of 90 s, on a smaller scale
CONFIG = """
[probes.liveness]
initial_delay_s = 0.5
period_s = 1
timeout_s = 5
failure_threshold = {failures}
"""


async def findings(home: Path, url: str, samples: int, failures: int = 2) -> dict[str, Any]:
    (home / "config.toml").write_text(CONFIG.format(failures=failures))
    words = ("--config", str(home / "config.toml"), "once", url, "--json", "--samples", str(samples))
    env = {"INFERTOP_NVML_LIBRARY": str(home / "none"), "TZ": "UTC"}
    report = (await asyncio.to_thread(run, *words, home=home, env=env)).json()
    return {finding["id"]: finding for finding in report["findings"]}


def seconds_of(clock: str) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return hours * 3600 + minutes * 60 + seconds


async def test_a_load_that_has_outlived_the_probes_budget_is_a_restart_loop_now(tmp_path: Path) -> None:
    started = dt.datetime.now(dt.timezone.utc)
    async with running(tmp_path / "log", load_s=600.0, wait=False) as engine:
        found = (await findings(tmp_path, engine.url, 3))["P01"]
    assert found["level"] == "error"
    text = re.fullmatch(
        r"would be killed from ([0-9:]{8}) on, restart loop: liveness allows 1\.5 s,"
        r" its load takes ([0-9.]+) s so far",
        found["text"],
    )
    assert text is not None, found["text"]
    age_s = float(text[2])
    assert 1.5 < age_s < 60.0
    # the kernel tells the boot, and with it each start, to the second; and a busy machine starts late
    killed_s = (seconds_of(text[1]) - seconds_of(f"{started:%H:%M:%S}") + 43200) % 86400 - 43200
    assert -1 <= killed_s < 60
    assert found["arithmetic"].startswith(f"0.5 + (2-1) * 1 = 1.5 s < 1.2 * {age_s:g} s")


async def test_a_load_that_was_watched_is_remembered_by_the_next_run(tmp_path: Path) -> None:
    for load_s in (2.0, 8.0, 32.0):  # a busy machine may start the program after a short load has ended
        async with running(tmp_path / "log", load_s=load_s, time_scale=0.1, wait=False) as engine:
            first = await findings(tmp_path, engine.url, round(load_s) + 3)
            if "P01" not in first:
                continue
            reports = tmp_path / "state/infertop/tests"
            reports.mkdir()
            (reports / "drain.json").write_text(json.dumps(drained(engine.url)))
            later = await findings(tmp_path, engine.url, 1)
            patient = await findings(tmp_path, engine.url, 1, failures=100)
        break
    text = re.fullmatch(
        r"would be killed from [0-9:]{8} on, restart loop: liveness allows 1\.5 s, a load takes ([0-9.]+) s",
        first["P01"]["text"],
    )
    assert text is not None, first["P01"]["text"]
    assert load_s < float(text[1]) < load_s + 30.0
    assert later["P01"]["text"] == (
        f"would be killed from 1.5 s after its start on, restart loop: liveness allows 1.5 s, a load takes {text[1]} s"
    )
    assert "P01" not in patient
    assert stat.S_IMODE((tmp_path / "state/infertop/load-times.json").stat().st_mode) == 0o600
    assert first["drain-test"]["text"] == "drain never tested"
    assert re.fullmatch(r"drain 8/8 finished in 6\.2s, \d+(ms|\.\d+s|s) ago", later["drain-test"]["text"])
    assert (first["D03"]["level"], "D03" in later) == ("error", False), "the drain test has shown otherwise"


def drained(url: str) -> dict[str, Any]:
    return {
        "schema": 1,
        "test": "drain",
        "target": {"kind": "process", "name": "vllm", "url": url, "engine": "vllm"},
        "started_at": dt.datetime.fromtimestamp(time.time(), dt.timezone.utc).isoformat(),
        "passed": True,
        "requests": [
            {"id": n, "kind": "in_flight", "started_s": -1, "ended_s": 5, "outcome": "finished"}
            for n in range(8)
        ],
        "exit": {"code": 0, "signal": None, "after_s": 6.2},
    }
