"""gzip with a bound on what comes out."""

from __future__ import annotations

import zlib

from tui.model.status import SourceError


class Inflate:
    """Inflates a body piece by piece: a bomb is not inflated past the limit."""

    def __init__(self) -> None:
        self._state = zlib.decompressobj(wbits=31)

    @property
    def complete(self) -> bool:
        """The stream has ended where the body did."""
        return self._state.eof and not self._state.unused_data

    def feed(self, chunk: bytes, room: int) -> bytes:
        """Inflate; more than ``room`` bytes are dropped, since the caller is past its limit then.

        Raises:
            SourceError: parse.
        """
        try:
            return self._state.decompress(chunk, room)
        except zlib.error:
            raise SourceError("parse", "the gzip body is damaged") from None
