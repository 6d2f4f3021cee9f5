"""Which engine answers at a URL. Asked in an order that no engine minds.

``/metrics`` is not asked here: on trtllm-serve that GET takes the iteration statistics away from
whoever reads them, and ``/version`` answers there as it does on vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.model.readings import Missing
from tui.model.status import SourceError
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

    from tui.model.readings import EngineKind
    from tui.sources.answers import Answer
    from tui.sources.http import HttpTarget

STEP_S = 2.0
"""Longest wait for one question."""
MAX_BYTES = 1_000_000
_OWNERS: dict[str, EngineKind] = {"vllm": "vllm", "sglang": "sglang", "tensorrt_llm": "trtllm"}
_TRTLLM_STATE_HEADER = "x-trtllm-server-state"
_GIVE_KEY = "give its key: token or token_env"


@dataclass(frozen=True, slots=True)
class Identity:
    """What answers at a URL."""

    engine: EngineKind
    version: str | None = None
    model: str | None = None
    """The first served name."""
    simulated: bool = False
    proof: str = "/v1/models"
    """A path that shows that it still answers, and costs it nothing."""
    missing: tuple[Missing, ...] = ()


async def identify(
    http: HttpTarget, hint: EngineKind | Literal["auto"], left: Callable[[], float]
) -> Identity:
    """Find out which engine answers.

    Args:
        http: the target.
        hint: what it is said to be; believed only where the answers do not tell.
        left: seconds that remain for all of it.

    Raises:
        SourceError: nothing answered, or it is no engine that is known.
    """
    ask = _Questions(http, left)
    version = await ask.get("/version")
    if _TRTLLM_STATE_HEADER in version.headers and version.status >= 500:
        return Identity("trtllm", simulated=version.simulated, proof="/version")
    if version.status >= 500 or 300 <= version.status < 400:
        raise version.refusal("/version")
    number = _text(_member(version, "version"), 60)
    models = await ask.get("/v1/models")
    owner, model = _first_model(models)
    engine = _OWNERS.get(owner.lower().replace("-", "_"))
    if engine is not None:
        return _identity(engine, number, model, models)
    if number is not None:
        if models.status == 401 and models.json() == {"error": "Unauthorized"}:
            return _identity("vllm", number, None, models, proof="/version")
        if await ask.is_exposition("/prometheus/metrics"):
            return _identity("trtllm", number, model, models)
    else:
        triton = await ask.get("/v2")
        if _member(triton, "name") == "triton":
            return _identity("triton", _text(_member(triton, "version"), 60), None, triton, proof="/v2")
        server = await ask.get("/server_info")
        if _member(server, "model_path") is not None:
            number = _text(_member(server, "version"), 60)
            return _identity("sglang", number, _text(_member(server, "served_model_name")), server)
    if hint != "auto":
        return _identity(hint, number, model, models, proof="/version")
    raise _unknown(version, models, owner)


class _Questions:
    def __init__(self, http: HttpTarget, left: Callable[[], float]) -> None:
        self._http, self._left = http, left

    async def get(self, path: str) -> Answer:
        return await self._http.get(path, min(STEP_S, self._left()), max_bytes=MAX_BYTES)

    async def is_exposition(self, path: str) -> bool:
        answer = await self.get(path)
        return answer.status == 200 and answer.content_type in ("text/plain", "application/openmetrics-text")


def _identity(
    engine: EngineKind, version: str | None, model: str | None, seen: Answer, *, proof: str = "/v1/models"
) -> Identity:
    missing: list[Missing] = []
    if version is None:
        missing.append(Missing("version", f"{engine} did not say its version"))
    if model is None:
        refused = seen.status in (401, 403)
        why = f"/v1/models answers {seen.status}" if refused else f"{engine} did not name its model"
        missing.append(Missing("model", why, _GIVE_KEY if refused else ""))
    return Identity(engine, version, model, seen.simulated, proof, tuple(missing))


def _unknown(version: Answer, models: Answer, owner: str) -> SourceError:
    """Words for what is there instead of an engine."""
    statuses = (version.status, models.status)
    if 401 in statuses or 403 in statuses:
        status = 401 if 401 in statuses else 403
        return SourceError(
            "401" if status == 401 else "403", f"HTTP {status} before it told what it is: {_GIVE_KEY}"
        )
    if owner:
        return SourceError(
            "not_metrics", f"serves models of {clean(owner, 40)}, no engine that is known here"
        )
    if 200 in statuses:
        seen = version if version.status == 200 else models
        return SourceError("not_metrics", f"no engine: answers with {seen.looks_like()}")
    return SourceError("404", "answers, but has none of the routes of an engine")


def _first_model(answer: Answer) -> tuple[str, str | None]:
    """Owner and name of the first model that is listed."""
    listed = _member(answer, "data")
    first = listed[0] if isinstance(listed, list) and listed else None
    if not isinstance(first, dict):
        return "", None
    return str(first.get("owned_by", "")), _text(first.get("id"))


def _member(answer: Answer, name: str) -> Any:
    """One member of a JSON object; None where the answer is none."""
    value = answer.json() if answer.status == 200 else None
    return value.get(name) if isinstance(value, dict) else None


def _text(value: object, limit: int = 200) -> str | None:
    return clean(value, limit) or None if isinstance(value, str) else None
