"""The API server's HTTP: what each route answers, what clients may do to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.demo.clients import ask, complete, request_bytes
from tests.demo.running import running, until
from tui.demo.http import JSON, Exchange, HttpServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.demo.running import Running

_KEY = "authorization: Bearer secret\r\n"


async def test_vllm_routes(tmp_path: Path) -> None:
    """As `http.md` has them: what is open, what needs the key, what does not exist."""
    async with running(tmp_path / "log", decode_step_s=0.002, api_key="secret") as engine:
        url = engine.url
        got = {path: await ask(url, path) for path in ("/health", "/health/", "/ping", "/version", "/load")}
        assert {reply.result for reply in got.values()} == {"200"}
        assert got["/health"].body == b"" and got["/version"].json == {"version": "0.32.0"}
        assert all(reply.headers["x-infertop-simulated"] == "1" for reply in got.values())
        assert (await ask(url, "/v1/models")).result == "401"
        models = await ask(url, "/v1/models", headers=_KEY)
        assert models.json["data"][0]["id"] == "demo-8b" and models.json["data"][0]["owned_by"] == "vllm"
        head = await ask(url, "/health", method="HEAD")
        assert (head.result, head.headers["allow"]) == ("405", "GET")
        assert (await ask(url, "/healthz")).result == (await ask(url, "/server_info")).result == "404"
        assert (await ask(url, "/v1/completions", headers=_KEY)).result == "405"
        metrics = await ask(url, "/metrics")
        assert metrics.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
        text = metrics.body.decode()
        assert 'http_requests_total{handler="none",method="GET",status="4xx"} 1.0' in text
        assert 'http_requests_total{handler="/v1/models",method="GET",status="2xx"} 1.0' in text
        assert 'handler="/health"' not in text
        assert 'GET /version HTTP/1.1" 200 OK' in engine.log


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"{bad", "400", "Bad Request"),
        (b"[]", "400", "Bad Request"),
        ({}, "400", "Bad Request"),
        ({"prompt": "x", "model": "nope"}, "404", "NotFoundError"),
        ({"prompt": "x", "max_tokens": -1}, "400", "BadRequestError"),
        ({"prompt": "x", "max_tokens": True}, "400", "BadRequestError"),
        ({"prompt": "x", "max_tokens": 4096}, "400", "BadRequestError"),
        ({"prompt": "x" * 20000}, "400", "BadRequestError"),
        ({"prompt": [1, "x"]}, "400", "Bad Request"),
    ],
)
def test_requests_that_vllm_refuses(body: Any, status: str, kind: str) -> None:
    import json
    import random

    from tui.demo.completions import RefusedError, error_body, parse
    from tui.demo.spec import EngineSpec

    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(RefusedError) as caught:
        parse(raw, chat=False, spec=EngineSpec(), rng=random.Random())
    fields = error_body("vllm", caught.value)["error"]
    assert (str(fields["code"]), fields["type"]) == (status, kind)


async def test_vllm_completions(tmp_path: Path) -> None:
    async with running(tmp_path / "log", decode_step_s=0.002, max_num_queued_reqs=3) as engine:
        url = engine.url
        plain = (await ask(url, "/v1/completions", {"prompt": "x", "max_tokens": 5, "ignore_eos": True})).json
        assert plain["choices"][0]["finish_reason"] == "length" and plain["usage"]["completion_tokens"] == 5
        assert plain["choices"][0]["text"] and plain["object"] == "text_completion"
        chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "ignore_eos": True}
        answer = (await ask(url, "/v1/chat/completions", chat)).json
        assert (
            answer["choices"][0]["message"]["role"] == "assistant" and answer["object"] == "chat.completion"
        )
        stream = {**chat, "stream": True, "stream_options": {"include_usage": True}}
        events = (await ask(url, "/v1/chat/completions", stream)).body.decode().split("\n\n")
        assert len(events) == 4 + 3 and '"delta":{"content":' in events[0]
        assert '"completion_tokens":4' in events[4] and events[5] == "data: [DONE]"
        natural = (await ask(url, "/v1/completions", {"prompt": "x", "max_tokens": 4000})).json
        assert natural["choices"][0]["finish_reason"] == "stop"
        # slow from here on: the requests that fill the queue must outlast a busy machine's pauses
        engine.supervisor.order({"do": "set", "decode_step_s": 0.1})
        await _admission_limit(engine)


async def _admission_limit(engine: Running) -> None:
    """Refused with 503; a stream says 200 and carries the error."""
    url = engine.url
    busy = [asyncio.create_task(complete(url, 3000)) for _ in range(3)]
    await until(
        lambda: engine.supervisor.load.running == 3
    )  # else one of ours takes the place of one of them

    for _ in range(500):
        if (await ask(url, "/v1/completions", {"prompt": "x", "max_tokens": 2})).result == "503":
            break
    assert (await complete(url, 5)).key == (200, "ERROR-EVENT", True, "")
    text = (await ask(url, "/metrics")).body.decode()
    assert 'vllm:admission_rejections_total{model_name="demo-8b",reason="max_num_queued_reqs"} 2.0' in text
    for task in busy:
        task.cancel()
    await asyncio.gather(*busy, return_exceptions=True)


async def test_sglang_routes(tmp_path: Path) -> None:
    async with running(tmp_path / "log", dialect="sglang", sigterm="drain-serve", time_scale=0.1) as engine:
        url = engine.url
        assert (await ask(url, "/version")).result == "404"
        assert (await ask(url, "/")).json == "SGLang is running"
        assert (await ask(url, "/v1/models")).json["data"][0]["owned_by"] == "sglang"
        loads = (await ask(url, "/v1/loads")).json
        assert loads["version"] == "0.5.23" and loads["loads"][0]["max_running_requests"] == 64
        assert loads["loads"][0]["queues"]["waiting"] == 0
        assert "queues" not in (await ask(url, "/v1/loads?include=core")).json["loads"][0]
        assert (await ask(url, "/server_info")).json["max_total_num_tokens"] == 131072
        assert (await ask(url, "/get_model_info")).json["is_generation"] is True
        assert (await ask(url, "/health")).result == (await ask(url, "/ready")).result == "200"
        any_model = {"model": "whatever", "prompt": "x", "max_tokens": 2, "ignore_eos": True}
        assert (await ask(url, "/v1/completions", any_model)).json["model"] == "whatever"
        bad = await ask(url, "/v1/completions", {"prompt": "x", "max_tokens": 5000})
        assert bad.result == "400" and bad.json["object"] == "error"
        text = (await ask(url, "/metrics")).body.decode()
        assert 'sglang:http_responses_total{endpoint="/version",method="GET",status_code="404"} 1.0' in text
        assert (
            'sglang:num_requests_total{engine_type="unified",is_streaming="false",model_name="demo-8b"} 2.0'
            in text
        )


LONG = "word " * 1000
"""About a thousand tokens, which is 0.0075 of the cache."""


async def until_shown(url: str, family: str, within_s: float = 20.0) -> None:
    """Gauges and counters come in reports of their own: one may be a report behind the other."""
    ends_s = time.monotonic() + within_s
    while family not in (await ask(url, "/metrics")).body.decode():
        assert time.monotonic() < ends_s, f"no {family} within {within_s} s"


@pytest.mark.parametrize("dialect", ["vllm", "sglang"])
async def test_a_client_that_hangs_up_frees_its_seat(tmp_path: Path, dialect: str) -> None:
    """The request is forgotten: counted as aborted by SGLang, by vLLM not at all."""
    async with running(tmp_path / "log", dialect=dialect) as engine:
        client = asyncio.create_task(complete(engine.url, 2000, prompt=LONG))
        # whatever else runs may be the server's own warm-up: only the client's prompt is this long
        await until(lambda: engine.supervisor.load.kv_usage > 0.005)
        client.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await client
        await until(lambda: engine.supervisor.load.running == 0)
        if dialect == "vllm":
            text = (await ask(engine.url, "/metrics")).body.decode()
            assert (
                'request_success_total{engine="0",finished_reason="abort",model_name="demo-8b"} 0.0' in text
            )
        else:
            await until_shown(engine.url, "sglang:num_aborted_requests_total")


async def test_requests_that_arrive_in_a_hang_show_in_no_gauge(tmp_path: Path) -> None:
    async with running(tmp_path / "log") as engine:
        busy = asyncio.create_task(complete(engine.url, 100))
        await until(lambda: engine.supervisor.load.running == 1)
        engine.supervisor.order({"do": "hang"})
        late = [asyncio.create_task(complete(engine.url, 5)) for _ in range(3)]
        before = await _counters(engine.url)
        await until(lambda: time.monotonic() - engine.supervisor.load.at_s > 0.4)
        after = await _counters(engine.url)
        assert before == after and "vllm:num_requests_running 1.0" in after
        engine.supervisor.order({"do": "resume"})
        assert {(await task).key for task in (busy, *late)} == {(200, "length", True, "")}


async def test_health_can_be_made_slow(tmp_path: Path) -> None:
    async with running(tmp_path / "log") as engine:
        engine.supervisor.order({"do": "set", "health_delay_s": 0.4})
        for _ in range(200):
            began_s = time.monotonic()
            assert (await ask(engine.url, "/health")).result == "200"
            if (took_s := time.monotonic() - began_s) > 0.35:
                break
        assert took_s > 0.35
        quickest_s = 9.0
        for _ in range(5):  # the other routes are not slowed: one prompt answer proves it on a busy machine
            began_s = time.monotonic()
            assert (await ask(engine.url, "/v1/models")).result == "200"
            quickest_s = min(quickest_s, time.monotonic() - began_s)
        assert quickest_s < 0.35


async def _counters(url: str) -> set[str]:
    """The engine's own figures, without the labels."""
    lines = (await ask(url, "/metrics")).body.decode().splitlines()
    return {
        f"{line.partition('{')[0]} {line.rpartition(' ')[2]}" for line in lines if line.startswith("vllm:")
    }


