"""Text from outside is hostile: it may hold escape sequences, markup, bidi overrides or megabytes."""

from __future__ import annotations

import re
import unicodedata

_UNSAFE_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
# ESC [ ... final, ESC ] ... (BEL or ST), and the one-letter escapes; what is left of a broken one
# loses its control characters below.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]")


def sendable(text: str) -> bool:
    """Whether text can be the value of an HTTP header as it is: anything else could begin another header."""
    whole = text == text.strip()
    return whole and all(
        (c >= " " or c == "\t") and c != "\x7f" and not "\ud800" <= c <= "\udfff" for c in text
    )


def clean(text: str, limit: int = 200) -> str:
    """Make text from outside safe to show: one line, no control or invisible characters, bounded.

    Escape sequences go whole; every other control, format (bidi, zero width), surrogate or
    unassigned character goes alone; white space becomes one space.

    Args:
        text: anything.
        limit: the most characters to return; a longer text ends in an ellipsis.
    """
    text = text[: 4 * limit + 1000]  # bounds the work; what follows can only shorten
    if not text.isascii() or not text.isprintable():
        text = _ESCAPES.sub("", text)
        text = "".join(
            " " if c in "\t\n\r\v\f" else c
            for c in text
            if c in "\t\n\r\v\f" or unicodedata.category(c) not in _UNSAFE_CATEGORIES
        )
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"
