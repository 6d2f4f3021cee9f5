"""Work off the loop: threads are used again, and one that hangs keeps nobody waiting."""

from __future__ import annotations

import threading

import pytest

from tests.support.waiting import until
from tui.sources import offloop


async def test_a_thread_at_rest_is_used_again() -> None:
    first = await offloop.start(threading.current_thread, "first look")
    await until(lambda: first.name == "off the loop, at rest", 5)
    second, name = await offloop.start(
        lambda: (threading.current_thread(), threading.current_thread().name), "second look"
    )
    assert name == "second look"
    assert second is first


async def test_work_that_hangs_keeps_its_thread_alone() -> None:
    gate = threading.Event()

    def hang() -> int:
        gate.wait(20)
        return threading.get_ident()

    hung = offloop.start(hang, "hangs")
    threads = [await offloop.start(threading.get_ident, "works") for _ in range(3)]
    assert not hung.done()
    gate.set()
    assert await hung not in threads


async def test_an_error_reaches_who_waits_and_costs_no_thread() -> None:
    def fails() -> None:
        raise LookupError(threading.current_thread().name)

    for _ in range(2):
        with pytest.raises(LookupError, match="fails"):
            await offloop.start(fails, "fails")


async def test_a_thread_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offloop, "REST_S", 0.01)
    monkeypatch.setattr(offloop, "_at_rest", [])
    thread = await offloop.start(threading.current_thread, "only look")
    await until(lambda: not thread.is_alive(), 5)
    assert offloop._at_rest == []
    assert await offloop.start(lambda: 7, "another look") == 7
