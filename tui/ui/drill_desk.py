"""What a test asks of disk, processes and network, away from the event loop and each with a deadline."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from tui.actions import launch
from tui.actions.runs import all_runs
from tui.sources import offloop

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.actions.plan import Plan
    from tui.actions.planning import Prepared
    from tui.actions.runs import RunFiles
    from tui.actions.stops import Wish
    from tui.model.settings import Config, EngineTarget

T = TypeVar("T")

PLAN_S = 15.0
"""A plan asks the engine, systemd and Docker, and looks at the model's files: a second on an idle host."""
CHECK_S = 5.0
BEGIN_S = 10.0


async def prepare(wish: Wish, target: EngineTarget, config: Config) -> Prepared:
    """A plan, its process held from here on; in a thread and loop of its own, as it reads files in between.

    Raises:
        RefusedError: there is no such plan.
        asyncio.TimeoutError: it took too long; what comes late is let go.
    """

    def plan() -> Prepared:
        # importing them takes longer than a key may
        from tui.actions.planning import make_plan
        from tui.sources.deadline import within

        return asyncio.run(within(PLAN_S, make_plan(wish, target, config)))

    work = offloop.start(plan, f"plan of {target.url}")
    try:
        return await _result(work, PLAN_S + 1)
    except (asyncio.TimeoutError, asyncio.CancelledError):
        work.add_done_callback(_let_go)
        raise


def _let_go(work: asyncio.Future[Prepared]) -> None:
    if not work.cancelled() and work.exception() is None:
        work.result().held.close()


async def refusals(plan: Plan, config: Config) -> list[str]:
    """Why it may not be carried out now.

    Raises:
        asyncio.TimeoutError: that could not be told in time.
    """

    def check() -> list[str]:
        from tui.actions import safety

        return safety.refusals(plan, config, allow_actions=False)

    return await _result(offloop.start(check, "refusals"), CHECK_S)


async def begin(plan: Plan, prepared: Prepared, typed: str, target: EngineTarget, config: Config) -> RunFiles:
    """Look once more whether it may be, and is the process that was shown; then start the test.

    Raises:
        RefusedError: it may not.
        OSError: it cannot be started.
        asyncio.TimeoutError: it may begin yet.
    """

    def start() -> RunFiles:
        from tui.actions import safety
        from tui.actions.plan import RefusedError

        safety.check_confirmed(plan, typed)
        if refused := safety.refusals(plan, config, allow_actions=False):
            raise RefusedError("; ".join(refused))
        prepared.held.verify()
        files = launch.start(plan, target)
        with suppress(OSError):  # without it the end is not offered to a later screen: no more than that
            files.unseen.touch(mode=0o600)
        return files

    return await _result(offloop.start(start, "start of a test"), BEGIN_S)


async def known() -> tuple[RunFiles | None, RunFiles | None]:
    """The test that runs now, and the newest that has ended without its end having been shown.

    Raises:
        asyncio.TimeoutError: that could not be told in time.
    """

    def look() -> tuple[RunFiles | None, RunFiles | None]:
        running = launch.running()
        owed = (files for files in all_runs() if files != running and files.unseen.exists())
        return running, next(owed, None)

    return await _result(offloop.start(look, "tests that run"), CHECK_S)


async def away(work: Callable[[], T], name: str) -> T:
    """The result of a short look at files.

    Raises:
        asyncio.TimeoutError: it took too long.
        OSError: as ``work``.
    """
    return await _result(offloop.start(work, name), CHECK_S)


async def _result(work: asyncio.Future[T], seconds: float) -> T:
    done, _ = await asyncio.wait({work}, timeout=seconds)
    if not done:
        raise asyncio.TimeoutError
    return work.result()
