"""What the simulated engine costs at 100 requests a second (mean 500 prompt and 150 output tokens, streamed)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import get_args

from tests.bench.rows import Row
from tui.demo.spec import Dialect, EngineSpec
from tui.demo.supervisor import Supervisor
from tui.demo.traffic import TrafficSpec

RATE = 100.0
WARM_UP_S = 6.0
MEASURED_S = 10.0
BAR_CORES = 0.5


def results() -> list[Row]:
    return [row for dialect in get_args(Dialect) for row in asyncio.run(_measure(dialect))]


async def _measure(dialect: Dialect) -> list[Row]:
    # enough seats and prefill for the rate: a queue that grows would make it cheaper
    spec = EngineSpec(
        port=0, dialect=dialect, load_s=0.0, max_num_seqs=512, kv_tokens=600_000, prefill_tok_s=400_000
    )
    supervisor = Supervisor(spec, traffic=TrafficSpec(rate=RATE), log=subprocess.DEVNULL)
    await supervisor.start()
    try:
        await asyncio.sleep(WARM_UP_S)
        before_s, began_s = _cpu_s(supervisor.pids), time.monotonic()
        await asyncio.sleep(MEASURED_S)
        cores = (_cpu_s(supervisor.pids) - before_s) / (time.monotonic() - began_s)
        load = supervisor.load
    finally:
        await supervisor.stop()
    return [
        Row.at_most(f"{dialect}: its processes together", cores, "cores", BAR_CORES),
        Row.at_most(f"{dialect}: tokens streamed meanwhile", load.decode_tok_s, "tok/s", None),
        Row.at_most(f"{dialect}: requests waiting at the end", float(load.waiting), "", None),
    ]


def _cpu_s(pids: dict[str, int]) -> float:
    """CPU seconds of the engine's processes; the traffic's client is not among them."""
    ticks = 0
    for pid in pids.values():
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
