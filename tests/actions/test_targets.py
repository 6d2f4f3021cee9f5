"""From a URL to the engine: proven by the socket, or refused with what stands against it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_host import URL, VLLM, EngineHost
from tui.actions.plan import RefusedError
from tui.actions.targets import check_local, find

if TYPE_CHECKING:
    from pathlib import Path

    from tui.actions.targets import Found

CONTAINER = "3f2a" * 16
POD = "0a1b2c3d-1111-2222-3333-0123456789ab"
OTHERS_CGROUP = (
    f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope\n"
)


@pytest.fixture
def host(tmp_path: Path) -> EngineHost:
    return EngineHost(tmp_path)


async def found(host: EngineHost, url: str = URL) -> Found:
    return await find(url, str(host.tree.proc))


async def refused(host: EngineHost, url: str = URL) -> RefusedError:
    with pytest.raises(RefusedError) as error:
        await found(host, url)
    return error.value


@pytest.mark.parametrize("url", [URL, "http://localhost:18000", "http://[::ffff:127.0.0.1]:18000"])
async def test_an_engine_whole(host: EngineHost, url: str) -> None:
    host.vllm()
    engine = await found(host, url)
    assert [held.pid for held in engine.held] == [100, 101, 102, 103]
    assert engine.main.pid == 100 and engine.held[0].start_ticks == 2000
    assert engine.held[0].cmdline == tuple(VLLM)
    assert engine.held[2].name == "VLLM::EngineCore" and engine.held[2].role == "engine_core"
    assert engine.warnings == () and engine.place is None


async def test_a_remote_address_with_the_same_port_here(host: EngineHost) -> None:
    host.vllm()
    assert "192.0.2.7 is no address of this host" in str(await refused(host, "http://192.0.2.7:18000"))
    with pytest.raises(RefusedError, match="no address of this host"):
        await check_local("http://192.0.2.7:18000")
    await check_local(URL)


async def test_another_program_listens_in_the_engines_place(host: EngineHost) -> None:
    """A server that only asks for the port is not the one that answers at it."""
    host.vllm()
    host.tree.close(7)
    host.tree.process(200, comm="nginx", argv=["nginx", "-g", "daemon off;"], inodes=[70])
    host.tree.listen(18000, 70)
    assert "pid 200 (nginx) listens" in str(await refused(host))


async def test_a_proxy_alone(host: EngineHost) -> None:
    host.tree.process(200, comm="nginx", argv=["nginx"], inodes=[70])
    host.tree.listen(18000, 70, "0.0.0.0")
    assert "pid 200 (nginx) listens" in str(await refused(host))


async def test_an_address_of_its_own_goes_before_all_addresses(host: EngineHost) -> None:
    """The kernel gives a connection to the more exact socket: here the proxy's, not the engine's."""
    host.vllm()
    host.tree.close(7)
    host.tree.listen(18000, 7, "0.0.0.0")
    assert (await found(host)).main.pid == 100
    host.tree.process(200, comm="nginx", argv=["nginx"], inodes=[70])
    host.tree.listen(18000, 70, "127.0.0.1")
    assert "pid 200 (nginx) listens" in str(await refused(host))
    host.tree.close(7)
    host.tree.close(70)
    host.tree.listen(18000, 7, "127.0.0.1")
    host.tree.listen(18000, 70, "0.0.0.0")
    assert (await found(host)).main.pid == 100


async def test_nothing_listens(host: EngineHost) -> None:
    host.vllm()
    host.tree.close(7)
    assert str(await refused(host)) == f"nothing listens at {URL}"


async def test_whose_socket_it_is_cannot_be_seen(host: EngineHost) -> None:
    host.vllm()
    shutil.rmtree(host.tree.proc / "100/fd")  # as it looks to another user
    assert "pid 100 (vllm): which sockets it holds cannot be seen: run as root" in str(await refused(host))
    host.tree.remove(100)
    host.tree.close(7)
    host.tree.listen(18000, 7, uid=1234)
    assert "run as root, or as the user with uid 1234" in str(await refused(host))


def api_servers(host: EngineHost, *, parent: int) -> None:
    for pid in (101, 102):
        host.tree.process(
            pid, ppid=parent, comm="VLLM::APIServer", title=f"VLLM::APIServer_{pid - 101}", inodes=[7]
        )
    host.tree.listen(18000, 7)


async def test_of_several_api_servers_the_launcher_is_meant(host: EngineHost) -> None:
    host.tree.process(100, comm="vllm", argv=VLLM, inodes=[7])
    api_servers(host, parent=100)
    engine = await found(host)
    assert engine.main.pid == 100 and engine.main.role == "launcher"
    assert {held.pid for held in engine.held} == {100, 101, 102}


@pytest.mark.parametrize(
    ("name", "listening", "launcher"),
    [
        ("vllm-asc2", {8694: [(18000, 7)], 8702: [(18000, 7)], 8703: [(18000, 7), (40002, 8)]}, 8694),
        ("vllm-dp2", {8502: [(18000, 7)], 8503: [(18000, 7)], 8458: [(18001, 9)]}, 7639),
    ],
)
async def test_the_launchers_of_real_engines(
    host: EngineHost, name: str, listening: dict[int, list[tuple[int, int]]], launcher: int
) -> None:
    """As recorded: with or without the socket of its API servers in its own hands."""
    host.captured(name, listening)
    assert (await found(host)).main.pid == launcher


async def test_api_servers_that_share_a_socket_without_a_launcher(host: EngineHost) -> None:
    api_servers(host, parent=1)
    assert "no launcher in common" in str(await refused(host))


async def test_who_else_holds_the_socket(host: EngineHost) -> None:
    """A parent that passed it on is named; a stranger with the same socket gets the same requests."""
    host.tree.process(50, comm="python3", argv=["python3", "serve.py"], inodes=[7])
    host.vllm()
    host.tree.process(100, ppid=50, comm="vllm", argv=VLLM, inodes=[7], start=2000)
    (warning,) = (await found(host)).warnings
    assert warning.startswith("pid 50 (python3) holds the listening socket too")
    host.tree.process(60, comm="python3", argv=["python3", "other.py"], inodes=[7])
    assert "pid 60 (python3) holds the socket" in str(await refused(host))


async def test_containers_and_pods_are_recognised(host: EngineHost) -> None:
    host.vllm()
    host.tree.write("100/cgroup", f"0::/system.slice/docker-{CONTAINER}.scope\n")
    error = await refused(host)
    assert error.kind == "docker" and f"pid 100 is in the container {CONTAINER[:12]}" in str(error)
    host.tree.write("100/cgroup", OTHERS_CGROUP)
    error = await refused(host)
    assert error.kind == "kubernetes" and POD in str(error)


async def test_a_port_that_docker_publishes(host: EngineHost) -> None:
    words = ["/usr/bin/docker-proxy", "-proto", "tcp", "-host-ip", "0.0.0.0", "-host-port", "18000"]
    words += ["-container-ip", "172.17.0.2", "-container-port", "8000"]
    host.tree.process(300, comm="docker-proxy", argv=words, inodes=[90])
    host.tree.listen(18000, 90, "0.0.0.0")
    error = await refused(host)
    assert error.kind == "docker" and "docker-proxy carries this port into a container" in str(error)


async def test_other_namespaces(host: EngineHost) -> None:
    host.vllm()
    (host.tree.proc / "100/ns/pid").unlink()
    (host.tree.proc / "100/ns/pid").symlink_to("pid:[4026532999]")
    assert str(await refused(host)) == "pid 100 (vllm) is in another pid namespace"
    (host.tree.proc / "100/ns/pid").unlink()
    assert "its pid namespace cannot be seen" in str(await refused(host))


async def test_an_engine_in_another_network_is_not_the_one_here(host: EngineHost) -> None:
    """The same port, asked for in a namespace of its own, while something else listens here."""
    host.tree.process(100, comm="vllm", argv=VLLM, inodes=[7], network="net:[2]")
    host.tree.process(200, comm="nginx", argv=["nginx"], inodes=[70])
    host.tree.listen(18000, 70)
    assert "pid 200 (nginx) listens" in str(await refused(host))
