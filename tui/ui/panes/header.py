"""The top line: which host, what is on it, the clock, and modes that must not be forgotten."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from tui.model.units import DASH, number
from tui.model.urls import short_name
from tui.ui.lines import Line, Span, beside, cut, fit, narrow, width
from tui.ui.panes.probe_notes import blind, hung
from tui.ui.words import PROBE_KINDS, gpu_kind, scope_name

if TYPE_CHECKING:
    from tui.ui.view import View


LEAST_NOTE = 12
"""Cells of a notice that still say something."""


def lines(view: View, size: int, height: int) -> list[Line]:
    """The header, in one line; whatever else there is to say, host and clock stay."""
    notes, modes = _notes(view), _modes(view)
    flags = (*notes, *modes)
    for facts in map(partial(_facts, view), (3, 2, 1, 0)):
        for status in (_status(view), ()):
            end = (*flags, *status, *((Span(" "),) if flags or status else ()))
            if width(facts) + width(end) + 2 <= size:
                return [beside(facts, end, size)][:height]
    room = size - width(modes) - 2
    facts = _facts(view, 0)
    if width(facts) > room - (LEAST_NOTE if notes else 0):
        facts = _facts(view, -1, max(4, room - len(" ") - len("  00:00:00")))
    left = room - width(facts)
    cut_notes = fit(notes, min(left, width(notes))) if left >= LEAST_NOTE else ()
    return [beside(facts, (*cut_notes, *modes), size)][:height]


def _facts(view: View, detail: int, host: int = 24) -> Line:
    snapshot = view.snapshot
    gap = Span("  ")
    clock = time.strftime("%H:%M:%S", time.localtime(snapshot.wall))
    name = Span(cut(narrow(snapshot.hostname, 24), host) or "host", "value")
    spans = [Span(" infertop", "title"), gap, name] if detail >= 0 else [Span(" "), name]
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
        none = reading is not None or view.snapshot.gpus.status.reason == "no_driver"
        return "no GPU" if none else f"GPU {DASH}"
    cards = [gpu for gpu in reading.gpus if gpu.parent_uuid is None]
    kinds = Counter(gpu_kind(gpu.name) for gpu in cards if gpu.state == "ok")
    words = [f"{n}x {kind}" for kind, n in kinds.most_common(2)]
    ill = Counter(gpu.state for gpu in cards if gpu.state != "ok")
    return " ".join([*words, *(f"{n} {state}" for state, n in sorted(ill.items()))])


def _notes(view: View) -> Line:
    """What is to be known of the program and of how it reads; it gives way where there is no room."""
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
    return tuple(spans)


def _modes(view: View) -> Line:
    """What the picture is not: the present one, or that of real engines."""
    spans: list[Span] = []
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
