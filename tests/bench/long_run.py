"""20,000 seconds of a monitor on a manual clock, with cards and engines coming and going."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.bench.rows import Row
from tests.runtime.test_long_run import MIB, run

if TYPE_CHECKING:
    from collections.abc import Iterator

TICKS, WARM = 20_000, 4_000
GROWTH_BAR_MIB = 2.0


def results() -> Iterator[Row]:
    warm, end, version = asyncio.run(run(TICKS, WARM))
    yield Row.at_most("pictures judged", version, "", None)
    yield Row.at_most("memory grown", (end.resident - warm.resident) / MIB, "MiB", GROWTH_BAR_MIB)
    yield Row.at_most("threads more", end.threads - warm.threads, "", 0)
    yield Row.at_most("tasks more (two an engine)", end.tasks - warm.tasks, "", 2)
    yield Row.at_most("series at the end", end.series, "", None)
