"""The generate probe against servers that answer it well, badly, in a stream, or not at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.servers import Reply, json_reply, serve
from tui.model.settings import EngineTarget
from tui.probing.outcomes import Outcome
from tui.sources.generate import GenerateProber, generate_route

if TYPE_CHECKING:
    from tests.support.servers import Handler
    from tui.sources.probes import ProbeResult

MODELS = json_reply({"data": [{"id": "tiny-llama"}, {"id": "an-adapter"}]})
TOKEN = json_reply({"choices": [{"text": " a", "finish_reason": "length"}]})


def events(*data: object) -> Reply:
    lines = "".join(f"data: {item if isinstance(item, str) else json.dumps(item)}\n\n" for item in data)
    return Reply(200, lines, "text/event-stream; charset=utf-8")


async def generate(answer: Handler, models: Handler = MODELS, **target: str | bool) -> ProbeResult:
    path = str(target.get("generate_path", "/v1/completions"))
    async with serve({"/v1/models": models, path: answer}) as server:
        one = GenerateProber(EngineTarget(server.url, **target), "vllm")  # type: ignore[arg-type]
        await one.prepare()
        try:
            return await one.ask(5.0)
        finally:
            await one.close()


@pytest.mark.parametrize(
    ("answer", "status", "passes", "says"),
    [
        (TOKEN, 200, True, ""),
        (json_reply({"choices": [{"text": "", "finish_reason": "length"}]}), 200, True, ""),
        (json_reply({"choices": [{"text": "", "finish_reason": "abort"}]}), 200, False, "no token"),
        (json_reply({"choices": []}), 200, False, "no token"),
        (json_reply({"error": {"message": "queue full", "code": 503}}), 503, False, "queue full"),
        (json_reply({"detail": "busy"}, 503), 503, False, "busy"),
        (json_reply({"error": "Unauthorized"}, 401), 401, False, "wants a token: token_env"),
        (events({"choices": [{"text": " a", "finish_reason": None}]}, "[DONE]"), 200, True, ""),
        (events({"choices": [{"delta": {"content": "a"}}]}, "[DONE]"), 200, True, ""),
        (events({"text_output": "a"}), 200, True, ""),
        (events("[DONE]"), 200, False, "without a token"),
        (events({"error": {"message": "dead", "code": 500}}, "[DONE]"), 500, False, "dead"),
        (events({"choices": [{"text": "a"}]}, {"error": {"message": "no", "code": 429}}), 429, False, "no"),
        (Reply(200, "event: error\ndata: {}\n\n", "text/event-stream"), 500, False, "an error"),
        (Reply(200, "<html>sign in</html>", "text/html"), 200, False, "no token"),
    ],
)  # fmt: skip
async def test_success_is_a_token_not_a_status(answer: Reply, status: int, passes: bool, says: str) -> None:
    found = await generate(answer)
    assert (found.status, found.outcome is Outcome.SUCCESS) == (status, passes)
    assert says in found.note


async def test_it_asks_for_one_token_of_the_first_model_and_sends_the_token() -> None:
    async with serve({"/v1/models": MODELS, "/v1/completions": TOKEN}) as server:
        one = GenerateProber(EngineTarget(server.url, token="hunter2"), "sglang")
        for _ in range(2):
            assert (await one.ask(5.0)).status == 200
        await one.close()
        assert [r.path for r in server.requests] == ["/v1/models", "/v1/completions", "/v1/completions"]
        assert {r.headers["authorization"] for r in server.requests} == {"Bearer hunter2"}
        sent = json.loads(server.requests[1].body)
        assert (sent["model"], sent["max_tokens"], sent["stream"]) == ("tiny-llama", 1, False)
        assert server.requests[1].method == "POST"


async def test_an_engine_that_was_found_gets_no_token_and_it_is_said_what_to_do() -> None:
    async with serve({"/v1/models": json_reply({"error": "Unauthorized"}, 401)}) as server:
        one = GenerateProber(EngineTarget(server.url, token="hunter2", discovered=True), "vllm")
        found = await one.ask(5.0)
        await one.close()
        assert (found.status, found.note) == (
            401,
            "wants a token, which engines that were found never get: name it, infertop URL",
        )
        assert "authorization" not in server.requests[0].headers


async def test_a_model_that_was_replaced_is_looked_up_again() -> None:
    async with serve({"/v1/models": MODELS, "/v1/completions": json_reply({}, 404)}) as server:
        one = GenerateProber(EngineTarget(server.url), "vllm")
        assert (await one.ask(5.0)).status == 404
        server.routes["/v1/completions"] = TOKEN
        assert (await one.ask(5.0)).status == 200
        await one.close()
        assert server.count("/v1/models") == 2


@pytest.mark.parametrize("models", [json_reply({"data": []}), json_reply([]), Reply(200, "x")])
async def test_without_a_model_nothing_can_be_generated(models: Reply) -> None:
    found = await generate(TOKEN, models)
    assert (found.outcome, found.note) == (Outcome.FAILURE, "/v1/models names no model")


async def test_a_route_and_body_of_ones_own_ask_for_no_model() -> None:
    path = "/v2/models/m/generate"
    async with serve({path: json_reply({"text_output": "a"})}) as server:
        target = EngineTarget(server.url, generate_path=path, generate_body='{"text_input": "1"}')
        one = GenerateProber(target, "triton")
        assert (await one.ask(5.0)).outcome is Outcome.SUCCESS
        await one.close()
        assert [(r.path, r.body) for r in server.requests] == [(path, b'{"text_input": "1"}')]


def test_triton_needs_to_be_told_how() -> None:
    target = EngineTarget("http://127.0.0.1:8000")
    assert generate_route(target, "vllm") == ("/v1/completions", "")
    assert "generate_path" in generate_route(target, "triton")[1]
    only = EngineTarget("http://127.0.0.1:8000", generate_path="/v2/models/m/generate")
    assert "generate_body" in generate_route(only, "triton")[1]
