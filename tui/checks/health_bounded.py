"""Work that may never end, waited for only so long."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def bounded(work: Callable[[], T], seconds: float, name: str) -> T:
    """The result of ``work``, or what it raises, on a daemon thread.

    Work that takes longer goes on and is forgotten; a program that ends does not wait for it.

    Raises:
        TimeoutError: not within ``seconds``.
    """
    ended = threading.Event()
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # noqa: BLE001  # carried to the caller
            failures.append(error)
        ended.set()

    threading.Thread(target=run, name=name, daemon=True).start()
    if not ended.wait(max(0.0, seconds)):
        raise TimeoutError(name)
    if failures:
        raise failures[0]
    return results[0]
