"""Who gets the token, and what is said where one is wanted: the whole program, with listeners that watch it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import ssl
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.program import Ended, command, environment, run
from tests.support.servers import Reply, serve, serve_in_thread, vllm
from tests.support.terminal import Terminal
from tests.support.vllm_text import Rank, exposition
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

TLS = Path(__file__).parents[1] / "fixtures" / "tls"
SECRET = "Tr0ub4dor-and-3"
DECOY = textwrap.dedent("""
    import http.server, json, socket, sys
    descriptor, status, log = int(sys.argv[-3]), int(sys.argv[-2]), open(sys.argv[-1], "a", buffering=1)
    class Decoy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            log.write(json.dumps([self.path, dict(self.headers)]) + "\\n")
            self.send_response(status)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
        def log_message(self, *words):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Decoy, bind_and_activate=False)
    server.socket = socket.socket(fileno=descriptor)
    server.serve_forever()
""")


class Decoy:
    """A listener with the looks of an engine, and what it was asked."""

    def __init__(self, folder: Path, status: int) -> None:
        (folder / "vllm").write_text(DECOY)
        self._log = folder / "decoy.log"
        self._log.touch()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            descriptor, port = listener.fileno(), listener.getsockname()[1]
            words = ["serve", "m", "--port", str(port), str(descriptor), str(status), str(self._log)]
            self._process = subprocess.Popen(
                [sys.executable, "-B", folder / "vllm", *words], pass_fds=(descriptor,)
            )
        self.url = f"http://127.0.0.1:{port}"

    @property
    def asked(self) -> list[tuple[str, dict[str, str]]]:
        return [tuple(json.loads(line)) for line in self._log.read_text().splitlines()]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def decoy(folder: Path, status: int = 200) -> Iterator[Decoy]:
    found = Decoy(folder, status)
    try:
        yield found
    finally:
        found.end()


def once(home: Path, *words: str, env: dict[str, str] | None = None) -> tuple[Any, Ended]:
    ended = run("once", "--json", "--interval", "0.3", *words, home=home, env=env)
    assert "Traceback" not in ended.err
    assert SECRET not in ended.out + ended.err
    return ended.json(), ended


def test_what_was_only_found_gets_no_token_and_says_how_to_be_named(tmp_path: Path) -> None:
    with decoy(tmp_path, 401) as other:
        answer, _ = once(tmp_path, env={"INFERTOP_TOKEN": SECRET})
        asked = other.asked
    assert asked
    assert SECRET not in str(asked)
    assert not any("authorization" in map(str.lower, headers) for _, headers in asked)
    (found,) = [row for row in answer["engines"] if row["url"] == other.url]
    assert found["discovered"]
    assert found["reason"] == "401"
    (text,) = [
        row["text"] for row in answer["findings"] if row["id"] == "needs-token" and row["scope"] == other.url
    ]
    assert "[[engines]]" in text
    assert other.url in text


def test_a_named_engine_gets_it_and_a_decoy_beside_it_is_left_alone(tmp_path: Path) -> None:
    with serve_in_thread(vllm(exposition(Rank()))) as server, decoy(tmp_path) as other:
        (tmp_path / "c.toml").write_text(f'[[engines]]\nurl = "{server.url}"\ntoken = "{SECRET}"\n')
        once(tmp_path, "--config", "c.toml")
        assert {request.headers.get("authorization") for request in server.requests} >= {f"Bearer {SECRET}"}
        assert other.asked == []


def test_neither_a_redirect_nor_a_proxy_takes_it_elsewhere(tmp_path: Path) -> None:
    with serve_in_thread({"*": Reply(200, "x")}) as elsewhere, serve_in_thread({}) as server:
        moved = Reply(302, "", headers={"Location": f"{elsewhere.url}/metrics"})
        server.routes.update(vllm("") | {"/metrics": moved, "/version": moved})
        proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"), elsewhere.url)
        answer, _ = once(tmp_path, server.url, env={"INFERTOP_TOKEN": SECRET, **proxies})
        assert elsewhere.requests == []
        assert server.requests
    assert answer["engines"][0]["reason"] == "redirect"


def test_a_path_prefix_and_headers_of_the_settings(tmp_path: Path) -> None:
    routes = {f"/llm/a{path}": handler for path, handler in vllm(exposition(Rank())).items()}
    with serve_in_thread(routes) as server:
        (tmp_path / "c.toml").write_text(
            f'[[engines]]\nurl = "{server.url}/llm/a/"\nheaders = {{ X-Team = "{SECRET}" }}\n'
        )
        answer, _ = once(tmp_path, "--config", "c.toml")
        assert {request.headers.get("x-team") for request in server.requests} == {SECRET}
        assert all(request.path.startswith("/llm/a/") for request in server.requests)
    assert answer["engines"][0]["reason"] is None
    assert answer["engines"][0]["version"] == "0.32.0"


async def test_a_certificate_is_checked_unless_told_otherwise_and_then_it_is_said(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "loopback.pem")
    async with serve(vllm(exposition(Rank())), tls=context) as server:
        found = {}
        for name, line in (
            ("none", ""),
            ("ca", f'ca_file = "{TLS / "loopback.crt"}"'),
            ("off", "verify = false"),
        ):
            (tmp_path / "c.toml").write_text(
                f'[[engines]]\nurl = "{server.url}"\ntoken = "{SECRET}"\n{line}\n'
            )
            found[name], _ = await asyncio.to_thread(once, tmp_path, "--config", "c.toml")
    rows = {name: answer["engines"][0] for name, answer in found.items()}
    assert {name: row["reason"] for name, row in rows.items()} == {"none": "tls", "ca": None, "off": None}
    assert [row["tls_verified"] for row in rows.values()] == [True, True, False]
    said = [name for name, a in found.items() if any(f["id"] == "tls-not-verified" for f in a["findings"])]
    assert said == ["off"]


async def test_ipv6_and_metrics_behind_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    asked = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.decode())
        body = exposition(Rank(running=3)).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: "
            + str(len(body)).encode()
            + b"\r\n\r\n"
            + body
        )
        await writer.drain()
        writer.close()

    async with serve(vllm("")) as server, await asyncio.start_unix_server(answer, path):
        url = server.url
        try:
            v6 = await asyncio.start_server(server._serve, "::1", 0)
        except OSError:
            v6 = None  # a kernel without IPv6: the socket is tested all the same
        if v6 is not None:
            url = f"http://[::1]:{v6.sockets[0].getsockname()[1]}"
        (tmp_path / "c.toml").write_text(
            f'[[engines]]\nurl = "{url}"\nmetrics_url = "unix://{path}"\ntoken = "{SECRET}"\n'
            f'headers = {{ X-Key = "{SECRET}" }}\n'
        )
        document, _ = await asyncio.to_thread(once, tmp_path, "--config", "c.toml")
        if v6 is not None:
            v6.close()
    assert document["engines"][0]["url"] == url
    assert document["engines"][0]["running"] == 3
    assert all(head.startswith("GET /metrics ") for head in asked)
    assert SECRET not in "".join(asked)  # who owns the socket is not known


def test_a_socket_that_is_not_there_is_named(tmp_path: Path) -> None:
    with serve_in_thread(vllm("")) as server:
        answer, _ = once(tmp_path, server.url, "--metrics-url", f"unix://{tmp_path}/none.sock")
    assert answer["engines"][0]["reason"] == "stats_off"
    assert f"{tmp_path}/none.sock" in answer["engines"][0]["detail"]


@pytest.mark.parametrize(
    "word",
    [f"http://user:{SECRET}@127.0.0.1:1", f"u:{SECRET}@x", f"http://x/?token={SECRET}", f"x:1/#{SECRET}"],
)
def test_secrets_in_an_address_are_refused_and_not_repeated(tmp_path: Path, word: str) -> None:
    (tmp_path / "c.toml").write_text(f'[[engines]]\nurl = "{word}"\nmetrics_url = "{word}"\n')
    for words in (("once", word), ("once", "x", "--metrics-url", word), ("config", "--check", "c.toml")):
        ended = run(*words, home=tmp_path)
        assert ended.status == 2
        assert "URL" in ended.out + ended.err or "address" in ended.err
        assert SECRET not in ended.out + ended.err


def test_no_trace_shows_a_token() -> None:
    from tui.model.settings import EngineTarget
    from tui.sources.http import HttpTarget

    target = EngineTarget("http://127.0.0.1:1", token=SECRET, headers={"X-Key": SECRET})
    assert SECRET not in repr(target) + repr(HttpTarget.of(target)) + repr(vars(HttpTarget.of(target)).keys())


# ------------------------------------------------------------------------------- log and tracebacks


def test_no_token_is_in_the_log_or_on_the_screen_whatever_goes_wrong(tmp_path: Path) -> None:
    planted = {name: f"{name}-{SECRET}" for name in ("token", "named", "general", "header", "proxy")}
    log = tmp_path / "infertop.log"
    echo: dict[str, Reply] = {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "loopback.pem")

    def logged(reason: str) -> bool:
        text = log.read_text() if log.exists() else ""
        return re.search(rf"WARNING infertop: engine \S+: {reason}", text) is not None

    with (
        serve_in_thread({"*": Reply(401, "no")}) as closed,
        serve_in_thread({"*": lambda: echo["reply"]}) as moved,
        serve_in_thread({}, tls=context) as unknown,
        socket.socket() as taken,
    ):
        taken.bind(("127.0.0.1", 0))  # and not listening: refused
        dead = f"127.0.0.1:{taken.getsockname()[1]}"
        location = f"http://u:{planted['named']}@sso.example/login?token={planted['named']}#{SECRET}"
        echo["reply"] = Reply(302, "", headers={"Location": location})
        (tmp_path / "c.toml").write_text(f"""
