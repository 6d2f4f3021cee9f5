"""Which NVIDIA driver a release of CUDA needs, by numbers: 535.104 is newer than 535.54."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.checks.finding import CheckFinding
from tui.model.text import clean

if TYPE_CHECKING:
    from tui.checks.finding import CheckLevel

Version = tuple[int, ...]

# Linux x86_64, the release without updates: table 3 of NVIDIA's CUDA Toolkit release notes.
_MINIMUM: Final[dict[tuple[int, int], str]] = {
    (11, 8): "520.61.05",
    (12, 0): "525.60.13",
    (12, 1): "530.30.02",
    (12, 2): "535.54.03",
    (12, 3): "545.23.06",
    (12, 4): "550.54.14",
    (12, 5): "555.42.02",
    (12, 6): "560.28.03",
    (12, 8): "570.26",
    (12, 9): "575.51.03",
    (13, 0): "580.65.06",
}
# Minor-version compatibility: binaries of any release of a family run from this driver on, but no PTX.
_FAMILY: Final[dict[int, str]] = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}


def parse_cuda(text: str) -> tuple[int, int] | None:
    """A release as ``12.1`` or ``12.1.105``; None where it is none."""
    match = re.fullmatch(r"(\d{1,2})\.(\d{1,2})(?:\.\d{1,6})*", text.strip())
    return (int(match[1]), int(match[2])) if match else None


def parse_driver(text: str) -> Version | None:
    """A driver's version as numbers: ``550.54.15``; None where it is none."""
    match = re.match(r"\d{1,6}(?:\.\d{1,6})*", text.strip())
    return tuple(map(int, match[0].split("."))) if match else None


def compatibility_driver(library_path: str) -> str | None:
    """The newest driver whose CUDA library stands before the installed one's, as ``cuda-compat`` puts it.

    Args:
        library_path: ``LD_LIBRARY_PATH`` of the engine.
    """
    found = []
    for folder in filter(None, library_path.split(":")):
        found += [path.name.removeprefix("libcuda.so.") for path in Path(folder).glob("libcuda.so.*.*")]
    return max(
        (text for text in found if parse_driver(text)),
        key=lambda text: parse_driver(text) or (),
        default=None,
    )


def driver_finding(
    driver: str | None, cuda: tuple[int, int] | None, source: str, compatibility: str | None = None
) -> CheckFinding:
    """Whether a driver is new enough.

    Args:
        driver: its version as NVML tells it.
        cuda: the release that the engine was built for; None: not known.
        source: where that is from, or why it is not known.
        compatibility: the driver whose CUDA library the engine would load in place of this one's.
    """
    if cuda is None:
        return _finding("ok", f"not checked: the driver against a CUDA release: {source}", driver, None)
    release = f"CUDA {cuda[0]}.{cuda[1]} ({source})"
    version = parse_driver(driver or "")
    listed = max((known for known in _MINIMUM if known[0] == cuda[0] and known <= cuda), default=None)
    if listed is None:
        return _finding(
            "ok", f"not checked: the driver: no minimum is known here for {release}", driver, None
        )
    least = _MINIMUM[listed]
    if listed != cuda:
        release += f", of which only the minimum of {listed[0]}.{listed[1]} is known here,"
    if version is None or driver is None:
        text = f"the driver does not tell its version: {release} needs {least} or newer"
        return _finding("warning", text, None, least)
    if _compare(version, least) >= 0:
        return _finding("ok", f"driver {driver} is new enough for {release}: {least}", driver, least)
    if compatibility is not None and _compare(parse_driver(compatibility) or (), least) >= 0:
        text = (
            f"driver {driver} is older than {release} needs: {least}; the compatibility library of "
            f"{clean(compatibility, 40)} on LD_LIBRARY_PATH makes up for it on data centre GPUs"
        )
        return _finding("warning", text, driver, least)
    family = _FAMILY[cuda[0]]
    if _compare(version, family) >= 0:
        text = (
            f"driver {driver} is older than {release} needs: {least}; compiled code of any CUDA {cuda[0]}.x "
            f"runs from {family} on, code that is compiled at run time (PTX) does not"
        )
        return _finding("warning", text, driver, least)
    return _finding("error", f"driver {driver} is too old: {release} needs {least} or newer", driver, least)


def _compare(version: Version, other: str) -> int:
    """Below 0, 0, above 0: older, the same, newer. What is missing at an end counts as 0."""
    wanted = parse_driver(other) or ()
    width = max(len(version), len(wanted))
    left, right = ((*v, *(0,) * (width - len(v))) for v in (version, wanted))
    return (left > right) - (left < right)


def _finding(level: CheckLevel, text: str, driver: str | None, least: str | None) -> CheckFinding:
    return CheckFinding("driver-cuda", level, text, driver, least)
