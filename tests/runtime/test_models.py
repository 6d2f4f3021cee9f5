"""A model whose files break their reader costs its own arithmetic and nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until
from tui.runtime.models import ModelWatch

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from tui.memory.model_files import ModelFiles

URL = "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RecursionError("deep"), "could not be understood (RecursionError)"),
        (ValueError("secret"), "could not be understood (ValueError)"),
        (OSError(5, "Input/output error"), "Input/output error"),
    ],
)
async def test_whatever_breaks_is_told_and_settles(error: Exception, why: str) -> None:
    tasks: list[asyncio.Task[None]] = []

    def read(_args: Mapping[str, str], _pid: int) -> ModelFiles:
        raise error

    def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.get_running_loop().create_task(work))
        return tasks[-1]

    watch = ModelWatch(read, spawn)
    watch.update(URL, {"model": "/m"}, 7)
    assert not watch.settled
    await until(lambda: watch.settled, 5)
    await asyncio.gather(*tasks)
    found = watch.files(URL)
    assert found is not None
    assert found.why.endswith(why)