[[engines]]
url = "http://{dead}"
token = "{planted["token"]}"
[[engines]]
url = "{closed.url}"
headers = {{ X-Key = "{planted["header"]}" }}
[[engines]]
url = "{moved.url}"
token_env = "NAMED"
[[engines]]
url = "https://127.0.0.1:{unknown.port}"
[[engines]]
url = "http://gpu7.example"
proxy = "http://u:{planted["proxy"]}@{dead}"
""")
        env = environment(tmp_path, {"NAMED": planted["named"], "INFERTOP_TOKEN": planted["general"]})
        words = ("--config", str(tmp_path / "c.toml"), "--log", str(log))
        with Terminal(command(*words), env=env) as terminal:
            for reason in ("refused", "401", "redirect", "tls", "timeout"):
                wait_for(partial(logged, reason), 20, reason)
            terminal.send("zv")
            terminal.settle()
            terminal.send("qq")
            terminal.wait()
            shown = terminal.raw.decode(errors="replace")
        assert {r.headers.get("authorization") for r in moved.requests} == {f"Bearer {planted['named']}"}
    assert "sso.example/login" in log.read_text()
    assert "the proxy 127.0.0.1" in log.read_text()
    assert SECRET not in log.read_text()
    assert SECRET not in shown


FAULTS = {
    "screen": "from tui.ui.main_screen import MainScreen as Broken; name, quoted = 'on_mount', ''",
    "source": "from tui.sources.engines.source import EngineSource as Broken; name, quoted = 'read', local",
    "command": "import tui.commands.screen as Broken; name, quoted = 'need_terminal', ''",
}


@pytest.mark.parametrize("where", FAULTS)
def test_a_fault_of_our_own_shows_no_token(tmp_path: Path, where: str) -> None:
    program = textwrap.dedent(f"""
        import os, sys
        local = os.environ["INFERTOP_TOKEN"]
        {FAULTS[where]}
        from tui.cli import main
        def fault(*words):
            held = {{"authorization": "Bearer " + local}}
            raise RuntimeError(f"planted fault: b'Bearer {{quoted}}'")
        setattr(Broken, name, fault)
        sys.exit(main())
    """)
    (tmp_path / "program.py").write_text(program)
    log = tmp_path / "log"
    words = [sys.executable, str(tmp_path / "program.py"), "http://127.0.0.1:9", "--log", str(log)]
    with Terminal(words, env=environment(tmp_path, {"INFERTOP_TOKEN": SECRET})) as terminal:
        if where == "source":
            wait_for(lambda: log.exists() and "planted fault" in log.read_text(), 20)
            terminal.send("q")
            assert terminal.wait() == 0
        else:
            assert terminal.wait(20) == 1
            assert "planted fault" in terminal.raw.decode()
        shown = terminal.raw.decode(errors="replace")
    assert SECRET not in shown
    assert not log.exists() or SECRET not in log.read_text()
