"""Verdicts of a whole snapshot: each engine's, the host's, and the findings beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tui.model.verdicts import Judgement, Verdict
from tui.verdict import evidence as ev
from tui.verdict.assess import RANK, assess, judge
from tui.verdict.explain import explain
from tui.verdict.findings import findings
from tui.verdict.gpu_signals import gpu_signals
from tui.verdict.hold import Hold
from tui.verdict.live import core_alive, http_process, pictures
from tui.verdict.rules.gpu_fault import RECORDED_XID
from tui.verdict.texts import SICK_DEVICE, TEXTS

if TYPE_CHECKING:
    from tui.model.explanations import Explanation
    from tui.model.history import History
    from tui.model.settings import Slo, Thresholds
    from tui.model.snapshot import HostSnapshot
    from tui.model.verdicts import Evidence, VerdictName

__all__ = ["HOST", "Judge", "judge", "judge_all"]

HOST = "host"
"""The scope of the host's verdict."""


def judge_all(
    snapshot: HostSnapshot,
    history: History,
    thresholds: Thresholds,
    slo: Slo,
) -> Judgement:
    """All conclusions about one snapshot as it stands: no hold times, ``since`` is None.

    Args:
        snapshot: what was read.
        history: the engines' series; may be empty.
        thresholds: limits in force.
        slo: latency targets in force.
    """
    assessed = tuple(assess(p, thresholds, slo) for p in pictures(snapshot, history))
    verdicts = tuple(a.verdict for a in assessed)
    found = findings(snapshot, assessed, thresholds)
    return Judgement(_worst_first(host_verdict(snapshot, verdicts), verdicts), found)


def host_verdict(snapshot: HostSnapshot, engines: tuple[Verdict, ...]) -> Verdict:
    """The engines' worst, or a device fault that no engine's verdict names."""
    worst = min(engines, key=lambda v: RANK[v.verdict], default=None)
    sick = _sick_devices(snapshot)
    if sick and (worst is None or worst.verdict != "gpu_fault"):
        title = TEXTS["gpu_fault"].title
        return Verdict(HOST, "gpu_fault", title, confidence="medium", evidence=sick, advice=SICK_DEVICE)
    if worst is not None:
        return replace(worst, scope=HOST)
    missing = "no engine found" if snapshot.discovery_done else "engines: still looking"
    texts = TEXTS["unknown"]
    advice = ("name the engine's URL on the command line",) if snapshot.discovery_done else ()
    return Verdict(HOST, "unknown", texts.title, missing=(missing,), advice=advice)


def _sick_devices(snapshot: HostSnapshot) -> tuple[Evidence, ...]:
    reading = snapshot.gpus.reading if snapshot.gpus.status.ok else None
    if reading is None or all(gpu.state == "ok" and gpu.xid is None for gpu in reading.gpus):
        return ()
    signals = gpu_signals(reading.gpus)
    lost = signals.unreadable if signals.suspect else ()
    fatal = tuple(g for g in signals.faulty if g.xid != RECORDED_XID)
    return tuple(map(ev.device, dict.fromkeys((*lost, *fatal))))


def _worst_first(host: Verdict, engines: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    return (host, *sorted(engines, key=lambda v: RANK[v.verdict]))


class Judge:
    """Verdicts over time, for a screen: what has held is shown, what may be passing is *changing*.

    Args:
        thresholds: limits and hold times in force.
        slo: latency targets in force.
    """

    def __init__(self, thresholds: Thresholds, slo: Slo) -> None:
        self._thresholds = thresholds
        self._slo = slo
        self._holds: dict[str, Hold] = {}
        self._cores_seen: dict[str, int] = {}
        self._hung_at: dict[str, float] = {}
        # the engines' have held already, and are damped: it must not lag behind them
        self._host = Hold(replace(thresholds, hold_s=0.0, clear_s=0.0), damped=False)

    def update(self, snapshot: HostSnapshot, history: History) -> Judgement:
        """Judge the newest snapshot; call it once for each."""
        now, wall = snapshot.taken_at, snapshot.wall
        for view in snapshot.engines:
            http = http_process(view)
            if http is not None and core_alive(view):
                self._cores_seen[view.url] = http.pid
        assessed = tuple(
            assess(p, self._thresholds, self._slo)
            for p in pictures(snapshot, history, self._cores_seen, self._hung_at)
        )
        # the rule's own word: a long prefill stands still too, and its late tokens are to be counted
        hung = (a.picture.scope for a in assessed if a.outcomes["engine_hung"].state == "fires")
        self._hung_at.update(dict.fromkeys(hung, now))
        self._forget({a.picture.scope for a in assessed})
        shown = tuple(self._hold(a.picture.scope).update(a.verdict, now, wall) for a in assessed)
        host = self._host.update(host_verdict(snapshot, shown), now, wall)
        worst = min(shown, key=lambda v: RANK[v.verdict], default=None)
        if worst is not None and worst.verdict == host.verdict:
            host = replace(host, state=worst.state, changing_to=worst.changing_to)
        found = findings(snapshot, assessed, self._thresholds)
        return Judgement(_worst_first(host, shown), found)

    def timeline(self, scope: str) -> list[tuple[float, VerdictName]]:
        """Changes of what was shown for a scope: (epoch seconds, verdict), oldest first."""
        hold = self._host if scope == HOST else self._holds.get(scope)
        return [] if hold is None else list(hold.timeline)

    def explain(self, scope: str, snapshot: HostSnapshot, history: History) -> Explanation | None:
        """Everything behind one engine's verdict on a snapshot; None where that has no such engine."""
        seen = zip(
            pictures(snapshot, history, self._cores_seen, self._hung_at), snapshot.engines, strict=True
        )
        for picture, view in seen:
            if picture.scope == scope:
                return explain(picture, view, self._thresholds, self._slo)
        return None

    def _hold(self, scope: str) -> Hold:
        hold = self._holds.get(scope)
        if hold is None:
            hold = self._holds[scope] = Hold(self._thresholds)
        return hold

    def _forget(self, scopes: set[str]) -> None:
        for gone in self._holds.keys() - scopes:
            del self._holds[gone]
            self._cores_seen.pop(gone, None)
            self._hung_at.pop(gone, None)
