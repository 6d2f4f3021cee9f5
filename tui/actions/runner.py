"""The process of one test, in a session of its own: nothing but its end, or ``cancel``, stops it.

Killed, it takes its connections with it (they are its own sockets); the audit log then has a ``started``
without an ``ended``, and what the test had started lives on.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.actions import report
from tui.actions.ancestry import stat_of
from tui.actions.audit import AuditLog
from tui.actions.client import Client
from tui.actions.commands import start_again
from tui.actions.drain_run import drain
from tui.actions.exits import UNKNOWN
from tui.actions.lock import TestLock
from tui.actions.plan import Plan, RefusedError, from_document
from tui.actions.restart import detected
from tui.actions.restart_run import RestartTest
from tui.actions.result import CannotRunError, Result
from tui.actions.runs import EventWriter, RunFiles
from tui.actions.session import STEP_S, CancelledError, Session
from tui.actions.traffic import since
from tui.model.settings import EngineTarget
from tui.model.status import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.actions.drain import Stopping

_EXIT_S = 0.5
"""For the parent to ask for the exit status of the main process: only then does the kernel tell it to us."""


def main() -> int:
    """Run the test of the folder in ``argv[1]``; what is secret comes on stdin."""
    # a handler and not SIG_IGN: that would be inherited by an engine that the test starts
    signal.signal(signal.SIGHUP, lambda *_: None)
    files = RunFiles(Path(sys.argv[1]))
    writer = EventWriter(files)
    stat = stat_of(os.getpid())
    writer.write("process", pid=os.getpid(), start_ticks=None if stat is None else stat.start_ticks)
    try:
        target = EngineTarget(**json.loads(sys.stdin.buffer.read()))
        plan = from_document(files.read_plan())
        return asyncio.run(run(files, plan, target, writer))
    except (OSError, ValueError, TypeError) as error:
        writer.end(passed=None, reasons=[f"the test could not begin: {error}"], report=None)
        return 2
    except Exception:  # whoever watches must learn that it ended; the traceback is in the log
        writer.end(passed=None, reasons=["the test failed by an error of its own: see log"], report=None)
        raise


async def run(files: RunFiles, plan: Plan, target: EngineTarget, writer: EventWriter) -> int:
    """The whole test: lock, audit, carry out, report.

    Returns:
        0 passed, 1 failed, 2 it could not be run or was cancelled.
    """
    writer.write("state", name="preparing")
    try:
        with TestLock(plan), AuditLog() as audit:
            audit.write("started", files.folder.name, plan)
            done = await _audited(files, plan, target, writer, audit)
            try:
                audit.write("ended", files.folder.name, plan, "; ".join(map(str, done["reasons"])))
            except RefusedError as refusal:  # what was found stands all the same
                done["reasons"].append(str(refusal))
    except RefusedError as refusal:
        done = _nothing(str(refusal))
    writer.end(**done)
    return 2 if done["passed"] is None else 0 if done["passed"] else 1


async def _audited(
    files: RunFiles, plan: Plan, target: EngineTarget, writer: EventWriter, audit: AuditLog
) -> dict[str, Any]:
    client = Client(target)
    try:
        await client.prepare()
        session = Session(plan, target, files, writer, client)
    except SourceError as error:
        return _nothing(str(error))
    except RefusedError as refusal:
        return _nothing(str(refusal))
    session.before_signal = lambda what: audit.write("signal", files.folder.name, plan, what)
    undo = _end_on_signals(session.cancel)
    try:
        result = await _carry_out(session)
    except (CannotRunError, RefusedError) as refusal:
        return _nothing(str(refusal))
    finally:
        undo()
        await session.close()
        await client.close()
    session.state("reporting")
    return _reported(files, result, writer)


def _nothing(why: str) -> dict[str, Any]:
    return {"passed": None, "reasons": [why], "report": None}


def _reported(files: RunFiles, result: Result, writer: EventWriter) -> dict[str, Any]:
    document = report.document(result, report.previous(result.plan))
    path = _saved(files.folder.name, document, writer)
    if writer.lost:
        document["reasons"].append(f"some events of it could not be written: {writer.lost}")
    return {"passed": document["passed"], "reasons": document["reasons"], "report": path}


def _saved(name: str, document: dict[str, Any], writer: EventWriter) -> str | None:
    """Where the report is: in the state directory, or among the temporary files where that is full."""
    reasons, why = document["reasons"], ""
    for _ in range(2):
        try:
            return str(report.save(name, document))
        except OSError as error:
            why = error.strerror or str(error)
            writer.free()
    reasons.append(f"the report could not be written to the state directory: {why}")
    try:
        path = report.save_elsewhere(document)
    except OSError as error:
        reasons.append(f"nor elsewhere, it is lost: {error.strerror or error}")
        return None
    reasons.append(f"it is in {path}, and will not be found among the earlier ones")
    return str(path)


def _end_on_signals(cancel: Callable[[], None]) -> Callable[[], None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for signum in signals:
        loop.add_signal_handler(signum, cancel)

    def undo() -> None:
        for signum in signals:
            loop.remove_signal_handler(signum)

    return undo


async def _carry_out(session: Session) -> Result:
    """The test, and what was seen of it, however it ended after the action.

    Raises:
        CannotRunError, RefusedError: nothing was done to the engine.
    """
    started_at = time.time()
    restart = RestartTest(session) if session.plan.test == "restart" else None
    stopping: Stopping | None = None
    gave_up = cancelled = False
    await session.start(processes=restart is not None)
    try:
        if restart is not None:
            machine = await restart.run()
            stopping, gave_up = machine.stopping, machine.gave_up
        else:
            stopping = await drain(session)
            gave_up = stopping.gave_up
            if session.plan.start.by == "command" and session.exited():
                start_again(session)
    except CancelledError:
        cancelled = True
    except RefusedError as refusal:
        if session.action_at is None:
            raise
        session.note(str(refusal))
        gave_up = True
    if session.action_at is None:
        raise CannotRunError("cancelled by the user before anything was done to the engine")
    state = _state_of(session)
    leftovers = session.others()
    await session.requests.close()
    await _exit_told(session)
    result = Result(
        plan=session.plan,
        started_at=started_at,
        action_at=session.action_at,
        requests=session.requests.sent,
        phases=[] if restart is None else restart.phases(),
        closed_at=session.at("clients_closed"),
        killed_at=session.at("killed"),
        gave_up=gave_up,
        exit=session.exit(),
        leftovers=leftovers if session.has("main_exit") else None,
        cancelled=cancelled,
        target_state=state,
        notes=session.notes,
    )
    _add_figures(session, result)
    return result


def _add_figures(session: Session, result: Result) -> None:
    """What can only be told once it is over."""
    session.settle_readiness()
    accepted = [
        r
        for r in result.requests
        if r.kind == "new" and r.outcome == "finished" and r.started >= result.action_at
    ]
    lost = session.at("first_refused")
    before = [r for r in accepted if lost is None or r.started < lost]
    if before:
        session.event("last_accepted", before[-1].started, f"request {before[-1].id}")
    result.events = session.events
    served = result.at("first_token")
    result.downtime_s = since(session.down_at(), served)
    if result.at("readiness_down") is not None:
        gone = served is None and session.exited()
        result.detect_s = detected(session.watch.seen.looks, result.plan.readiness, stays=gone)


async def _exit_told(session: Session) -> None:
    """Wait a moment for the exit status, and for one look at the readiness of what has ended."""
    ends = time.monotonic() + _EXIT_S
    gone = session.at("main_exit")
    while gone is not None and time.monotonic() < ends:
        looks = session.watch.seen.looks
        if session.exit() != UNKNOWN and looks and looks[-1].at >= gone:
            return
        await asyncio.sleep(STEP_S)


def _state_of(session: Session) -> str:
    """What is left of the engine, for a person."""
    main, others = session.plan.target.main, session.others()
    if main is None:
        return "its port is closed" if session.exited() else "its port is open still"
    if session.has("first_token"):
        return "the engine serves again"
    if not session.exited():
        return f"the engine still runs (pid {main.pid}) and was left as it is"
    return f"pid {main.pid} has ended" + (f"; {len(others)} of its processes still run" if others else "")
