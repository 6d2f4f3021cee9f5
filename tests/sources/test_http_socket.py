"""Which socket is HTTP, and at which URL it is reached."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_host import URL, VLLM, EngineHost, roles
from tui.sources.engine_tree import on_sockets
from tui.sources.processes import EXPECTED_MAX, tree_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def host(tmp_path: Path) -> EngineHost:
    return EngineHost(tmp_path)


def test_the_port_of_a_config_file_is_found_by_the_socket(host: EngineHost) -> None:
    argv = ["/v/bin/python3", "/v/bin/vllm", "serve", "--config", "c.yaml"]
    host.tree.process(100, comm="vllm", argv=argv, inodes=[7, 8])
    host.tree.listen(9123, 7, "0.0.0.0")
    host.tree.listen(45000, 8)  # the kernel's choice: between workers
    table = host.read()
    assert table.listeners == ("http://127.0.0.1:9123",)
    assert table.processes[0].host == "0.0.0.0"


def test_a_server_that_only_has_workers_sockets_is_not_listening(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=["/v/bin/vllm", "serve", "m"], inodes=[8])
    host.tree.listen(45000, 8)
    host.tree.process(50, comm="nginx", argv=["nginx"], inodes=[7])
    host.tree.listen(8000, 7)  # somebody else's
    table = host.read()
    assert table.listeners == ()
    assert (table.processes[0].port, table.processes[0].listening) == (8000, False)


@pytest.mark.parametrize(
    ("address", "options", "url"),
    [
        ("127.0.0.1", "", "http://127.0.0.1:18000"),
        ("0.0.0.0", "", "http://127.0.0.1:18000"),
        ("::", "", "http://127.0.0.1:18000"),
        ("::1", "", "http://[::1]:18000"),
        ("fd00::12", "", "http://[fd00::12]:18000"),
        ("::ffff:10.1.2.3", "", "http://10.1.2.3:18000"),
        ("127.0.0.1", "--ssl-certfile c --ssl-keyfile k", "https://127.0.0.1:18000"),
    ],
)
def test_the_url_of_a_listener(host: EngineHost, address: str, options: str, url: str) -> None:
    host.tree.process(100, comm="vllm", argv=[*VLLM, *options.split()], inodes=[7])
    host.tree.listen(18000, 7, address)
    table = host.read()
    assert table.listeners == (url,)
    assert [process.pid for process in tree_of(table, url)] == [100]


def test_a_url_means_the_address_that_it_names(host: EngineHost) -> None:
    host.vllm()
    host.tree.process(200, comm="vllm", argv=VLLM, inodes=[17])
    host.tree.listen(18000, 17, "10.1.2.3")
    table = host.read()
    assert table.listeners == ("http://10.1.2.3:18000", URL)
    assert tree_of(table, "http://10.1.2.3:18000")[0].pid == 200
    assert tree_of(table, URL)[0].pid == 100
    assert tree_of(table, "http://localhost:18000")[0].pid == 100


def test_another_users_socket_is_told_by_port_and_owner(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=VLLM)
    (host.tree.proc / "100/fd").rmdir()  # what EACCES amounts to
    host.tree.listen(18000, 7, uid=12345)
    assert host.read().listeners == ()
    host.tree.close(7)
    host.tree.listen(18000, 8, uid=os.getuid())
    assert host.read().listeners == (URL,)


def test_a_server_in_a_network_of_its_own_is_not_at_this_hosts_ports(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=VLLM, inodes=[7], network="net:[2]")
    (host.tree.proc / "100/net").mkdir()
    host.tree.listen(18000, 7)
    for name in ("tcp", "tcp6"):
        (host.tree.proc / f"net/{name}").rename(host.tree.proc / f"100/net/{name}")
    table = host.read()
    assert (table.processes[0].listening, table.processes[0].other_network) == (True, True)
    assert table.listeners == ()
    assert tree_of(table, URL) == ()


def test_a_server_that_does_not_listen_yet_is_expected_where_it_will(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=VLLM)
    table = host.read()
    assert (table.listeners, table.expected) == ((), (URL,))
    assert [process.pid for process in tree_of(table, URL)] == [100]
    host.tree.process(100, comm="vllm", argv=VLLM, inodes=[7])
    host.tree.listen(18000, 7)
    table = host.read()
    assert (table.listeners, table.expected) == ((URL,), ())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("vllm serve m", ["http://127.0.0.1:8000"]),
        ("vllm serve m --host localhost", ["http://127.0.0.1:8000"]),
        ("vllm serve m --ssl-certfile c --port 8443", ["https://127.0.0.1:8443"]),
        ("vllm serve m --config c.yaml --port 9000", ["http://127.0.0.1:9000"]),
        ("tritonserver --http-port=9000", ["http://127.0.0.1:9000"]),
        ("tritonserver --allow-http=false", []),
        ("vllm serve --help", []),
        ("vllm serve -h", []),
        ("vllm serve m --config c.yaml", []),
        ("vllm serve m --headless", []),
        ("vllm serve m --uds /run/e.sock", []),
        ("vllm serve m --grpc", []),
        ("vllm serve m --host gpu-07", []),  # which address that is, the socket will tell
        ("sglang serve m --version", []),
        ("sglang serve m --nnodes 2 --node-rank 1", []),
    ],
)
def test_where_a_server_is_expected(host: EngineHost, words: str, expected: list[str]) -> None:
    host.tree.process(100, comm="python3", argv=["python3", *f"/venv/bin/{words}".split()])
    if words.startswith("triton"):
        host.tree.process(100, comm="tritonserver", argv=words.split())
    table = host.read()
    assert list(table.expected) == expected
    assert table.listeners == ()


def test_at_a_port_that_a_stranger_has_no_engine_is_expected(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=VLLM)
    host.tree.process(50, comm="nginx", argv=["nginx"], inodes=[7])
    host.tree.listen(18000, 7)
    assert host.read().expected == ()
    host.tree.close(7)
    assert host.read().expected == (URL,)
    host.tree.process(100, comm="vllm", argv=VLLM, state="Z")
    assert host.read(20.0).expected == ()


def test_another_users_loading_engine_may_be_in_any_network(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=VLLM)
    (host.tree.proc / "100/ns/net").unlink()
    (host.tree.proc / "100/ns/net").mkdir()  # what EACCES amounts to
    table = host.read()
    assert table.expected == ()
    assert "pid 100" in table.hidden


def test_those_that_only_look_like_engines_are_bounded_and_counted(host: EngineHost) -> None:
    for number in range(EXPECTED_MAX + 3):
        argv = ["python3", "/venv/bin/vllm", "serve", "m", "--port", str(9000 + number)]
        host.tree.process(100 + number, comm="vllm", argv=argv)
    table = host.read()
    assert len(table.expected) == EXPECTED_MAX
    assert "3 more servers" in table.hidden


def test_a_servers_unix_socket_is_told(host: EngineHost) -> None:
    words = ["python3", "/venv/bin/vllm", "serve", "m", "--uds", "/run/e.sock"]
    host.tree.process(100, comm="vllm", argv=words)
    table = host.read()
    assert [(p.pid, p.unix_socket, p.port) for p in on_sockets(table)] == [(100, "/run/e.sock", None)]


def test_a_front_end_that_listens_in_the_servers_place(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=VLLM)
    host.tree.process(101, ppid=100, comm="vllm-rs", argv=["/opt/frontend"], inodes=[7])
    host.tree.process(102, ppid=100, comm="VLLM::EngineCore", title="VLLM::EngineCore")
    host.tree.listen(18000, 7)
    table = host.read()
    assert roles(table) == {100: "launcher", 101: "api_server", 102: "engine_core"}
    assert table.listeners == (URL,)
    assert [process.pid for process in tree_of(table, URL)] == [100, 101, 102]


def test_a_fork_that_has_no_title_yet_is_no_second_server(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=VLLM, inodes=[7])
    host.tree.process(101, ppid=100, comm="vllm", argv=VLLM, inodes=[7])
    host.tree.listen(18000, 7)
    assert roles(host.read()) == {100: "api_server", 101: "other"}


def test_headless_and_offline_engines_serve_no_url(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=["/v/bin/vllm", "serve", "m", "--headless"])
    host.tree.process(200, comm="python3", argv=["python3", "batch.py"], inodes=[7])
    host.tree.process(201, ppid=200, comm="VLLM::EngineCore", title="VLLM::EngineCore")
    host.tree.listen(9999, 7)
    table = host.read()
    assert roles(table) == {100: "launcher", 200: "launcher", 201: "engine_core"}
    assert [process.port for process in table.processes] == [None, None, None]
    assert table.listeners == ()


def test_a_prefix_of_the_operators_own(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=VLLM)
    host.tree.process(101, ppid=100, comm="prod::EngineCore", title="prod::EngineCore_DP0")
    host.tree.process(102, ppid=101, comm="prod::Worker_TP", title="prod::Worker_TP0")
    assert roles(host.read()) == {100: "api_server", 101: "engine_core", 102: "worker"}
