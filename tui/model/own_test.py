"""A test of ours that is under way, as the monitors beside it see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OwnTest:
    """One drain or restart test, until its engine serves again or it ends."""

    test: str
    """``drain`` or ``restart``."""
    state: str
    """``preparing``, ``filling``, ``asking`` or ``confirming`` before the order to stop, ``stopping``,
    ``draining`` or ``closing`` while the engine goes, ``starting`` once it has gone."""
    gone_at: float | None = None
    """Epoch seconds at which its process was seen to have ended, or its port to be closed."""
    failed: str = ""
    """Why nobody will start it again, for a person."""
