"""``infertop check`` against engines in every state, from its command line."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.captures import text
from tests.support.servers import (
    CUT,
    NEVER,
    Reply,
    drip,
    endless,
    json_reply,
    raw,
    serve_in_thread,
    vllm,
)
from tests.support.vllm_text import Rank, exposition
from tui import cli
from tui.sources.engines import metrics_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.support.servers import Handler

UNAUTHORIZED = json_reply({"error": "Unauthorized"}, 401)
BUSY = exposition(Rank(running=3, waiting=1, steps=500, asked=40_000, hit=30_000), started=None)


class Checked:
    """What one run of the command said."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        self.status = status
        self.findings = document["findings"]
        assert document["passed"] is (status == 0)
        assert document["schema"] == 1

    def level(self, name: str) -> str | None:
        """The most urgent level among the findings of an id; None without any."""
        levels = [finding["level"] for finding in self.findings if finding["id"] == name]
        return next((level for level in ("error", "warning", "ok") if level in levels), None)

    def text(self, name: str) -> str:
        return "\n".join(finding["text"] for finding in self.findings if finding["id"] == name)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without settings and state, on a host without GPUs."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("INFERTOP_NVML_LIBRARY", str(tmp_path / "no-driver.so"))
    monkeypatch.setenv("INFERTOP_PCI_DEVICES", str(tmp_path / "no-devices"))
    monkeypatch.delenv("INFERTOP_TOKEN", raising=False)
    return tmp_path


@pytest.fixture
def check(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Checked]:
    def run(*words: str) -> Checked:
        status = cli.main(["check", "--json", *words])
        return Checked(status, json.loads(capsys.readouterr().out))

    return run


def state(home: Path) -> Path:
    (file,) = (home / "state/infertop").glob("check-*.json")
    return file


def earlier(home: Path, seconds: float) -> None:
    """Let the last look have been that long ago."""
    document = json.loads(state(home).read_text())
    for name in ("up_since", "served_at"):
        document[name] -= seconds
    for rank in document["ranks"].values():
        if rank["since"] is not None:
            rank["since"] -= seconds
    state(home).write_text(json.dumps(document))


def purposes(check: Callable[..., Checked], url: str) -> tuple[int, int, int]:
    """Exit statuses without a purpose, as liveness, as readiness."""
    return check(url).status, check(url, "--as", "liveness").status, check(url, "--as", "readiness").status


# ------------------------------------------------------------------------------- vLLM


def test_a_healthy_engine_passes(check: Callable[..., Checked], home: Path) -> None:
    with serve_in_thread(vllm(BUSY)) as server:
        first = check(server.url)
        assert first.status == 0
        assert first.text("engine-answers") == f"vLLM 0.32.0 answers at {server.url}"
        assert first.text("model-listed") == "model listed: tiny-llama"
        assert "from the next look on" in first.text("engine-progress")
        server.routes["/metrics"] = Reply(200, BUSY.replace("500", "501"))
        earlier(home, 10)
        second = check(server.url)
        assert second.text("engine-progress") == "steps are made (3 running, 1 waiting)"
        assert purposes(check, server.url) == (0, 0, 0)
        assert check(server.url, "--strict").status == 1  # no NVIDIA driver
        assert {request.method for request in server.requests} == {"GET"}


def test_frozen_counters_with_work_fail_everything(check: Callable[..., Checked], home: Path) -> None:
    with serve_in_thread(vllm(BUSY)) as server:
        assert check(server.url).status == 0
        earlier(home, 4)
        assert check(server.url).status == 0
        earlier(home, 8)
        hung = check(server.url)
        assert hung.status == 1
        assert hung.findings[0]["id"] == "engine-progress"
        assert hung.text("engine-progress") == "no engine step in 12s with 3 running, 1 waiting"
        assert hung.findings[0]["limit"] == 5.0
        assert hung.findings[0]["value"] == pytest.approx(12.1, abs=1)
        assert purposes(check, server.url) == (1, 1, 1)
        server.routes["/is_paused"] = json_reply({"is_paused": True})  # in development mode
        assert purposes(check, server.url) == (1, 0, 1)
        assert "is paused, with 3 running" in check(server.url).text("engine-not-ready")
        server.routes["/metrics"] = Reply(200, exposition(Rank(steps=500), started=None))
        assert purposes(check, server.url) == (0, 0, 0)  # no work: no step is due


