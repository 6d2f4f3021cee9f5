"""What the screen needs of the program behind it: always at hand, never awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tui.model.explanations import Explanation
    from tui.model.history import History
    from tui.model.snapshot import HostSnapshot
    from tui.model.verdicts import Judgement


class Feed(Protocol):
    """Collection and judging, as seen from the screen; ``runtime.monitor.Monitor`` is one.

    All of it is used from the event loop's thread alone.
    """

    history: History
    """Series by (scope, signal); instants are monotonic, as ``HostSnapshot.taken_at``."""
    version: int
    """Grows whenever snapshot or judgement changed: an equal one means there is nothing new to draw."""
    interval_s: float
    """Seconds between readings; the screen sets it when the operator asks."""
    relaxed: bool
    """Readings may come as rarely as each 5 s: the screen sets it while it shows none of them."""
    generate: bool
    """Each engine is asked for one token now and then; the screen sets it when the operator asks. It stays
    off where nothing may be sent to an engine."""

    def snapshot(self) -> HostSnapshot:
        """The latest readings and their statuses; never waits."""

    def judgement(self) -> Judgement:
        """The latest verdicts and findings; never waits."""

    def timeline(self, scope: str) -> list[tuple[float, str]]:
        """Changes of a scope's verdict: (epoch seconds, verdict name), oldest first."""

    def explain(self, scope: str, snapshot: HostSnapshot) -> Explanation | None:
        """Everything behind the verdict of one engine; None where the picture has none of that name.

        Takes some 30 ms: it is asked for the one engine that is looked at, while it is.
        """

    async def start(self) -> None:
        """Begin to collect; may return at once or run until stopped."""

    async def stop(self) -> None:
        """End collection and close what is open; the screen waits at most a second for it."""
