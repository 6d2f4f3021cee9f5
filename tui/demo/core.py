"""The engine core (SGLang: scheduler) process: runs the scheduler on the real clock.

It really is where the engine's work happens: stop it and every counter stands still, kill it and the
API server has nothing left to serve with, orphan it and it goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from tui.demo.log import EngineLog
from tui.demo.process import Inherited, die_with_parent, inherited_spec_json, set_title, spawn_module
from tui.demo.scheduler import Request, Scheduler
from tui.demo.spec import EngineSpec
from tui.demo.updates import Update
from tui.demo.worker import ORPHANED, PING

if TYPE_CHECKING:
    import subprocess

_FLUSH_S = 0.02  # tokens are told at most this late: one write for many requests
_CATCH_UP_S = 0.25  # a step later than this was held up (SIGSTOP): its time is not made good
_PING_S = 0.01  # a stopped worker holds up the next step, or the one after it
_HEARTBEAT_S = 0.25
_LINE_LIMIT = 64 * 1024 * 1024


def main() -> None:
    """Run the core: ``REQUEST_FD UPDATE_FD TITLED_S READY_S`` in the arguments (monotonic times)."""
    spec = EngineSpec.from_json(inherited_spec_json())
    requests = socket.socket(fileno=int(sys.argv[1]))
    updates = requests if sys.argv[2] == sys.argv[1] else socket.socket(fileno=int(sys.argv[2]))
    core = Core(spec, requests, updates, Inherited.from_environment())
    core.load(float(sys.argv[3]), float(sys.argv[4]))
    os._exit(core.run())


class Core:
    """The scheduler's loop, its links and its end."""

    def __init__(
        self, spec: EngineSpec, requests: socket.socket, updates: socket.socket, inherited: Inherited
    ) -> None:
        self._spec = spec
        self._requests, self._updates = requests, updates
        self._inherited = inherited
        self._log = EngineLog(spec.dialect, "EngineCore")
        self._scheduler = Scheduler(spec)
        self._selector = selectors.DefaultSelector()
        self._workers: list[tuple[subprocess.Popen[bytes], socket.socket]] = []
        self._pinged_s = 0.0
        self._unanswered: set[int] = set()
        self._step_ends_s: float | None = None
        self._update = Update()
        self._flushed_s = 0.0
        self._inbox, self._outbox = bytearray(), bytearray()
        self._orphan_ends_s: float | None = None
        self._draining = False
        self._teardown_s: float | None = None
        self._exit_code: int | None = None

    # ------------------------------------------------------------------------------ start

    def load(self, titled_s: float, ready_s: float) -> None:
        """Start up as the real core does: anonymous first, then titled, then with workers."""
        spec, log = self._spec, self._log
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if spec.dialect == "sglang":
            die_with_parent()
        wake, wake_writer = socket.socketpair()
        wake_writer.setblocking(False)
        signal.set_wakeup_fd(wake_writer.fileno())
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self._wake = wake, wake_writer
        time.sleep(max(0.0, titled_s - time.monotonic()))
        if spec.dialect == "vllm":
            set_title("VLLM::EngineCore")
            log.info(
                "core.py:133",
                f"Initializing a V1 LLM engine (v{spec.version}) with config: model='{spec.model}'",
            )
            self._start_workers(ready_s)
            log.info("kv_cache_utils.py:2327", f"GPU KV cache size: {spec.kv_tokens:,} tokens")
            concurrency = spec.kv_tokens / spec.max_model_len
            log.info(
                "kv_cache_utils.py:2332",
                f"Maximum concurrency for {spec.max_model_len:,} tokens per request: {concurrency:.2f}x",
            )
            log.info("core.py:402", "init engine (profile, create kv cache, warmup model) took 0.01 s")
        else:
            set_title("sglang::scheduler")
            log.info("", "Load weight begin. avail mem=78.60 GB")
            time.sleep(max(0.0, ready_s - time.monotonic()))
            log.info("", "Load weight end. elapsed=0.08 s, type=LlamaForCausalLM, avail mem=63.14 GB")
            log.info("", f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {spec.kv_tokens}")
            log.info(
                "",
                f"max_total_num_tokens={spec.kv_tokens}, chunked_prefill_size={spec.max_num_batched_tokens},"
                f" max_running_requests={spec.max_num_seqs}, context_len={spec.max_model_len}",
            )

    def _start_workers(self, ready_s: float) -> None:
        for rank in range(self._spec.tensor_parallel_size):
            mine, theirs = socket.socketpair()
            arguments = (str(theirs.fileno()), str(rank), str(ready_s))
            process = spawn_module(
                "worker", self._inherited, self._spec.to_json(), [theirs.fileno()], *arguments
            )
            theirs.close()
            self._workers.append((process, mine))
        for _, channel in self._workers:
            channel.recv(1)  # the worker is up, or gone: the loop below notices

    # ------------------------------------------------------------------------------ loop

    def run(self) -> int:
        """Serve until told to stop, or until something this process needs is gone.

        Returns:
            The exit status: 1 after a worker's death.
        """
        self._requests.setblocking(False)
        self._updates.setblocking(False)
        self._watch(self._requests, self._on_requests)
        self._watch(self._wake[0], lambda: self._wake[0].recv(64) and None)
        if self._inherited.leash >= 0:
            self._watch(self._inherited.leash, self._on_leash_cut)
        for rank, (_, channel) in enumerate(self._workers):
            self._watch(channel, lambda rank=rank: self._on_worker(rank))
        self._update.pids = dict(self._pids())
        self._flush(time.monotonic())
        while self._exit_code is None:
            for key, mask in self._selector.select(self._timeout()):
                if mask & selectors.EVENT_WRITE:
                    self._send()
                if mask & selectors.EVENT_READ:
                    key.data()
            self._advance(time.monotonic())
        return self._exit_code

    def _pids(self) -> list[tuple[str, int]]:
        core = "VLLM::EngineCore" if self._spec.dialect == "vllm" else "sglang::scheduler"
        return [
            (core, os.getpid()),
            *((f"VLLM::Worker_{i}", p.pid) for i, (p, _) in enumerate(self._workers)),
        ]

    def _watch(self, source: socket.socket | int, callback: Any) -> None:
        self._selector.register(source, selectors.EVENT_READ, callback)

    def _timeout(self) -> float | None:
        now = time.monotonic()
        due = [self._flushed_s + (_FLUSH_S if self._update.tokens else _HEARTBEAT_S)]
        due += [moment for moment in (self._orphan_ends_s, self._teardown_s) if moment is not None]
        if self._step_ends_s is not None and not self._unanswered:
            due.append(self._step_ends_s)
        return max(0.0, min(due) - now)

    def _advance(self, now: float) -> None:
        if self._orphan_ends_s is not None and now >= self._orphan_ends_s:
            self._exit_code = 0
        self._step(now)
        idle = self._step_ends_s is None
        if self._update.tokens and (idle or now - self._flushed_s >= _FLUSH_S):
            self._flush(now)
        elif now - self._flushed_s >= _HEARTBEAT_S:
            if idle:
                self._note_idle(now)
            self._flush(now)
        if self._draining and not self._scheduler.unfinished:
            self._tear_down(now)

    def _step(self, now: float) -> None:
        """End the step that is due and begin the next, as often as the clock asks for."""
        while not self._unanswered:  # a worker that owes an answer holds everything up
            if self._step_ends_s is None:
                duration = self._scheduler.begin_step(now)
                if duration is None:
                    return
                self._step_ends_s = now + duration
                self._ping(now)
            if now < self._step_ends_s:
                return
            ended_s = self._step_ends_s if now - self._step_ends_s < _CATCH_UP_S else now
            self._scheduler.end_step(ended_s, self._update)
            duration = self._scheduler.begin_step(ended_s)
            self._step_ends_s = None if duration is None else ended_s + duration
            if duration is None:
                return
            self._ping(now)

    def _ping(self, now: float) -> None:
        if now - self._pinged_s < _PING_S or self._unanswered:
            return
        self._pinged_s = now
        for rank, (_, channel) in enumerate(self._workers):
            with contextlib.suppress(OSError):  # its end is noticed by the reader
                channel.send(PING)
                self._unanswered.add(rank)

    def _note_idle(self, now: float) -> None:
        self._update.at_s = now
        self._update.gauges = self._scheduler.gauges()
        self._update.totals = self._scheduler.totals()

    # ------------------------------------------------------------------------------ links

    def _on_requests(self) -> None:
        try:
            data = self._requests.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_orphaned()
            return
        self._inbox += data
        *lines, rest = self._inbox.split(b"\n")
        self._inbox = bytearray(rest)
        now = time.monotonic()
        for line in lines:
            self._order(json.loads(line), now)

    def _order(self, order: dict[str, Any], now: float) -> None:
        if "add" in order:
            request_id, arrived_s, prompt, target, allowed, hashes = order["add"]
            self._scheduler.submit(Request(request_id, arrived_s, prompt, target, allowed, hashes), now)
        elif "abort" in order:
            self._scheduler.abort(order["abort"])
            if self._step_ends_s is None:
                self._note_idle(now)
        elif "set" in order:
            self._spec = EngineSpec.from_json(order["set"])
            self._scheduler.change(self._spec)

    def _flush(self, now: float) -> None:
        self._flushed_s = now
        if self._updates.fileno() >= 0 and len(self._outbox) < _LINE_LIMIT:
            self._outbox += self._update.encode()
            self._send()
        self._update = Update(self._update.at_s, gauges=self._update.gauges, totals=self._update.totals)

    def _send(self) -> None:
        try:
            sent = self._updates.send(self._outbox)
            del self._outbox[:sent]
        except BlockingIOError:
            pass
        except OSError:  # the API server is gone: the reader of requests notices
            self._outbox.clear()
        if self._updates is self._requests and self._updates in self._selector.get_map():
            mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outbox else 0)
            self._selector.modify(self._updates, mask, self._on_requests)

    def _on_worker(self, rank: int) -> None:
        _, channel = self._workers[rank]
        try:
            data = channel.recv(64)
        except OSError:
            data = b""
        if data:
            self._unanswered.discard(rank)
        else:
            log, where = self._log, "multiproc_executor.py"
            log.info(f"{where}:300", f"Worker proc VllmWorker-{rank} died unexpectedly", "ERROR")
            log.info(f"{where}:479", "[shutdown] Executor: waiting for worker exit count=0")
            log.info(f"{where}:486", "[shutdown] Executor: all workers exited gracefully")
            self._exit_code = 1

    # ------------------------------------------------------------------------------ ends

    def _on_sigterm(self, _signum: int, _frame: object) -> None:
        self._draining = True
        self._log.info("core.py:1454", "[shutdown] EngineCore: trigger received signal=SIGTERM")
        count = self._scheduler.unfinished
        timeout = f"{self._spec.shutdown_timeout_s:.0f}s"
        self._log.info("core.py:1635", f"[shutdown] EngineCore: start mode=drain timeout={timeout}")
        self._log.info(
            "core.py:1655",
            f"[shutdown] EngineCore: draining in-flight requests count={count} timeout={timeout}",
        )

    def _tear_down(self, now: float) -> None:
        """End the workers, then this process: the real one takes five seconds for it."""
        if self._teardown_s is None:
            self._log.info(
                "core.py:1700",
                "[shutdown] EngineCore: request processing complete; starting resource teardown",
            )
            self._teardown_s = now + self._spec.scaled(2.6 if self._workers else 0.0)
        elif now < self._teardown_s:
            return
        elif self._workers:
            for process, channel in self._workers:
                self._selector.unregister(channel)
                process.kill()
                process.wait()
            self._workers = []
            self._teardown_s = now + self._spec.scaled(2.6)
        else:
            self._exit_code = 0

    def _on_orphaned(self) -> None:
        """The API server is gone: go on without it, for as long as the supervisor lets orphans live."""
        self._selector.unregister(self._requests)
        self._requests.close()
        if self._updates is not self._requests:
            self._updates.close()
        if self._spec.dialect == "sglang" or self._inherited.leash_cut():
            self._exit_code = 0
        elif self._spec.keep_orphans_s > 0 and self._inherited.leash >= 0:
            self._orphan_ends_s = time.monotonic() + self._spec.keep_orphans_s
            self._selector.unregister(self._inherited.leash)
            self._inherited.let_go()
            for _, channel in self._workers:
                channel.send(ORPHANED)

    def _on_leash_cut(self) -> None:
        self._exit_code = 0
