"""What an engine's own routes say of its health, in a few GETs that cost it nothing.

SGLang's ``/health`` is never asked, it generates a token; nor is trtllm-serve's ``/metrics``, which eats the
statistics that it tells.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from tui.checks.finding import CheckFinding
from tui.checks.health_http import Asker
from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources.engines.detect import identify

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tui.model.settings import EngineTarget
    from tui.sources.answers import Answer
    from tui.sources.engines.detect import Identity
    from tui.sources.http import HttpTarget

SHORTEST_S = 0.05
"""With less time left a question is not put at all: that it gets no answer would mean nothing."""
MAX_BYTES = 1_000_000
_SHOWN_MODELS = 3
_TRTLLM_STATE_HEADER = "x-trtllm-server-state"
_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "triton": "Triton"}
_TOKEN = "its list of models needs a token: token_env in the config, or INFERTOP_TOKEN"


class EngineRoutes:
    """One engine, asked in this thread with a total deadline.

    Args:
        target: the endpoint.
        until: monotonic seconds at which everything must have ended.
    """

    def __init__(self, target: EngineTarget, until: float) -> None:
        self.target = target
        self.identity: Identity | None = None
        """What answers; None until ``identify`` has found out."""
        self._until = until
        self._asker = Asker.of(target)

    def left(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self._until - time.monotonic())

    def ask(self, path: str, *, asker: Asker | None = None, max_bytes: int = MAX_BYTES) -> Answer:
        """GET one of the engine's own routes, or of another origin's; raises ``SourceError``.

        It may take all the time that is left: a busy server was seen to answer after 4.3 s, and the caller
        has said for how long that is well.
        """
        left = self.left()
        if left < SHORTEST_S:
            raise SourceError("timeout", f"{path}: no time left to ask for it")
        return (asker or self._asker).ask(path, left, max_bytes=max_bytes)

    async def get(self, path: str, _deadline_s: float, *, max_bytes: int = MAX_BYTES) -> Answer:
        """As ``ask``, in the form in which ``identify`` asks its questions; never waits for an event loop."""
        return self.ask(path, max_bytes=max_bytes)

    def identify(self) -> list[CheckFinding]:
        """Find out what answers; nothing else can be asked where ``identity`` stays None.

        Raises:
            SourceError: refused: nothing listens there.
        """
        try:
            # identify uses nothing else of a target than its get
            self.identity = _result(identify(cast("HttpTarget", self), self.target.engine, self.left))
        except SourceError as error:
            if error.reason == "refused":
                raise
            return [self._not_identified(error)]
        name = _NAMES[self.identity.engine]
        version = f" {self.identity.version}" if self.identity.version else ""
        simulated = " (simulated)" if self.identity.simulated else ""
        text = f"{name}{version} answers at {self.target.url}{simulated}"
        return [CheckFinding("engine-answers", "ok", text)]

    def _not_identified(self, error: SourceError) -> CheckFinding:
        url = self.target.url
        if error.reason == "timeout":
            text = f"{url} does not answer: {error.detail}"
            return CheckFinding("engine-silent", "error", text, error.reason)
        if error.reason in ("401", "403"):
            return CheckFinding("model-listed", "warning", f"{url} is alive; {_TOKEN}", error.reason)
        return CheckFinding("engine-answers", "error", f"{url}: {error.detail}", error.reason)

    def health(self) -> list[CheckFinding]:
        """Its health route, by engine."""
        assert self.identity is not None  # asked of an engine that is known
        judge = {
            "vllm": self._vllm_health,
            "sglang": self._sglang_ready,
            "trtllm": self._trtllm_health,
            "triton": self._triton_ready,
        }[self.identity.engine]
        try:
            return [judge()]
        except SourceError as error:
            if error.reason == "timeout":
                return [CheckFinding("engine-silent", "error", error.detail, error.reason)]
            return [CheckFinding("engine-answers", "error", f"health route: {error.detail}", error.reason)]

    def models(self) -> list[CheckFinding]:
        """What it serves, by name."""
        assert self.identity is not None  # asked of an engine that is known
        if self.identity.engine == "triton":
            return []  # its list of models is had by POST: /v2/health/ready tells that all of them are ready
        try:
            answer = self.ask("/v1/models")
        except SourceError as error:
            return [CheckFinding("model-listed", "error", f"/v1/models: {error.detail}", error.reason)]
        if answer.status in (401, 403):
            return [CheckFinding("model-listed", "warning", f"the engine is alive; {_TOKEN}", answer.status)]
        if answer.status != 200:
            return [_refused("model-listed", "/v1/models", answer, "no model is listed")]
        names = _model_names(answer.json())
        if not names:
            return [CheckFinding("model-listed", "error", "/v1/models lists no model", 0)]
        more = f" +{len(names) - _SHOWN_MODELS}" if len(names) > _SHOWN_MODELS else ""
        text = f"model listed: {', '.join(names[:_SHOWN_MODELS])}{more}"
        return [CheckFinding("model-listed", "ok", text, len(names))]

    def paused(self) -> bool:
        """It was told to pause, so that no step is due.

        SGLang refuses ``/ready`` and answers ``/ping`` then; vLLM says so in development mode.
        """
        assert self.identity is not None  # asked of an engine that is known
        try:
            if self.identity.engine == "sglang":
                return self.ask("/ready").status == 503 and self.ask("/ping").status == 200
            said = self.ask("/is_paused").json() if self.identity.engine == "vllm" else None
        except SourceError:
            return False
        return isinstance(said, dict) and said.get("is_paused") is True

    # ------------------------------------------------------------------------------- health routes

    def _vllm_health(self) -> CheckFinding:
        answer = self.ask("/health")
        if answer.status in (500, 503):  # 500 before 0.11
            return _refused("engine-dead", "/health", answer, "the engine core is dead")
        return _passing("/health", answer)

    def _sglang_ready(self) -> CheckFinding:
        answer = self.ask("/ready")
        if answer.status == 404:
            text = "health not judged: no /ready before SGLang 0.5.20, and its /health generates"
            return CheckFinding("engine-health", "ok", text)
        if answer.status == 503:
            return _refused(
                "engine-not-ready", "/ready", answer, "the engine starts, drains, pauses or hangs"
            )
        return _passing("/ready", answer)

    def _trtllm_health(self) -> CheckFinding:
        answer = self.ask("/health")
        state = clean(answer.headers.get(_TRTLLM_STATE_HEADER, ""), 40)
        if answer.status == 503 and state:
            return _refused("engine-not-ready", "/health", answer, f"the server says {state}")
        if answer.status == 503:
            return _refused("engine-dead", "/health", answer, "the executor is not available")
        return _passing("/health", answer)

    def _triton_ready(self) -> CheckFinding:
        ready = self.ask("/v2/health/ready")
        if ready.status == 200:
            return CheckFinding(
                "engine-health", "ok", "all models are ready (/v2/health/ready answers 200)", 200
            )
        if self.ask("/v2/health/live").status == 400:
            return _refused("engine-dead", "/v2/health/live", ready, "the server is not live")
        return _refused(
            "engine-not-ready",
            "/v2/health/ready",
            ready,
            "a model loads, a model failed, or the server exits",
        )


def _passing(path: str, answer: Answer) -> CheckFinding:
    if 200 <= answer.status < 300:
        return CheckFinding("engine-health", "ok", f"{path} answers {answer.status}", answer.status)
    return _refused("engine-not-ready", path, answer, "not healthy")


def _refused(identity: str, path: str, answer: Answer, words: str) -> CheckFinding:
    return CheckFinding(identity, "error", f"{words}: {path} answers {answer.status}", answer.status)


def _model_names(listed: Any) -> list[str]:
    data = listed.get("data") if isinstance(listed, dict) else None
    models = data if isinstance(data, list) else []
    names = [model.get("id") for model in models if isinstance(model, dict)]
    return [clean(name, 80) for name in names if isinstance(name, str) and clean(name)]


def _result(asking: Coroutine[Any, Any, Identity]) -> Identity:
    """Run a coroutine that never waits."""
    try:
        asking.send(None)
    except StopIteration as end:
        return cast("Identity", end.value)
    raise AssertionError("it waits for something")
