"""The source of GPU readings: one session with the driver, kept, and begun again when it has gone bad."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tui.model.readings import GpuSet
from tui.model.status import SourceError
from tui.sources.kernel.visibility import visibility
from tui.sources.nvml.binding import Binding
from tui.sources.nvml.cards import Cards
from tui.sources.nvml.errors import NvmlCallError, source_error
from tui.sources.nvml.expected import Expected, places_of_this_host
from tui.sources.nvml.lanes import Lane
from tui.sources.nvml.round import Round, Session
from tui.sources.nvml.side_lane import SideLane

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.readings import GpuReading
    from tui.sources.nvml.device import Device

RECOVER_FIRST_S = 30.0
RECOVER_MAX_S = 300.0
"""A lost or broken device often comes back only in a new session. One is begun after 30 s, then after twice
as long up to 300 s: it may cost a second for each device that nobody else holds open."""
PATIENCE_S = 1.0
"""A device that has not answered for so long is left to the thread that hangs in it."""
OPENING_S = 5.0
"""As long for its first call in a session: without persistence mode that takes a second or two for each."""
OPENING_FACTOR = 0.8
"""Of the patience: how much longer a reading waits while devices are opened."""


class NvmlSource:
    """NVIDIA devices of this host: a ``BlockingSource[GpuSet]`` that does not block for ever.

    Its calls are made on threads of its own (``lanes``): one that hangs costs the row of its device, not
    those of the others, and a hang of what is slow costs only that.

    Args:
        monotonic: seconds that only grow.
        expected: the cards that should be there; None: found out on this host.
        patience_s: how long a device may take to answer.
    """

    name = "nvml"

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        expected: Expected | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.doing = ""
        self._monotonic = monotonic
        self._patience_s = patience_s
        self._expected = expected or Expected(places_of_this_host(), monotonic)
        self._session = Session(Binding(monotonic))
        self._cards = Cards(self._expected, visibility(self._expected.places.proc))
        self.lanes = (Lane("nvml 1", monotonic), Lane("nvml 2", monotonic))
        """The threads of the figures that each reading asks for."""
        self._held: dict[Lane, Device] = {}
        self._unfinished: Round | None = None
        self._side = SideLane(self._session.binding, monotonic)
        self.slow_lane = self._side.lane
        self._renew = False
        self._recover_at: float | None = None
        self._recover_delay_s = RECOVER_FIRST_S

    def read(self) -> GpuSet:
        """All cards by index; one that is lost, broken or stuck keeps its row, with its last good figures.

        Raises:
            SourceError: ``no_driver``, ``driver_mismatch``, ``no_permission``, ``insufficient_power``,
                ``old_driver``, ``timeout``, ``stuck`` or ``driver_error``: NVML as a whole cannot be used.
        """
        now = self._monotonic()
        try:
            self._ask(now)
        except NvmlCallError as error:
            self._renew = True
            raise self._explained(source_error(error)) from error
        except SourceError as error:
            raise self._explained(error) from error.__cause__
        held = {device: lane.stuck() for lane, device in self._held.items() if lane.busy}
        devices = self._session.devices
        rows = self._cards.rows(devices, held, self._side.of, self._side.problem(), now)
        self._side.begin(devices, held, self._expected.store)
        self._plan_recovery(rows, now)
        return GpuSet(rows, self._session.driver_version, self._expected.others(), self._expected.notes)

    def close(self) -> None:
        """End the session with the driver, unless a call hangs in it."""
        self._renew = False
        quiet = self._side.quiet(self._patience_s) and not any(lane.busy for lane in self.lanes)
        if quiet and self._session.binding.initialised:
            self._session.end(self.lanes[0], self._side)
        for lane in (*self.lanes, self._side.lane):
            lane.stop()

    def _ask(self, now: float) -> None:
        """Have each device asked that holds no call; one that does not answer in time is left behind."""
        self._held = {lane: device for lane, device in self._held.items() if lane.busy}
        begun, self._unfinished = self._unfinished, None
        if begun is None:
            lane = next((lane for lane in self.lanes if not lane.busy), None)
            if lane is None:
                raise self._stuck()
            begun = Round(self._session, lane, now, tuple(self._held.values()))
            begun.start(self._side if self._may_renew(now) else None)
        if self._wait_for(begun):
            begun.finish()
        elif begun.opening and (begun.sweep is None or now - begun.lane.since < OPENING_S):
            self._unfinished = begun  # it may be the first to look at these cards, and that takes long
            raise self._stuck()
        else:
            self._leave_behind(begun, now)

    def _wait_for(self, begun: Round) -> bool:
        """Whether a round has ended, in as much time as it may take."""
        hangs = begun.sweep is None and self._monotonic() - begun.lane.since >= OPENING_S
        if begun.lane.wait(0.0 if hangs else self._patience_s):
            return True
        return begun.opening and not hangs and begun.lane.wait(OPENING_FACTOR * self._patience_s)

    def _leave_behind(self, begun: Round, now: float) -> None:
        """Leave a device to the lane that hangs in it, and have the others asked by the other lane."""
        rest = self._give_up(begun)
        other = next((lane for lane in self.lanes if not lane.busy), None)
        if rest and other is None:
            raise self._stuck()
        if rest and other is not None:
            second = Round(self._session, other, now, ())
            second.take_over(rest)
            if other.wait(self._patience_s):
                second.finish()
            elif self._give_up(second):
                raise self._stuck()

    def _give_up(self, begun: Round) -> list[Device]:
        """Leave what a round has in hand to its lane; the devices that it has not asked."""
        assert begun.sweep is not None  # a round that has not come to its devices is waited for
        held, rest = begun.sweep.give_up()
        if held is not None:
            self._held[begun.lane] = held
        return rest

    def _stuck(self) -> SourceError:
        """Nothing more can be asked before a call returns."""
        words = []
        for lane in self.lanes:
            if lane.busy:
                device = self._held.get(lane)
                words.append(lane.stuck() + (f" (GPU {device.position})" if device is not None else ""))
        return SourceError("stuck", " and ".join(words) or "stuck in NVML")

    def _may_renew(self, now: float) -> bool:
        """Whether a new session is due and can be begun: it cannot while a call hangs in this one."""
        due = self._renew or (self._recover_at is not None and now >= self._recover_at)
        if not due or any(lane.busy for lane in self.lanes):
            return False
        if not self._side.quiet(self._patience_s):
            self._recover_at = now + RECOVER_FIRST_S  # not at the next reading: this has cost it its patience
            return False
        self._renew = False
        self._recover_at = None
        return True

    def _plan_recovery(self, rows: tuple[GpuReading, ...], now: float) -> None:
        if all(row.state == "ok" for row in rows):
            self._recover_at = None
            self._recover_delay_s = RECOVER_FIRST_S
        elif self._recover_at is None:
            self._recover_at = now + self._recover_delay_s
            self._recover_delay_s = min(2.0 * self._recover_delay_s, RECOVER_MAX_S)

    def _explained(self, error: SourceError) -> SourceError:
        """With what the PCI bus says about it: a missing driver is another matter where there are GPUs."""
        if error.reason != "no_driver":
            return error
        words, unread = [error.detail], self._expected.unread()
        if unread:
            words.append(f"{unread} NVIDIA GPU{'s are' if unread > 1 else ' is'} on the PCI bus")
        words += self._expected.others()
        return SourceError("no_driver", "; ".join(words), unsupported=error.unsupported and not unread)
