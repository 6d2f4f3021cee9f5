"""The HTTP routes of both dialects and what they answer in each phase of the engine's life."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from tui.demo.completions import Answer, RefusedError, error_body, parse
from tui.demo.http import JSON
from tui.demo.metrics_sglang import SglangMetrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.demo.engine import Engine
    from tui.demo.http import Exchange

_BUSY = RefusedError(
    503,
    "The engine is currently busy and cannot accept new requests."
    " Please try again later or on a different instance.",
    "Service Unavailable",
)
_QUEUE_FULL = RefusedError(503, "The request queue is full.", "Service Unavailable")
_HEALTH_LOOK_S, _HEALTH_TIMEOUT_S = 1.0, 20.0
Route = tuple[frozenset[str], "Callable[[Exchange], None]"]


class Routes:
    """Answers requests for one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        get, post = frozenset(("GET",)), frozenset(("POST",))
        completions: dict[str, Route] = {
            "/v1/completions": (post, lambda exchange: self._complete(exchange, chat=False)),
            "/v1/chat/completions": (post, lambda exchange: self._complete(exchange, chat=True)),
            "/v1/models": (get, self._models),
            "/metrics": (get, self._metrics),
        }
        dialect: dict[str, Route]
        if engine.spec.dialect == "vllm":
            dialect = {
                "/health": (get, self._vllm_health),
                "/ping": (get | post, self._vllm_health),
                "/version": (get, lambda exchange: _json(exchange, {"version": engine.spec.version})),
                "/load": (get, lambda exchange: _json(exchange, {"server_load": 0})),
            }
        else:
            dialect = {
                "/health": (get, self._sglang_health),
                "/health_generate": (get, self._sglang_health),
                "/ready": (get, self._sglang_ready),
                "/ping": (get, self._sglang_ready),
                "/v1/loads": (get, self._loads),
                "/model_info": (get, self._model_info),
                "/get_model_info": (get, self._model_info),
                "/server_info": (get, self._server_info),
                "/get_server_info": (get, self._server_info),
                "/": (get, lambda exchange: _json(exchange, "SGLang is running")),
            }
        self._routes = {**completions, **dialect}

    def handle(self, exchange: Exchange) -> None:
        """Answer one request, now or later."""
        engine = self._engine
        path = exchange.path.rstrip("/") or "/"
        route = self._routes.get(path)
        engine.metrics.received(exchange)

        exchange.on_status = lambda: engine.responded(exchange)
        exchange.on_done = lambda: engine.metrics.answered(exchange, known=route is not None)
        if engine.spec.api_key and not self._authorized(exchange, path):
            _json(exchange, {"error": "Unauthorized"}, 401)
        elif route is None:
            _json(exchange, {"detail": "Not Found"}, 404)
        elif exchange.method not in route[0]:
            allow = ("allow", ", ".join(sorted(route[0])))
            body = json.dumps({"detail": "Method Not Allowed"}).encode()
            exchange.respond(405, body, JSON, (allow,))
        else:
            route[1](exchange)

    def _authorized(self, exchange: Exchange, path: str) -> bool:
        if self._engine.spec.dialect == "vllm":
            guarded = path.startswith("/v1")
        else:
            guarded = not path.startswith(("/health", "/metrics", "/ready"))
        return not guarded or exchange.headers.get("authorization") == f"Bearer {self._engine.spec.api_key}"

    # ------------------------------------------------------------------------------ completions

    def _complete(self, exchange: Exchange, *, chat: bool) -> None:
        engine = self._engine
        spec, life = engine.spec, engine.life
        try:
            wanted = parse(exchange.body, chat=chat, spec=spec, rng=engine.rng)
            if life.refusal is not None:
                life.on_request_refused()
                raise life.refusal
        except RefusedError as refused:
            _json(exchange, error_body(spec.dialect, refused), refused.status)
            return
        answer = Answer(exchange, wanted, spec.dialect, spec.version)
        if life.finishes_with_abort:
            answer.start()
            answer.abort()
        elif spec.max_num_queued_reqs and len(engine.answers) >= spec.max_num_queued_reqs:
            engine.metrics.rejected("max_num_queued_reqs")
            answer.start()
            answer.fail(_BUSY if spec.dialect == "vllm" else _QUEUE_FULL)
        else:
            engine.accept(answer)
            answer.start()

    # ------------------------------------------------------------------------------ both

    def _models(self, exchange: Exchange) -> None:
        spec = self._engine.spec
        model: dict[str, Any] = {
            "id": spec.model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": spec.dialect,
            "root": spec.model,
            "parent": None,
            "max_model_len": spec.max_model_len,
        }
        _json(exchange, {"object": "list", "data": [model]})

    def _metrics(self, exchange: Exchange) -> None:
        metrics = self._engine.metrics
        exchange.respond(200, metrics.render(), metrics.content_type)

    def _later(self, exchange: Exchange, answer: Callable[[], None]) -> None:
        delay_s = self._engine.spec.health_delay_s
        if delay_s:
            asyncio.get_running_loop().call_later(delay_s, answer)
        else:
            answer()

    # ------------------------------------------------------------------------------ vLLM

    def _vllm_health(self, exchange: Exchange) -> None:
        """Only a flag in this process: a hung engine does not change it."""
        self._later(exchange, lambda: exchange.respond(503 if self._engine.life.phase == "dead" else 200))

    # ------------------------------------------------------------------------------ SGLang

    def _sglang_ready(self, exchange: Exchange) -> None:
        ready = self._engine.life.phase == "serving" and not self._engine.unhealthy
        self._later(exchange, lambda: exchange.respond(200 if ready else 503))

    def _sglang_health(self, exchange: Exchange) -> None:
        """A one-token request through the scheduler, looked at once a second."""
        engine = self._engine
        if engine.life.phase != "serving":
            if engine.life.phase == "draining":
                engine.log.info("", "Health check request received during shutdown. Returning 503.")
            exchange.respond(503)
            return
        asked_s = time.monotonic()
        engine.ask_for_a_token()
        self._look_at_health(exchange, asked_s)

    def _look_at_health(self, exchange: Exchange, asked_s: float) -> None:
        engine = self._engine
        loop = asyncio.get_running_loop()

        def look() -> None:
            if engine.heard_s > asked_s:
                engine.unhealthy = False
                exchange.respond(200)
            elif time.monotonic() - asked_s >= engine.spec.scaled(_HEALTH_TIMEOUT_S):
                engine.unhealthy = True
                engine.log.info("", "Health check failed. Server couldn't get a response from detokenizer")
                exchange.respond(503)
            elif exchange.open:
                loop.call_later(engine.spec.scaled(_HEALTH_LOOK_S), look)

        loop.call_later(engine.spec.scaled(_HEALTH_LOOK_S) + engine.spec.health_delay_s, look)

    def _loads(self, exchange: Exchange) -> None:
        metrics = self._engine.metrics
        assert isinstance(metrics, SglangMetrics)
        _json(exchange, metrics.loads(core_only="include=core" in exchange.query))

    def _model_info(self, exchange: Exchange) -> None:
        model = self._engine.spec.model
        _json(exchange, {"model_path": model, "served_model_name": model, "is_generation": True})

    def _server_info(self, exchange: Exchange) -> None:
        spec = self._engine.spec
        _json(
            exchange,
            {
                "model_path": spec.model,
                "served_model_name": spec.model,
                "tp_size": spec.tensor_parallel_size,
                "max_running_requests": spec.max_num_seqs,
                "max_total_num_tokens": spec.kv_tokens,
                "chunked_prefill_size": spec.max_num_batched_tokens,
                "context_length": spec.max_model_len,
                "enable_metrics": True,
                "internal_states": [{"effective_max_running_requests_per_dp": spec.max_num_seqs}],
                "version": spec.version,
            },
        )


def _json(exchange: Exchange, body: object, status: int = 200) -> None:
    exchange.respond(status, json.dumps(body, separators=(",", ":")).encode(), JSON)
