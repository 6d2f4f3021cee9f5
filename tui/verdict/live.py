"""Pictures of the engines of a snapshot: what is fresh, whose GPUs they are, and which phase that makes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tui.model.engine_host import ROLE_WORDS
from tui.model.status import SourceState
from tui.verdict.picture import CoreState, HeldProcess, Hold, Picture, Processes, Trends
from tui.verdict.signals import MODEL_ROLES, answer, slow_5xx

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.model.history import History
    from tui.model.readings import (
        EngineKind,
        EngineProcess,
        EngineReading,
        EngineState,
        GpuReading,
        ProbeReading,
    )
    from tui.model.snapshot import EngineView, HostSnapshot

HTTP_ROLES = ("api_server", "launcher")
CORE_ROLES = ("engine_core", "scheduler")
STEP_ROLES = (*MODEL_ROLES, "api_server", "tokenizer", "detokenizer", "backend")
"""No token reaches a user without these."""
BLOCKED_S = 30.0
"""No read of a disk or a device that goes well keeps a process from its CPU for this long."""
WINDOW_S = 30.0
ERRORS_WINDOW_S = 60.0
USUAL_EVERY = 10
"""Every tenth point of half an hour is mean enough."""
HITS_WELL = 0.5
"""A ratio from here up is never half of a usual one."""
USUAL_POINTS = 30
"""Five minutes of points at one a second make "usual"."""
YOUNG_S = 600.0
"""No engine that loads answers 503 for longer than this."""
_SEAT_FLAGS = ("max-num-seqs", "max-running-requests", "max_batch_size", "max-batch-size")


def pictures(
    snapshot: HostSnapshot,
    history: History,
    cores_seen: Mapping[str, int] | None = None,
    hung_at: Mapping[str, float] | None = None,
) -> tuple[Picture, ...]:
    """One picture for each engine of the snapshot, in its order.

    Args:
        snapshot: readings and statuses of one instant; a stale or failed reading is no evidence of progress.
        history: series of the engines' figures by URL and the field names of ``EngineReading``.
        cores_seen: by URL, the pid of the HTTP process under which an engine core was once seen alive.
        hung_at: by URL, the monotonic seconds at which the engine was last found hung.
    """
    seen = cores_seen or {}
    everyone = frozenset(p.pid for view in snapshot.engines for p in view.processes or ())
    return tuple(
        _picture(_current(view, snapshot), snapshot, history, everyone, seen, (hung_at or {}).get(view.url))
        for view in snapshot.engines
    )


def http_process(view: EngineView) -> EngineProcess | None:
    """The live process that serves HTTP, or its launcher."""
    for p in view.processes or ():
        if not p.zombie and (p.role in HTTP_ROLES or (p.role == "other" and p.port is not None)):
            return p
    return None


def core_alive(view: EngineView) -> bool:
    """An engine core or scheduler of the engine is running."""
    return any(p.role in CORE_ROLES and not p.zombie for p in view.processes or ())


def _picture(
    view: EngineView,
    snapshot: HostSnapshot,
    history: History,
    everyone: frozenset[int],
    cores_seen: Mapping[str, int],
    hung_at: float | None,
) -> Picture:
    status, reading = view.engine.status, view.engine.reading
    host = snapshot.host.reading if snapshot.host.status.ok else None
    fresh = reading if status.ok and reading is not None and reading.reason is None else None
    processes = _processes(view, snapshot, cores_seen)
    failed = status.state in (SourceState.FAILED, SourceState.STALE)
    silent = snapshot.taken_at - status.since if failed and status.since is not None else status.age_s
    trends = _trends(view, history, snapshot.taken_at, fresh, hung_at)
    phase = _phase(view, snapshot, processes, fresh)
    awaited = phase == "down" and view.as_planned
    if awaited:
        phase = "loading"  # whoever starts it again has only to do so
    gpus = _gpus(view, snapshot, fresh, phase) if view.local else None
    reason = status.reason if not status.ok else reading.reason if reading is not None else None
    return Picture(
        scope=view.url,
        kind=_kind(view),
        live=True,
        gpus=gpus,
        gpus_reason=snapshot.gpus.status.reason if view.local else None,
        gpus_ours=len(snapshot.engines) == 1 or bool(gpus and _held_by(view, gpus)),
        engine=fresh,
        engine_reason=reason,
        host=host if view.local else None,
        probes={probe.kind: probe for probe in view.probes if _counts(probe, fresh)},
        phase=phase,
        # what is still in the table is the process that ended: its hours are no start that stands still
        held_s=_age(view, snapshot) if phase == "loading" and not awaited else None,
        trends=trends,
        processes=processes,
        others_pids=everyone if processes is None else everyone - processes.pids,
        local=view.local,
        ever_served=view.ever_served,
        silent_s=silent if failed else None,
        seats=_seats(view),
        args={**view.defaults, **view.args},
        stopping=view.stopping if phase == "draining" else "",
        our_test=view.our_test if phase in ("down", "loading") else "",
        death=view.death.reading,
        ended_s=_ended(view, snapshot),
        own=view.own.reading if view.own.status.ok else None,
    )


def _ended(view: EngineView, snapshot: HostSnapshot) -> float | None:
    """Seconds since its end, by whoever kept the instant."""
    death = view.death.reading
    at = death.exit.ended_at if death is not None and death.exit is not None else None
    return None if at is None else max(0.0, snapshot.wall - at)


def _counts(probe: ProbeReading, fresh: EngineReading | None) -> bool:
    """It was answered, and a token was not generated only before the engine came to stand still.

    A generation comes every 30 s or so: one that succeeded before a stall says nothing of it.
    """
    if probe.status is None:
        return False
    stalled = fresh.stalled_s if fresh is not None and (fresh.stalled_scrapes or 0) >= 2 else None
    old = stalled is not None and probe.age_s is not None and probe.age_s >= stalled
    return not (probe.kind == "generate" and probe.ok and old)


def _current(view: EngineView, snapshot: HostSnapshot) -> EngineView:
    """The view with the probes asked since the scrape began to succeed, or to fail as it does now.

    Probes come every 10 s and scrapes every second: a port that has just opened is not down because
    it was closed 8 s ago, and one that has just closed does not serve.
    """
    since = view.engine.status.since
    if since is None:
        return view
    current = tuple(p for p in view.probes if p.age_s is None or snapshot.taken_at - p.age_s >= since)
    return view if len(current) == len(view.probes) else replace(view, probes=current)


def _kind(view: EngineView) -> EngineKind | None:
    reading = view.engine.reading
    if reading is not None and reading.engine is not None:
        return reading.engine
    if view.known is not None:
        return view.known.engine
    return view.processes[0].engine if view.processes else None


def _seats(view: EngineView) -> float | None:
    reading = view.engine.reading
    if reading is not None and reading.max_num_seqs is not None:
        return reading.max_num_seqs
    known = {**view.defaults, **view.args}
    given = next((v for flag in _SEAT_FLAGS if (v := known.get(flag))), "")
    return float(given) if given.isdecimal() else None


# ---------------------------------------------------------------------------------------- processes


def _processes(view: EngineView, snapshot: HostSnapshot, cores_seen: Mapping[str, int]) -> Processes | None:
    if view.processes is None or not view.local:
        return None
    http = http_process(view)
    cores = [p for p in view.processes if p.role in CORE_ROLES]
    core: CoreState | None = None
    if any(p.zombie for p in cores):
        core = "zombie"
    elif cores:
        core = "alive"
    elif http is not None and cores_seen.get(view.url) == http.pid:
        core = "gone"
    left: tuple[int, ...] = ()
    if http is None:
        tree = (p.pid for p in view.processes if p.role in MODEL_ROLES and not p.zombie)
        # those that init has taken over are in no tree, and do not tell whose they were; not this one's if
        # it answers, from a process that nobody knows for an engine's
        lost = () if view.engine.status.ok else snapshot.orphans or ()
        left = tuple(dict.fromkeys((*tree, *(o.pid for o in lost if o.pid is not None))))
    return Processes(
        http_alive=http is not None,
        core=core,
        orphans=left,
        held=tuple(held for p in view.processes if (held := _held(p)) is not None),
        pids=frozenset(p.pid for p in view.processes),
        roles={p.pid: p.role for p in view.processes},
    )


def _held(process: EngineProcess) -> HeldProcess | None:
    """Why a process of those that a step needs cannot run; a core that is dead is another verdict."""
    if process.role not in STEP_ROLES:
        return None
    how: Hold | None = None
    if process.stopped:
        how = "stopped"
    elif process.traced:
        how = "traced"
    elif (process.blocked_s or 0.0) >= BLOCKED_S:
        how = "blocked"
    elif process.zombie and process.role == "worker":
        how = "zombie"
    if how is None:
        return None
    return HeldProcess(process.pid, process.title or ROLE_WORDS[process.role], how, process.blocked_s)


def _age(view: EngineView, snapshot: HostSnapshot) -> float | None:
    http = http_process(view)
    return None if http is None or http.started_at is None else max(0.0, snapshot.wall - http.started_at)


def _phase(
    view: EngineView, snapshot: HostSnapshot, processes: Processes | None, fresh: EngineReading | None
) -> EngineState:
    answers = {probe.kind: answer(probe) for probe in view.probes}
    reason = view.engine.status.reason if not view.engine.status.ok else None
    running = (fresh.running or 0.0) if fresh is not None else 0.0
    alive = processes is not None and processes.http_alive
    if view.engine.status.ok or "ok" in answers.values() or "5xx" in answers.values():
        if view.stopping and (processes is None or alive):
            return "draining"
        if answers.get("readiness") != "5xx" or (fresh is not None and fresh.paused):
            return "serving"
        if any(slow_5xx(probe) for probe in view.probes):
            return "serving"  # SGLang waited for its scheduler in vain; in a drain it refuses at once
        if running > 0 and _kind(view) in ("sglang", "triton"):
            return "draining"
        age = _age(view, snapshot)
        starts = not running and (age < YOUNG_S if age is not None else not view.ever_served)
        return "loading" if starts else "serving"
    if reason == "refused" or "refused" in answers.values():
        phase = _refused_phase(view, snapshot, processes)
        return "draining" if view.stopping and alive and phase == "down" else phase
    if view.stopping and alive:
        return "draining"  # the last of its connections break, or wait while it ends its children
    if reason == "reset" and processes is not None and not processes.http_alive and view.ever_served:
        return "down"  # its last connection broke as it went; a port that is open and breaks one is not down
    return "serving" if view.ever_served and reason == "timeout" else "unknown"


def _refused_phase(view: EngineView, snapshot: HostSnapshot, processes: Processes | None) -> EngineState:
    """A closed port: of a process that has not served yet it is a start, of any other it is the end."""
    if processes is None:
        return "down" if view.ever_served else "unknown"
    http = http_process(view)
    if http is None:
        return "down"
    if view.served_last is None or http.started_at is None:
        return "down" if view.ever_served else "loading"
    served_wall = snapshot.wall - (snapshot.taken_at - view.served_last)
    return "loading" if http.started_at > served_wall else "down"


# ---------------------------------------------------------------------------------------- GPUs


def _gpus(
    view: EngineView, snapshot: HostSnapshot, fresh: EngineReading | None, phase: EngineState
) -> tuple[GpuReading, ...] | None:
    """The devices that hold this engine's processes; all of them where the driver's pids do not tell."""
    found = snapshot.gpus.reading if snapshot.gpus.status.ok else None
    if found is None:
        return None
    gpus = found.gpus
    if len(snapshot.engines) == 1 or not gpus:
        return gpus
    sick = tuple(g for g in gpus if g.state != "ok")
    well = tuple(g for g in gpus if g.state == "ok")
    troubled = phase != "serving" or _troubled(view, fresh)
    ours = _held_by(view, well)
    if not ours:
        others = {
            g.index for other in snapshot.engines if other.url != view.url for g in _held_by(other, well)
        }
        ours = tuple(g for g in well if g.index not in others)
    return ours + sick if troubled else ours


def _held_by(view: EngineView, gpus: tuple[GpuReading, ...]) -> tuple[GpuReading, ...]:
    pids = {p.pid for p in view.processes or ()}
    return tuple(g for g in gpus if g.processes and not pids.isdisjoint([p.pid for p in g.processes]))


def _troubled(view: EngineView, fresh: EngineReading | None) -> bool:
    failing = any(probe.ok is False for probe in view.probes)
    return fresh is None or failing or (fresh.stalled_scrapes or 0) >= 2 or (fresh.error_ratio or 0.0) > 0


# ---------------------------------------------------------------------------------------- trends


def _trends(
    view: EngineView, history: History, now: float, fresh: EngineReading | None, hung_at: float | None
) -> Trends:
    if fresh is None:
        return Trends()
    url, waits = view.url, bool(fresh.waiting)
    works = waits or bool(fresh.running)
    asked = waits or any(probe.ok is False for probe in view.probes)  # nobody asks for changes otherwise
    preempting = history.values(url, "preemptions_per_s", now - WINDOW_S)
    errors = history.values(url, "error_ratio", now - ERRORS_WINDOW_S) if fresh.error_ratio is None else []
    window = fresh.latency_window_s or WINDOW_S
    return Trends(
        waiting_held_s=_since(history, url, now, _is_positive, "waiting") if waits else None,
        waiting_change=_change(history, url, "waiting", now) if asked else None,
        running_change=_change(history, url, "running", now) if asked else None,
        preempting_per_s=max(preempting, default=None),
        error_ratio=errors[-1] if errors else None,
        idle_s=None if works else _since(history, url, now, _is_zero, "running", "waiting"),
        queue_ended=not waits and max(history.values(url, "waiting", now - window), default=0.0) > 0,
        hang_ended=hung_at is not None and now - window <= hung_at < now and (fresh.stalled_scrapes or 0) < 2,
        usual_prefix_hit_ratio=_usual(url, history, now, fresh),
    )


def _change(history: History, url: str, signal: str, now: float) -> float | None:
    series = history.get(url, signal)
    return None if series is None else series.change(now - WINDOW_S)


def _is_positive(value: float) -> bool:
    return value > 0


def _is_zero(value: float) -> bool:
    return value == 0


def _since(
    history: History, url: str, now: float, holds: Callable[[float], bool], *signals: str
) -> float | None:
    """Seconds for which all the signals have held something, gaps not counted against them."""
    shortest = None
    for signal in signals:
        series = history.get(url, signal)
        start = series.held_since(now - WINDOW_S, holds) if series is not None else None
        if start is None:
            return None
        shortest = now - start if shortest is None else min(shortest, now - start)
    return shortest


def _usual(url: str, history: History, now: float, fresh: EngineReading) -> float | None:
    series = history.get(url, "prefix_hit_ratio")
    if series is None or fresh.prefix_hit_ratio is None or fresh.prefix_hit_ratio >= HITS_WELL:
        return None
    before = series.thinned(now - WINDOW_S, USUAL_EVERY)
    return sum(before) / len(before) if len(before) >= USUAL_POINTS else None
