"""A port is what tells two engines of a host apart: it is never cut, however little room there is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.ui.address_scenes import far_up
from tui.ui.draw import draw
from tui.ui.lines import cut_name, plain

if TYPE_CHECKING:
    from tui.model.readings import EngineKind
    from tui.ui.view import PaneName

SIZES = [(160, 45), (120, 40), (80, 24), (60, 15), (40, 12)]
HOSTS = ["127.0.0.1", "10.20.130.140", "[2001:db8::7:1]", "gpu-node-17.cluster.example.com"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("kind", ["vllm", "triton"])
@pytest.mark.parametrize("full", [None, "engines", "probes", "verdict"])
def test_a_port_is_never_cut(
    size: tuple[int, int], host: str, kind: EngineKind, full: PaneName | None
) -> None:
    view, ports = far_up(host, kind, full)
    _, panes, _ = draw(view, *size)
    text = "\n".join(plain(line) for lines in panes.values() for line in lines)
    assert not re.search(r":43?6?2?[123]?…", text)
    assert set(re.findall(r":(436\d*)", text)) <= set(ports)
    headline = plain(next(line for line in panes["verdict"] if "KV CACHE FULL" in plain(line)))
    assert ":43621" in headline
    if full in (None, "engines"):
        rows = "\n".join(map(plain, panes["engines"]))
        assert ":43621" in rows
    if full == "probes":
        assert ":43621" in "\n".join(map(plain, panes["probes"]))


@pytest.mark.parametrize(
    ("name", "size", "shown"),
    [
        ("vllm :43621", 11, "vllm :43621"),
        ("vllm :43621", 10, "vllm:43621"),
        ("trtllm :43621", 11, "trtl…:43621"),
        ("vllm 10.0.0.12:8000", 14, "vllm 10.…:8000"),
        ("vllm :43621", 6, ":43621"),
        ("vllm :43621", 4, "vll…"),
        ("no port at all", 6, "no po…"),
    ],
)
def test_kind_and_host_give_way_to_the_port(name: str, size: int, shown: str) -> None:
    assert cut_name(name, size) == shown
