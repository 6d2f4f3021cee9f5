"""SGLang's ``/v1/loads``: what the scheduler itself last wrote down, a rank each, with or without metrics.

Since 0.5.8; ``/get_load`` (0.4.7) tells less and only stands in for it where there are no metrics at all.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.exposition.parse import Series
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tui.sources.engines.samples import Sample, Samples

_CORE = (
    "num_running_reqs", "token_usage", "max_total_num_tokens", "max_running_requests", "gen_throughput",
    "timestamp",
)  # fmt: skip
_QUEUES = {"waiting": "waiting", "grammar": "grammar", "retracted": "retracted"}
_DISAGGREGATION = {
    "prefill_bootstrap_queue_reqs": "prefill_bootstrap",
    "decode_prealloc_queue_reqs": "decode_prealloc",
    "decode_transfer_queue_reqs": "decode_transfer",
    "decode_retracted_queue_reqs": "decode_retracted",
}
_MAX_RANKS = 1024


@dataclass(frozen=True, slots=True)
class Loads:
    """One answer."""

    samples: Samples = field(default_factory=dict)
    """As of a scrape, by names that begin with ``loads_``, with the label ``dp_rank``."""
    version: str | None = None


def from_loads(answer: Any) -> Loads:
    """What ``/v1/loads`` says; empty where it is not of that form."""
    if not isinstance(answer, dict) or not isinstance(answer.get("loads"), list):
        return Loads()
    found: dict[str, list[Sample]] = {}
    now = _epoch(answer.get("timestamp"))
    for load in answer["loads"][:_MAX_RANKS]:
        if isinstance(load, dict):
            _add(found, _rank(load), _figures(load, now))
    version = answer.get("version")
    return Loads(found, clean(version, 60) or None if isinstance(version, str) else None)


def from_get_load(answer: Any) -> Loads:
    """What ``/get_load`` says: requests of each rank, those that wait included."""
    found: dict[str, list[Sample]] = {}
    for load in answer[:_MAX_RANKS] if isinstance(answer, list) else ():
        if not isinstance(load, dict):
            continue
        total, waiting = _number(load.get("num_reqs")), _number(load.get("num_waiting_reqs"))
        running = None if total is None or waiting is None else total - waiting
        _add(found, _rank(load), {"num_running_reqs": running, "waiting": waiting})
    return Loads(found)


def from_server_info(answer: Any) -> Loads:
    """What ``/get_server_info`` adds where ``/v1/loads`` is unknown: version, seats and capacity."""
    if not isinstance(answer, dict):
        return Loads()
    found: dict[str, list[Sample]] = {}
    states = answer.get("internal_states")
    state = states[0] if isinstance(states, list) and states and isinstance(states[0], dict) else {}
    seats = _number(state.get("effective_max_running_requests_per_dp"))
    if seats is None:
        seats = _number(answer.get("max_running_requests"))
    capacity = _number(answer.get("max_total_num_tokens"))
    _add(found, "0", {"max_running_requests": seats, "max_total_num_tokens": capacity})
    version = answer.get("version")
    return Loads(found, clean(version, 60) or None if isinstance(version, str) else None)


def _figures(load: Mapping[str, Any], now: float | None) -> dict[str, float | None]:
    figures = {name: _number(load.get(name)) for name in _CORE}
    written = figures["timestamp"]
    if written is not None and now is not None:
        figures["age_s"] = max(0.0, now - written)  # both by the server's own clock
    for section, names in (("queues", _QUEUES), ("disaggregation", _DISAGGREGATION)):
        part = load.get(section)
        if isinstance(part, dict):
            figures |= {name: _number(part.get(key)) for key, name in names.items()}
    if figures.get("waiting") is None:
        figures["waiting"] = _number(load.get("num_waiting_reqs"))
    speculative = load.get("speculative")
    if isinstance(speculative, dict):
        figures["accept_length"] = _number(speculative.get("accept_length"))
    return figures


def _add(found: dict[str, list[Sample]], rank: str, figures: Mapping[str, float | None]) -> None:
    for name, value in figures.items():
        if value is not None:
            series = Series(f"loads_{name}", {"dp_rank": rank})
            found.setdefault(series.name, []).append((series, value))


def _rank(load: Mapping[str, Any]) -> str:
    rank = load.get("dp_rank")
    return str(rank) if isinstance(rank, int) and 0 <= rank < 10**6 else "0"


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e15 and math.isfinite(value) else None


def _epoch(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        at = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return at.timestamp() if at.tzinfo is not None else None
