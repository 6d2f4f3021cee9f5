"""What a source is: something that is asked for one reading at a time, by somebody else's clock."""

from __future__ import annotations

from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class BlockingSource(Protocol[T_co]):
    """A source whose calls may block for ever (NVML, /proc). It gets one daemon thread of its own.

    ``doing`` names the call in progress, so that one that never returns can be named on screen; it is
    written by the source's thread and read by the loop's (a single attribute: no lock needed).
    """

    name: str
    doing: str

    def read(self) -> T_co:
        """One reading; raises ``SourceError``."""
        ...

    def close(self) -> None:
        """Release what is held. Called on the source's own thread, and only if it is not stuck."""
        ...


class AsyncSource(Protocol[T_co]):
    """A source that waits on the event loop (HTTP). ``read`` must bear being cancelled at any await."""

    name: str

    async def read(self) -> T_co:
        """One reading; raises ``SourceError``."""
        ...

    async def close(self) -> None:
        """Release connections; at most a second."""
        ...
