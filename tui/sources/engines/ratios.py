"""Shares and means over a window: what a counter grew by, over what another did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.sources.engines.windows import LATENCY_WINDOW_S, RATE_WINDOW_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.sources.engines.windows import Windows


class Ratios:
    """Of the rate window, or of the longer one where there was nothing to count in it.

    Args:
        windows: of the engine, the newest scrape taken.
        errors_told: the scrape has figures that grow with failures, so that none means none.
    """

    def __init__(self, windows: Windows, *, errors_told: bool) -> None:
        self._windows = windows
        self._errors_told = errors_told

    def prefix_hits(self) -> float | None:
        """0-1: found of the looked-up tokens (or blocks); while no request ends, of those of running ones."""
        found = self._recent(lambda window_s: self._hits("prefix_", window_s))
        return self._recent(lambda window_s: self._hits("live_prefix_", window_s)) if found is None else found

    def errors(self) -> float | None:
        """0-1: failed of all requests that ended."""
        return self._recent(lambda window_s: self._share("", window_s)) if self._errors_told else None

    def answered(self, counter: str) -> float | None:
        """0-1: requests that were answered with one HTTP code (``http_503``) of all that ended."""
        return self._recent(lambda window_s: self._share(counter, window_s)) if self._errors_told else None

    def accepted_drafts(self) -> float | None:
        """0-1: accepted of the drafted tokens."""
        return self._recent(
            lambda window_s: self._part("spec_accepted_tokens", "spec_draft_tokens", window_s)
        )

    def accept_length(self) -> float | None:
        """Tokens a step with a draft."""
        accepted = self._recent(lambda window_s: self._part("spec_accepted_tokens", "spec_drafts", window_s))
        return None if accepted is None else 1.0 + accepted

    def mean(self, total: str) -> float | None:
        """Seconds a finished request, of a counter of seconds."""
        return self._part(total, "finished", LATENCY_WINDOW_S)

    def _recent(self, ratio: Callable[[float], float | None]) -> float | None:
        recent = ratio(RATE_WINDOW_S)
        return ratio(LATENCY_WINDOW_S) if recent is None else recent

    def _part(self, counter: str, whole: str, window_s: float) -> float | None:
        part, of = self._windows.increase(counter, window_s), self._windows.increase(whole, window_s)
        return part / of if part is not None and of else None

    def _hits(self, prefix: str, window_s: float) -> float | None:
        hits = self._windows.increase(f"{prefix}hits", window_s)
        asked = self._windows.increase(f"{prefix}queries", window_s)
        misses = self._windows.increase(f"{prefix}misses", window_s)
        if hits is not None and asked is None and misses is not None:
            asked = hits + misses
        return min(1.0, hits / asked) if hits is not None and asked else None

    def _share(self, counter: str, window_s: float) -> float | None:
        """Failures, or those of one code, of all requests that ended.

        A failure may be counted by the engine, by HTTP, or by both. An error or a rejection inside a
        stream is an HTTP 200, and a 5xx before the engine saw the request is none of its finished ones: the
        larger count is the better one.
        """
        increase = self._windows.increase
        finished = increase("finished", window_s)
        if finished is None:
            return None
        in_error = increase("finished_in_error", window_s) or 0.0
        failed = max(
            in_error + (increase("rejected", window_s) or 0.0), increase("http_5xx", window_s) or 0.0
        )
        part = increase(counter, window_s) if counter else failed
        if part is None:
            return None
        ended = finished - in_error + failed + (part if counter == "http_429" else 0.0)
        return part / ended if ended > 0 else None
