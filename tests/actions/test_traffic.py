"""The truth about one request, for each way in which a real server was seen to treat it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until
from tui.actions.client import Client
from tui.actions.plan import Traffic
from tui.actions.sse import Stream
from tui.actions.traffic import OwnRequest, Requests
from tui.model.settings import EngineTarget

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PLAIN = Traffic(path="/v2/models/simple/generate", body='{"text_input": "x"}', streaming=False)


def event(text: str | None = "one ", reason: str | None = None, **more: Any) -> bytes:
    choices = [] if text is None else [{"index": 0, "text": text, "finish_reason": reason}]
    return chunk(b"data: " + json.dumps({"choices": choices, **more}).encode() + b"\n\n")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


DONE, END = chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"


def says(*parts: bytes, forever: bool = False) -> Answer:
    """Write these, then close, or keep the connection open without a word."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if forever:
            await asyncio.Event().wait()

    return answer


class Server:
    """Answers every request the same way, and keeps what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.bodies: list[bytes] = []
        self.heads: list[str] = []
        self.open = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
            self.bodies.append(await reader.readexactly(length))
            answering = asyncio.ensure_future(self.answer(writer))
            gone = asyncio.ensure_future(reader.read(1))
            await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
            answering.cancel()
            gone.cancel()
            await asyncio.gather(answering, gone, return_exceptions=True)
        finally:
            self.open -= 1
            writer.close()


@contextlib.asynccontextmanager
async def requests_to(
    answer: Answer, traffic: Traffic | None = None, *, base: str = "", **settings: Any
) -> AsyncIterator[tuple[Requests, Server]]:
    server = Server(answer)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    client = Client(EngineTarget(f"http://127.0.0.1:{server.port}{base}", **settings))
    await client.prepare()
    requests = Requests(client, "vllm", traffic or Traffic(model="m"), lambda _request: None)
    try:
        yield requests, server
    finally:
        await requests.close()
        await client.close()
        listening.close()
        await until(lambda: server.open == 0, 5, "the end of every connection")


async def fate(answer: Answer, traffic: Traffic | None = None) -> OwnRequest:
    async with requests_to(answer, traffic) as (requests, _):
        request = requests.send("in_flight", 8, deadline_s=5.0)
        await until(lambda: not request.open, 6)
    return request


STREAMS: dict[str, tuple[Answer, str, int | None, str | None, int | None]] = {
    "ends by its length": (says(HEAD, event(), event(reason="length"), DONE, END), "finished", 200, "length", 2),
    "ends by itself": (says(HEAD, event(), event("", "stop"), DONE, END), "finished", 200, "stop", 1),
    "usage tells more than pieces": (
        says(HEAD, event(), event(reason="length"), event(None, usage={"completion_tokens": 7}), DONE, END),
        "finished", 200, "length", 7,
    ),
    "closed after [DONE], not in form": (says(HEAD, event(reason="stop"), DONE), "finished", 200, "stop", 1),
    "closed in the middle": (says(HEAD, event(), event()), "cut", 200, None, 2),
    "accepted and closed": (says(), "cut", None, None, None),
    "ended in form without a reason": (says(HEAD, event(), END), "cut", 200, None, 1),
    "aborted with 200": (says(HEAD, event(), event("", "abort"), DONE, END), "aborted", 200, "abort", 1),
    "an error in the stream, and [DONE]": (
        says(HEAD, event(), chunk(b'data: {"error": {"code": 500}}\n\n'), DONE, END), "aborted", 200, None, 1,
    ),
    "SGLang's error in the stream": (
        says(HEAD, chunk(b'data: {"object": "error", "message": "x"}\n\n'), DONE, END), "aborted", 200, None, 0,
    ),
    "turned away": (says(b"HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\n{}"), "error", 500, None, None),
    "no HTTP": (says(b"SSH-2.0-x\r\n"), "cut", None, None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
async def test_streams(name: str) -> None:
    answer, outcome, status, reason, tokens = STREAMS[name]
    found = await fate(answer)
    assert (found.outcome, found.http_status, found.finish_reason, found.tokens) == (
        outcome, status, reason, tokens,
    )  # fmt: skip
    assert found.ended is not None and found.ended >= found.started


@pytest.mark.parametrize(
    ("answer", "outcome", "status"),
    [
        (says(b"HTTP/1.1 200 X\r\ncontent-length: 4\r\n\r\n{} \n"), "finished", 200),
        (says(b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\n{}"), "cut", 200),
        (says(), "cut", None),
        (says(b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n"), "error", 503),
    ],
)
async def test_plain_requests(answer: Answer, outcome: str, status: int | None) -> None:
    found = await fate(answer, PLAIN)
    assert (found.outcome, found.http_status) == (outcome, status)
    assert (found.finish_reason, found.tokens, found.tokens_wanted) == (None, None, None)


async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        target = EngineTarget(f"http://127.0.0.1:{free.getsockname()[1]}")
        client = Client(target)
        await client.prepare()
        requests = Requests(client, "vllm", Traffic(), lambda _request: None)
        request = requests.send("new", 2)
        await until(lambda: not request.open, 5)
        await client.close()
    assert (request.outcome, request.http_status) == ("refused", None)


async def test_a_silent_stream_stays_open_until_we_hang_up() -> None:
    async with requests_to(says(HEAD, event(), forever=True)) as (requests, server):
        request = requests.send("in_flight", 8)
        await until(lambda: request.tokens == 1, 5)
        assert request.last_byte is not None
        assert not request.silent(request.last_byte + 4.9, at_most_s=15)
        assert request.silent(request.last_byte + 5.0, at_most_s=15)
        assert request.silent(request.last_byte + 1.0, at_most_s=1.0)
        requests.hang_up(request, "silent")
        await until(lambda: server.open == 0, 5, "the closing of the connection")
        requests.hang_up(request, "timeout")
    assert (request.outcome, request.http_status, request.tokens) == ("silent", 200, 1)


def test_a_slow_stream_is_not_a_silent_one() -> None:
    slow = OwnRequest(1, "in_flight", 0.0, 8, last_byte=10.0, longest_gap=3.0)
    assert not slow.silent(21.9, at_most_s=15)
    assert slow.silent(22.0, at_most_s=15)


async def test_an_unanswered_request_ends_at_its_deadline() -> None:
    async with requests_to(says(forever=True)) as (requests, server):
        request = requests.send("new", 2, deadline_s=0.1)
        await until(lambda: not request.open, 5)
        await until(lambda: server.open == 0, 5, "the closing of the connection")
    assert (request.outcome, request.http_status) == ("timeout", None)


async def test_closing_leaves_no_connection() -> None:
    async with requests_to(says(HEAD, forever=True)) as (requests, server):
        sent = [requests.send("in_flight", 8) for _ in range(4)]
        await until(lambda: len(server.bodies) == 4, 5)  # one that is not sent yet ends with the client
        requests.forget(sent[0])
        await requests.close()
        await until(lambda: server.open == 0, 5, "the closing of the connections")
    assert [request.outcome for request in requests.sent] == ["timeout"] * 3


async def test_what_is_asked_for() -> None:
    answer = says(HEAD, event(reason="length"), DONE, END)
    async with requests_to(answer, Traffic(model="llama")) as (requests, server):
        for _ in range(2):
            requests.send("in_flight", 77)
        await until(lambda: not any(r.open for r in requests.sent), 5)
    bodies = [json.loads(body) for body in server.bodies]
    assert bodies[0]["prompt"] != bodies[1]["prompt"]  # a cache must not shorten them
    assert {k: bodies[0][k] for k in ("model", "max_tokens", "stream", "ignore_eos")} == {
        "model": "llama", "max_tokens": 77, "stream": True, "ignore_eos": True,
    }  # fmt: skip
    assert all(head.startswith("POST /v1/completions HTTP/1.1") for head in server.heads)


async def test_a_plain_body_goes_as_it_is() -> None:
    async with requests_to(says(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n"), PLAIN) as (requests, server):
        request = requests.send("in_flight", 77)
        await until(lambda: not request.open, 5)
    assert server.bodies == [PLAIN.body.encode()]
    assert server.heads[0].startswith(f"POST {PLAIN.path} ")


@pytest.mark.parametrize("discovered", [False, True])
async def test_the_token_goes_to_a_named_target_alone(discovered: bool) -> None:
    answer = says(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n")
    settings = {"token": "s3", "headers": {"X-Team": "a"}, "discovered": discovered}
    async with requests_to(answer, PLAIN, base="/base", **settings) as (requests, server):
        request = requests.send("new", 2)
        await until(lambda: not request.open, 5)
    assert ("Bearer s3" in server.heads[0]) is not discovered
    assert "x-team: a" in server.heads[0].lower()
    assert server.heads[0].startswith(f"POST /base{PLAIN.path} ")


def test_events_cut_anywhere_are_read_whole() -> None:
    body = b'data: {"choices":[{"text":"a"}]}\r\n\r\n: ping\n\ndata: {"choices":[{"text":"b","finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    stream = Stream()
    for at in range(len(body)):
        stream.feed(body[at : at + 1])
    assert (stream.tokens, stream.finish_reason, stream.done, stream.error) == (2, "stop", True, False)


@pytest.mark.parametrize(
    "text", [b"{", b"[]", b"1", b'{"choices":[]}', b'{"choices":[7],"usage":9}', b'"x"', b""]
)
def test_hostile_events_change_nothing(text: bytes) -> None:
    stream = Stream()
    stream.feed(b"data: " + text + b"\n")
    stream.feed(b"x" * ((1 << 20) + 1))
    stream.feed(b'\ndata: {"choices":[{"text":"a"}]}\n')
    assert (stream.tokens, stream.finish_reason, stream.done, stream.error) == (1, None, False, False)


def test_rows_have_times_from_the_action_on() -> None:
    request = OwnRequest(3, "new", 100.0, 2, ended=103.0004, outcome="finished", http_status=200, tokens=2)
    assert request.row(None)["started_s"] is None
    row = request.row(101.5)
    assert (row["started_s"], row["ended_s"]) == (-1.5, 1.5)
    assert list(row) == [
        "id", "kind", "started_s", "ended_s", "outcome", "http_status", "finish_reason", "tokens",
        "tokens_wanted",
    ]  # fmt: skip
