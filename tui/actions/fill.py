"""Fills an engine with requests of our own that are still under way when it is told to stop."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from tui.actions.result import CannotRunError
from tui.actions.traffic import FEW_TOKENS, OwnRequest, unbegun
from tui.model.status import SourceError
from tui.sources.http import HttpTarget

if TYPE_CHECKING:
    from tui.actions.session import Session

FIRST_BYTE_S = 60.0
"""The first request of a fresh engine may compile kernels: a real vLLM stood still for 25 s."""
SEATS_S = 10.0
"""Until those that wait while others run count as queued: they are in flight, too."""
MEASURE_S = 0.6
SLOW_S = 5.0
"""... at most, until one has the tokens that a rate takes."""
CONFIRM_S = 1.0
"""What lies between the measuring and the action."""
SPARE = 1.3
LONGEST_SHARE = 0.6
"""Of the grace period: what a request may still need at the action. An engine is not to fail for the length
that we chose."""
PROMPT_TOKENS = 64
"""Room for our own prompts, of some 25 tokens."""
TRIES = 3


async def fill(session: Session) -> None:
    """Start the requests in flight, and make them long enough to outlast the action.

    Raises:
        CannotRunError: they fail, or do not begin.
        CancelledError: the user wants no more.
    """
    session.state("filling")
    traffic = session.plan.traffic
    most = await longest(session) if traffic.streaming else None
    tokens = traffic.max_tokens if most is None else min(traffic.max_tokens, most)
    await top_up(session, tokens)
    for _ in range(TRIES if traffic.streaming else 0):
        rate = await _measure(session)
        in_flight = session.requests.of("in_flight")
        misfits = [r for r in in_flight if not fits(r, rate, traffic.outlast_s, session.plan.grace_s)]
        if not misfits:
            break
        tokens = max(_tokens_for(r, rate, traffic.outlast_s) for r in misfits)
        bounded = most is not None and tokens > most
        if bounded and most is not None:
            tokens = most
            session.note(
                f"the model's limit of {most + PROMPT_TOKENS} tokens ends our requests within"
                f" {traffic.outlast_s:g} s: one that finishes so early shows little"
            )
        await _replace(session, misfits, tokens)
        if bounded:
            break
    session.fill_tokens = tokens


async def top_up(session: Session, tokens: int) -> int:
    """Let those that have ended not count, start as many, and wait until all have begun; how many are open.

    Raises:
        CannotRunError: they fail, or do not begin.
        CancelledError: the user wants no more.
    """
    requests, traffic = session.requests, session.plan.traffic
    for request in requests.of("in_flight"):
        if not request.open:
            _must_work(request)
            requests.forget(request)
    missing = traffic.requests - len(requests.of("in_flight"))
    fresh = [requests.send("in_flight", tokens) for _ in range(missing)]
    await _begun(session, fresh)
    return len(session.open_in_flight())


def fits(request: OwnRequest, slowest: float, outlast_s: float, grace_s: float) -> bool:
    """Whether it runs still so long after the action, at its rate so far, and ends within the grace period.

    Args:
        request: with its tokens so far.
        slowest: tokens a second of one that has no rate of its own yet.
        outlast_s: how long it must run after the action at least.
        grace_s: within which it must be able to end.
    """
    if not request.open:
        return False
    if request.tokens_wanted is None:
        return True
    left_s = (request.tokens_wanted - (request.tokens or 0)) / (request.rate() or slowest)
    least = outlast_s + CONFIRM_S
    return least <= left_s <= max(2 * least, LONGEST_SHARE * grace_s)


async def longest(session: Session) -> int | None:
    """Most tokens that a request of ours may ask for; None where the engine does not tell."""
    http = HttpTarget.of(session.target, keep_alive=False)
    try:
        answer = await http.get("/v1/models", 5.0)
        models = answer.json()
        length = models["data"][0]["max_model_len"]
    except (SourceError, ValueError, KeyError, IndexError, TypeError):
        return None
    finally:
        await http.close()
    return max(1, length - PROMPT_TOKENS) if type(length) is int else None


async def _measure(session: Session) -> float:
    """Watch them for a while, longer where they are slow: the slowest rate that was seen, tokens a second."""
    started = time.monotonic()
    await session.pause(MEASURE_S)
    while True:
        requests = session.requests.of("in_flight")
        rates = [rate for rate in (request.rate() for request in requests) if rate is not None]
        took_s = time.monotonic() - started
        if rates:
            return min(rates)
        if took_s > SLOW_S or not any(request.open for request in requests):
            return FEW_TOKENS / took_s  # none has come so far
        await session.pause()


def _tokens_for(request: OwnRequest, slowest: float, seconds: float) -> int:
    rate = request.rate() or slowest
    return max(1, math.ceil(rate * (seconds + CONFIRM_S + MEASURE_S) * SPARE))


async def _replace(session: Session, misfits: list[OwnRequest], tokens: int) -> None:
    """Put ones of another length in their place, for which their seats must be free first."""
    for request in misfits:
        _must_work(request)
        session.requests.forget(request)
    await _begun(session, [session.requests.send("in_flight", tokens) for _ in misfits])


async def _begun(session: Session, fresh: list[OwnRequest]) -> None:
    started = time.monotonic()
    while waiting := unbegun(fresh, session.plan.traffic.streaming):
        await session.pause()
        waited_s = time.monotonic() - started
        if waited_s > FIRST_BYTE_S and len(waiting) == len(fresh):
            raise CannotRunError(f"our own requests got no token within {FIRST_BYTE_S:.0f} s")
        if waited_s > SEATS_S and len(waiting) < len(fresh):
            session.tell(f"{len(waiting)} of our requests have no token yet: they may wait in its queue")
            break
    for request in fresh:
        _must_work(request)


def _must_work(request: OwnRequest) -> None:
    if request.open or request.outcome == "finished":
        return
    status = f" with status {request.http_status}" if request.outcome == "error" else ""
    raise CannotRunError(f"our own requests do not work: {request.outcome}{status}")
