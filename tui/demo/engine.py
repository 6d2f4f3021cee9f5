"""The API server process: HTTP in front, the scheduler behind it, one line of the real log for each step."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import stat
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tui.demo.children import Children
from tui.demo.http import Exchange, HttpServer
from tui.demo.lifecycle import Lifecycle
from tui.demo.log import EngineLog
from tui.demo.metrics_sglang import SglangMetrics
from tui.demo.metrics_vllm import VllmMetrics
from tui.demo.process import Inherited, inherited_spec_json, set_comm
from tui.demo.routes import Routes
from tui.demo.spec import EngineSpec, SpecError
from tui.demo.updates import Update

if TYPE_CHECKING:
    from tui.demo.completions import Answer

_STATISTICS_S = 10.0
_REPORT_S = 0.25
_WARM_UP_ID = 0


def main() -> None:
    """Run the API server that the environment describes."""
    inherited = Inherited.from_environment()
    inherited.join_group()
    spec = EngineSpec.from_json(inherited_spec_json())
    set_comm(spec.dialect)
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((spec.host, spec.port))  # early, as the real one: it listens only when the engine is ready

    async def run() -> int:
        return await Engine(spec, inherited).run(sock)

    os._exit(asyncio.run(run()))


class Engine:
    """One API server and what it owns.

    Attributes:
        answers: completions under way, by request id.
        heard_s: monotonic time of the scheduler's last output.
        ready_s: when the engine became ready.
        unhealthy: a health check of SGLang's has failed since the last output.
    """

    def __init__(self, spec: EngineSpec, inherited: Inherited) -> None:
        self.spec = spec
        self.inherited = inherited
        self.rng = random.Random()
        self.log = EngineLog(spec.dialect, "APIServer")
        self.metrics: VllmMetrics | SglangMetrics
        self.metrics = VllmMetrics(spec) if spec.dialect == "vllm" else SglangMetrics(spec)
        self.life = Lifecycle(self)
        self.children = Children(spec, inherited, self._on_update, self.life.on_death)
        self.http = HttpServer(Routes(self).handle)
        self.answers: dict[int, Answer] = {}
        self.heard_s = 0.0
        self.ready_s = 0.0
        self.unhealthy = False
        self._next_id = 0
        self._health_id = 0
        self._latest = Update()
        self._core_ready = asyncio.Event()
        self._warmed_up = asyncio.Event()
        self._orders = bytearray()

    # ------------------------------------------------------------------------------ life

    async def run(self, sock: socket.socket) -> int:
        """Start up, serve, end; returns the exit status."""
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, self.life.on_signal, signum)
        if self.inherited.leash >= 0:
            loop.add_reader(self.inherited.leash, os._exit, 0)
        if stat.S_ISFIFO(os.fstat(0).st_mode):
            os.set_blocking(0, False)
            loop.add_reader(0, self._on_order)
        if self.inherited.report >= 0:
            os.set_blocking(self.inherited.report, False)
        background = [
            loop.create_task(job) for job in (self._start(sock), self._statistics(), self._reports())
        ]
        for task in background:
            task.add_done_callback(self.life.on_task_done)
        code = await self.life.exit_code
        self._report()
        for task in background:
            task.cancel()
        return code

    async def _start(self, sock: socket.socket) -> None:
        began_s = time.monotonic()
        spec = self.spec
        if spec.dialect == "vllm":
            self.log.info("api_utils.py:347", f"vLLM API server version {spec.version}")
            self.log.info("model.py:2152", f"Using max model len {spec.max_model_len}")
        else:
            self.log.info("", f"server_args={{'model_path': '{spec.model}', 'port': {spec.port}}}")
        await asyncio.sleep(spec.load_s * 0.25)
        await self.children.start(began_s)
        await self._core_ready.wait()
        await asyncio.sleep(max(0.0, began_s + spec.load_s * 0.9 - time.monotonic()))
        if spec.dialect == "vllm":
            await asyncio.sleep(max(0.0, began_s + spec.load_s - time.monotonic()))
            self.log.info("entry.py:140", f"Starting vLLM server on http://{spec.host}:{spec.port}")
        self.log.plain(f"INFO:     Started server process [{os.getpid()}]")
        self.log.plain("INFO:     Waiting for application startup.")
        await self.http.start(sock)
        self.log.plain("INFO:     Application startup complete.")
        if spec.dialect == "sglang":
            # the port is open, models and metrics answer, the health routes do not yet
            self.log.plain(
                f"INFO:     Uvicorn running on http://{spec.host}:{spec.port} (Press CTRL+C to quit)"
            )
            self.children.send({"add": [_WARM_UP_ID, time.monotonic(), 7, 8, 8, ()]})
            await self._warmed_up.wait()
            await asyncio.sleep(max(0.0, began_s + spec.load_s - time.monotonic()))
            self.log.info("", "The server is fired up and ready to roll!")
        if self.life.phase == "loading":
            self.life.phase = "serving"
            self.ready_s = time.monotonic()

    # ------------------------------------------------------------------------------ requests

    def accept(self, answer: Answer) -> None:
        """Hand a completion to the scheduler."""
        self._next_id += 1
        request_id, wanted = self._next_id, answer.wanted
        self.answers[request_id] = answer
        answer.exchange.on_hangup = lambda: self._hung_up(request_id)
        self.children.send(
            {
                "add": [
                    request_id, answer.exchange.started_s, wanted.prompt_tokens, wanted.target_tokens,
                    wanted.max_tokens, wanted.hashes,
                ]
            }
        )  # fmt: skip

    def ask_for_a_token(self) -> None:
        """Send the scheduler a one-token request that nobody waits for."""
        self._health_id -= 1
        self.children.send({"add": [self._health_id, time.monotonic(), 1, 1, 1, ()]})

    def _hung_up(self, request_id: int) -> None:
        del self.answers[request_id]
        self.metrics.aborted()
        self.children.send({"abort": request_id})
        self.life.on_answers_changed()

    def _on_update(self, update: Update) -> None:
        if update.tokens:
            self.heard_s = time.monotonic()
            self.unhealthy = False
        self._latest = update
        # health checks are no requests of anybody's; the warm-up counts, as the real one's does
        update.first = [row for row in update.first if row[0] >= _WARM_UP_ID]
        update.finished = [row for row in update.finished if row.id >= _WARM_UP_ID]
        self.metrics.apply(update, self._is_streaming)
        if update.pids:
            self._core_ready.set()
        if update.finished:
            self._warmed_up.set()
        reasons = {finished.id: finished.reason for finished in update.finished}
        for request_id, tokens in update.tokens.items():
            answer = self.answers.get(request_id)
            if answer is None or self.life.phase == "aborting":
                continue
            reason = reasons.get(request_id)
            answer.deliver(tokens, reason)
            if reason is not None:
                del self.answers[request_id]
                self.life.on_answers_changed()

    def _is_streaming(self, request_id: int) -> bool:
        answer = self.answers.get(request_id)
        return answer is not None and answer.wanted.stream

    def responded(self, exchange: Exchange) -> None:
        """An answer began: count it, and write the HTTP server's line."""
        self.metrics.responded(exchange)
        phrase = HTTPStatus(exchange.status or 500).phrase
        line = f'"{exchange.method} {exchange.path} HTTP/1.1" {exchange.status} {phrase}'
        self.log.plain(f"INFO:     {exchange.peer} - {line}")

    def take_answers(self) -> list[Answer]:
        """All completions under way, which the caller ends."""
        answers = list(self.answers.values())
        self.answers.clear()
        return answers

    # ------------------------------------------------------------------------------ supervisor

    def _on_order(self) -> None:
        """Lines of JSON on standard input: settings to change."""
        try:
            data = os.read(0, 65536)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(0)
            return
        self._orders += data
        *lines, rest = self._orders.split(b"\n")
        self._orders = bytearray(rest)
        for line in lines:
            try:
                self.change(json.loads(line))
            except SpecError as error:
                self.log.info("", f"simulator: {error}", "WARNING")

    def change(self, changes: dict[str, Any]) -> None:
        """Take new settings at run time.

        Raises:
            SpecError: unknown setting or value out of range.
        """
        self.spec = self.spec.changed(changes)
        self.metrics.change(self.spec)
        self.children.send({"set": self.spec.to_json()})

    async def _reports(self) -> None:
        while True:
            self._report()
            await asyncio.sleep(_REPORT_S)

    def _report(self) -> None:
        """Tell the supervisor where things stand; one that does not read misses some."""
        if self.inherited.report < 0:
            return
        update = self._latest
        row = {
            "pid": os.getpid(),
            "pids": self.children.pids,
            "phase": self.life.phase,
            "at_s": update.at_s,
            "running": update.gauges.running,
            "waiting": update.gauges.waiting,
            "kv_usage": update.gauges.kv_usage,
            "busy_s": update.totals.busy_s,
            "computed_tokens": update.totals.computed_tokens,
            "generated_tokens": update.totals.generated_tokens,
        }
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self.inherited.report, json.dumps(row).encode() + b"\n")

    async def _statistics(self) -> None:
        """The line vLLM writes every 10 s; once more after the work has ended, then none."""
        before, quiet = self._latest.totals, True
        while True:
            period_s = self.spec.scaled(_STATISTICS_S)
            await asyncio.sleep(period_s)
            totals, gauges = self._latest.totals, self._latest.gauges
            idle = totals.steps == before.steps and not gauges.running and not gauges.waiting
            if (
                self.spec.dialect == "vllm"
                and self.life.phase in ("serving", "draining")
                and not (idle and quiet)
            ):
                prompt = (totals.computed_tokens - before.computed_tokens) / period_s
                generation = (totals.generated_tokens - before.generated_tokens) / period_s
                hits = totals.hit_tokens / totals.query_tokens if totals.query_tokens else 0.0
                self.log.info(
                    "loggers.py:335",
                    f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s,"
                    f" Avg generation throughput: {generation:.1f} tokens/s, Running: {gauges.running} reqs,"
                    f" Waiting: {gauges.waiting} reqs, GPU KV cache usage: {gauges.kv_usage:.1%},"
                    f" Prefix cache hit rate: {hits:.1%}",
                )
            before, quiet = totals, idle
