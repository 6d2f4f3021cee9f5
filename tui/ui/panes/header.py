"""The top line: which host, what is on it, the clock, and modes that must not be forgotten."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from tui.model.units import DASH, number
from tui.model.urls import short_name
from tui.ui.lines import Line, Span, beside, narrow, width
from tui.ui.panes.probe_notes import blind, hung
from tui.ui.words import PROBE_KINDS, gpu_kind, scope_name

if TYPE_CHECKING:
    from tui.ui.view import View


def lines(view: View, size: int, height: int) -> list[Line]:
    """The header, in one line."""
    flags = _flags(view)
    for facts in (_facts(view, 3), _facts(view, 2), _facts(view, 1), _facts(view, 0)):
        for status in (_status(view), ()):
            end = (*flags, *status, *((Span(" "),) if flags or status else ()))
            if width(facts) + width(end) + 2 <= size:
                return [beside(facts, end, size)][:height]
    return [beside(_facts(view, 0), flags, size)][:height]


def _facts(view: View, detail: int) -> Line:
    snapshot = view.snapshot
    gap = Span("  ")
    clock = time.strftime("%H:%M:%S", time.localtime(snapshot.wall))
    spans = [Span(" infertop", "title"), gap, Span(narrow(snapshot.hostname, 24) or "host", "value")]
    if detail >= 1:
        spans += [gap, Span(gpus(view), "muted")]
    if detail >= 2:
        n = len(snapshot.engines)
        known = n or snapshot.discovery_done
        spans += [gap, Span(f"{n} engine{'' if n == 1 else 's'}" if known else f"engines {DASH}", "muted")]
    spans += [gap, Span(clock, "text")]
    if detail >= 3:
        spans += [gap, Span(f"{_interval(snapshot.interval_s)} s", "muted")]
    return tuple(spans)


def _interval(value: float) -> str:
    return number(value, 0 if value == int(value) else 1)


def gpus(view: View) -> str:
    """Cards that work by count and kind, and those that do not, e.g. ``7x H100 1 lost``."""
    reading = view.snapshot.gpus.reading
    if reading is None or not reading.gpus:
        return "no GPU" if view.snapshot.gpus.status.reason else "GPU –"
    cards = [gpu for gpu in reading.gpus if gpu.parent_uuid is None]
    kinds = Counter(gpu_kind(gpu.name) for gpu in cards if gpu.state == "ok")
    words = [f"{n}x {kind}" for kind, n in kinds.most_common(2)]
    ill = Counter(gpu.state for gpu in cards if gpu.state != "ok")
    return " ".join([*words, *(f"{n} {state}" for state, n in sorted(ill.items()))])


def _flags(view: View) -> Line:
    spans: list[Span] = []
    if view.mode.notice:
        spans += [Span(narrow(view.mode.notice, 100), "warn"), Span("  ")]
    if view.mode.drill:
        spans += [Span(f" {narrow(view.mode.drill, 60)} ", "flag", "app.drill('drain')"), Span(" ")]
    if unverified := [engine for engine in view.snapshot.engines if engine.unverified]:
        name = scope_name(unverified[0].url, view.snapshot)
        more = f" +{len(unverified) - 1}" if len(unverified) > 1 else ""
        spans += [Span(f"! certificate not checked {name}{more}", "warn"), Span("  ")]
    if view.mode.slow:
        spans += [Span("slow link", "warn"), Span("  ")]
    for shown, word in (
        (view.snapshot.simulated, f" SIMULATED{_simulated(view)} "),
        (view.mode.paused, " PAUSED "),
    ):
        if shown:
            spans += [Span(word, "flag"), Span(" ")]
    return tuple(spans)


def _simulated(view: View) -> str:
    """Which engines are, where others are not."""
    some = view.snapshot.simulated_engines
    if not some:
        return ""
    more = f" +{len(some) - 1}" if len(some) > 1 else ""
    return f" {narrow(short_name(some[0].url), 12)}{more}"


def _status(view: View) -> Line:
    """Probes in one word; they are what a supervisor acts on."""
    probes = [probe for engine in view.snapshot.engines for probe in engine.probes]
    failing = [probe for probe in probes if probe.ok is False]
    if failing:
        first = failing[0]
        more = f" +{len(failing) - 1}" if len(failing) > 1 else ""
        text = f"! {PROBE_KINDS[first.kind]} probe fails {scope_name(first.url, view.snapshot)}{more}"
        return (Span(text, "warn"),)
    if any(blind(view, engine) for engine in view.snapshot.engines):
        return (Span("! probes blind", "warn"),)
    if any(probe.ok for probe in probes):
        unseen = any(hung(view, engine) for engine in view.snapshot.engines)
        return (Span("probes pass", "warn") if unseen else Span("probes ok", "muted"),)
    return ()
