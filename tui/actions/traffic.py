"""The requests of a test, and the truth about each of them.

Times are seconds of the test's monotonic clock. What a request met is one of:

- ``finished``: the engine gave a reason (stop or length) and ended the answer in order; a plain request:
  status 200 and a whole body.
- ``cut``: the connection was closed, or the answer ended, before that.
- ``silent``: open, and no byte came for as long as the test waits; we hung up.
- ``aborted``: the engine ended it early and said so (finish reason abort, or an error in the stream).
- ``refused``: no connection. ``error``: status 400 or above. ``timeout``: it still ran, or no answer came,
  when the test could wait no longer.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import httpx

from tui.actions import client as http
from tui.actions.sse import Stream
from tui.sources.deadline import within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tui.actions.client import Client
    from tui.actions.plan import Traffic
    from tui.model.readings import EngineKind

Outcome = Literal["finished", "cut", "silent", "aborted", "refused", "error", "timeout"]
Kind = Literal["in_flight", "new"]

NEW_TOKENS = 2
NEW_DEADLINE_S = 5.0
SILENCE_S = 5.0
SILENCE_FACTOR = 4.0
"""A stream is silent after 5 s without a byte, or 4 times the longest wait that it had before, if that is
more; never later than the grace period's half."""
FEW_TOKENS = 3
"""Of fewer there is no rate."""
GOOD_REASONS = ("stop", "length")
_IGNORE_EOS = ("vllm", "sglang", "trtllm")
_PROMPT = "Request {number} of a test: count from one as far as you can. One, two, three,"
_SHARED = "The following rules hold for every answer of this service, whoever asks and whatever for. " * 40
"""Some 600 tokens: worth a cache."""
SHARED_PROMPTS = 4


@dataclass(slots=True)
class OwnRequest:
    """One request of ours."""

    id: int
    kind: Kind
    started: float
    tokens_wanted: int | None
    """None of a plain request: its body says what it wants."""
    ended: float | None = None
    outcome: Outcome | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    tokens: int | None = None
    first_byte: float | None = None
    last_byte: float | None = None
    longest_gap: float = 0.0

    @property
    def open(self) -> bool:
        """It has not ended."""
        return self.outcome is None

    def silent(self, now: float, at_most_s: float) -> bool:
        """Whether no byte has come for so long that none is to be expected."""
        patience = min(at_most_s, max(SILENCE_S, SILENCE_FACTOR * self.longest_gap))
        return self.open and now - (self.last_byte or self.started) >= patience

    def rate(self) -> float | None:
        """Tokens a second since the first; None before there are a few."""
        if self.first_byte is None or self.last_byte is None or (self.tokens or 0) < FEW_TOKENS:
            return None
        took = self.last_byte - self.first_byte
        return ((self.tokens or 0) - 1) / took if took > 0 else None

    def row(self, action: float | None) -> dict[str, Any]:
        """As in the report; times are null while there was no action."""
        return {
            "id": self.id,
            "kind": self.kind,
            "started_s": since(action, self.started),
            "ended_s": since(action, self.ended),
            "outcome": self.outcome,
            "http_status": self.http_status,
            "finish_reason": self.finish_reason,
            "tokens": self.tokens,
            "tokens_wanted": self.tokens_wanted,
        }


def since(action: float | None, at: float | None) -> float | None:
    """Seconds from the action to an instant, to the millisecond."""
    return None if action is None or at is None else round(at - action, 3)


