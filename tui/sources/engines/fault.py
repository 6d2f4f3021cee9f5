"""A read that failed although the engine has said what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.status import SourceError

if TYPE_CHECKING:
    from tui.model.readings import EngineReading


class EngineFaultError(SourceError):
    """As the error that it stands for.

    Args:
        error: what went wrong.
        known: who answers there, without figures.
    """

    def __init__(self, error: SourceError, known: EngineReading) -> None:
        super().__init__(error.reason, error.detail, unsupported=error.unsupported)
        self.known = known
