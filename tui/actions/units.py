"""The systemd unit that is an engine's own: one whose main process is the engine, or a script around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui.actions.ancestry import ancestors
from tui.actions.supervisor import SHELLS
from tui.model.status import SourceError
from tui.sources.systemd import UnitSource

if TYPE_CHECKING:
    from tui.actions.targets import Found
    from tui.model.places import UnitReading


class OwnUnit(NamedTuple):
    """What was found out about an engine's unit."""

    reading: UnitReading | None = None
    user: bool = False
    """One of this user's own manager."""
    warning: str = ""
    """Why a unit is not taken for the engine's own, or cannot be asked about."""


async def own_unit(found: Found) -> OwnUnit:
    """The unit to stop in place of the process; none where the engine merely runs inside one.

    An engine that a cron job, a terminal or an SSH session started is in the unit of those, and stopping
    that would end far more.
    """
    place = found.place
    if place is None or place.unit is None or not place.unit.endswith(".service") or place.container_id:
        return OwnUnit()
    pid, unit = found.main.pid, place.unit
    source = UnitSource(unit, user=place.user_unit, manager_uid=place.manager_uid)
    try:
        reading = await source.read()
    except SourceError as error:
        return OwnUnit(
            warning=f"it is in {unit}, which cannot be asked about: {error.detail or error.reason}"
        )
    if reading.main_pid == pid:
        return OwnUnit(reading, place.user_unit)
    above = ancestors(pid)
    if above and above[0].pid == reading.main_pid and above[0].comm in SHELLS:
        return OwnUnit(reading, place.user_unit)
    return OwnUnit(warning=f"it is in {unit}, whose main process is another (pid {reading.main_pid})")


def systemctl(verb: str, unit: str, *, user: bool) -> tuple[str, ...]:
    """The command for a verb; it never asks for a password."""
    manager = ("systemctl", "--user") if user else ("systemctl",)
    return (*manager, "--no-ask-password", verb, "--", unit)
