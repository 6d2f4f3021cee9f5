from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.support.engine_host import FIXTURES, URL, VLLM, EngineHost, roles
from tui.model.status import SourceError
from tui.sources.processes import ProcessSource, tree_of

SPAWN = [
    "python3",
    "-B",
    "-c",
    "from multiprocessing.spawn import spawn_main; spawn_main(5)",
    "--multiprocessing-fork",
]


@pytest.fixture
def host(tmp_path: Path) -> EngineHost:
    return EngineHost(tmp_path)


# ------------------------------------------------------------------------------------- shapes of engines


def test_one_vllm(host: EngineHost) -> None:
    host.vllm()
    table = host.read()
    assert roles(table) == {100: "api_server", 101: "other", 102: "engine_core", 103: "worker"}
    server, _, core, _ = table.processes
    assert (server.port, server.host, server.listening, server.cmdline) == (
        18000,
        "127.0.0.1",
        True,
        tuple(VLLM),
    )
    assert server.started_at == pytest.approx(1_700_000_000 + 2000 / os.sysconf("SC_CLK_TCK"))
    assert (core.comm, core.title, core.cmdline, core.port) == (
        "VLLM::EngineCor",
        "VLLM::EngineCore",
        (),
        None,
    )
    assert {process.engine for process in table.processes} == {"vllm"}
    assert table.listeners == (URL,)  # the worker's ports are not HTTP
    assert table.complete
    assert [process.pid for process in tree_of(table, URL)] == [100, 101, 102, 103]
    assert tree_of(table, "http://127.0.0.1:8000") == ()


@pytest.mark.parametrize(
    ("name", "listening", "expected", "order"),
    [
        (
            "vllm-tp2",
            {8800: [(18000, 7)], 8818: [(40001, 8)]},
            {8800: "api_server", 8809: "other", 8810: "engine_core", 8818: "worker", 8819: "worker"},
            [8800, 8809, 8810, 8818, 8819],
        ),
        (
            "vllm-asc2",
            {8694: [(18000, 7)], 8702: [(18000, 7)], 8703: [(18000, 7), (40002, 8)]},
            {8694: "launcher", 8700: "other", 8701: "engine_core", 8702: "api_server", 8703: "api_server", 8717: "worker"},
            [8694, 8700, 8701, 8717, 8702, 8703],
        ),
        (
            "vllm-dp2",
            {8502: [(18000, 7)], 8503: [(18000, 7)], 8458: [(18001, 9)]},
            {7639: "launcher", 8457: "other", 8458: "coordinator", 8500: "engine_core", 8501: "engine_core",
             8502: "api_server", 8503: "api_server", 8539: "worker", 8544: "worker"},
            [7639, 8457, 8458, 8500, 8539, 8501, 8544, 8502, 8503],
        ),
    ],
)  # fmt: skip
def test_vllm_with_several_processes(
    host: EngineHost,
    name: str,
    listening: dict[int, list[tuple[int, int]]],
    expected: dict[int, str],
    order: list[int],
) -> None:
    host.captured(name, listening)
    table = host.read()
    assert roles(table) == expected
    assert table.listeners == (URL,)
    assert [process.pid for process in tree_of(table, URL)] == order
    assert {p.title for p in table.processes if p.role == "worker"} <= {
        "VLLM::Worker",
        "VLLM::Worker_TP0",
        "VLLM::Worker_TP1",
    }


def test_api_servers_that_lost_their_launcher_still_serve(host: EngineHost) -> None:
    host.captured("vllm-asc2", {8702: [(18000, 7)], 8703: [(18000, 7)]})
    host.tree.remove(8694)
    for pid in (8701, 8702, 8703):
        recorded = json.loads((FIXTURES / "vllm-asc2.json").read_text())["tree"][str(pid)]
        host.tree.process(
            pid, ppid=1, comm=recorded["comm"], title=recorded["cmd"], inodes=[7] if pid > 8701 else []
        )
    table = host.read()
    assert table.listeners == (URL,)
    assert [process.pid for process in tree_of(table, URL)] == [8702, 8703]  # the orphaned core is in no tree


def test_sglang_started_through_a_script_of_somebodys_own(host: EngineHost) -> None:
    host.captured("sglang", {22427: [(18020, 7)], 22462: [(41000, 8), (5001, 9)]})
    table = host.read()
    assert roles(table) == {22427: "api_server", 22461: "other", 22462: "scheduler", 22463: "detokenizer"}
    assert {process.engine for process in table.processes} == {"sglang"}
    assert table.listeners == ("http://127.0.0.1:18020",)
    assert [process.pid for process in tree_of(table, "http://localhost:18020")] == [
        22427,
        22461,
        22462,
        22463,
    ]