def test_a_dead_core_fails_everything(check: Callable[..., Checked]) -> None:
    with serve_in_thread({**vllm(BUSY), "/health": Reply(503)}) as server:
        assert purposes(check, server.url) == (1, 1, 1)
        assert check(server.url).text("engine-dead") == "the engine core is dead: /health answers 503"


def test_a_refused_token_is_a_sign_of_life(check: Callable[..., Checked]) -> None:
    with serve_in_thread({**vllm(BUSY), "/v1/models": UNAUTHORIZED}) as server:
        assert purposes(check, server.url) == (0, 0, 0)
        found = check(server.url)
        assert found.level("model-listed") == "warning"
        assert "needs a token" in found.text("model-listed")
        assert found.level("engine-health") == "ok"
        assert check(server.url, "--strict").status == 1
    with serve_in_thread({"*": UNAUTHORIZED}) as server:
        assert purposes(check, server.url) == (0, 0, 0)
        assert "is alive" in check(server.url).text("model-listed")


def test_the_token_is_sent_and_never_shown(
    check: Callable[..., Checked], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("INFERTOP_TOKEN", "s3cret")
    with serve_in_thread(vllm(BUSY)) as server:
        found = check(server.url)
        assert all(request.headers["authorization"] == "Bearer s3cret" for request in server.requests)
        assert "s3cret" not in json.dumps(found.findings) + state(home).read_text()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_metrics_elsewhere_are_not_worth_the_token(
    check: Callable[..., Checked], home: Path, host: str
) -> None:
    settings = home / "config/infertop/config.toml"
    settings.parent.mkdir(parents=True)
    with serve_in_thread(vllm(NEVER)) as server, serve_in_thread({"/figures": Reply(200, BUSY)}) as metrics:
        settings.write_text(
            f'[[engines]]\nurl = "http://{host}:{server.port}"\ntoken = "s3cret"\n'
            'headers = { X-Key = "an0ther" }\n'
            f'metrics_url = "{metrics.url}/figures"\n'
        )
        assert "(3 running, 1 waiting)" in check().text("engine-progress")
        assert all(request.headers["authorization"] == "Bearer s3cret" for request in server.requests)
        (request,) = metrics.requests
        assert ("authorization" in request.headers) is (host == "127.0.0.1")
        assert ("x-key" in request.headers) is (host == "127.0.0.1")


def test_tritons_second_port_was_named_by_nobody_and_gets_no_key(
    check: Callable[..., Checked], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = home / "config/infertop/config.toml"
    settings.parent.mkdir(parents=True)
    routes = {"/v2": json_reply({"name": "triton", "version": "2.51.0"}), "/v2/health/live": Reply(200)}
    with serve_in_thread(routes) as server, serve_in_thread({"/metrics": Reply(200)}) as metrics:
        monkeypatch.setattr(metrics_at, "TRITON_METRICS_OFFSET", metrics.port - server.port)
        settings.write_text(
            f'[[engines]]\nurl = "{server.url}"\ntoken = "s3cret"\nheaders = {{ X-Key = "s3cret" }}\n'
        )
        check()
        assert "s3cret" in str(server.requests)
        assert metrics.requests
        assert "s3cret" not in str(metrics.requests)


def test_no_model_fails_readiness_alone(check: Callable[..., Checked]) -> None:
    routes = {**vllm(BUSY), "/prometheus/metrics": Reply(404)}
    with serve_in_thread({**routes, "/v1/models": json_reply({"data": []}), "/v2": Reply(404)}) as server:
        # without an owner of its models it cannot be told from others: it is not what serves a model
        assert purposes(check, server.url) == (1, 0, 1)


@pytest.mark.parametrize("route", [NEVER, drip(50)], ids=["silent", "drip"])
def test_a_server_that_does_not_finish_fails_in_time(check: Callable[..., Checked], route: Handler) -> None:
    with serve_in_thread({"*": route}) as server:
        began = time.monotonic()
        found = check(server.url, "--timeout", "0.5", "--as", "liveness")
        assert time.monotonic() - began < 2.0
        assert (found.status, found.level("engine-silent")) == (1, "error")


def test_an_endless_answer_is_cut_off(check: Callable[..., Checked]) -> None:
    with serve_in_thread({**vllm(endless(10**9)), "/version": endless(10**9)}) as server:
        found = check(server.url)
        assert "more than 1000000 bytes" in found.text("engine-answers")
        server.routes["/version"] = json_reply({"version": "0.32.0"})
        found = check(server.url)
        assert "more than 20000000 bytes" in found.text("engine-progress")


def test_a_health_route_that_hangs_is_silence(check: Callable[..., Checked]) -> None:
    with serve_in_thread({**vllm(BUSY), "/health": NEVER}) as server:
        found = check(server.url, "--timeout", "0.5", "--as", "liveness")
        assert (found.status, found.level("engine-silent")) == (1, "error")


@pytest.mark.parametrize(
    ("metrics", "level", "words"),
    [
        (NEVER, "warning", "no whole answer"),
        (CUT, "warning", "before the end"),
        (Reply(200, "<html><title>Sign in</title>", "text/html"), "warning", "an HTML page"),
        (Reply(500), "warning", "HTTP 500"),
        (Reply(404), "ok", "HTTP 404"),
        (Reply(200, "process_start_time_seconds 1\n"), "ok", "--disable-log-stats"),
        (Reply(307, headers={"Location": "/metrics/"}), "ok", "steps|next look"),
    ],
    ids=["silent", "cut", "html", "500", "404", "stats-off", "slash"],
)
def test_what_cannot_be_known_is_said(
    check: Callable[..., Checked], metrics: Handler, level: str, words: str
) -> None:
    with serve_in_thread({**vllm(metrics), "/metrics/": Reply(200, BUSY)}) as server:
        found = check(server.url, "--timeout", "0.6")
        assert found.status == 0
        assert found.level("engine-progress") == level
        assert any(word in found.text("engine-progress") for word in words.split("|"))


def test_a_cold_cache_warns_once_it_should_be_warm(check: Callable[..., Checked], home: Path) -> None:
    def routes(asked: float, hit: float, up_s: float) -> str:
        return exposition(Rank(asked=asked, hit=hit, steps=100), started=time.time() - up_s)

    with serve_in_thread(vllm(routes(9000, 900, 100))) as server:
        young = check(server.url)
        assert young.level("prefix-hit-rate") == "ok"
        assert "not judged in the first 300 s" in young.text("prefix-hit-rate")
        server.routes["/metrics"] = Reply(200, routes(9000, 900, 400))
        cold = check(server.url)
        assert cold.level("prefix-hit-rate") == "warning"
        assert "hit rate 0.10 since start" in cold.text("prefix-hit-rate")
        assert purposes(check, server.url) == (0, 0, 0)
        assert check(server.url, "--strict", "--as", "liveness").status == 0
        assert check(server.url, "--strict").level("prefix-hit-rate") == "error"
        server.routes["/metrics"] = Reply(200, routes(9000, 1800, 400))
        assert check(server.url).level("prefix-hit-rate") == "ok"
        server.routes["/metrics"] = Reply(200, routes(500, 0, 400))
        assert check(server.url).level("prefix-hit-rate") is None


# ------------------------------------------------------------------------------- a closed port


def test_a_closed_port_is_a_load_until_it_has_served(check: Callable[..., Checked], home: Path) -> None:
    with serve_in_thread(vllm(BUSY)) as server:
        server.go_away()
        assert purposes(check, server.url) == (1, 0, 1)
        assert "not seen to serve yet" in check(server.url).text("engine-loading")
        server.come_back()
        assert purposes(check, server.url) == (0, 0, 0)
        server.go_away()
        assert purposes(check, server.url) == (1, 1, 1)
        assert "and it served" in check(server.url).text("engine-down")


@pytest.mark.parametrize(
    ("routes", "words"),
    [
        ({"*": Reply(503, "loading")}, "HTTP 503"),
        ({"*": Reply(404)}, "none of the routes of an engine"),
        ({"*": raw(b"SSH-2.0-OpenSSH_9.6\r\n")}, "does not speak HTTP"),
        ({"*": Reply(302, headers={"Location": "http://elsewhere/"})}, "not followed"),
        ({"*": CUT}, "before the end"),
    ],
    ids=["503", "404", "not-http", "redirect", "cut"],
)
def test_what_is_no_engine_does_not_fail_liveness(
    check: Callable[..., Checked], routes: Mapping[str, Handler], words: str
) -> None:
    with serve_in_thread(routes) as server:
        assert purposes(check, server.url) == (1, 0, 1)
        assert words in check(server.url).text("engine-answers")


# ------------------------------------------------------------------------------- other engines


def sglang(ready: Handler, metrics: str, loads: object) -> dict[str, Handler]:
    return {
        "/v1/models": json_reply({"data": [{"id": "small", "owned_by": "sglang"}]}),
        "/ready": ready,
        "/ping": ready if isinstance(ready, Reply) and ready.status != 404 else Reply(200),
        "/v1/loads": json_reply(loads),
        "/metrics": Reply(200, metrics),
    }


def loads_at(age_s: float, running: int = 2) -> dict[str, Any]:
    now = time.time()
    load = {"dp_rank": 0, "num_running_reqs": running, "num_waiting_reqs": 0, "timestamp": now - age_s}
    return {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(now)), "loads": [load]}


def test_sglang_is_asked_by_ready_and_never_by_health(check: Callable[..., Checked]) -> None:
    with serve_in_thread(sglang(Reply(200), text("sglang-0.5.23/metrics-load.txt"), loads_at(0.2))) as server:
        assert purposes(check, server.url) == (0, 0, 0)
        server.routes["/v1/loads"] = json_reply(loads_at(14, running=0))
        hung = check(server.url, "--as", "liveness")  # by its scheduler's own word, at the first look
        assert hung.status == 1
        assert "no engine step in 1" in hung.text("engine-progress")
        server.routes |= {"/ready": Reply(503), "/ping": Reply(503)}  # somebody's /health has failed
        assert purposes(check, server.url) == (1, 1, 1)
        assert check(server.url).level("engine-not-ready") == "error"
        server.routes["/ping"] = Reply(200)  # told to pause
        assert purposes(check, server.url) == (1, 0, 1)
        asked = {request.path for request in server.requests}
        assert not asked & {"/health", "/health_generate", "/get_load", "/flush_cache"}


def test_sglang_that_starts_or_drains_is_out_of_service_and_alive(check: Callable[..., Checked]) -> None:
    routes = sglang(Reply(503), text("sglang-0.5.23/metrics-idle.txt"), loads_at(0.1, running=0))
    with serve_in_thread(routes) as server:
        assert purposes(check, server.url) == (1, 0, 1)
        server.routes["/ready"] = Reply(404)  # before 0.5.20
        assert purposes(check, server.url) == (0, 0, 0)


def test_trtllm_s_metrics_are_left_alone(check: Callable[..., Checked]) -> None:
    routes: dict[str, Handler] = {
        "/version": json_reply({"version": "1.2.1"}),
        "/v1/models": json_reply({"data": [{"id": "m", "owned_by": "tensorrt_llm"}]}),
        "/health": Reply(200),
        "/prometheus/metrics": Reply(200, "request_success_total 3.0\n"),
    }
    with serve_in_thread(routes) as server:
        found = check(server.url)
        assert found.status == 0
        assert "tells no step counter" in found.text("engine-progress")
        assert server.count("/metrics") == 0
        server.routes["*"] = Reply(503, headers={"x-trtllm-server-state": "STARTING\x1b[31m"})
        for path in routes:
            del server.routes[path]
        assert purposes(check, server.url) == (1, 0, 1)
        assert "the server says STARTING" in check(server.url).text("engine-not-ready")
        server.routes |= {**routes, "/health": Reply(503, "unavailable")}
        assert purposes(check, server.url) == (1, 1, 1)
        assert server.count("/metrics") == 0


def test_triton_by_its_own_health_routes(check: Callable[..., Checked], home: Path) -> None:
    routes: dict[str, Handler] = {
        "/v2": json_reply({"name": "triton", "version": "2.51.0"}),
        "/v2/health/ready": Reply(200),
        "/v2/health/live": Reply(200),
        "/v1/models": Reply(404),
    }
    with serve_in_thread(routes) as server, serve_in_thread({}) as metrics:
        metrics.routes["/metrics"] = Reply(200, text("triton-2.51/metrics-queue.txt"))
        settings = home / "config/infertop/config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[[engines]]\nurl = "{server.url}"\nmetrics_url = "{metrics.url}/metrics"\n')
        assert purposes(check, server.url) == (0, 0, 0)
        assert check(server.url).text("engine-health").startswith("all models are ready")
        metrics.routes["/metrics"] = Reply(200, "nv_cpu_utilization 0.5\n")
        assert purposes(check, server.url) == (1, 0, 1)
        assert "no model is loaded" in check(server.url).text("model-listed")
        server.routes["/v2/health/ready"] = Reply(400)
        assert check(server.url, "--as", "liveness").status == 0
        assert "a model loads" in check(server.url).text("engine-not-ready")
        server.routes["/v2/health/live"] = Reply(400)
        assert check(server.url, "--as", "liveness").status == 1


# ------------------------------------------------------------------------------- state


def test_a_state_that_cannot_be_kept_is_a_note(
    check: Callable[..., Checked], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "file").write_text("no directory")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    with serve_in_thread(vllm(BUSY)) as server:
        for _ in range(2):
            found = check(server.url)
            assert (found.status, found.level("state")) == (0, "ok")
            assert "Not a directory" in found.text("state")


@pytest.mark.parametrize("content", [b"\xff\x00", b"[" * 50_000, b"1" * (1 << 17), b'{"schema": 1}', b""])
def test_a_hostile_state_file_is_written_anew(
    check: Callable[..., Checked], home: Path, content: bytes
) -> None:
    with serve_in_thread(vllm(BUSY)) as server:
        assert check(server.url).status == 0
        state(home).write_bytes(content)
        assert check(server.url).status == 0
        assert json.loads(state(home).read_text())["url"] == server.url
        assert state(home).stat().st_mode & 0o777 == 0o600


# ------------------------------------------------------------------------------- which engine


def usage(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    try:
        status = cli.main(["check", *words])
    except SystemExit as stop:
        status = int(str(stop.code))
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, "")
    return printed.err


def test_usage_errors(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = home / "config/infertop/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[[engines]]\nurl = "http://a:1"\n[[engines]]\nurl = "http://b:2"\n')
    assert "name one engine: the config has http://a:1, http://b:2" in usage(capsys)
    settings.write_text("[discovery]\nenabled = false\n")
    assert "no engine is named" in usage(capsys)
    assert "not an engine's address" in usage(capsys, "http://user:secret@h:1")
    assert "invalid choice" in usage(capsys, "--as", "startup")
    assert "not a number of seconds" in usage(capsys, "--timeout", "nan")


def test_help_fits_a_screen(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main(["check", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80


def test_the_config_s_only_engine_needs_no_name(check: Callable[..., Checked], home: Path) -> None:
    settings = home / "config/infertop/config.toml"
    settings.parent.mkdir(parents=True)
    with serve_in_thread(vllm(BUSY)) as server:
        settings.write_text(f'[[engines]]\nurl = "{server.url}"\nheaders = {{ "X-Route" = "blue" }}\n')
        assert check().status == 0
        assert {request.headers["x-route"] for request in server.requests} == {"blue"}


def test_lines_for_a_person(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = vllm(BUSY, model="\x1b]0;owned\x07[red]llama\u202e")
    with serve_in_thread({**hostile, "/health": Reply(503)}) as server:
        assert cli.main(["check", server.url]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("error    the engine core is dead")
    assert [line.split()[0] for line in lines] == sorted(
        (line.split()[0] for line in lines), key=("error", "warning", "ok").index
    )
    assert "model listed: [red]llama" in "\n".join(lines)
    assert all(line.isprintable() for line in lines)


def test_only_gets_of_routes_that_cost_nothing(check: Callable[..., Checked]) -> None:
    with serve_in_thread(vllm(BUSY)) as server:
        check(server.url)
        assert sorted(request.path for request in server.requests) == [
            "/health",
            "/metrics",
            "/v1/models",
            "/version",
        ]
