"""What was measured: the figures that rules need, from the reports of ``once``, drain and restart test."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOAD_PHASES = frozenset(("starting", "weights", "compile", "ready"))


class ReportError(Exception):
    """A file that is no report of this program."""


@dataclass(frozen=True, slots=True)
class ProbeFigure:
    """One probe route of one engine."""

    kind: str
    path: str
    status: int | str | None = None
    latency_s: float | None = None
    p99_s: float | None = None
    streak: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that was measured of one engine; None is not measured. Of several reports, the worst."""

    engine: str | None = None
    probes: tuple[ProbeFigure, ...] = ()
    load_s: float | None = None
    """Container start to the first good answer: the longest seen."""
    load_least_s: float | None = None
    """... and the shortest, of two loads at least."""
    longest_request_s: float | None = None
    request_at_least_s: float | None = None
    """A lower bound of it: requests that were cut, or only a percentile is known."""
    longest_step_s: float | None = None
    queue_s: float | None = None
    """Time in the queue, 95th percentile."""
    ttft_s: float | None = None
    """Time to first token, 99th percentile."""
    tokens_per_s: float | None = None
    exit_s: float | None = None
    """Stop signal to exit of the main process."""
    in_flight: int | None = None
    """Requests that were running at the stop signal."""
    lost: int | None = None
    """... of which so many did not finish."""
    readiness_off_s: float | None = None
    """Stop signal to the first failed readiness probe; infinite: it never failed."""
    gpu_held_s: float | None = None
    """Exit to GPU memory free."""
    gpu_leftovers: int | None = None
    """Processes left over that hold GPU memory."""
    exit_code: int | None = None
    failed_when_ready: int | None = None
    """Requests that failed between ready and the first token."""
    first_request_s: float | None = None
    """The first request after ready."""
    steady_request_s: float | None = None
    """The median of the later ones."""
    gpus: int | None = None
    """GPUs of the measured host."""


NOTHING = Figures()
_LEAST = frozenset(("load_least_s", "tokens_per_s", "exit_code", "steady_request_s"))


def merged(figures: Iterable[Figures]) -> Figures:
    """Several reports on one engine as one: of every figure the worst."""
    every = list(figures)
    if len(every) < 2:
        return every[0] if every else NOTHING
    values: dict[str, Any] = {
        "engine": every[0].engine,
        "probes": tuple(chain.from_iterable(f.probes for f in every)),
    }
    for field in fields(Figures):
        if field.name not in values:
            known = [v for f in every if (v := getattr(f, field.name)) is not None]
            worst = min if field.name in _LEAST else max
            values[field.name] = worst(known) if known else None
    return Figures(**values)


def for_engine(figures: Iterable[Figures], kind: str | None) -> Figures:
    """The figures of one kind of engine; of any, where the kind or the report's is not known."""
    return merged(f for f in figures if kind is None or f.engine is None or f.engine == kind)


def parse(text: str) -> list[Figures]:
    """The figures of a report, one entry an engine.

    Raises:
        ReportError: not JSON, or not the output of ``once --json``, ``drain-test`` or ``restart-test``.
    """
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        raise ReportError("not JSON") from None
    return figures_of(report)


def figures_of(report: object) -> list[Figures]:
    """As ``parse``, of a report that has been read already.

    Raises:
        ReportError: not the output of ``once --json``, ``drain-test`` or ``restart-test``.
    """
    if isinstance(report, dict) and report.get("test") in ("drain", "restart"):
        return [_test(report)]
    if isinstance(report, dict) and isinstance(report.get("engines"), list) and "verdicts" in report:
        return _once(report)
    raise ReportError("not the output of once --json, drain-test or restart-test")


def _once(report: dict[str, Any]) -> list[Figures]:
    probes = _dicts(report.get("probes"))
    gpus = report.get("gpus")
    count = len(gpus) if isinstance(gpus, list) and gpus else None
    found = [
        Figures(
            engine=_text(engine.get("engine")) or None,
            probes=tuple(_probe(p) for p in probes if p.get("url") == engine.get("url")),
            request_at_least_s=_number(engine.get("e2e_p95_s")),
            queue_s=_number(engine.get("queue_p95_s")),
            ttft_s=_number(engine.get("ttft_p99_s")),
            tokens_per_s=_number(engine.get("gen_tok_s")),
            gpus=count,
        )
        for engine in _dicts(report["engines"])
    ]
    # settings can be judged by probes alone, and by the host, when no engine answered
    return found or [Figures(probes=tuple(_probe(p) for p in probes), gpus=count)]


