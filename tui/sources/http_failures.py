"""What went wrong with an HTTP exchange, in the closed vocabulary."""

from __future__ import annotations

import errno
import ssl
from typing import TYPE_CHECKING

from tui.model.status import SourceError
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.sources.proxies import Proxy

_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EHOSTDOWN)


def failures() -> tuple[type[Exception], ...]:
    """What httpcore raises where an exchange fails."""
    import httpcore

    return (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.ProxyError,
        httpcore.UnsupportedProtocol,
    )


def failure(error: Exception, scheme: str, proxy: Proxy | None = None) -> SourceError:
    """A failed exchange in our words: those of exceptions may hold header values.

    Args:
        error: one of ``failures``.
        scheme: of the endpoint.
        proxy: the one that was taken. That it is out of reach is no news of the engine: never ``refused``.
    """
    import httpcore

    if isinstance(error, httpcore.ProxyError):
        status = str(error)[:3]
        if status in ("403", "407"):
            return SourceError("403", f"{proxy}: HTTP {status} to our CONNECT")
        return SourceError("timeout", clean(f"{proxy} does not get through: HTTP {status}"))
    found = _failure(error, scheme)
    if (
        proxy is not None
        and found.reason != "tls"
        and isinstance(error, (httpcore.ConnectError, httpcore.ConnectTimeout))
    ):
        return SourceError("timeout", f"{proxy} cannot be reached: {found.detail}")
    return found


def _failure(error: Exception, scheme: str) -> SourceError:
    import httpcore

    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            words = getattr(cause, "verify_message", "") or cause.reason or "handshake failed"
            return SourceError("tls", clean(words.replace("_", " ").lower()))
        if isinstance(cause, ConnectionRefusedError):
            return SourceError("refused", "connection refused")
        if isinstance(cause, FileNotFoundError):
            return SourceError("refused", "there is no such Unix socket")
        if isinstance(cause, (ConnectionResetError, BrokenPipeError)):
            return SourceError("reset", "connection reset by the server")
        if isinstance(cause, PermissionError):
            return SourceError("no_permission", clean(f"may not connect: {cause.strerror}"))
        if isinstance(cause, OSError) and cause.errno in _UNREACHABLE:
            return SourceError("timeout", clean(f"cannot be reached: {cause.strerror}"))
    if isinstance(error, httpcore.RemoteProtocolError):
        words = str(error)
        if "disconnected" in words or "closed" in words:
            return SourceError("reset", "the server closed the connection before the end of its answer")
        return SourceError("not_metrics", "what answers there does not speak HTTP")
    if isinstance(error, httpcore.LocalProtocolError):
        return SourceError("parse", "a configured header or token cannot be sent as it is")
    if isinstance(error, httpcore.ConnectTimeout):
        return SourceError("timeout", "no connection")
    if isinstance(error, httpcore.ConnectError) and scheme == "https":
        return SourceError("tls", "the connection was closed during the handshake")
    return SourceError("reset", "the connection broke")


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in seen:
        seen.append(found)
        yield found
        found = found.__cause__ or found.__context__
