from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.captures import text
from tests.support.servers import CONTENT_TYPE, NEVER, Handler, Reply, json_reply, serve, vllm
from tui.model.status import SourceError
from tui.sources.engines.detect import Identity, identify
from tui.sources.http import HttpTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

UNAUTHORIZED = json_reply({"error": "Unauthorized"}, 401)
NOT_FOUND = json_reply({"detail": "Not Found"}, 404)


def models(owner: str, name: str = "llama") -> Reply:
    return json_reply({"object": "list", "data": [{"id": name, "object": "model", "owned_by": owner}]})


SGLANG = {"/v1/models": models("sglang"), "/": json_reply("SGLang is running"), "/version": NOT_FOUND}
TRTLLM = {
    "/version": json_reply({"version": "1.2.1"}),
    "/v1/models": models("tensorrt_llm"),
    "/metrics": json_reply([{"iter": 1}]),
    "/perf_metrics": json_reply([]),
    "/prometheus/metrics": Reply(200, "trtllm_num_requests_running 3\n"),
}
TRITON = {"/v2": json_reply({"name": "triton", "version": "2.51.0", "extensions": []})}
METRICS = {"/metrics": Reply(200, text("vllm-0.32/metrics-load.txt"))}


async def ask(routes: Mapping[str, Handler], hint: str = "auto") -> tuple[Identity, list[str]]:
    async with serve(routes) as server:
        target = HttpTarget(server.url)
        try:
            found = await identify(target, hint, lambda: 5.0)  # type: ignore[arg-type]
        finally:
            await target.close()
            asked = [request.path for request in server.requests]
            assert "/metrics" not in asked
            assert all(request.method == "GET" for request in server.requests)
        return found, asked


async def refusal(routes: Mapping[str, Handler], hint: str = "auto") -> SourceError:
    with pytest.raises(SourceError) as caught:
        await ask({**METRICS, **routes}, hint)
    return caught.value


async def test_vllm() -> None:
    found, asked = await ask(vllm("", version="0.32.0", model="tiny-llama"))
    assert (found.engine, found.version, found.model, found.missing) == ("vllm", "0.32.0", "tiny-llama", ())
    assert asked == ["/version", "/v1/models"]


async def test_vllm_with_a_key_is_known_by_its_open_routes() -> None:
    found, _ = await ask({**vllm(""), "/v1/models": UNAUTHORIZED})
    assert (found.engine, found.version, found.model) == ("vllm", "0.32.0", None)
    (gap,) = found.missing
    assert (gap.field, gap.why) == ("model", "/v1/models answers 401")
    assert "token" in gap.enable


async def test_sglang_triton_and_their_versions() -> None:
    assert (await ask({**SGLANG, **METRICS}))[0].engine == "sglang"
    triton = (await ask({**TRITON}))[0]
    assert (triton.engine, triton.version, triton.proof) == ("triton", "2.51.0", "/v2")


async def test_sglang_behind_a_proxy_that_hides_its_models() -> None:
    info = {"model_path": "/models/x", "served_model_name": "llama", "version": "0.5.23"}
    found, _ = await ask({"/server_info": json_reply(info)})
    assert (found.engine, found.version, found.model) == ("sglang", "0.5.23", "llama")


@pytest.mark.parametrize("owner", ["tensorrt_llm", "TensorRT-LLM", "acme"])
async def test_trtllm_serve_looks_like_vllm_and_is_not_taken_for_it(owner: str) -> None:
    found, asked = await ask({**TRTLLM, "/v1/models": models(owner)})
    assert (found.engine, found.version, found.model) == ("trtllm", "1.2.1", "llama")
    assert not {"/metrics", "/perf_metrics"} & set(asked)


async def test_trtllm_serve_that_is_starting() -> None:
    starting = Reply(503, headers={"x-trtllm-server-state": "STARTING", "Retry-After": "1"})
    assert (await ask({"*": starting}))[0].engine == "trtllm"


async def test_what_it_was_said_to_be_is_believed_only_where_answers_do_not_tell() -> None:
    assert (await ask({"/v1/models": NOT_FOUND}, "vllm"))[0].engine == "vllm"
    assert (await ask({"*": UNAUTHORIZED}, "sglang"))[0].engine == "sglang"
    assert (await ask({**TRTLLM}, "vllm"))[0].engine == "trtllm"
    assert (await ask({**SGLANG}, "vllm"))[0].engine == "sglang"


@pytest.mark.parametrize(
    ("routes", "reason", "words"),
    [
        ({}, "404", "none of the routes"),
        (
            {"*": Reply(200, "<html><title>Sign in</title>", "text/html")},
            "not_metrics",
            'an HTML page "Sign in"',
        ),
        ({"*": Reply(200, "hello", CONTENT_TYPE)}, "not_metrics", "text without metrics"),
        ({"*": UNAUTHORIZED}, "401", "token"),
        ({"*": Reply(403)}, "403", "token"),
        ({"*": Reply(502)}, "5xx", "HTTP 502"),
        ({"*": Reply(302, headers={"Location": "https://sso.example/"})}, "redirect", "sso.example"),
        (
            {"/version": json_reply({"version": "9"}), "/v1/models": models("llamacpp")},
            "not_metrics",
            "llamacpp",
        ),
        ({"/version": json_reply({"version": "9"}), "/v1/models": Reply(401, "no")}, "401", "token"),
        ({"/version": json_reply({"version": "9"})}, "not_metrics", "JSON"),
        ({"/version": Reply(200, "[" * 100_000, "application/json")}, "not_metrics", "JSON"),
        ({"/version": json_reply([1]), "/v1/models": json_reply({"data": [3]})}, "not_metrics", "JSON"),
        ({"*": Reply(429)}, "404", "none of the routes"),
    ],
    ids=[
        "404",
        "html",
        "text",
        "401",
        "403",
        "502",
        "302",
        "owner",
        "keyed",
        "version",
        "deep",
        "odd",
        "429",
    ],
)
async def test_what_is_no_engine_is_told_in_words(
    routes: Mapping[str, Handler], reason: str, words: str
) -> None:
    error = await refusal(routes)
    assert error.reason == reason
    assert words in error.detail


async def test_a_bare_exposition_is_not_read_before_it_is_known_whose_it_is() -> None:
    assert (await refusal({})).reason == "404"  # /metrics is there, and was not asked for


async def test_hostile_names_are_made_safe() -> None:
    evil = "[red]x[/y]\x1b]0;title\x07\u202e" + "z" * 1000
    found, _ = await ask(vllm("", version=evil, model=evil))
    assert found.model is not None
    assert found.version is not None
    assert found.model.startswith("[red]x[/y]zz")
    assert (len(found.model), len(found.version)) == (200, 60)
    stranger = {"/version": json_reply({"version": "1"}), "/v1/models": models(evil)}
    error = await refusal(stranger)
    assert "\x1b" not in error.detail
    assert len(error.detail) < 120


async def test_one_question_does_not_take_all_the_time() -> None:
    async with serve({"*": NEVER}) as server:
        target = HttpTarget(server.url)
        with pytest.raises(SourceError) as caught:
            await identify(target, "auto", lambda: 0.1)
        assert caught.value.reason == "timeout"
        await target.close()