def _probe(probe: dict[str, Any]) -> ProbeFigure:
    status, streak = probe.get("status"), _number(probe.get("streak"), least=-math.inf)
    return ProbeFigure(
        kind=_text(probe.get("kind")),
        path=_text(probe.get("path")),
        status=status if isinstance(status, str) else _whole(status),
        latency_s=_number(probe.get("latency_s")),
        p99_s=_number(probe.get("latency_p99_s")),
        streak=None if streak is None else int(streak),
    )


def _test(report: dict[str, Any]) -> Figures:
    events = _events(report)
    requests = _dicts(report.get("requests"))
    in_flight = [r for r in requests if r.get("kind") == "in_flight"]
    lost = sum(not _kept(r) for r in in_flight)
    held = sorted(r for r in (_duration(r) for r in requests) if r is not None)
    target = report.get("target")
    ended = report.get("exit")
    exited = ended if isinstance(ended, dict) else {}
    exit_at = events.get("main_exit", _number(exited.get("after_s")))
    released = events.get("gpu_released")
    leftovers = report.get("leftovers")
    loads = [_load(r) for r in (report, *_dicts(report.get("previous")))]
    known = [load for load in loads if load is not None]
    return Figures(
        engine=_text(target.get("engine")) or None if isinstance(target, dict) else None,
        load_s=max(known, default=None),
        load_least_s=min(known) if len(known) > 1 else None,
        longest_request_s=held[-1] if held and not lost else None,
        request_at_least_s=held[-1] if held else None,
        exit_s=_number(exited.get("after_s")) if "after_s" in exited else exit_at,
        in_flight=len(in_flight) if requests else None,
        lost=lost if requests else None,
        readiness_off_s=_readiness_off(events),
        gpu_held_s=None if released is None or exit_at is None else max(0.0, released - exit_at),
        gpu_leftovers=_holders(leftovers) if isinstance(leftovers, list) else None,
        exit_code=_whole(exited.get("code")),
        **_warm_up(requests, events),
    )


def _events(report: dict[str, Any]) -> dict[str, float]:
    """When each event came first."""
    found: dict[str, float] = {}
    for event in _dicts(report.get("events")):
        at = _number(event.get("t_s"), least=-math.inf)
        if at is not None:
            found.setdefault(_text(event.get("event")), at)
    return found


def _load(report: dict[str, Any]) -> float | None:
    """Start of the new process to ready: by events, by phases, or a figure of that name."""
    events = _events(report)
    start = events.get("spawned", events.get("main_exit", events.get("first_exit")))
    if "ready" in events and start is not None and events["ready"] > start:
        return events["ready"] - start
    phases = [p for p in _dicts(report.get("phases")) if p.get("name") in _LOAD_PHASES]
    starts = [at for p in phases if (at := _number(p.get("start_s"))) is not None]
    ends = [at for p in phases if (at := _number(p.get("end_s"))) is not None]
    if starts and ends and max(ends) > min(starts):
        return max(ends) - min(starts)
    if report.get("test") == "drain":
        return None
    return _number(report.get("load_s", report.get("downtime_s")))


def _readiness_off(events: dict[str, float]) -> float | None:
    if "readiness_down" in events:
        return max(0.0, events["readiness_down"])
    return math.inf if "signal_sent" in events or "main_exit" in events else None


def _warm_up(requests: list[dict[str, Any]], events: dict[str, float]) -> dict[str, Any]:
    if "ready" not in events:
        return {}
    after = [
        (at, r)
        for r in requests
        if r.get("kind") == "new" and (at := _number(r.get("started_s"), least=-math.inf)) is not None
        if at >= events["ready"]
    ]
    after.sort(key=lambda pair: pair[0])
    token = events.get("first_token", math.inf)
    took = [d for _, r in after if _kept(r) and (d := _duration(r)) is not None]
    later = sorted(took[1:])
    return {
        "failed_when_ready": sum(at < token and not _kept(r) for at, r in after),
        "first_request_s": took[0] if took else None,
        "steady_request_s": later[len(later) // 2] if len(later) >= 3 else None,
    }


def _kept(request: dict[str, Any]) -> bool:
    return request.get("outcome") == "finished"


def _duration(request: dict[str, Any]) -> float | None:
    started = _number(request.get("started_s"), least=-math.inf)
    ended = _number(request.get("ended_s"), least=-math.inf)
    return None if started is None or ended is None or ended < started else ended - started


def _holders(leftovers: list[Any]) -> int:
    return sum((_number(left.get("gpu_mem_mib")) or 0) > 0 for left in _dicts(leftovers))


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object, least: float = 0.0) -> float | None:
    """A finite number of at least ``least``; anything else is not known."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= least else None


def _whole(value: object) -> int | None:
    number = _number(value, least=-math.inf)
    return None if number is None else int(number)
