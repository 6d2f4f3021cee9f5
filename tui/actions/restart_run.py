"""A restart test carried out: a request a second, stop, start, watch it come back, tell."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tui.actions.ancestry import stat_of
from tui.actions.commands import act, kill, start_again
from tui.actions.drain import Stopping, StopRules
from tui.actions.drain_run import close_silent
from tui.actions.restart import Restarting, RestartRules, RestartSeen
from tui.actions.result import CannotRunError, Phase
from tui.actions.start_log import StartLog
from tui.actions.traffic import NEW_TOKENS, SHARED_PROMPTS, since

if TYPE_CHECKING:
    from tui.actions.session import Session
    from tui.actions.traffic import OwnRequest

REQUEST_EVERY_S = 1.0
REQUEST_DEADLINE_S = 10.0
FIRST_ANSWER_S = 60.0
WARM_UP_S = 12.0
"""For the former hit ratio: rates are over a window of seconds, and it must have seen repeated prompts."""


class RestartTest:
    """One restart test under way.

    Args:
        session: what it shares with every test.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._log: StartLog | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._start_failed = False
        self._old = {process.pid for process in session.plan.target.tree}
        self.machine: Restarting | None = None

    async def run(self) -> Restarting:
        """The test until the engine serves again, or patience ends.

        Raises:
            CannotRunError: nothing was done to the engine.
            RefusedError: so, too; or this user may not send the confirmed SIGKILL.
            CancelledError: the user wants no more.
        """
        session = self._session
        session.state("asking")
        self._ticker = asyncio.get_running_loop().create_task(self._ask_each_second())
        try:
            await self._first_answer()
            former = await self._former_hit_ratio() if session.plan.traffic.prefix_heavy else None
            await session.confirm_alone()
            self._follow_log()
            session.state("stopping")
            await act(session)
            return await self._watch(former)
        finally:
            self._ticker.cancel()

    def phases(self) -> list[Phase]:
        """Those that could be seen."""
        session = self._session
        marks = {} if self._log is None else self._log.marks
        down = session.down_at()
        spawned, ready = session.at("spawned"), session.at("ready")
        token, warm = session.at("first_token"), session.at("cache_warm")
        begin, weights, compiled = (
            marks.get("weights_begin"),
            marks.get("weights_end"),
            marks.get("compile_end"),
        )
        spans = (
            ("down", down, spawned),
            ("starting", spawned, begin or ready),
            ("weights", begin, weights),
            ("compile", weights, compiled),
            ("ready", compiled or weights if begin else None, ready),
            # a request may be served between two looks at the readiness
            ("first_token", None if ready is None or token is None else min(ready, token), token),
            ("cache_warm", token, warm),
        )
        found = []
        for name, start, end in spans:
            start_s, end_s = since(session.action_at, start), since(session.action_at, end)
            if start_s is not None and end_s is not None and end_s >= start_s:
                found.append(Phase(name, start_s, end_s))  # type: ignore[arg-type]
        return found

    # ------------------------------------------------------------------------------ before

    async def _ask_each_second(self) -> None:
        number = 0
        due = time.monotonic()
        while True:
            self._ask()
            number += 1
            await asyncio.sleep(max(0.0, due + number * REQUEST_EVERY_S - time.monotonic()))

    def _ask(self) -> OwnRequest:
        return self._session.requests.send("new", NEW_TOKENS, deadline_s=REQUEST_DEADLINE_S)

    async def _first_answer(self) -> None:
        session = self._session
        ends = time.monotonic() + FIRST_ANSWER_S
        while not any(request.outcome == "finished" for request in session.requests.sent):
            failed = next((r for r in session.requests.sent if not r.open), None)
            if failed is not None and (failed.outcome != "timeout" or time.monotonic() > ends):
                status = f" with status {failed.http_status}" if failed.outcome == "error" else ""
                raise CannotRunError(f"our own requests do not work: {failed.outcome}{status}")
            await session.pause()

    async def _former_hit_ratio(self) -> float | None:
        """Of the prefix cache under our own repeated prompts; None where the engine does not tell."""
        session = self._session
        ends = time.monotonic() + WARM_UP_S
        seen: list[float] = []
        while time.monotonic() < ends:
            if not any(request.open for request in session.requests.sent[-SHARED_PROMPTS:]):
                self._ask()
            reading = session.watch.seen.reading
            if reading is not None and reading.prefix_hit_ratio is not None:
                seen.append(reading.prefix_hit_ratio)
            await session.pause(0.1)
        if not seen or max(seen) <= 0:
            session.note("the engine tells no prefix cache hits: the recovery of its cache is not measured")
            return None
        return seen[-1]

    def _follow_log(self) -> None:
        session = self._session
        path = session.target.log
        if session.plan.start.by == "command":
            self._log = StartLog(session.files.engine_log)
        elif path.startswith("/"):
            self._log = StartLog(Path(path))

    # ------------------------------------------------------------------------------ after

    async def _watch(self, former: float | None) -> Restarting:
        session, plan = self._session, self._session.plan
        assert session.action_at is not None  # it was acted
        rules = RestartRules(
            start_here=plan.start.by == "command",
            wait_for_tree=plan.stop.way != "kill_api_server",
            deadline_s=plan.restart_deadline_s,
            former_hit_ratio=former,
        )
        stopping = Stopping(StopRules(plan.grace_s, plan.kill_after_grace, offers=False), session.action_at)
        machine = self.machine = Restarting(rules, stopping, session.action_at)
        session.state("draining")
        while True:
            now = time.monotonic()
            before = machine.state
            orders = machine.step(now, self._seen(now))
            if machine.state != before and machine.state in ("starting", "warming"):
                session.state(machine.state)
            for order in orders:
                if order == "finish":
                    if machine.warm_at is not None:
                        session.event("cache_warm", machine.warm_at)
                    return machine
                if order == "start":
                    start_again(session)
                elif order == "ask":
                    self._ask()
                elif order == "kill":
                    await kill(session)
                elif order == "close_silent":
                    close_silent(session, now)
            await session.pause()

    def _seen(self, now: float) -> RestartSeen:
        session, seen = self._session, self._session.watch.seen
        if self._log is not None:
            self._log.look(now)
        gone = session.at("main_exit") or session.at("port_closed")
        if gone is not None:
            self._see_start(gone)
        ready, token = session.at("ready"), session.at("first_token")
        after = [] if token is None else [r for r in session.requests.sent if r.started >= token]
        return RestartSeen(
            stop=session.stop_seen(now),
            ready=ready is not None,
            first_token=token is not None,
            served_since=sum(r.outcome == "finished" for r in after),
            hit_ratio=None if seen.reading is None or token is None else seen.reading.prefix_hit_ratio,
        )

    def _see_start(self, gone: float) -> None:
        session, seen = self._session, self._session.watch.seen
        newcomer = next((s for s in seen.servers or () if s.pid not in self._old), None)
        if newcomer is not None:
            session.event("spawned", started(newcomer.pid, gone), f"pid {newcomer.pid}")
        elif session.starter is not None and not self._start_failed and session.starter.poll():
            # one that only starts it, or leaves it to another, ends with 0
            self._start_failed = True
            session.state("starting", f"the start command ended with {session.starter.returncode}")
            session.note(f"the output of the start command is in {session.files.engine_log}")
        if seen.port_open and (session.has("port_closed") or session.has("spawned")):
            session.event("port_open")
        look = seen.looks[-1] if seen.looks else None
        if look is not None and look.ok and look.at > gone:
            session.event("ready", look.at + look.took_s)
        served = (r for r in session.requests.sent if r.started > gone and r.outcome == "finished")
        first = next(served, None)
        if first is not None:
            session.event("first_token", first.first_byte, f"request {first.id}")


def started(pid: int, gone: float) -> float:
    """When a process began, in monotonic seconds, to the tick of 10 ms; not before the old one had ended."""
    stat = stat_of(pid)
    if stat is None:
        return time.monotonic()
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.start_ticks / os.sysconf("SC_CLK_TCK")
    return max(gone, time.monotonic() - age_s)
