"""Addresses of engines: one spelling, no credentials."""

from __future__ import annotations

import functools
import re
from urllib.parse import quote, unquote, urlsplit, urlunsplit


def parse_url(text: str) -> str:
    """The canonical form of an engine's address: scheme, host, port, path without trailing slash.

    ``host:port`` alone is taken as http.

    Raises:
        ValueError: not an http(s) address; or it holds credentials, a query or a fragment, which
            would end up on screen and in logs.
    """
    if text.isdecimal():
        raise ValueError("a port without a host")
    if "://" not in text:
        text = f"http://{text}"
    if any(ord(c) <= 32 or ord(c) == 127 for c in text):
        raise ValueError("white space or control characters")
    parts = urlsplit(text)
    if not parts.path.isascii() or any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError("characters that no URL has; write them as %XX")
    if parts.scheme not in ("http", "https"):
        raise ValueError("the scheme is not http or https")
    if parts.username is not None or parts.password is not None:
        raise ValueError("credentials in a URL would be shown; use token_env or headers in the config")
    if parts.query or parts.fragment:
        raise ValueError("a query or fragment has no meaning here")
    if not parts.hostname:
        raise ValueError("no host")
    port = parts.port  # raises ValueError when it is no number up to 65535
    if port == 0:
        raise ValueError("port 0")
    # a zone is written %25eth0 in a URL (RFC 6874), %eth0 everywhere else
    name = re.sub(r"%25(?=.)", "%", parts.hostname)
    if "%" in name and (":" not in name or not re.fullmatch(r"[^%]+%[\w.-]+", name)):
        raise ValueError("only an IPv6 address has a zone, as in [fe80::1%eth0]")
    host = f"[{name}]" if ":" in name else name
    return urlunsplit((parts.scheme, f"{host}:{port}" if port else host, parts.path.rstrip("/"), "", ""))


def may_hold_secret(text: str) -> bool:
    """Whether an address that was refused may hold a password or key, and must not be repeated."""
    return any(mark in text for mark in "@?#")


def parse_metrics_url(text: str) -> str:
    """The canonical form of where metrics are: as ``parse_url``, or a Unix socket of this host.

    ``unix:///run/engine.sock`` is asked for ``/metrics``; another route is named as in
    ``http+unix://%2Frun%2Fengine.sock/stats``, which is the canonical form of both.

    Raises:
        ValueError: as ``parse_url``; or the socket's path is not absolute.
    """
    parts = urlsplit(text)
    if parts.scheme not in ("unix", "http+unix"):
        return parse_url(text)
    if any(ord(c) <= 32 or ord(c) == 127 for c in text):
        raise ValueError("white space or control characters")
    if parts.query or parts.fragment:
        raise ValueError("a query or fragment has no meaning here")
    whole = parts.scheme == "unix"
    path, route = (parts.path, "") if whole else (unquote(parts.netloc), parts.path)
    if (whole and parts.netloc) or not path.startswith("/") or path.endswith("/"):
        raise ValueError("a Unix socket is named by an absolute path: unix:///run/engine.sock")
    if "\0" in path:
        raise ValueError("white space or control characters")
    return f"http+unix://{quote(path, safe='')}{route.rstrip('/')}"


def parse_proxy(text: str) -> str:
    """The address of an HTTP proxy, as it was given; it may hold a user name and password.

    Raises:
        ValueError: not one; the message quotes nothing of it.
    """
    if any(ord(c) <= 32 or ord(c) == 127 or not c.isascii() for c in text):
        raise ValueError("white space, control or non-ASCII characters")
    text = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("host or port cannot be read") from None
    if parts.scheme.startswith("socks"):
        raise ValueError("SOCKS is not spoken, only HTTP proxies")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("expected http://HOST:PORT or https://HOST:PORT")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("a proxy has no path")
    return text


def unix_socket(url: str) -> str | None:
    """The path of the socket in a canonical metrics address; None where it is on the network."""
    parts = urlsplit(url)
    return unquote(parts.netloc) if parts.scheme == "http+unix" else None


@functools.lru_cache(maxsize=256)  # asked of the same few addresses some 20 times a frame
def host_port(url: str) -> tuple[str, int]:
    """Host (without brackets) and port of a canonical address; the scheme's port where none is given."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def short_name(url: str) -> str:
    """How an address is called on a small screen: ``:8000`` on loopback, else ``host:port``."""
    host, port = host_port(url)
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    return f":{port}" if loopback else f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