def test_triton_listens_for_grpc_and_metrics_too(host: EngineHost) -> None:
    host.captured("triton", {9989: [(18011, 7), (18010, 8), (18012, 9)]})
    table = host.read()
    assert roles(table) == {9989: "api_server", 10012: "backend"}
    assert table.listeners == ("http://127.0.0.1:18010",)
    assert table.processes[0].engine == "triton"
    assert [process.pid for process in tree_of(table, "http://127.0.0.1:18010")] == [9989, 10012]


@pytest.mark.parametrize(
    ("comm", "line", "engine", "port"),
    [
        ("vllm", "/v/bin/python3 /v/bin/vllm serve m", "vllm", 8000),
        ("python3", "python3 -m vllm.entrypoints.openai.api_server --model m --port=9000", "vllm", 9000),
        ("python3", "python3 -u /src/vllm/entrypoints/openai/api_server.py --model m", "vllm", 8000),
        ("pt_main_thread", "python3 -m vllm.entrypoints.cli.main serve m", "vllm", 8000),
        ("vllm", "/usr/local/bin/vllm serve m --port 1234", "vllm", 1234),
        ("python", "python -m sglang.launch_server --model-path m", "sglang", 30000),
        ("sglang", "/v/bin/python /v/bin/sglang serve --model-path m --port 31000", "sglang", 31000),
        ("trtllm-serve", "/usr/bin/python3 /usr/local/bin/trtllm-serve m --port 8100", "trtllm", 8100),
        ("trtllm-serve", "/usr/bin/python3 /usr/local/bin/trtllm-serve serve m", "trtllm", 8000),
        (
            "tritonserver",
            "/opt/tritonserver/bin/tritonserver --model-repository=/m --http-port=8500",
            "triton",
            8500,
        ),
        ("tritonserver", "tritonserver --model-repository /m --metrics-port 9002", "triton", 8000),
    ],
)
def test_ways_to_start_a_server(host: EngineHost, comm: str, line: str, engine: str, port: int) -> None:
    host.tree.process(50, comm=comm, argv=line.split())
    (server,) = host.read().processes
    assert (server.role, server.engine, server.port, server.listening) == ("api_server", engine, port, False)
    assert [p.pid for p in tree_of(host.read(), f"http://127.0.0.1:{port}")] == [50]


@pytest.mark.parametrize(
    ("comm", "line"),
    [
        ("bash", "bash -c vllm serve m"),
        ("grep", "grep vllm serve"),
        ("vim", "vim /etc/vllm serve"),
        ("less", "less tritonserver"),
        ("tail", "tail -f vllm.log"),
        ("tmux: server", "tmux new -s vllm serve"),
        ("python3", "python3 client.py vllm serve m"),
        ("python3", "python3 -m pytest vllm serve"),
        ("python3", "python3 -c vllm serve"),
        ("vllm", "/v/bin/python3 /v/bin/vllm bench serve --model m"),
        ("vllm", "/v/bin/python3 /v/bin/vllm chat"),
        ("docker", "docker run vllm/vllm-openai vllm serve m"),
        ("sudo", "sudo vllm serve m"),
        ("mpirun", "mpirun -n 2 trtllm-serve m"),
        ("python3", "python3 -m sglang_router.launch_router --worker-urls http://h:1"),
        ("python3", "python3 /home/me/vllm/serve.py"),
        ("python3", "python3 -m http.server 8000"),
        ("sidekiq", "MyApp::Worker idle"),
    ],
)
def test_what_only_speaks_of_an_engine_is_none(host: EngineHost, comm: str, line: str) -> None:
    host.tree.process(50, comm=comm, argv=line.split(), inodes=[7])
    host.tree.listen(8000, 7)
    table = host.read()
    assert table.processes == ()
    assert table.listeners == ()


# ------------------------------------------------------------------------------------- life and death


def test_a_server_that_starts_is_loading_not_listening(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=VLLM)
    host.tree.process(102, ppid=100, argv=SPAWN)
    table = host.read()
    assert roles(table) == {100: "api_server", 102: "other"}
    assert table.listeners == ()
    assert [process.pid for process in tree_of(table, URL)] == [100, 102]
    assert (table.processes[0].port, table.processes[0].listening) == (18000, False)

    host.vllm()  # the child has given itself a title, the port is open
    table = host.read()
    assert roles(table) == {100: "api_server", 101: "other", 102: "engine_core", 103: "worker"}
    assert table.listeners == (URL,)

    host.tree.close(7)  # shut down, waiting for its clients to hang up
    table = host.read()
    assert table.listeners == ()
    assert (tree_of(table, URL)[0].port, tree_of(table, URL)[0].listening) == (18000, False)


