"""One HTTP answer, and what it is where it is not the wanted one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from tui.model.status import SourceError
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.status import Reason

SIMULATED_HEADER = "x-infertop-simulated"
_BY_STATUS: dict[int, Reason] = {401: "401", 403: "403", 404: "404"}
_TITLE = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete HTTP answer, whatever its status."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case, or a mapping that does not mind."""
    took_s: float = 0.0
    """From the request to the last byte."""

    @property
    def simulated(self) -> bool:
        """The server says of itself that its figures are made up."""
        return self.headers.get(SIMULATED_HEADER, "").strip() == "1"

    @property
    def content_type(self) -> str:
        """Without parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def text(self) -> str:
        """The body as UTF-8; what is not becomes U+FFFD."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON; None where it is none, or nested past what the reader bears."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def looks_like(self) -> str:
        """What the body is, in words for a person: ``an HTML page "Sign in"``."""
        start = self.body[:4000].decode("utf-8", "replace").lstrip()
        if not start:
            return "nothing"
        if self.content_type == "text/html" or start[0] == "<":
            title = _TITLE.search(start)
            return f'an HTML page "{clean(title[1], 60)}"' if title else "an HTML page"
        if self.content_type == "application/json" or start[0] in "{[":
            return "JSON"
        return "text without metrics"

    def refusal(self, path: str) -> SourceError:
        """Why this answer to a GET of ``path``, whose status is not 200, is of no use."""
        if 300 <= self.status < 400:
            where = _place(self.headers.get("location", "")) or "nowhere"
            return SourceError("redirect", f"{path}: HTTP {self.status} to {where}, which is not followed")
        reason: Reason = "5xx" if self.status >= 500 else _BY_STATUS.get(self.status, "not_metrics")
        return SourceError(reason, f"{path}: HTTP {self.status}")


def _place(location: str) -> str:
    """Where a redirect leads, without what may be a secret: user name, password and query."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "what is no URL"
    return clean(urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")), 80)
