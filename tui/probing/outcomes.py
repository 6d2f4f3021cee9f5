"""What counts as success of one probe (kubernetes/kubernetes ``pkg/probe``: http, tcp, exec)."""

from __future__ import annotations

import enum
from typing import Literal
from urllib.parse import urljoin, urlsplit

BODY_LIMIT = 10 * 1024
"""Bytes of a body that are read; a longer one is cut off, which is no error."""
MAX_REQUESTS = 10
"""Requests of one probe, redirects included."""

Body = Literal["whole", "over_limit", "unfinished"]

_REDIRECTS = frozenset((301, 302, 303, 307, 308))


class Outcome(enum.Enum):
    """The result of one probe as the kubelet takes it."""

    SUCCESS = "success"
    WARNING = "warning"
    """Counts as a success, and an event says so."""
    FAILURE = "failure"
    DISCARDED = "discarded"
    """An error of the prober itself: tried again, at last thrown away; no run counter moves."""

    @property
    def passed(self) -> bool:
        """Whether it counts towards the success threshold."""
        return self in (Outcome.SUCCESS, Outcome.WARNING)


class RedirectError(Exception):
    """A chain of redirects that ends the probe as a failure."""


def http_outcome(status: int, body: Body = "whole") -> Outcome:
    """One answer whose status and headers came within the timeout.

    No answer at all (refused, reset, TLS error, no headers in time) is ``Outcome.FAILURE``.

    Args:
        status: of the last answer, after the redirects that ``next_url`` follows.
        body: ``unfinished`` when it broke off, or had not ended within the timeout and stayed under
            ``BODY_LIMIT``: then not even a 500 counts.
    """
    if body == "unfinished":
        return Outcome.DISCARDED
    if 200 <= status < 300:
        return Outcome.SUCCESS
    return Outcome.WARNING if 300 <= status < 400 else Outcome.FAILURE


def next_url(first: str, current: str, status: int, location: str | None, made: int) -> str | None:
    """Where the prober goes after an answer.

    Args:
        first: the probe's own URL: a redirect is followed only to the same host name, on any port.
        current: the URL that answered.
        status: the answer's status.
        location: its ``Location`` header.
        made: requests made so far in this probe, 1 for the first.

    Returns:
        the URL to ask next; None when this answer is the final one, to be judged by ``http_outcome``.

    Raises:
        RedirectError: the probe has failed: too many redirects, or a scheme other than http(s).
    """
    if status not in _REDIRECTS or not location:
        return None
    try:
        target = urljoin(current, location)
        parts, origin = urlsplit(target), urlsplit(first)
        if parts.hostname != origin.hostname:
            return None
    except ValueError:
        return None
    if parts.scheme not in ("http", "https"):
        raise RedirectError("redirected to another scheme than http and https")
    if made >= MAX_REQUESTS:
        raise RedirectError(f"stopped after {MAX_REQUESTS} redirects")
    return target


def tcp_outcome(connected: bool) -> Outcome:
    """Success when the connection opened within the timeout, even if it was closed at once."""
    return Outcome.SUCCESS if connected else Outcome.FAILURE


def exec_outcome(exit_code: int | None) -> Outcome:
    """Success on exit status 0; None is a process that ran past the timeout, which has failed."""
    return Outcome.SUCCESS if exit_code == 0 else Outcome.FAILURE
