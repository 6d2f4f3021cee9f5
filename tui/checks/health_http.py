"""HTTP GETs for a program that lives for a second: blocking, each with a total deadline.

``tui.sources.http`` would cost 0.3 s of CPU for asyncio and httpcore before its first byte; this takes 0.05.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import tui
from tui.checks.health_bounded import bounded
from tui.model.status import SourceError
from tui.model.text import clean
from tui.model.urls import host_port
from tui.sources.answers import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.settings import EngineTarget

MAX_BYTES = 20_000_000
"""Of one answer."""


class Asker:
    """GETs to one origin: no redirects, no proxies, no cookies, a connection each, an answer kept for good.

    Args:
        url: a canonical address; its path is put before the path of each request.
        token: sent as a bearer token; never part of an error.
        headers: more headers, or others in place of ours.
        ca_file: trust only these authorities.
        verify: check the server's certificate.
        unix_socket: path of a Unix socket of this host to connect to, whatever the host of ``url``.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        headers: Mapping[str, str] | None = None,
        ca_file: str = "",
        verify: bool = True,
        unix_socket: str = "",
    ) -> None:
        parts = urlsplit(url)
        self._tls, self._base = parts.scheme == "https", parts.path.rstrip("/")
        self._host, self._port = host_port(url)
        self._ca_file, self._verify, self._unix_socket = ca_file, verify, unix_socket
        self._headers = {
            "host": parts.netloc,
            "accept": "*/*",
            "accept-encoding": "identity",
            "user-agent": f"infertop/{tui.__version__}",
            "connection": "close",
        }
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._headers |= {name.lower(): value for name, value in (headers or {}).items()}
        self._kept: dict[str, Answer] = {}

    @classmethod
    def of(cls, target: EngineTarget, url: str = "", *, unix_socket: str = "") -> Asker:
        """What a target's settings ask for; ``url`` in place of its own where given.

        One that was found by us, not named by the operator, never gets a token.
        """
        token = target.token or os.environ.get(target.token_env, "").strip()
        return cls(
            url or target.url,
            token="" if target.discovered else token,
            headers=target.headers,
            ca_file=target.ca_file,
            verify=target.verify,
            unix_socket=unix_socket,
        )

    def ask(self, path: str, deadline_s: float, *, max_bytes: int = MAX_BYTES) -> Answer:
        """GET a path; what was asked before is not asked again.

        The exchange runs on a daemon thread: a name that is not resolved and a server that drips a byte at
        a time hold up neither the caller nor the end of the program.

        Args:
            path: begins with a slash.
            deadline_s: for all of it: name, connection, TLS, answer to the last byte.
            max_bytes: most bytes of the body.

        Raises:
            SourceError: no complete answer: refused, timeout, dns, tls, reset, too_large, parse (a header or
                token that cannot be sent), not_metrics (not HTTP), no_permission. Any status is an answer.
        """
        if path not in self._kept:
            self._kept[path] = self._exchange(path, deadline_s, max_bytes)
        return self._kept[path]

    def _exchange(self, path: str, deadline_s: float, max_bytes: int) -> Answer:
        try:
            return bounded(lambda: self._get(path, deadline_s, max_bytes), deadline_s, f"GET {path}")
        except TimeoutError:
            raise SourceError("timeout", f"{path}: no whole answer within {deadline_s:.2g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _failure(error) from None

    def _get(self, path: str, deadline_s: float, max_bytes: int) -> Answer:
        started = time.monotonic()
        connection = self._connection(deadline_s)
        try:
            connection.request("GET", self._base + path, headers=self._headers)
            response = connection.getresponse()
            body = response.read(max_bytes + 1)
            if len(body) > max_bytes:
                raise SourceError("too_large", f"{path}: more than {max_bytes} bytes")
            if response.length:  # read() with a size does not mind a body that ends too early
                raise SourceError("reset", "the server closed the connection before the end of its answer")
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, body, headers, time.monotonic() - started)
        finally:
            connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._unix_socket:
            return _UnixConnection(self._unix_socket, timeout_s)
        if self._tls:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout_s, context=self._trust()
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)

    def _trust(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._ca_file or None)
        except OSError as error:  # ssl.SSLError is one
            store = self._ca_file or "the store of authorities"
            raise SourceError("tls", clean(f"{store} cannot be read: {error.strerror or error}")) from None
        if not self._verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _failure(error: Exception) -> SourceError:
    """A failed exchange in our words: those of exceptions may hold header values."""
    if isinstance(error, ssl.SSLError):
        words = getattr(error, "verify_message", "") or error.reason or "handshake failed"
        return SourceError("tls", clean(words.replace("_", " ").lower()))
    if isinstance(error, socket.gaierror):
        return SourceError("dns", clean(error.strerror or "the name is not known"))
    if isinstance(error, ConnectionRefusedError):
        return SourceError("refused", "connection refused")
    if isinstance(error, FileNotFoundError):
        return SourceError("refused", "there is no such Unix socket")
    if isinstance(error, (ConnectionError, http.client.IncompleteRead)):
        return SourceError("reset", "the server closed the connection before the end of its answer")
    if isinstance(error, PermissionError):
        return SourceError("no_permission", clean(f"may not connect: {error.strerror}"))
    if isinstance(error, http.client.HTTPException):
        return SourceError("not_metrics", "what answers there does not speak HTTP")
    if isinstance(error, OSError):
        return SourceError("timeout", clean(f"cannot be reached: {error.strerror}"))
    if isinstance(error, UnicodeError) and not isinstance(error, UnicodeEncodeError):
        return SourceError("dns", "no host name")
    return SourceError("parse", "a configured header or token cannot be sent as it is")
