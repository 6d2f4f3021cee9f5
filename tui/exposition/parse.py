"""Prometheus text to numbers: only the wanted families are built, and one bad line spoils nothing else.

It runs each second on up to 100 KB a target, so a line that stood in the scrape before is not read again
(three quarters of the time of a busy engine's), and a series is parsed once: the text of its name and labels
stays the same from scrape to scrape and is looked up after that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    _Line = tuple["Series", float] | bool | None
    """What a line is: a wanted sample; True: another one; False: not readable; None: a comment or nothing."""

MAX_SERIES = 10_000
"""Series of one scrape; more is a label explosion, not an engine (30 ranks of vLLM have as many)."""
MAX_LINES = 5 * MAX_SERIES
_MAX_CACHED_SERIES = 20_000
_MAX_CACHED_NAMES = 4096

_NAME = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)(?=[\s{]|$)")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"\s*(?:,|(?=\}))')
_ESCAPE = re.compile(r"\\(.)")
_UNESCAPED = {"n": "\n", '"': '"', "\\": "\\"}


class Series:
    """One series: a canonical sample name and its labels. Equal series of one parser are one object."""

    __slots__ = ("labels", "name")

    def __init__(self, name: str, labels: Mapping[str, str]) -> None:
        self.name = name
        self.labels = labels

    def __repr__(self) -> str:
        return f"Series({self.name!r}, {dict(self.labels)!r})"


@dataclass(frozen=True, slots=True)
class Exposition:
    """What one scrape held of the wanted families."""

    values: Mapping[Series, float]
    """As written: NaN and infinities too. Of a series that appears twice the last value counts."""
    accepted: int
    """Lines that are samples, wanted or not."""
    rejected: int
    """Lines that are neither samples nor comments, and wanted samples that cannot be read."""
    too_many: bool = False
    """The scrape has more than ``MAX_SERIES`` or ``MAX_LINES`` and was given up there."""

    def by_name(self) -> dict[str, list[tuple[Series, float]]]:
        """The samples of each wanted name that is present."""
        found: dict[str, list[tuple[Series, float]]] = {}
        for series, value in self.values.items():
            found.setdefault(series.name, []).append((series, value))
        return found


def canonical(name: str) -> str:
    """The spelling that names are compared in: without colons, as relabelling does it, and Ray's prefix."""
    return name.replace(":", "_").removeprefix("ray_")


class Parser:
    """Reads the expositions of one target.

    Args:
        wanted: canonical sample names, suffixes such as ``_bucket`` and ``_total`` included.
    """

    def __init__(self, wanted: Iterable[str]) -> None:
        self._wanted = frozenset(wanted)
        self._names: dict[str, bool] = {}  # as written -> whether it is wanted
        self._series: dict[str, Series] = {}  # name and labels as written -> the series
        self._interned: dict[tuple[str, frozenset[tuple[str, str]]], Series] = {}
        self._lines: dict[str, _Line] = {}  # of the scrape before, as written

    def parse(self, text: str) -> Exposition:
        """Read one scrape; never raises.

        A last line without a line feed may have lost digits at its end, so it is rejected.
        """
        values: dict[Series, float] = {}
        accepted = rejected = 0
        lines = text.split("\n", MAX_LINES)
        last = lines.pop()
        before = self._lines
        now: dict[str, _Line] = {}
        for line in lines:
            if accepted > MAX_SERIES:
                break
            found = before[line] if line in before else self._read(line)
            now[line] = found
            if found is None:
                continue
            if found is False:
                rejected += 1
                continue
            accepted += 1
            if found is not True:
                values[found[0]] = found[1]
        rejected += not _is_blank(last)
        self._lines = now
        if len(self._series) > _MAX_CACHED_SERIES:  # labels that change all the time
            self._series.clear()
            self._interned = {key: one for key, one in self._interned.items() if one in values}
        return Exposition(values, accepted, rejected, accepted > MAX_SERIES or "\n" in last)

    def _read(self, line: str) -> _Line:
        """What a line is that the scrape before did not have."""
        if not line or line[0] == "#":
            return None
        brace = line.find("{")
        name = line[:brace] if brace > 0 else line.partition(" ")[0]
        wanted = self._names.get(name)
        if wanted is False:
            return True
        if wanted:
            end = line.rfind("}") + 1 if brace > 0 else len(name)
            series = self._series.get(line[:end])
            value = None if series is None else _number(line[end:])
            if series is not None and value is not None:
                return series, value
        return self._read_odd(line)

    def _read_odd(self, line: str) -> _Line:
        """The long way, for what is new or odd."""
        if _is_blank(line):
            return None
        match = _NAME.match(line)
        if match is None:
            return False
        wanted = canonical(match[1]) in self._wanted
        if len(self._names) < _MAX_CACHED_NAMES:
            self._names[match[1]] = wanted
        if not wanted:
            return True
        end = match.end()
        labels: dict[str, str] | None = {}
        if line[end:].lstrip()[:1] == "{":
            labels, end = _labels(line, line.index("{", end))
        value = _value(line[end:])
        if labels is None or value is None:
            return False
        return self._intern(canonical(match[1]), labels, line[:end]), value

    def _intern(self, name: str, labels: dict[str, str], written: str) -> Series:
        series = self._interned.setdefault((name, frozenset(labels.items())), Series(name, labels))
        self._series[written] = series
        return series


def _is_blank(line: str) -> bool:
    start = line.lstrip()[:1]
    return start in ("", "#")


def _labels(line: str, brace: int) -> tuple[dict[str, str] | None, int]:
    """The labels of the block that opens at ``brace``, and where it ends; None where it is malformed."""
    labels: dict[str, str] = {}
    at = brace + 1
    while (match := _LABEL.match(line, at)) is not None:
        at = match.end()
        name, value = match[1], match[2]
        if name in labels:
            return None, at
        labels[name] = _ESCAPE.sub(_unescape, value) if "\\" in value else value
    closing = line.find("}", at)
    if closing < 0 or line[at:closing].strip():
        return None, at
    return labels, closing + 1


def _unescape(match: re.Match[str]) -> str:
    return _UNESCAPED.get(match[1], match[0])


def _value(text: str) -> float | None:
    """The number after a series, which a time stamp and an exemplar may follow."""
    tokens = text.split("#", 1)[0].split()
    if not 1 <= len(tokens) <= 2 or _number(tokens[-1]) is None:
        return None
    return _number(tokens[0])


def _number(text: str) -> float | None:
    # float() takes 1_000 and digits of other scripts, which no exposition has
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None
