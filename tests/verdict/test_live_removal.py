"""What must hold of a live picture from which something was taken away."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict import made
from tests.verdict.situations import CALM, SITUATIONS, USUAL_HITS
from tui.model.history import History
from tui.model.readings import GpuReading
from tui.model.settings import Slo, Thresholds
from tui.verdict.assess import assess
from tui.verdict.live import USUAL_EVERY, USUAL_POINTS, WINDOW_S, pictures
from tui.verdict.picture import Picture, Processes, Trends

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS, SLO = Thresholds(), Slo()
LEVELS = ("low", "medium", "high")
SOURCES: dict[str, dict[str, Any]] = {
    "gpus": {"gpus": None, "gpus_reason": "no_driver"},
    "host": {"host": None},
    "probes": {"probes": {}},
    "engine": {"engine": None, "trends": Trends()},
}
IDENTITY = frozenset(("scope", "live", "local", "kind", "url", "index", "uuid", "gpus", "host", "engine"))
UNKNOWN: dict[str, Any] = {"gpus_ours": False}
"""What not to know is where it is not the field's default."""


def picture_of(name: str) -> Picture:
    history = History()
    for second in range(USUAL_POINTS * USUAL_EVERY):
        before = made.NOW - WINDOW_S - USUAL_POINTS * USUAL_EVERY + second
        history.add(made.URL, "prefix_hit_ratio", before, USUAL_HITS)
    (picture,) = pictures(SITUATIONS[name].at(made.NOW), history)
    return picture


def without(holder: Any, field: str) -> Any:
    """The same with a field that nobody knows."""
    known = next(f for f in dataclasses.fields(holder) if f.name == field)
    factory = known.default_factory
    value = known.default if factory is dataclasses.MISSING else factory()
    return dataclasses.replace(holder, **{field: UNKNOWN.get(field, value)})


def fields(holder: Any) -> Iterator[str]:
    for field in dataclasses.fields(holder):
        if field.name not in IDENTITY and getattr(holder, field.name) is not None:
            yield field.name


def removals(picture: Picture) -> Iterator[tuple[str, Picture]]:
    """Each known field of the picture, and of everything in it, taken away by itself."""
    for name in fields(picture):
        yield name, without(picture, name)
    for part in ("engine", "host", "own", "trends", "processes"):
        holder = getattr(picture, part)
        for name in fields(holder) if holder is not None else ():
            if not isinstance(holder, Processes) or name != "http_alive":
                yield f"{part}.{name}", dataclasses.replace(picture, **{part: without(holder, name)})
    for name in GPU_FIELDS:
        gpus = tuple(without(gpu, name) for gpu in picture.gpus or ())
        yield f"gpus.{name}", dataclasses.replace(picture, gpus=gpus)
    for kind in picture.probes:
        left = {k: probe for k, probe in picture.probes.items() if k != kind}
        yield f"probes.{kind}", dataclasses.replace(picture, probes=left)


GPU_FIELDS: tuple[str, ...] = tuple(
    f.name for f in dataclasses.fields(GpuReading) if f.default is None and f.name not in IDENTITY
)


@pytest.mark.parametrize("name", SITUATIONS)
def test_each_situation_is_called_by_its_name(name: str) -> None:
    found = assess(picture_of(name), LIMITS, SLO).verdict
    assert found.verdict == name
    assert found.confidence != "low"


@pytest.mark.parametrize("name", [name for name in SITUATIONS if name not in CALM])
def test_no_single_figure_that_is_gone_makes_it_surely_calm(name: str) -> None:
    picture = picture_of(name)
    for where, changed in removals(picture):
        found = assess(changed, LIMITS, SLO).verdict
        if found.verdict in CALM:
            assert found.confidence != "high", where


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_source_that_is_gone_lowers_confidence_and_is_named(name: str, source: str) -> None:
    picture = picture_of(name)
    before = assess(picture, LIMITS, SLO).verdict
    after = assess(dataclasses.replace(picture, **SOURCES[source]), LIMITS, SLO).verdict
    if getattr(picture, source) in (None, {}):
        return  # it gave nothing before
    if name not in CALM:
        assert after.verdict not in CALM or after.confidence != "high"
    if after.verdict == before.verdict:
        assert LEVELS.index(after.confidence) < LEVELS.index(before.confidence)
        assert any(missing.startswith(source) for missing in after.missing)


@pytest.mark.parametrize("name", CALM)
def test_a_single_figure_that_is_gone_makes_no_calm_engine_sick(name: str) -> None:
    wrong = [
        (where, found.verdict)
        for where, changed in removals(picture_of(name))
        if (found := assess(changed, LIMITS, SLO).verdict).verdict not in (*CALM, "unknown")
    ]
    assert not wrong