class Requests:
    """Sends requests and keeps what became of each.

    Args:
        client: over which they go.
        engine: whose options it knows.
        traffic: what they ask for.
        changed: called when one began or ended.
    """

    def __init__(
        self, client: Client, engine: EngineKind, traffic: Traffic, changed: Callable[[OwnRequest], None]
    ) -> None:
        self.sent: list[OwnRequest] = []
        """Those that count, in the order in which they began."""
        self._client, self._engine, self._traffic, self._changed = client, engine, traffic, changed
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._number = 0

    def send(self, kind: Kind, tokens: int, *, deadline_s: float | None = None) -> OwnRequest:
        """Begin one; it ends by itself, by ``hang_up`` or at its deadline."""
        self._number += 1
        streaming = self._traffic.streaming
        request = OwnRequest(self._number, kind, time.monotonic(), tokens if streaming else None)
        self.sent.append(request)
        work = self._run(request, self._body(self._number, tokens), deadline_s)
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[request.id] = task
        task.add_done_callback(lambda _done: self._tasks.pop(request.id, None))
        self._changed(request)
        return request

    def hang_up(self, request: OwnRequest, outcome: Outcome) -> None:
        """Close its connection, if it is open still."""
        if request.open:
            self._end(request, outcome)
            if (task := self._tasks.get(request.id)) is not None:
                task.cancel()

    def forget(self, request: OwnRequest) -> None:
        """Hang up one that shall not count, because another took its place before the action."""
        self.sent.remove(request)
        self.hang_up(request, "timeout")

    async def close(self) -> None:
        """Hang up all, and wait until their connections are closed."""
        for request in self.sent:
            self.hang_up(request, "timeout")
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2.0)

    def of(self, kind: Kind) -> list[OwnRequest]:
        """Those of one kind that count."""
        return [request for request in self.sent if request.kind == kind]

    # ------------------------------------------------------------------------------ one request

    def _body(self, number: int, tokens: int) -> bytes:
        traffic = self._traffic
        if traffic.body:
            return traffic.body.encode()
        prompt = _PROMPT.format(number=number)
        if traffic.prefix_heavy:
            prompt = f"Department {number % SHARED_PROMPTS}. {_SHARED}{prompt}"
        fields: dict[str, Any] = {"prompt": prompt, "max_tokens": tokens, "stream": traffic.streaming}
        if traffic.model:
            fields["model"] = traffic.model
        if traffic.streaming:
            options = {"include_usage": True}
            if self._engine == "vllm":
                options["continuous_usage_stats"] = True  # the count is exact even where a stream breaks off
            fields["stream_options"] = options
        if self._engine in _IGNORE_EOS:
            fields["ignore_eos"] = True
        return json.dumps(fields).encode()

    async def _run(self, request: OwnRequest, body: bytes, deadline_s: float | None) -> None:
        try:
            await within(deadline_s, self._exchange(request, body))
        except asyncio.TimeoutError:
            self._end(request, "timeout")
        except httpx.HTTPError as error:
            self._end(request, "refused" if http.refused(error) else "cut")

    async def _exchange(self, request: OwnRequest, body: bytes) -> None:
        stream = Stream()
        async with self._client.post(self._traffic.path, body) as (status, pieces):
            request.http_status = status
            request.tokens = 0 if self._traffic.streaming and status < 400 else None
            try:
                await self._read(request, stream, pieces)
            except httpx.HTTPError:
                if not stream.done:  # after [DONE] only the formal end of the body is missing
                    raise
            finally:
                request.finish_reason = stream.finish_reason
            self._end(request, self._judge(request, stream))

    async def _read(self, request: OwnRequest, stream: Stream, pieces: AsyncIterator[bytes]) -> None:
        streaming = self._traffic.streaming
        async for piece in pieces:
            now = time.monotonic()
            if request.last_byte is not None:
                request.longest_gap = max(request.longest_gap, now - request.last_byte)
            request.first_byte = request.first_byte or now
            request.last_byte = now
            if streaming and request.tokens is not None:
                stream.feed(piece)
                request.tokens = stream.tokens

    def _judge(self, request: OwnRequest, stream: Stream) -> Outcome:
        """Of an answer that ended in order."""
        if request.http_status is not None and request.http_status >= 400:
            return "error"
        if not self._traffic.streaming:
            return "finished"
        if stream.error or stream.finish_reason not in (*GOOD_REASONS, None):
            return "aborted"
        return "finished" if stream.finish_reason is not None else "cut"

    def _end(self, request: OwnRequest, outcome: Outcome) -> None:
        if request.open:
            request.outcome, request.ended = outcome, time.monotonic()
            self._changed(request)


def unbegun(requests: list[OwnRequest], streaming: bool) -> list[OwnRequest]:
    """Those that have neither begun to answer nor ended; a plain one shows nothing before its end."""
    return [request for request in requests if streaming and request.open and request.first_byte is None]
