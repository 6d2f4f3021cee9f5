"""Which pane stands where, for any size: two columns with borders, or a stack of plain lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.ui import filtered
from tui.ui.panes.gpus import table_lines, telling
from tui.ui.panes.probes import wanted_lines
from tui.ui.panes.verdict import remarks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.ui.view import PaneName, View

FRAMED_WIDTH, FRAMED_HEIGHT = 110, 28
"""From here on there is room for two columns and borders."""
CHART_ROWS = 16
"""Lines below the tables that charts still make good use of."""
HOST_ROWS = 10
"""Lines of the host's pane without its disks."""


@dataclass(frozen=True, slots=True)
class Box:
    """Where a pane stands, in cells."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Needs:
    """How much there is to show."""

    gpus: int
    engines: int
    probes: int
    disks: int
    table: int = 5
    """The fewest lines in which the GPUs make a table."""
    telling: int = 0
    """GPUs that have something to tell on a line of its own."""
    remarks: bool = True
    """There is more to say than the headline's verdict."""

    @classmethod
    def of(cls, view: View) -> Needs:
        """What a picture holds."""
        snapshot = view.snapshot
        return cls(
            # where a filter hides all of them, a line still says so
            gpus=max(len(filtered.gpus(view)), bool(snapshot.gpus.reading and snapshot.gpus.reading.gpus)),
            engines=max(len(filtered.engines(view)), bool(snapshot.engines)),
            probes=wanted_lines(view),
            disks=len(snapshot.host.reading.disks or ()) if snapshot.host.reading else 0,
            table=table_lines(view),
            telling=telling(view),
            remarks=remarks(view),
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """The visible panes; any other is hidden."""

    boxes: Mapping[PaneName, Box]
    framed: bool


def arrange(width: int, height: int, needs: Needs, full: PaneName | None) -> Layout:
    """Place the panes; together they cover the screen without overlap.

    Args:
        width: of the screen.
        height: of the screen.
        needs: what there is to show.
        full: the pane that was asked to fill the screen.
    """
    if full is not None:
        return _filled(width, height, full)
    if width >= FRAMED_WIDTH and height >= FRAMED_HEIGHT:
        return _columns(width, height, needs)
    return _stack(width, height, needs)


def _filled(width: int, height: int, full: PaneName) -> Layout:
    """One pane between header, verdict and footer: the verdict stays in sight."""
    boxes: dict[PaneName, Box] = {}
    top = 0
    if height >= 3:
        boxes["header"] = Box(0, 0, width, 1)
        top = 1
    if full != "verdict" and height >= 10:
        rows = 2 if height >= 20 else 1
        boxes["verdict"] = Box(0, 1, width, rows)
        top += rows
    bottom = 1 if height >= 6 else 0
    boxes[full] = Box(0, top, width, max(1, height - top - bottom))
    if bottom:
        boxes["footer"] = Box(0, height - 1, width, 1)
    return Layout(boxes, framed=width >= 60 and height >= 15)


def _columns(width: int, height: int, needs: Needs) -> Layout:
    verdict = 7 + (height >= 36) + (height >= 50)
    room = height - 2 - verdict
    left = round(width * 0.48)
    table = max(needs.gpus + needs.telling, needs.engines) + 3
    charts = CHART_ROWS if needs.gpus or needs.engines else 0
    below = max(needs.probes + 3, HOST_ROWS + min(4, needs.disks))
    # every row of the tables comes before charts and probes; what is left over goes to the charts first
    middle = min(max(table, 6), room - 8)
    below = min(below, room - middle)
    middle = min(room - below, max(table + charts, middle))
    y = 1 + verdict
    return Layout(
        {
            "header": Box(0, 0, width, 1),
            "verdict": Box(0, 1, width, verdict),
            "gpus": Box(0, y, left, middle),
            "engines": Box(left, y, width - left, middle),
            "host": Box(0, y + middle, left, room - middle),
            "probes": Box(left, y + middle, width - left, room - middle),
            "footer": Box(0, height - 1, width, 1),
        },
        framed=True,
    )


_ORDER: tuple[PaneName, ...] = ("header", "verdict", "gpus", "engines", "host", "probes", "footer")


def _stack(width: int, height: int, needs: Needs) -> Layout:
    """Lines are granted one need after another, the most urgent first, until there are no more."""
    rows: dict[PaneName, int] = dict.fromkeys(_ORDER, 0)
    spare = height
    for name, wanted, least in _wishes(needs):
        extra = wanted - rows[name]
        if extra <= 0:
            continue
        granted = min(extra, spare)
        if rows[name] + granted < least:
            continue
        rows[name] += granted
        spare -= granted
    # a fixed share, whatever there is to say: lines that come and go would move all below them
    more = min(4, (spare + 1) // 2)
    rows["verdict"] += more
    spare -= more
    boxes: dict[PaneName, Box] = {}
    y = 0
    # what is left over separates the blocks; the last of it, if any, stands above the keys
    gaps = _gaps(rows, spare)
    for name in _ORDER:
        y += gaps.get(name, 0)
        if rows[name]:
            boxes[name] = Box(0, y, width, rows[name])
            y += rows[name]
    return Layout(boxes, framed=False)


def _wishes(needs: Needs) -> list[tuple[PaneName, int, int]]:
    """(pane, lines it should have by now, the least that makes sense), the most urgent first."""
    return [
        ("verdict", 1, 1),
        ("engines", 1, 1),
        ("header", 1, 1),
        ("gpus", 1, 1),
        ("verdict", 3, 2),
        ("host", 1, 1),
        ("probes", 1, 1),
        ("footer", 1, 1),
        ("verdict", 4, 4),
        ("engines", min(2, needs.engines), 2),
        ("verdict", 5 if needs.remarks else 4, 4),
        ("gpus", min(2, needs.gpus), 2),
        ("engines", min(4, needs.engines) + 1, 3),
        ("gpus", needs.gpus + 1, needs.table),
        ("engines", needs.engines + 1, 3),
        ("host", 2, 2),
        ("probes", min(4, needs.engines), 2),
        ("gpus", needs.gpus + 1 + needs.telling, needs.table),
        ("verdict", 5, 5),
    ]


def _gaps(rows: Mapping[PaneName, int], spare: int) -> dict[PaneName, int]:
    gaps: dict[PaneName, int] = {}
    for name in _ORDER[2:6]:
        if spare and rows[name]:
            gaps[name] = 1
            spare -= 1
    if spare:
        gaps["footer"] = spare
    return gaps
