"""Events of a running test as lines for a person."""

from __future__ import annotations

from typing import Any

from tui.model.text import clean

_STATES = {
    "preparing": "looking at the engine",
    "filling": "filling it with requests of our own",
    "asking": "asking it once a second",
    "confirming": "looking whether others use it",
    "stopping": "stopping it",
    "draining": "watching it end",
    "closing": "the grace period is over: closing our silent requests",
    "starting": "waiting for it to come back",
    "warming": "measuring its first requests",
    "reporting": "writing the report",
}


def line(event: dict[str, Any]) -> str:
    """One event; empty where it is not worth a line."""
    kind = event.get("kind")
    if kind == "state":
        return clean(str(event.get("text") or _STATES.get(str(event.get("name")), "")), 300)
    if kind == "event":
        detail = f": {event['detail']}" if event.get("detail") else ""
        return _at(event.get("t_s")) + clean(f"{str(event.get('event')).replace('_', ' ')}{detail}", 200)
    if kind == "request" and event.get("outcome") and event.get("request") == "in_flight":
        if event.get("ended_s") is None:
            return ""  # it made way for another before the action
        why = event.get("finish_reason") or event.get("http_status")
        tokens = event.get("tokens")
        return _at(event.get("ended_s")) + clean(
            f"request {event.get('id')} {event['outcome']}"
            + (f" ({why})" if why else "")
            + ("" if tokens is None else f" after {tokens} tokens"),
            200,
        )
    if kind == "note":
        return clean(str(event.get("text")), 300)
    if kind == "done":
        word = {True: "passed", False: "failed"}.get(event.get("passed"), "no result")  # type: ignore[arg-type]
        reasons = event.get("reasons") or []
        return clean("; ".join([word, *map(str, reasons)]), 600)
    return ""


def _at(seconds: Any) -> str:
    return f"{seconds:+8.2f} s  " if isinstance(seconds, (int, float)) else " " * 12
