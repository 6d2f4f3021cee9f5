"""What follows from the probes, in sentences: what they would have done, cannot see, and whose they are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tui.model.units import seconds
from tui.probing.blindness import by_generating, unseen_hang
from tui.ui.lines import narrow

if TYPE_CHECKING:
    from tui.model.readings import ProbeReading
    from tui.model.settings import ProbeSpec
    from tui.model.snapshot import EngineView
    from tui.ui.view import View

BY_US = "/min by us"
_DONE = {
    "liveness": "liveness would have killed it at",
    "startup": "startup would have killed it at",
    "readiness": "readiness would have taken it out of service at",
    "generate": "a liveness probe that generates would have killed it at",
}


def hung(view: View, engine: EngineView) -> bool:
    """It was judged so, or its heartbeat stands still for as long as that takes."""
    if any(v.scope == engine.url and v.verdict == "engine_hung" for v in view.judgement.verdicts):
        return True
    reading, limits = engine.engine.reading, view.thresholds
    return (
        engine.engine.status.ok
        and reading is not None
        and (reading.stalled_scrapes or 0) >= limits.stalled_scrapes
        and (reading.stalled_s or 0.0) >= limits.stalled_s
    )


def blind(view: View, engine: EngineView) -> str:
    """That liveness cannot see the present hang, and when a probe that generates would."""
    text = unseen_hang(engine, hung=hung(view, engine))
    generating = by_generating(engine, view.snapshot.wall)
    return narrow(f"{text}; {generating}" if text and generating else text)


def warnings(view: View, engine: EngineView, *, full: bool) -> list[str]:
    """What an operator must know beside the rows, the gravest first; ``full``: also what is of interest."""
    unseen = blind(view, engine)
    found = [unseen] if unseen else []
    for probe in engine.probes:
        if probe.decided_at is None or (probe.kind == "readiness" and not full):
            continue
        if probe.kind == "generate" and unseen:
            continue
        what = _DONE[probe.kind]
        if engine.probe_platform == "docker" and probe.kind == "liveness":
            what = "docker would have called it unhealthy, which restarts nothing, at"
        times = f" ({probe.decisions} times)" if probe.decisions > 1 else ""
        found.append(f"{what} {_clock(probe.decided_at)}{times}")
    return found


def facts(engine: EngineView) -> list[str]:
    """Whose settings they are, what we cost, and what the platform did."""
    parts = []
    if engine.probe_origin:
        parts.append(f"settings: {narrow(engine.probe_origin)}")
    if engine.probe_platform == "docker":
        parts.append("unhealthy does not restart")
    if engine.probe_requests:
        count = engine.probe_requests
        parts.append(f"{count} request{'' if count == 1 else 's'}{BY_US}")
    container, unit = engine.container.reading, engine.unit.reading
    for name, restarts in (
        ("container", container.restarts if container else None),
        ("unit", unit.restarts if unit else None),
    ):
        if restarts is not None:
            parts.append(f"{name} restarted {restarts}x")
    return parts


def settings(kind: str, spec: ProbeSpec) -> str:
    """One probe's settings in a line."""
    after = f", from {seconds(spec.initial_delay_s)} on" if spec.initial_delay_s else ""
    more = f", {spec.success_threshold} successes" if spec.success_threshold > 1 else ""
    failures = f"{spec.failure_threshold} failure{'' if spec.failure_threshold == 1 else 's'}"
    what = narrow(spec.path) if spec.handler == "httpGet" else spec.handler
    every = f"every {seconds(spec.period_s)}, timeout {seconds(spec.timeout_s)}"
    return f"{kind} {what} {every}, {failures}{more}{after}"


def history(probe: ProbeReading, size: int) -> str:
    """The newest results, the last at the right: a dot passed, an x failed, a ? was thrown away."""
    marks = {True: "·", False: "x", None: "?"}
    return "".join(marks[result] for result in probe.recent[-size:]) if size > 0 else ""


def _clock(wall: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall))
