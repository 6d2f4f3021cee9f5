"""Plain clients of a server on loopback: what one request met, and what a stream's reader saw."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tui.sources.deadline import within


@dataclass(slots=True)
class Reply:
    """What one request met: a status in text, or how the attempt failed."""

    result: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Fate:
    """What a completion's client saw, in the words of the captures."""

    status: int | None = None
    chunks: int = 0
    finish: str | None = None
    done: bool = False
    error: str | None = None
    ended_s: float = 0.0

    @property
    def key(self) -> tuple[int | None, str | None, bool, str]:
        return self.status, self.finish, self.done, self.error or ""


async def ask(
    url: str, path: str, body: Any = None, *, method: str = "", timeout_s: float = 5.0, headers: str = ""
) -> Reply:
    """One request on a connection of its own."""
    try:
        return await within(timeout_s, _ask(url, path, body, method, headers))
    except asyncio.TimeoutError:
        return Reply("timeout", {}, b"")
    except ConnectionRefusedError:
        return Reply("conn-refused", {}, b"")
    except OSError:
        return Reply("conn-reset", {}, b"")
    except asyncio.IncompleteReadError:
        return Reply("conn-reset", {}, b"")


async def _ask(url: str, path: str, body: Any, method: str, headers: str) -> Reply:
    async with _connected(url) as (reader, writer):
        writer.write(request_bytes(path, body, method, headers))
        status, fields = await _head(reader)
        if "chunked" in fields.get("transfer-encoding", ""):
            data = b"".join([piece async for piece in _chunks(reader)])
        elif method == "HEAD":
            data = b""
        else:
            data = await reader.readexactly(int(fields["content-length"]))
        return Reply(str(status), fields, data)


async def complete(
    url: str, tokens: int, *, stream: bool = True, silence_s: float = 30.0, prompt: str = "one two three"
) -> Fate:
    """A completion; its client leaves after ``silence_s`` without a byte."""
    body = {"prompt": prompt, "max_tokens": tokens, "stream": stream, "ignore_eos": True}
    fate = Fate()
    try:
        async with _connected(url) as (reader, writer):
            writer.write(request_bytes("/v1/completions", body))
            if stream:
                await _read_stream(reader, fate, silence_s)
            else:
                await within(silence_s, _read_whole(reader, fate))
    except asyncio.TimeoutError:
        fate.error = "silent"
    except (OSError, asyncio.IncompleteReadError):
        fate.error = "cut"
    fate.ended_s = time.monotonic()
    return fate


async def _read_whole(reader: asyncio.StreamReader, fate: Fate) -> None:
    status, fields = await _head(reader)
    answer = json.loads(await reader.readexactly(int(fields["content-length"])))
    fate.status = status
    if status == 200:
        fate.finish, fate.done = answer["choices"][0]["finish_reason"], True
        fate.chunks = answer["usage"]["completion_tokens"]


async def _read_stream(reader: asyncio.StreamReader, fate: Fate, silence_s: float) -> None:
    fate.status, _ = await within(silence_s, _head(reader))
    pieces = _chunks(reader)
    while True:
        piece = await within(silence_s, anext_or_none(pieces))
        if piece is None:
            return
        if piece == b"data: [DONE]\n\n":
            fate.done = True
            continue
        fate.chunks += 1
        event = json.loads(piece.removeprefix(b"data: "))
        if "error" in event:
            fate.finish = "ERROR-EVENT"
        elif event["choices"]:
            fate.finish = event["choices"][0]["finish_reason"]


async def anext_or_none(pieces: Any) -> bytes | None:
    try:
        piece: bytes = await pieces.__anext__()
    except StopAsyncIteration:
        return None
    return piece


@contextlib.asynccontextmanager
async def _connected(url: str) -> Any:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def request_bytes(path: str, body: Any = None, method: str = "", headers: str = "") -> bytes:
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    verb = method or ("GET" if body is None else "POST")
    return (
        f"{verb} {path} HTTP/1.1\r\nhost: loopback\r\nconnection: close\r\n{headers}"
        f"content-length: {len(data)}\r\n\r\n"
    ).encode() + data


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = [line.split(": ", 1) for line in lines[1:] if line]
    return int(lines[0].split(" ")[1]), {name.lower(): value for name, value in fields}


async def _chunks(reader: asyncio.StreamReader) -> Any:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
