"""Where an engine's metrics are, and how much of what its settings hold may be sent there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from tui.model.urls import host_port, unix_socket

if TYPE_CHECKING:
    from tui.model.settings import EngineTarget

TRITON_METRICS_OFFSET = 2
"""Triton's ports are HTTP, gRPC and metrics, one after the other by default."""


class MetricsAt(NamedTuple):
    """An address of metrics."""

    target: EngineTarget
    """The engine's settings, without token and headers where they are nobody's there to know."""
    url: str
    path: str
    unix_socket: str = ""
    """Path of a Unix socket of this host to connect to, whatever the host of ``url``."""


def named(target: EngineTarget) -> MetricsAt:
    """At the ``metrics_url`` of the settings.

    Token and headers go there on the engine's own host only, and not in the clear where they are encrypted
    on their way to the engine: metrics on another host, or behind a socket, are not worth its key.
    """
    parts = urlsplit(target.metrics_url)
    path = parts.path or "/metrics"
    if (socket := unix_socket(target.metrics_url)) is not None:
        return MetricsAt(_bare(target), "http://localhost", path, socket)
    same_host = host_port(target.metrics_url)[0] == host_port(target.url)[0]
    in_the_clear = parts.scheme == "http" and target.url.startswith("https:")
    known = target if same_host and not in_the_clear else _bare(target)
    return MetricsAt(known, f"{parts.scheme}://{parts.netloc}", path)


def tritons(target: EngineTarget, path: str) -> MetricsAt:
    """At the port that goes with Triton's HTTP port: nobody named it, so it gets no key.

    Args:
        target: the engine.
        path: its route of metrics.
    """
    host, port = host_port(target.url)
    host = f"[{host}]" if ":" in host else host
    return MetricsAt(_bare(target), f"http://{host}:{port + TRITON_METRICS_OFFSET}", path)


def _bare(target: EngineTarget) -> EngineTarget:
    return replace(target, token="", token_env="", headers={})
