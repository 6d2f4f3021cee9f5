"""A device that is lost, unreadable or marked as broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.verdict import evidence as ev
from tui.verdict.outcome import Outcome, cannot_say, fires, quiet
from tui.verdict.picture import NO_DEVICE
from tui.verdict.progress import in_trouble, start_signs, trouble

if TYPE_CHECKING:
    from tui.verdict.signals import Signals

RECORDED_XID = 63
"""A row remap was recorded: due at the next reset, harmless until then."""


def gpu_fault(s: Signals) -> Outcome:
    """A sick device, with trouble in the engine or with siblings that rule out the monitor's rights."""
    gpus, picture = s.gpus, s.picture
    troubled = in_trouble(s)
    why = trouble(s) if troubled else ()
    if picture.gpus is None:
        if picture.gpus_reason in ("stuck", "lost") and troubled:
            return fires(2, *why, missing=("gpus",))
        return quiet() if picture.gpus_reason in NO_DEVICE else cannot_say("gpus")
    fatal = tuple(g for g in gpus.faulty if troubled or g.xid != RECORDED_XID)
    if fatal:
        return fires(3 if troubled or gpus.unreadable else 2, *map(ev.device, fatal), *why)
    if gpus.unreadable:
        found = tuple(map(ev.device, gpus.unreadable))
        if gpus.suspect:
            return fires(3 if troubled else 2, *found, *why)
        starting = picture.phase == "loading" and len(start_signs(s)) > 0
        if troubled and not starting:
            return fires(2, *found, *why)
        # an engine that works on devices that we cannot read: the fault is our library or our rights
        return quiet(*found) if s.any_answer or starting else cannot_say("gpus", evidence=found)
    if gpus.marked and troubled:
        return fires(2, *map(ev.device, gpus.marked), *why)
    return quiet()
