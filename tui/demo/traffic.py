"""Traffic for the simulated engine, from a process of its own: rate, lengths, shared prefixes, hang-ups."""

from __future__ import annotations

import asyncio
import json
import os
import random
import stat
import sys
from dataclasses import dataclass, replace
from typing import Any

from tui.demo.process import Inherited, set_comm
from tui.sources.deadline import within

_MOST_IN_FLIGHT = 4096
_BYTES_PER_TOKEN = 4
_PREFIXES = 8


@dataclass(frozen=True, slots=True)
class TrafficSpec:
    """What to send.

    Attributes:
        rate: requests a second.
        prompt_tokens: mean prompt length.
        output_tokens: ``max_tokens`` of each request, on average.
        shared_prefix: share of a prompt that is one of a few common beginnings, 0-1.
        stream: share of streaming requests, 0-1.
        hangup: share of clients that leave half way, 0-1.
        spread: 1: they come at random (Poisson) and vary in length by half; 0: evenly, and all alike.
    """

    rate: float = 0.0
    prompt_tokens: int = 500
    output_tokens: int = 150
    shared_prefix: float = 0.5
    stream: float = 0.9
    hangup: float = 0.0
    spread: float = 1.0

    def changed(self, changes: dict[str, Any]) -> TrafficSpec:
        """A copy with some figures replaced; ValueError for one out of range."""
        spec = replace(self, **changes)
        shares = (spec.shared_prefix, spec.stream, spec.hangup, spec.spread)
        numbers = (spec.rate, spec.prompt_tokens, spec.output_tokens, *shares)
        if any(isinstance(number, bool) or not isinstance(number, (int, float)) for number in numbers):
            raise ValueError("traffic: every figure is a number")
        if not 0 <= spec.rate <= 10000 or spec.prompt_tokens < 1 or spec.output_tokens < 1:
            raise ValueError("traffic: rate 0-10000, lengths from 1")
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError("traffic: shares are 0-1")
        return spec


class Traffic:
    """Sends requests to one address until its process ends."""

    def __init__(self, host: str, port: int, model: str, token: str) -> None:
        self._host, self._port, self._model = host, port, model
        self._authorization = f"authorization: Bearer {token}\r\n" if token else ""
        self._spec = TrafficSpec()
        self._changed = asyncio.Event()
        self._clients: set[asyncio.Task[None]] = set()
        self._rng = random.Random()
        self._texts = ["".join(self._rng.choices("abcdefgh ", k=65536)) for _ in range(_PREFIXES)]
        self._inbox = bytearray()

    async def run(self) -> None:
        """Send until cancelled."""
        if stat.S_ISFIFO(os.fstat(0).st_mode):
            asyncio.get_running_loop().add_reader(0, self._on_order)
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            due_s = max(due_s, loop.time() - 1.0) + self._gap_s()
            if await self._changes_before(due_s):
                due_s = loop.time()
            elif len(self._clients) < _MOST_IN_FLIGHT:
                task = asyncio.create_task(self._client())
                self._clients.add(task)
                task.add_done_callback(self._clients.discard)

    def _gap_s(self) -> float:
        rate, spread = self._spec.rate, self._spec.spread
        return spread * self._rng.expovariate(rate) + (1 - spread) / rate if rate > 0 else float("inf")

    async def _changes_before(self, due_s: float) -> bool:
        """Wait for a moment; True, and at once, if the figures changed meanwhile."""
        left_s = due_s - asyncio.get_running_loop().time()
        try:
            await within(None if left_s == float("inf") else left_s, self._changed.wait())
        except asyncio.TimeoutError:
            return False
        self._changed.clear()
        return True

    def _on_order(self) -> None:
        data = os.read(0, 65536)
        if not data:  # the supervisor is gone
            os._exit(0)
        self._inbox += data
        *lines, rest = self._inbox.split(b"\n")
        self._inbox = bytearray(rest)
        for line in lines:
            self._spec = self._spec.changed(json.loads(line))
            self._changed.set()

    async def _client(self) -> None:
        """One request on a connection of its own; whatever goes wrong is the engine's affair."""
        writer = None
        try:
            reader, writer = await asyncio.open_connection(self._host, self._port)
            writer.write(self._request())
            leaves = self._rng.random() < self._spec.hangup
            while data := await reader.read(65536):
                if leaves and data:
                    await asyncio.sleep(self._rng.random())
                    break
        except OSError:
            pass
        finally:
            if writer is not None:
                writer.close()

    def _request(self) -> bytes:
        spec, rng = self._spec, self._rng
        least, most = 1 - spec.spread / 2, 1 + spec.spread / 2
        tokens = max(1, round(spec.prompt_tokens * rng.uniform(least, most)))
        shared = round(spec.prompt_tokens * spec.shared_prefix)
        length = tokens * _BYTES_PER_TOKEN
        prefix = rng.choice(self._texts)[: min(length, shared * _BYTES_PER_TOKEN)]
        start = rng.randrange(32768)
        own = f"{rng.random():.16f}" + self._texts[0][start : start + length]
        body = json.dumps(
            {
                "model": self._model,
                "prompt": (prefix + own)[:length],
                "max_tokens": max(1, round(spec.output_tokens * rng.uniform(least, most))),
                "stream": rng.random() < spec.stream,
            }
        ).encode()
        head = (
            f"POST /v1/completions HTTP/1.1\r\nhost: {self._host}:{self._port}\r\n{self._authorization}"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        return head.encode() + body


def main() -> None:
    """Run it: ``HOST PORT MODEL`` in the arguments, orders (JSON lines) on standard input."""
    Inherited.from_environment().join_group()
    set_comm("infertop-load")
    host, port, model = sys.argv[1], int(sys.argv[2]), sys.argv[3]

    async def run() -> None:
        await Traffic(host, port, model, os.environ.get("INFERTOP_DEMO_TOKEN", "")).run()

    asyncio.run(run())