def test_an_orphaned_core_is_seen_but_serves_nothing(host: EngineHost) -> None:
    host.vllm()
    host.read()
    host.tree.remove(100)
    host.tree.remove(101)
    host.tree.close(7)
    host.tree.process(102, ppid=1, comm="VLLM::EngineCore", title="VLLM::EngineCore")
    table = host.read()
    assert {p.pid: (p.ppid, p.role) for p in table.processes} == {
        102: (1, "engine_core"),
        103: (102, "worker"),
    }
    assert tree_of(table, URL) == ()

    # left to a shell in a container rather than to init
    host.tree.process(60, comm="bash", argv=["bash", "/entry.sh", "python", "x.py"])
    host.tree.process(102, ppid=60, comm="VLLM::EngineCore", title="VLLM::EngineCore")
    table = host.read()
    assert roles(table) == {102: "engine_core", 103: "worker"}
    assert tree_of(table, URL) == ()


def test_a_title_that_only_the_kernel_shows_is_not_mistaken_for_the_command_line(host: EngineHost) -> None:
    host.tree.process(102, ppid=1, comm="VLLM::EngineCor", argv=["/usr/bin/python3", "-c", "spawn"])
    (core,) = host.read().processes
    assert (core.role, core.comm, core.title) == ("engine_core", "VLLM::EngineCor", "")


def test_a_new_server_beside_an_orphan_has_its_own_tree(host: EngineHost) -> None:
    host.tree.process(90, ppid=1, comm="VLLM::EngineCore", title="VLLM::EngineCore")
    host.vllm()
    table = host.read()
    assert [process.pid for process in tree_of(table, URL)] == [100, 101, 102, 103]
    assert 90 in roles(table)


def test_zombies_keep_what_was_known_of_them(host: EngineHost) -> None:
    host.vllm()
    host.read()
    host.tree.close(7)
    host.tree.process(100, comm="vllm", state="Z", start=2000)
    host.tree.process(102, ppid=100, comm="VLLM::EngineCore", state="Z")
    table = host.read()
    assert {p.pid: (p.role, p.zombie) for p in table.processes if p.zombie} == {
        100: ("api_server", True),
        102: ("engine_core", True),
    }
    assert [process.pid for process in tree_of(table, URL)] == [100, 101, 102, 103]

    host.tree.process(200, comm="vllm", argv=VLLM, start=9000)  # its successor
    assert [process.pid for process in tree_of(host.read(), URL)] == [200]


def test_a_zombie_core_is_one_even_when_it_was_never_seen_alive(host: EngineHost) -> None:
    host.vllm()
    host.tree.process(102, ppid=100, comm="VLLM::EngineCore", state="Z")
    core = host.read().processes[2]
    assert (core.role, core.zombie, core.title) == ("engine_core", True, "")


def test_the_server_that_listens_is_meant_not_one_that_waits_for_the_port(host: EngineHost) -> None:
    host.vllm()
    host.tree.process(300, comm="vllm", argv=VLLM, start=9000)
    assert tree_of(host.read(), URL)[0].pid == 100


def test_a_pid_that_came_back_is_another_process(host: EngineHost) -> None:
    host.vllm()
    host.read()
    host.tree.process(100, comm="vllm", argv=["/usr/bin/vllm", "chat"], start=99_000)
    assert 100 not in roles(host.read())


@pytest.mark.parametrize("comm", ["python3", "bash"])
def test_what_becomes_a_server_by_exec_is_noticed(host: EngineHost, comm: str) -> None:
    host.tree.process(70, comm=comm, argv=[comm, "/fetch_model"])
    for _ in range(3):  # until it is known and left alone
        assert host.read(after=2.0).processes == ()
    host.tree.process(70, comm="python3", argv=["python3", "-m", "vllm.entrypoints.openai.api_server"])
    assert roles(host.read(after=6.0)) == {70: "api_server"}