# ------------------------------------------------------------------------------ the server itself


@contextlib.asynccontextmanager
async def _serving() -> AsyncIterator[tuple[int, list[Exchange]]]:
    seen: list[Exchange] = []

    def handle(exchange: Exchange) -> None:
        seen.append(exchange)
        if exchange.path != "/silent":
            exchange.respond(200, exchange.body or b"ok", JSON)

    server = HttpServer(handle)
    sock = socket.create_server(("127.0.0.1", 0))
    await server.start(sock)
    try:
        yield sock.getsockname()[1], seen
    finally:
        server.stop_listening()
        for connection in list(server.connections):
            connection.close()


async def _raw(port: int, data: bytes, size: int = 65536) -> bytes:
    """What comes back until the server closes or nothing more is due."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(size), 5.0)
    finally:
        writer.close()


async def test_a_connection_is_kept_and_requests_may_be_pipelined() -> None:
    async with _serving() as (port, seen):
        one = b"POST /a?q=1 HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for piece in (
            one[:10],
            one[10:60],
            one[60:] + one * 500 + b"GET /last HTTP/1.1\r\nconnection: close\r\n\r\n",
        ):
            writer.write(piece)
            await writer.drain()
        answers = await asyncio.wait_for(reader.read(), 5.0)
        assert answers.count(b"HTTP/1.1 200 OK") == 502
        assert answers.endswith(b"\r\n\r\nok") and b"connection: close" in answers
        assert (seen[0].path, seen[0].query, seen[0].body) == ("/a", "q=1", b"hi")
        writer.close()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nbroken\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\ncontent-length: x\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", b"413"),
        (b"GET / HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", b"411"),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 70000, b"431"),
    ],
)
async def test_what_is_no_request_is_refused(data: bytes, status: bytes) -> None:
    async with _serving() as (port, seen):
        answer = await _raw(port, data)
        assert answer.split(b" ")[1] == status and b"X-Infertop-Simulated: 1" in answer
        assert not seen


async def test_expect_continue_is_answered() -> None:
    async with _serving() as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        writer.write(b"hi")
        assert (await reader.readuntil(b"hi")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_a_hang_up_is_told_once() -> None:
    async with _serving() as (port, seen):
        told: list[str] = []
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes("/silent"))
        await until(lambda: bool(seen))
        seen[0].on_hangup = lambda: told.append("hangup")
        seen[0].on_done = lambda: told.append("done")
        writer.close()
        await until(lambda: len(told) == 2)
        seen[0].respond(200)
        seen[0].finish()
        assert told == ["hangup", "done"] and not seen[0].open
