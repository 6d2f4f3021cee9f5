"""How a simulated API server ends: on signals, and when its engine dies. Times are those of the captures."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
import traceback
from typing import TYPE_CHECKING, Any

from tui.demo import shutdown_log
from tui.demo.completions import RefusedError
from tui.sources.deadline import within

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tui.demo.engine import Engine

DEAD = RefusedError(
    500,
    "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    "InternalServerError",
)
SHUT = RefusedError(500, "cannot schedule new futures after shutdown", "InternalServerError")


class Lifecycle:
    """The end of an API server; one of its coroutines runs at most once.

    Attributes:
        phase: ``loading``, ``serving``, ``draining`` (in-flight requests go on), ``aborting`` (they
            do not) or ``dead`` (the engine is gone).
        refusal: what a new completion is answered with; None while it is accepted.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ending: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self.phase = "loading"
        self.refusal: RefusedError | None = None
        self.finishes_with_abort = False
        self._modes: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "abort-silent": self._abort_silent,
            "abort-finish": self._abort_finish,
            "drain-500": self._drain_500,
            "drain-refused": self._drain_refused,
            "drain-serve": self._drain_serve,
        }
        self.exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    # ------------------------------------------------------------------------------ what happens

    def on_signal(self, signum: signal.Signals) -> None:
        """SIGTERM or SIGINT; a second one changes nothing."""
        if self._ending is not None or self.exit_code.done():
            return
        mode = self._engine.spec.sigterm
        if mode == "ignore":
            return
        if self.phase == "loading":
            self._engine.children.kill_all()
            self._exit(0)
        elif mode == "hang":
            self._block(float("inf"))
        elif self._engine.spec.dialect == "sglang" and signum == signal.SIGINT:
            self._begin(self._sglang_interrupted)
        else:
            self._begin(self._modes[mode])

    def on_answers_changed(self) -> None:
        """A request began, ended or lost its client."""
        self._changed.set()

    def on_death(self, title: str) -> None:
        """A child ended."""
        engine = self._engine
        if self.phase == "loading":
            engine.log.info("core.py:1200", "EngineCore failed to start.", "ERROR")
            self._exit(1)
        elif engine.spec.dialect == "sglang" and self._ending is None:
            self._begin(lambda: self._sglang_crash(title))
        elif title == engine.children.core_title and self.phase == "serving":
            self._begin(self._vllm_crash)

    def on_request_refused(self) -> None:
        """A completion met a dead engine: vLLM's server gives up at once then."""
        self._changed.set()

    def _begin(self, ending: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._ending = asyncio.get_running_loop().create_task(ending())
        self._ending.add_done_callback(self.on_task_done)

    def on_task_done(self, task: asyncio.Task[None]) -> None:
        """A coroutine of the server ended; one that failed takes the server with it."""
        if not task.cancelled() and task.exception() is not None:
            traceback.print_exception(task.exception())
            self._exit(70)

    # ------------------------------------------------------------------------------ SIGTERM modes

    async def _abort_silent(self) -> None:
        """As vLLM by default: the engine is killed, the port closes, streams stay until clients give up."""
        shutdown_log.begun(self._engine.log, "abort", 0)
        self._kill_engine()
        await self._wait(0.25)
        await self._outlast_silent_clients()

    async def _drain_500(self) -> None:
        """As vLLM with --shutdown-timeout: what is in flight ends well, what is new gets 500."""
        engine = self._engine
        timeout_s = engine.spec.shutdown_timeout_s
        self.phase, self.refusal = "draining", SHUT
        shutdown_log.begun(engine.log, "drain", timeout_s)
        engine.children.send_signal(engine.children.core_title, signal.SIGTERM)
        ends_s = time.monotonic() + timeout_s
        while engine.children.alive(engine.children.core_title):
            left_s = ends_s - time.monotonic()
            # the time-out is for requests; the tear-down after the last one is not cut short
            if left_s <= 0 and engine.answers:
                self._kill_engine()
                await self._wait(0.1)
                await self._outlast_silent_clients()
                return
            await self._until_changed(left_s if engine.answers else 0.05)
        await self._wait(0.05)
        shutdown_log.engine_stopped(engine.log)
        engine.http.stop_listening()
        await self._wait(0.45)
        self._exit(0)

    async def _drain_refused(self) -> None:
        """The port closes at once, what is in flight finishes, then the server ends."""
        self.phase = "draining"
        self._engine.http.stop_listening()
        await self._until_answered()
        self._engine.children.kill_all()
        await self._wait(0.3)
        self._exit(0)

    async def _drain_serve(self) -> None:
        """SGLang: not ready at once, but new requests are served; a look every 5 s whether none is left."""
        engine = self._engine
        self.phase = "draining"
        engine.log.info(
            "", "SIGTERM received. signum=None frame=None. Draining requests and shutting down..."
        )
        while True:
            await self._wait(5.0)
            if engine.unhealthy:
                engine.log.info("", "Signal SIGTERM received while health check failed. Force exiting.")
                self._block(engine.spec.scaled(65.0))
                self._kill_tree()
            if not engine.answers:
                break
            left = f"Gracefully exiting... Remaining number of requests {len(engine.answers)}."
            engine.log.info("", f"{left} Remaining requests remaining_rids={sorted(engine.answers)[:20]}.")
        engine.children.kill_all()
        await self._wait(0.12)
        engine.http.stop_listening()
        await self._wait(0.4)
        self._exit(0)

    async def _abort_finish(self) -> None:
        """Everything in flight ends as 200 with ``finish_reason`` abort; so does what still comes in."""
        engine = self._engine
        shutdown_log.begun(self._engine.log, "abort", 0)
        self.phase, self.finishes_with_abort = "aborting", True
        for answer in engine.take_answers():
            answer.abort()
        await self._wait(0.25)
        engine.http.stop_listening()
        engine.children.kill_all()
        await self._wait(0.65)
        self._exit(0)

    async def _sglang_interrupted(self) -> None:
        """SGLang on SIGINT: the port closes, streams finish, and the process stays for good."""
        await self._wait(0.15)
        self._engine.http.stop_listening()
        self.phase = "draining"

    # ------------------------------------------------------------------------------ deaths

    async def _vllm_crash(self) -> None:
        """The core died: errors to all, then the server ends, at once or when its watchdog looks; code 0."""
        engine = self._engine
        self.phase, self.refusal = "dead", DEAD
        shutdown_log.crashed(engine.log, DEAD.message)
        failed = engine.take_answers()
        for answer in failed:
            answer.fail(DEAD)
        if engine.spec.keep_alive_on_engine_death:
            return
        if not failed:
            watchdog_s = engine.spec.scaled(5.0)
            since_s = (time.monotonic() - engine.ready_s) % watchdog_s if watchdog_s else 0.0
            self._changed.clear()
            await self._until_changed(watchdog_s - since_s)
        await self._wait(0.15)
        engine.http.stop_listening()
        await self._wait(0.2)
        self._exit(0)

    async def _sglang_crash(self, title: str) -> None:
        """A child died: noticed within a second, then nothing answers until the process kills itself."""
        engine = self._engine
        # not scaled below what a poll can see: the real one goes on answering for up to a second
        await asyncio.sleep(max(0.3, engine.spec.scaled(0.5)))
        self.phase = "dead"
        engine.log.info(
            "", f"Subprocess {title} crashed with exit code -9. Triggering SIGQUIT for cleanup..."
        )
        engine.log.info("", "SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
        self._block(engine.spec.scaled(65.0 if title == "sglang::detokenizer" else 5.2))
        self._kill_tree()

    # ------------------------------------------------------------------------------ parts

    def _kill_engine(self) -> None:
        """End the core and its workers at once, stopped or not."""
        self.phase, self.refusal = "aborting", DEAD
        children = self._engine.children
        shutdown_log.killed(self._engine.log, children.pids)
        children.kill_all()

    async def _outlast_silent_clients(self) -> None:
        """Close the port, leave what is open open and silent, end a second after the last client."""
        shutdown_log.engine_stopped(self._engine.log)
        self._engine.http.stop_listening()
        shutdown_log.waiting_for_clients(self._engine.log)
        await self._until_answered()
        await self._wait(0.8)
        self._exit(0)

    async def _wait(self, real_s: float) -> None:
        await asyncio.sleep(self._engine.spec.scaled(real_s))

    async def _until_changed(self, timeout_s: float) -> None:
        try:
            await within(max(0.0, timeout_s), self._changed.wait())
        except asyncio.TimeoutError:
            return
        self._changed.clear()

    async def _until_answered(self) -> None:
        while self._engine.answers:
            self._changed.clear()
            await self._changed.wait()

    def _block(self, seconds: float) -> None:
        """Hold the event loop: connections are accepted by the kernel, and nothing answers."""
        ends_s = time.monotonic() + seconds
        leash = self._engine.inherited.leash
        while (left_s := ends_s - time.monotonic()) > 0:
            if leash >= 0 and select.select([leash], [], [], min(left_s, 3600.0))[0]:
                os._exit(0)
            if leash < 0:
                time.sleep(min(left_s, 3600.0))

    def _kill_tree(self) -> None:
        self._engine.children.kill_all()
        os.kill(os.getpid(), signal.SIGKILL)

    def _exit(self, code: int) -> None:
        if not self.exit_code.done():
            self.exit_code.set_result(code)
