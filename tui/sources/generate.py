"""One real generation of one token, asked because the operator said so: the only proof that an engine works.

It is a request like any user's: under load it waits in the same queue, so it counts as load itself.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from tui.model.status import SourceError
from tui.model.text import clean
from tui.probing.outcomes import Outcome
from tui.sources.http import HttpTarget
from tui.sources.probes import ProbeResult, no_status

if TYPE_CHECKING:
    from tui.model.readings import EngineKind, ProbeStatus
    from tui.model.settings import EngineTarget
    from tui.sources.answers import Answer

COMPLETIONS = "/v1/completions"
MAX_BODY = 1_000_000
_MODELS_SHARE = 0.5
"""Of the time for all: a server that does not even list its models generates nothing either."""
_ENDED_BADLY = frozenset(("abort", "error"))


def generate_route(target: EngineTarget, engine: EngineKind) -> tuple[str, str]:
    """The path of the generation and, where it cannot be asked for, why and what would bring it."""
    path = target.generate_path or ("" if engine == "triton" else COMPLETIONS)
    if not path:
        return "", "not possible on Triton without generate_path and generate_body of its [[engines]]"
    if not target.generate_body and path != COMPLETIONS:
        return path, "not possible without generate_body beside generate_path in its [[engines]]"
    return path, ""


class GenerateProber:
    """A ``Prober`` that POSTs a generation of one token.

    Args:
        target: the endpoint; one that was found by us gets no token.
        engine: its kind; ``generate_route`` must have a path for it.
    """

    def __init__(self, target: EngineTarget, engine: EngineKind) -> None:
        self._target = target
        self._path, _ = generate_route(target, engine)
        self._http = HttpTarget.of(target, keep_alive=False)
        self._model = ""

    async def prepare(self) -> None:
        """Import httpcore and read the certificates."""
        with contextlib.suppress(SourceError):  # the request will meet it again, and say so
            await self._http.prepare()

    async def ask(self, limit_s: float) -> ProbeResult:
        """Generate one token; success is an answer that has one, not a status."""
        body = self._target.generate_body
        try:
            if not body:
                if not self._model:
                    listed = await self._http.get("/v1/models", limit_s * _MODELS_SHARE, max_bytes=MAX_BODY)
                    self._model = _first_model(listed)
                    if not self._model:
                        return self._refused(listed, "/v1/models names no model")
                body = json.dumps(
                    {"model": self._model, "prompt": "1", "max_tokens": 1, "temperature": 0, "stream": False}
                )
            answer = await self._http.post(self._path, body.encode(), limit_s, max_bytes=MAX_BODY)
        except SourceError as error:
            return ProbeResult(no_status(error), Outcome.FAILURE, error.detail)
        if not 200 <= answer.status < 300:
            self._model = ""  # it may have been replaced by another
            return self._refused(answer, "")
        return _judged(answer, completion=not self._target.generate_body)

    def unanswered(self) -> ProbeResult:
        """Too late."""
        return ProbeResult("dns" if self._http.stage == "name" else "timeout", Outcome.FAILURE)

    async def close(self) -> None:
        """Close what a cancelled request may have left."""
        await self._http.close()

    def _refused(self, answer: Answer, why: str) -> ProbeResult:
        if answer.status == 401:
            found = self._target.discovered
            why = (
                "wants a token, which engines that were found never get: name it, infertop URL"
                if found
                else "wants a token: token_env in its [[engines]], or INFERTOP_TOKEN"
            )
        return ProbeResult(answer.status, Outcome.FAILURE, why or clean(_message(answer.json()), 120))


def _first_model(answer: Answer) -> str:
    listed = answer.json() if answer.status == 200 else None
    models = listed.get("data") if isinstance(listed, dict) else None
    first = models[0] if isinstance(models, list) and models else None
    name = first.get("id") if isinstance(first, dict) else None
    return name if isinstance(name, str) else ""


def _judged(answer: Answer, *, completion: bool) -> ProbeResult:
    if answer.content_type == "text/event-stream":
        return _stream(answer.status, answer.text())
    found = answer.json()
    if isinstance(found, dict) and "error" in found:
        return _error(answer.status, found)
    if completion and not _has_token(found):
        return ProbeResult(answer.status, Outcome.FAILURE, "its answer has no token")
    return ProbeResult(answer.status, Outcome.SUCCESS)


def _stream(status: int, text: str) -> ProbeResult:
    """Server-sent events to their end: an ``error`` is a failure, and ``[DONE]`` alone is no success."""
    token = False
    for line in text.splitlines():
        if line.startswith("event:") and line[6:].strip() == "error":
            return ProbeResult(500, Outcome.FAILURE, "an error came in the stream")
        data = line[5:].strip() if line.startswith("data:") else ""
        if not data or data == "[DONE]":
            continue
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and "error" in event:
            return _error(status, event)
        token = token or _has_token(event) or (isinstance(event, dict) and "text_output" in event)
    if not token:
        return ProbeResult(status, Outcome.FAILURE, "the stream ended without a token")
    return ProbeResult(status, Outcome.SUCCESS)


def _has_token(found: Any) -> bool:
    choices = found.get("choices") if isinstance(found, dict) else None
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("finish_reason") not in _ENDED_BADLY:
            delta = choice.get("delta")
            inner = delta.get("content") if isinstance(delta, dict) else None
            # the one token may be white space, or a special one that is no text: it has ended by its length
            if choice.get("text") or inner or choice.get("finish_reason"):
                return True
    return False


def _error(status: int, found: dict[str, Any]) -> ProbeResult:
    """An error under a status of success: its own code, where it has one, is what a plain request gets."""
    error = found["error"]
    code = error.get("code") if isinstance(error, dict) else None
    told: ProbeStatus = code if isinstance(code, int) and 400 <= code < 600 else 500
    return ProbeResult(told, Outcome.FAILURE, clean(_message(found), 120) or f"an error under HTTP {status}")


def _message(found: Any) -> str:
    """What an error body says, in the shapes of the engines."""
    inner = found.get("error", found) if isinstance(found, dict) else None
    if isinstance(inner, dict):
        inner = inner.get("message") or inner.get("detail")
    return inner if isinstance(inner, str) else ""
