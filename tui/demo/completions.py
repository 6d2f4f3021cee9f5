"""OpenAI-style completion requests: what they ask for, and answers in the dialect's own shape."""

from __future__ import annotations

import json
import math
import random
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.demo.http import Exchange
    from tui.demo.spec import Dialect, EngineSpec

_BYTES_PER_TOKEN = 4
_SIGMA = 0.5  # spread of the lengths of answers that end by themselves
_WORDS = tuple(
    consonant + vowel + ending for consonant in ("b", "d", "f", "g", "k", "l", "m", "n") for vowel in "aeiou"
    for ending in ("", " ", "r ", "n")
)  # fmt: skip


class RefusedError(Exception):
    """A request that gets an error answer: its status and the body's fields."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param = status, message, kind, param


@dataclass(frozen=True, slots=True)
class Wanted:
    """A completion request, understood."""

    model: str
    chat: bool
    stream: bool
    include_usage: bool
    prompt_tokens: int
    hashes: tuple[int, ...]
    max_tokens: int
    target_tokens: int


def error_body(dialect: Dialect, refused: RefusedError) -> dict[str, Any]:
    """The body of an error answer."""
    fields = {
        "message": refused.message,
        "type": refused.kind,
        "param": refused.param,
        "code": refused.status,
    }
    return {"error": fields} if dialect == "vllm" else {"object": "error", **fields}


def parse(body: bytes, *, chat: bool, spec: EngineSpec, rng: random.Random) -> Wanted:
    """Understand a request body.

    Raises:
        RefusedError: as the engine refuses it (400; vLLM also 404 for a model it does not serve).
    """
    try:
        fields = json.loads(body)
    except ValueError:
        raise RefusedError(400, "1 validation error:\n  JSON decode error", "Bad Request", "body.1") from None
    if not isinstance(fields, dict):
        raise RefusedError(400, "1 validation error:\n  Input should be an object", "Bad Request", "body")
    model = fields.get("model") or spec.model
    if spec.dialect == "vllm" and model != spec.model:
        message = f"The model `{model}` does not exist. Valid aliases: {spec.model}."
        raise RefusedError(404, message, "NotFoundError", "model")
    prompt_tokens, hashes = _prompt(fields, chat=chat, spec=spec)
    room = spec.max_model_len - prompt_tokens
    if room < 1:
        message = f"The input ({prompt_tokens} tokens) is longer than the model's context length."
        raise RefusedError(400, message, "BadRequestError", "input_text")
    max_tokens = fields.get("max_completion_tokens", fields.get("max_tokens"))
    if max_tokens is None:
        max_tokens = room if chat else min(16, room)
    if type(max_tokens) is not int or max_tokens < 1:
        message = f"max_tokens must be at least 1, got {max_tokens}."
        raise RefusedError(400, message, "BadRequestError", "max_tokens")
    if max_tokens > room:
        message = f"max_tokens={max_tokens} cannot be greater than max_model_len={spec.max_model_len}."
        raise RefusedError(400, message, "BadRequestError", "max_tokens")
    target = max_tokens
    if not fields.get("ignore_eos"):
        natural = rng.lognormvariate(math.log(spec.answer_tokens) - _SIGMA**2 / 2, _SIGMA)
        target = min(max_tokens, max(1, round(natural)))
    options = fields.get("stream_options")
    return Wanted(
        model=str(model),
        chat=chat,
        stream=bool(fields.get("stream")),
        include_usage=isinstance(options, dict) and bool(options.get("include_usage")),
        prompt_tokens=prompt_tokens,
        hashes=hashes,
        max_tokens=max_tokens,
        target_tokens=target,
    )


def _prompt(fields: dict[str, Any], *, chat: bool, spec: EngineSpec) -> tuple[int, tuple[int, ...]]:
    """Token count and block hashes of the prompt: four bytes make a token, or it is a list of them."""
    prompt = fields.get("messages" if chat else "prompt")
    if chat:
        prompt = json.dumps(prompt)
    elif isinstance(prompt, list) and all(isinstance(part, str) for part in prompt):
        prompt = "".join(prompt)
    units: Sequence[Any]
    if isinstance(prompt, str) and prompt:
        units, width = prompt.encode(), _BYTES_PER_TOKEN
    elif isinstance(prompt, list) and all(type(part) is int for part in prompt) and prompt:
        units, width = prompt, 1
    else:
        raise RefusedError(400, "1 validation error:\n  Field required", "Bad Request", "body.prompt")
    tokens = -(-len(units) // width)
    step = spec.block_size * width
    hashes, chain = [], 0
    for start in range(0, len(units) - step + 1, step):
        part = units[start : start + step]
        chain = hash((chain, part if isinstance(part, bytes) else tuple(part)))
        hashes.append(chain)
    return tokens, tuple(hashes)


class Answer:
    """One completion on its way to its client."""

    def __init__(self, exchange: Exchange, wanted: Wanted, dialect: Dialect, version: str) -> None:
        self.exchange = exchange
        self.wanted = wanted
        self._dialect = dialect
        self._tokens = 0
        prefix = ("chatcmpl-" if wanted.chat else "cmpl-") if dialect == "vllm" else ""
        self._id = prefix + uuid.uuid4().hex[: 16 if dialect == "vllm" else 32]
        self._created = int(time.time())
        self._fingerprint = f"vllm-{version}-simulated"
        self._offset = random.randrange(len(_WORDS))
        self._head = self._tail = b""

    def start(self) -> None:
        """Begin: a stream's headers go out before its first token, as the real servers send them."""
        if not self.wanted.stream:
            return
        self.exchange.start_events()
        kind = "chat.completion.chunk" if self.wanted.chat else "text_completion"
        head = {"id": self._id, "object": kind, "created": self._created, "model": self.wanted.model}
        text = json.dumps(head, separators=(",", ":"))[:-1] + ',"choices":[{"index":0,'
        stop = "stop_reason" if self._dialect == "vllm" else "matched_stop"
        if self.wanted.chat:
            text += '"delta":{"content":"'
            tail = f'"}},"logprobs":null,"finish_reason":null,"{stop}":null}}]}}\n\n'
        else:
            text += '"text":"'
            tail = f'","logprobs":null,"finish_reason":null,"{stop}":null}}]}}\n\n'
        self._head, self._tail = b"data: " + text.encode(), tail.encode()

    def deliver(self, tokens: int, reason: str | None) -> None:
        """New tokens; ``reason`` with the last of them."""
        if self.wanted.stream:
            pieces = []
            for index in range(tokens):
                tail = self._tail
                if reason is not None and index == tokens - 1:
                    tail = tail.replace(b'"finish_reason":null', b'"finish_reason":"%b"' % reason.encode())
                word = _WORDS[(self._offset + 7 * (self._tokens + index)) % len(_WORDS)]
                pieces.append(self._head + word.encode() + tail)
            self._tokens += tokens
            if pieces:
                self.exchange.send_all(pieces)
        else:
            self._tokens += tokens
        if reason is not None:
            self._finish(reason)

    def abort(self) -> None:
        """End it with what there is, ``finish_reason`` abort: status 200, no error."""
        if self.wanted.stream:
            tail = self._tail.replace(b'"finish_reason":null', b'"finish_reason":"abort"')
            self.exchange.send_all([self._head + tail])
        self._finish("abort")

    def fail(self, refused: RefusedError) -> None:
        """End it with an error: a plain answer, or an event in a stream that says 200."""
        if self.wanted.stream:
            fields = error_body("vllm", refused)
            self.exchange.send(b"data: " + json.dumps(fields).encode() + b"\n\n")
            self.exchange.send(b"data: [DONE]\n\n")
            self.exchange.finish()
        else:
            body = json.dumps(error_body(self._dialect, refused), separators=(",", ":")).encode()
            self.exchange.respond(refused.status, body, "application/json")

    def _finish(self, reason: str) -> None:
        usage = {
            "prompt_tokens": self.wanted.prompt_tokens,
            "total_tokens": self.wanted.prompt_tokens + self._tokens,
            "completion_tokens": self._tokens,
        }
        if self.wanted.stream:
            if self.wanted.include_usage:
                kind = "chat.completion.chunk" if self.wanted.chat else "text_completion"
                fields = {
                    "id": self._id, "object": kind, "created": self._created, "model": self.wanted.model,
                    "choices": [], "usage": usage,
                }  # fmt: skip
                self.exchange.send(b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n")
            self.exchange.send(b"data: [DONE]\n\n")
            self.exchange.finish()
            return
        text = "".join(_WORDS[(self._offset + 7 * i) % len(_WORDS)] for i in range(self._tokens))
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": reason}
        choice["stop_reason" if self._dialect == "vllm" else "matched_stop"] = None
        if self.wanted.chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        answer: dict[str, Any] = {
            "id": self._id,
            "object": "chat.completion" if self.wanted.chat else "text_completion",
            "created": self._created,
            "model": self.wanted.model,
            "choices": [choice],
            "usage": usage,
        }
        if self._dialect == "vllm":
            answer["system_fingerprint"] = self._fingerprint
        self.exchange.respond(200, json.dumps(answer, separators=(",", ":")).encode(), "application/json")
