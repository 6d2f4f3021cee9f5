"""What an OpenAI completion answer says of itself, read from its bytes as they come. No I/O."""

from __future__ import annotations

import json
from typing import Any

_LONGEST_EVENT = 1 << 20


class Stream:
    """A stream of server-sent events.

    Attributes:
        tokens: told by the engine's usage figures where it sends them, else one a piece of text: an engine
            may put several into one piece.
        finish_reason: the engine's word; None until it said one.
        done: ``[DONE]`` was read.
        error: an event said that the request failed (the status was 200 all the same).
    """

    def __init__(self) -> None:
        self.tokens = 0
        self.finish_reason: str | None = None
        self.done = False
        self.error = False
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """The next bytes of the body."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_EVENT:
            self._rest = b""  # no event of an engine is that long: what comes there is something else
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip())

    def _event(self, text: bytes) -> None:
        if text == b"[DONE]":
            self.done = True
            return
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict):
            return
        # vLLM and SGLang tell a failure in a stream by an event, after a status of 200
        self.error = self.error or bool(event.get("error")) or event.get("object") == "error"
        choices = event.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            self._choice(choices[0])
        usage = event.get("usage")
        if isinstance(usage, dict) and type(usage.get("completion_tokens")) is int:
            self.tokens = max(self.tokens, usage["completion_tokens"])

    def _choice(self, choice: dict[str, Any]) -> None:
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self.finish_reason = reason[:40]
        if choice.get("text"):
            self.tokens += 1
