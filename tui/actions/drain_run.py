"""A drain test carried out: fill, look for others, stop, watch, tell."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tui.actions.commands import act, kill
from tui.actions.drain import Stopping, StopRules
from tui.actions.fill import TRIES, fill, top_up
from tui.actions.result import CannotRunError
from tui.actions.traffic import NEW_DEADLINE_S, NEW_TOKENS, unbegun

if TYPE_CHECKING:
    from tui.actions.session import Session


async def drain(session: Session) -> Stopping:
    """The test up to the end of the engine, or of patience.

    Raises:
        CannotRunError: nothing was done to the engine.
        RefusedError: so, too; or this user may not send the confirmed SIGKILL.
        CancelledError: the user wants no more.
    """
    await fill(session)
    await session.confirm_alone()
    for _ in range(TRIES):
        if await top_up(session, session.fill_tokens) == session.plan.traffic.requests:
            break
    in_flight = len(session.open_in_flight())
    if not in_flight:
        raise CannotRunError("no request of ours is under way long enough to be in flight at the signal")
    for request in session.requests.of("in_flight"):
        if not request.open:
            session.requests.forget(request)
    if in_flight < session.plan.traffic.requests:
        session.note(
            f"only {in_flight} of {session.plan.traffic.requests} requests were in flight at the signal"
        )
    if tokenless := len(unbegun(session.open_in_flight(), session.plan.traffic.streaming)):
        session.note(f"{tokenless} of them had no token at the signal: they may have waited in its queue")
    session.state("stopping")
    await act(session)
    session.state("draining")
    return await _watch(session)


async def _watch(session: Session) -> Stopping:
    plan = session.plan
    assert session.action_at is not None  # it was acted
    stopping = Stopping(StopRules(plan.grace_s, plan.kill_after_grace), session.action_at)
    while True:
        now = time.monotonic()
        for order in stopping.step(now, session.stop_seen(now)):
            if order == "finish":
                return stopping
            if order == "offer":
                session.requests.send("new", NEW_TOKENS, deadline_s=NEW_DEADLINE_S)
            elif order == "kill":
                await kill(session)
            else:
                close_silent(session, now)
        await session.pause()


def close_silent(session: Session, now: float) -> None:
    """Hang up what gets no bytes any more."""
    silent = session.silent(now)
    if not session.has("clients_closed"):
        session.state("closing")
    session.event("clients_closed", detail=f"{len(silent)} silent requests")
    for request in silent:
        session.requests.hang_up(request, "silent")
