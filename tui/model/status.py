"""How a source is doing: fresh, stale, failed, unsupported or not yet read are different things."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

Reason = Literal[
    "refused", "timeout", "dns", "tls", "401", "403", "404", "5xx", "not_metrics", "too_large", "empty",
    "parse", "stats_off", "no_driver", "driver_mismatch", "no_permission", "stuck", "lost",
    "not_supported", "old_driver", "insufficient_power", "driver_error", "reset", "redirect",
    "unsupported_engine",
]  # fmt: skip
"""Why data is missing: the closed vocabulary of the JSON contract."""


class SourceState(enum.Enum):
    """The four ways of having no fresh figure, and fresh."""

    PENDING = "pending"
    """Not read yet."""
    FRESH = "fresh"
    """The last attempt succeeded and is recent."""
    STALE = "stale"
    """The last attempt succeeded, but too long ago: no attempt has ended since."""
    FAILED = "failed"
    """The last attempt failed; an older reading may still be shown with its age."""
    UNSUPPORTED = "unsupported"
    """Cannot exist on this host."""


class SourceError(Exception):
    """A read that failed, in the vocabulary of the JSON contract.

    Args:
        reason: one of ``Reason``.
        detail: one line for a person; text from outside in it must have passed ``clean``.
        unsupported: true where no later attempt can succeed on this host.
    """

    def __init__(self, reason: Reason, detail: str = "", *, unsupported: bool = False) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: Reason = reason
        self.detail = detail
        self.unsupported = unsupported


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How one source is doing at the instant of a snapshot."""

    state: SourceState = SourceState.PENDING
    reason: Reason | None = None
    detail: str = ""
    since: float | None = None
    """Monotonic seconds at which the present run of successes or failures began."""
    age_s: float | None = None
    """Seconds since the reading that is shown was taken; None without one."""
    failures: int = 0
    """Failed attempts in a row."""

    @property
    def ok(self) -> bool:
        """True when the reading is fresh."""
        return self.state is SourceState.FRESH


PENDING = SourceStatus()

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Observed(Generic[T]):
    """The latest reading of one source, kept when later attempts fail, and how the source is doing."""

    reading: T | None = None
    status: SourceStatus = PENDING