def test_a_wrapper_script_keeps_its_part_as_a_zombie(host: EngineHost) -> None:
    host.tree.process(70, comm="python3", argv=["python3", "wrapper.py", "--port", "18000"], inodes=[7])
    host.tree.process(71, ppid=70, comm="sglang::scheduler", title="sglang::scheduler")
    host.tree.listen(18000, 7)
    assert roles(host.read()) == {70: "api_server", 71: "scheduler"}
    host.tree.process(70, comm="python3", state="Z")
    host.tree.close(7)
    server, _ = tree_of(host.read(after=10.0), URL)
    assert (server.pid, server.zombie, server.listening) == (70, True, False)


def test_entries_that_vanish_or_are_odd_are_no_errors(host: EngineHost) -> None:
    host.vllm()
    (host.tree.proc / "101/stat").unlink()
    (host.tree.proc / "103/cmdline").unlink()
    (host.tree.proc / "40").mkdir()
    host.tree.write("40/stat", b"40 (x")
    table = host.read()
    assert roles(table) == {100: "api_server", 102: "engine_core", 103: "worker"}


def test_no_proc_at_all(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        ProcessSource(tmp_path / "nowhere").read()
    assert (caught.value.reason, caught.value.unsupported) == ("not_supported", True)


# ------------------------------------------------------------------------------------- what is shown, what it costs


def test_secrets_and_hostile_text_do_not_reach_the_table(host: EngineHost) -> None:
    host.tree.process(
        100, comm="vl\x1b[2Jlm", argv=[*VLLM, "--api-key", "S3cret", "--served-model-name", "a\x1b[31m[red]"]
    )
    (server,) = host.read().processes
    assert server.cmdline[-4:] == ("--api-key", "***", "--served-model-name", "a[red]")
    assert server.comm == "vllm"


def test_hidden_processes_make_the_table_incomplete(host: EngineHost) -> None:
    host.tree.remove(1)
    host.vllm()
    assert not host.read().complete


def test_a_crowded_host_costs_little(host: EngineHost) -> None:
    for pid in range(1000, 3000):
        folder = host.tree.proc / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (w) S 1 1 1 0 -1 0 0 0 0 0 5 0 0 0 20 0 1 0 100 1 1 0\n")
        (folder / "cmdline").write_text(f"/usr/bin/w\0{pid}\0")
    host.vllm()
    host.tree.connections(5000)
    for _ in range(2):  # the first look, and one that knows them all
        began = time.thread_time()
        assert host.read().listeners == (URL,)
        assert time.thread_time() - began < 0.3


@pytest.mark.parametrize(
    ("parent", "status", "orphan"),
    [
        ("systemd", "", True),
        ("containerd-shim-runc-v2", "", True),
        ("entrypoint", "NSpid:\t60\t1\n", True),  # the first process of a container
        ("entrypoint", "NSpid:\t60\t7\n", False),
        ("mpirun", "", False),
    ],
)
def test_who_a_part_without_a_server_was_left_to(
    host: EngineHost, parent: str, status: str, orphan: bool
) -> None:
    host.tree.process(60, comm=parent, argv=[parent])
    host.tree.write("60/status", status)
    host.tree.process(102, ppid=60, comm="VLLM::EngineCore", title="VLLM::EngineCore")
    host.tree.process(103, ppid=102, comm="VLLM::Worker", title="VLLM::Worker")
    host.tree.process(104, ppid=102, comm="python3", argv=["python3", "-c", "a tracker"])
    found = {process.pid for process in host.read().processes if process.orphan}
    assert found == ({102, 103} if orphan else set())


def test_cores_of_servers_that_lost_their_launcher_are_in_use(host: EngineHost) -> None:
    host.tree.process(101, ppid=1, comm="VLLM::APIServer", title="VLLM::APIServer_0")
    host.tree.process(102, ppid=1, comm="VLLM::EngineCore", title="VLLM::EngineCore")
    assert not any(process.orphan for process in host.read().processes)


FIB = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 10.244.1.7
        /32 host LOCAL
     |-- 10.244.1.0
        /24 link UNICAST
"""


def in_a_pod(host: EngineHost, bound: str = "0.0.0.0") -> None:
    host.tree.process(100, comm="vllm", argv=VLLM, inodes=[7], network="net:[2]")
    (host.tree.proc / "100/net").mkdir()
    host.tree.listen(18000, 7, bound)
    for name in ("tcp", "tcp6"):
        text = (host.tree.proc / "net" / name).read_bytes()
        host.tree.write(f"100/net/{name}", text)
    host.tree.close(7)
    host.tree.write("100/net/fib_trie", FIB)


def test_an_engine_behind_an_address_of_its_own(host: EngineHost) -> None:
    in_a_pod(host)
    table = host.read()
    assert table.listeners == ("http://10.244.1.7:18000",)
    assert [p.pid for p in tree_of(table, "http://10.244.1.7:18000")] == [100]
    assert tree_of(table, URL) == ()
    assert tree_of(table, "http://10.244.1.8:18000") == ()


def test_what_listens_on_another_networks_loopback_cannot_be_reached(host: EngineHost) -> None:
    in_a_pod(host, "127.0.0.1")
    assert host.read().listeners == ()


def test_an_address_that_we_have_too_is_not_the_pods(host: EngineHost) -> None:
    in_a_pod(host)
    (host.tree.proc / "self/net").mkdir()
    host.tree.write("self/net/fib_trie", FIB)
    assert host.read().listeners == ()


def test_a_published_port_leads_into_the_container(host: EngineHost) -> None:
    in_a_pod(host)
    line = (
        "/usr/bin/docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 80 "
        "-container-ip 10.244.1.7 -container-port 18000"
    )
    host.tree.process(50, comm="docker-proxy", argv=line.split())
    table = host.read()
    assert [p.pid for p in tree_of(table, "http://127.0.0.1:80")] == [100]
    assert tree_of(table, "http://127.0.0.1:81") == ()
    host.tree.process(51, comm="docker-proxy", argv=line.replace("80 ", "82 ").split(), uid=54321)
    host.tree.process(52, comm="docker-proxy", argv=line.replace("80 ", "83 ").split())
    host.tree.write("52/cgroup", f"0::/system.slice/docker-{64 * 'a'}.scope\n")
    assert [at.port for at in host.read().published] == [80]  # nobody else's word, and no container's


def test_a_pod_that_loads_is_expected_at_its_own_address(host: EngineHost) -> None:
    in_a_pod(host)
    host.tree.process(100, comm="vllm", argv=[*VLLM, "--host", "0.0.0.0"])
    for name in ("tcp", "tcp6"):
        sockets = host.tree.proc / f"100/net/{name}"
        sockets.write_text(sockets.read_text().split("\n")[0] + "\n")
    table = host.read()
    assert (table.listeners, table.expected) == ((), ("http://10.244.1.7:18000",))
    assert [p.pid for p in tree_of(table, "http://10.244.1.7:18000")] == [100]


@pytest.mark.parametrize("port", ["9" * 5000, "\u0663", "-1", "", "80 "])
def test_a_port_that_is_none_does_not_end_the_search(host: EngineHost, port: str) -> None:
    words = ["docker-proxy", "-proto", "tcp", "-host-port", port, "-container-port", "8000"]
    host.vllm()
    host.tree.process(50, comm="docker-proxy", argv=words)
    table = host.read()
    assert (table.published, table.listeners) == ((), (URL,))


def test_the_place_of_a_server_is_told(host: EngineHost) -> None:
    host.vllm()
    host.tree.write("100/cgroup", "0::/system.slice/vllm.service\n")
    server, *rest = host.read().processes
    assert server.place is not None
    assert server.place.unit == "vllm.service"
    assert all(process.place is None for process in rest)


def test_a_pod_that_vanishes_while_it_is_read_is_no_error(host: EngineHost) -> None:
    in_a_pod(host)
    (host.tree.proc / "100/net/fib_trie").unlink()
    assert host.read().listeners == ()
    for name in ("tcp", "tcp6"):
        (host.tree.proc / "100/net" / name).unlink()
    assert host.read().listeners == ()


def test_what_cannot_be_seen_of_another_users_engine_is_said(
    host: EngineHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.vllm()
    assert host.read().hidden == ""

    def refused(path: str) -> str:
        if path.endswith("/100/ns/net"):
            raise PermissionError
        return str(Path(path).readlink())

    monkeypatch.setattr("tui.sources.http_socket.link", refused)
    other = EngineHost(host.tree.proc.parent / "other")
    other.vllm()
    assert other.read().hidden == ""  # found all the same, by its port and its owner
    other.tree.close(7)
    assert "pid 100" in other.read().hidden
    assert "run as root" in other.read().hidden


def test_no_secret_of_a_command_line_is_kept(host: EngineHost) -> None:
    host.vllm()
    host.tree.process(100, comm="vllm", argv=[*VLLM, "--api-key", "planted"], inodes=[7], start=2000)
    host.tree.process(200, comm="redis", argv=["redis", "--requirepass", "planted"])
    host.tree.process(300, argv=["python3", "job.py", "--hf-token=planted"])
    table = host.read()
    assert "planted" not in repr(table)
    assert "planted" not in repr(vars(host.source))
    assert "--api-key" in table.processes[0].cmdline
