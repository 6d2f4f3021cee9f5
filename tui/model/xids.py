"""What NVIDIA's Xid numbers mean, in a few words each."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Xid(NamedTuple):
    """One kind of event that the driver reports under a number."""

    text: str
    gravity: Literal[0, 1, 2] = 0
    """0: mostly the doing of a program; 1: the device serves on, or this is only a consequence; 2: memory,
    bus or firmware ended the use of the device until a reset."""


XIDS: dict[int, Xid] = {
    13: Xid("a kernel broke off: out of bounds or a bad instruction"),
    31: Xid("a kernel accessed memory that is not mapped"),
    43: Xid("a program's work was stopped after its own fault"),
    45: Xid("work was torn down after an earlier error, or the program was killed"),
    48: Xid("uncorrectable memory error (double bit)", 2),
    61: Xid("internal microcontroller breakpoint"),
    62: Xid("internal microcontroller halt"),
    63: Xid("memory row remap or page retirement recorded, due at the next reset", 1),
    64: Xid("memory row remap or page retirement could not be recorded", 2),
    69: Xid("graphics engine class error"),
    74: Xid("NVLink error"),
    79: Xid("the GPU has fallen off the bus", 2),
    92: Xid("high rate of corrected memory errors"),
    94: Xid("contained memory error: the programs that used the page are ended", 2),
    95: Xid("uncontained memory error: reset the GPU", 2),
    119: Xid("the GPU's firmware (GSP) does not answer: reset the GPU", 2),
    120: Xid("the GPU's firmware (GSP) failed"),
    154: Xid("the driver asks for a recovery action: reset the GPU or reboot", 1),
}
"""By number; those that inference hosts meet."""


def xid_text(number: int) -> str:
    """The meaning of a number; a pointer to the vendor's list where it is not in ours."""
    known = XIDS.get(number)
    return known.text if known else "see NVIDIA's Xid list"


def graver(before: int | None, now: int) -> int:
    """Which of two Xids tells more.

    The cause is not hidden by what follows from it: of equally grave ones it is the first that counts, of
    harmless ones the newest.
    """
    if before is None or _gravity(now) > _gravity(before):
        return now
    return now if _gravity(before) == _gravity(now) == 0 else before


def _gravity(number: int) -> int:
    return XIDS[number].gravity if number in XIDS else 0
