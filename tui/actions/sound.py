"""Whether what lies in the files of a test has the shape that we write.

A disk that failed or a hand that edited must end neither the screen that shows a test nor another test.
"""

from __future__ import annotations

from typing import Any, Final

_NUMBER: Final = (int, float)
_MOST: Final = 1e12
"""No figure of ours is larger; what is, infinite or no number at all cannot be written as seconds."""
_FIELDS: Final[dict[str, type | tuple[type, ...]]] = {
    "at": _NUMBER, "name": str, "t_s": _NUMBER, "event": str, "detail": str, "id": int, "request": str,
    "started_s": _NUMBER, "ended_s": _NUMBER, "outcome": str, "http_status": int, "finish_reason": str,
    "tokens": (int, dict), "tokens_wanted": int, "running": _NUMBER, "waiting": _NUMBER,
    "readiness": (int, str), "established": int, "silent": list, "text": str, "passed": bool,
    "reasons": list, "report": str,
}  # fmt: skip
_TABLES: Final = ("events", "requests", "phases", "previous", "findings")
_LISTS: Final = ("reasons", "notes")
_DICTS: Final = ("target", "exit", "outcomes")
_FIGURES: Final = ("grace_s", "downtime_s", "detect_s")


def event(line: dict[str, Any]) -> bool:
    """Every field of a line of the event file is what it is said to be, or null."""
    return all(
        _bounded(value) and (value is None or isinstance(value, _FIELDS.get(name, object)))
        for name, value in line.items()
    )


def report(document: object) -> bool:
    """It can be shown as a report; a field may be missing."""
    if not isinstance(document, dict):
        return False
    tables = [document.get(name, []) for name in _TABLES]
    span, left = document.get("detect_span_s"), document.get("leftovers")
    reference = document.get("reference")
    known = {} if reference is None else reference
    return (
        all(isinstance(table, list) and all(map(_row, table)) for table in tables)
        and all(isinstance(document.get(name, []), list) for name in _LISTS)
        and all(document.get(name) is None or _row(document[name]) for name in _DICTS)
        and all(_figure(document.get(name)) for name in _FIGURES)
        and (span is None or (isinstance(span, list) and len(span) == 2 and all(map(_figure, span))))
        and (left is None or isinstance(left, list))
        and isinstance(known, dict)
        and all(map(_bounded, known.values()))
    )


def _row(value: object) -> bool:
    """One object without others in it."""
    return isinstance(value, dict) and all(
        _bounded(item) and not isinstance(item, (dict, list)) for item in value.values()
    )


def _figure(value: object) -> bool:
    return value is None or (isinstance(value, _NUMBER) and _bounded(value))


def _bounded(value: object) -> bool:
    return not isinstance(value, _NUMBER) or abs(value) <= _MOST
