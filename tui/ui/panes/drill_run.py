"""A test while it runs: where it is, the clock against the grace period, what became of each request."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.model.units import seconds
from tui.ui.charts import meter
from tui.ui.lines import Line, Span, cut, flow, folded, narrow
from tui.ui.panes.drill_parts import REQUESTS_WIDTH, beside, fate, figure, requests, timeline, wording
from tui.ui.sheet import SheetKey
from tui.ui.words import elapsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.actions.picture import Picture

SIDE_BY_SIDE = 104
"""From here on requests and timeline stand next to each other."""
AT_ONCE = ("kill_api_server", "kill_tree")


@dataclass(frozen=True, slots=True)
class RunSheet:
    """A running test at one instant."""

    picture: Picture
    now: float
    """Epoch seconds."""
    asking: bool = False
    """Whether it is to be cancelled was asked."""
    cancelled: bool = False
    said: str = ""

    def title(self) -> Line:
        """Which test of what."""
        return (Span(named(self.picture).upper(), "title"), Span(" "), Span(target(self.picture), "value"))

    def head(self, size: int) -> list[Line]:
        """State, clock, gauges, and what became of our requests so far, in numbers."""
        picture = self.picture
        began = picture.began_at
        since = "" if began is None else f"  for {elapsed(self.now - began)}"
        state = "cancelling: closing our streams, nothing more is sent" if self.cancelled else picture.state
        lines: list[Line] = [(Span(state or "starting", "notice"), Span(since, "muted"))]
        lines.append(self._clock(size))
        lines += flow(self._gauges(), size, 2)
        return lines

    def body(self, size: int) -> list[Line]:
        """The requests, and what happened when."""
        picture = self.picture
        events = sorted(picture.events, key=lambda event: (event.t_s is not None, event.t_s or 0.0))
        mine = requests(self._in_flight(), size)
        wide = bool(mine) and size >= SIDE_BY_SIDE
        room = size - REQUESTS_WIDTH - 4 if wide else size
        told: list[Line] = [(Span("timeline", "label"), Span("  after the action", "muted"))]
        told += timeline(events, room) or [(Span("nothing yet", "muted"),)]
        for note in picture.notes:
            told += [(Span("! " if i == 0 else "  ", "warn"), Span(part)) for i, part in _parts(note, room)]
        if wide:
            return beside(mine, told, REQUESTS_WIDTH + 4)
        return [*mine, *([()] if mine else []), *told]

    def foot(self, size: int) -> list[Line]:
        """The question before it is cancelled, or the answer to the last key."""
        if self.asking:
            question = "Cancel it? Our streams are closed, nothing more is sent, the engine is left as it is."
            return [
                *((Span(part, "notice"),) for part in folded(question, size)),
                (Span("c", "key", "cancel"), Span(" yes, cancel   any other key: go on", "text")),
            ]
        return [(Span(cut(narrow(self.said), size), "warn"),)] if self.said else []

    def keys(self) -> Sequence[SheetKey]:
        """Of the page."""
        return (
            SheetKey("Esc", "leave: the test goes on", "leave"),
            SheetKey("c", "cancel", "cancel"),
            SheetKey("Up Down", "scroll", "scroll(1)"),
        )

    def _clock(self, size: int) -> Line:
        """The time against the grace period, or against the deadline of the way back."""
        picture, plan = self.picture, self.picture.plan
        if plan is None:
            return ()
        if picture.action_at is None:
            return (Span(f"nothing was sent to it yet; then: {narrow(plan.stop.text)}", "muted"),)
        now = self.now - picture.action_at
        gone = picture.at("main_exit")
        if gone is not None and plan.test == "restart":
            back = picture.at("first_token")
            if back is not None:
                return (Span(f"it serves again, {back:.1f} s after the action", "calm"),)
            return _bar("way back", now, plan.restart_deadline_s, size)
        if plan.stop.way in AT_ONCE:
            return (Span("no grace period: SIGKILL ends it at once", "muted"),)
        if gone is not None:
            role = "calm" if gone <= plan.grace_s else "hot"
            return (Span(f"it exited after {gone:.1f} s of {plan.grace_s:g} s", role),)  # type: ignore[arg-type]
        return _bar("grace", now, plan.grace_s, size)

    def _gauges(self) -> list[Line]:
        gauge = self.picture.gauge
        items: list[Line] = [
            (Span(f"{name} ", "label"), Span(shown, "value"))
            for name, shown in (
                ("running", figure(gauge.get("running"))),
                ("waiting", figure(gauge.get("waiting"))),
                ("readiness", wording(gauge.get("readiness"))),
                ("connections", figure(gauge.get("established"))),
            )
        ]
        mine = self._in_flight()
        if mine:
            items.append((Span("ours ", "label"), *_counted(mine)))
        new = [r for r in self.picture.requests.values() if r.get("request") == "new"]
        if self.picture.action_at is not None and new:
            items.append((Span("new ", "label"), *_counted(new)))
        return items

    def _in_flight(self) -> list[dict[str, object]]:
        return [r for _, r in sorted(self.picture.requests.items()) if r.get("request") == "in_flight"]


def named(picture: Picture) -> str:
    """``drain test``."""
    return f"{picture.plan.test if picture.plan is not None else ''} test".strip()


def target(picture: Picture) -> str:
    """What it is about."""
    return "" if picture.plan is None else narrow(picture.plan.target.name, 60)


def _parts(text: str, size: int) -> enumerate[str]:
    return enumerate(folded(narrow(text), size - 2))


def _counted(rows: list[dict[str, object]]) -> Line:
    counts = Counter(fate(r).text for r in rows)
    return (Span(", ".join(f"{n} {word}" for word, n in sorted(counts.items())), "value"),)


def _bar(label: str, now: float, limit: float, size: int) -> Line:
    words = f" {elapsed(now)} of {seconds(limit)}"
    filled, rest = meter(
        now / limit if limit > 0 else 1.0, max(1, min(40, size - len(label) - len(words) - 1))
    )
    late = now > limit
    return (
        Span(f"{label} ", "label"),
        Span(filled, "hot" if late else "bar"),
        Span(rest, "trough"),
        Span(words, "hot" if late else "value"),
    )
