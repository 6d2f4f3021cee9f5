from __future__ import annotations

import ipaddress
import socket

import psutil
import pytest

from tui.sources.addresses import is_local


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "http://127.3.2.1",
        "http://localhost:8000/x",
        "https://engine.localhost",
        "http://[::1]:8000",
        "http://[::ffff:127.0.0.1]:1",
        "http://0.0.0.0:8000",
        f"http://{socket.gethostname()}:8000",
        f"http://{socket.gethostname().upper()}",
    ],
)
def test_addresses_of_this_machine(url: str) -> None:
    assert is_local(url)


def test_every_interface_counts() -> None:
    for entries in psutil.net_if_addrs().values():
        for entry in entries:
            if entry.family == socket.AF_INET:
                assert is_local(f"http://{entry.address}:8000")
            elif entry.family == socket.AF_INET6:
                assert is_local(f"http://[{entry.address.partition('%')[0]}]:8000")


def test_other_machines_are_not_asked_after(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_look_up(*_: object, **__: object) -> None:
        raise AssertionError("a name server was asked")

    for name in ("getaddrinfo", "gethostbyname", "getfqdn", "gethostbyaddr"):
        monkeypatch.setattr(socket, name, no_look_up)
    own = {entry.address for entries in psutil.net_if_addrs().values() for entry in entries}
    other = next(str(a) for a in ipaddress.ip_network("192.0.2.0/24").hosts() if str(a) not in own)
    for url in (
        f"http://{other}",
        "http://gpu-07.example:8000",
        "http://localhost.example",
        "http://x:[",
        "",
        "nonsense",
    ):
        assert not is_local(url)
