"""Pictures of engines at other addresses than the usual ones, and of one that nobody knows yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.ui import scenes
from tui.model.snapshot import EngineView
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import Judgement, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.readings import EngineKind
    from tui.ui.view import PaneName, View


def moved(view: EngineView, url: str, kind: EngineKind) -> EngineView:
    reading = view.engine.reading
    assert reading is not None
    return replace(
        view,
        url=url,
        engine=replace(view.engine, reading=replace(reading, url=url, engine=kind)),
        probe_origin=f"{kind}'s defaults",
        probes=tuple(replace(probe, url=url) for probe in view.probes),
    )


def far_up(host: str, kind: EngineKind, full: PaneName | None = None) -> tuple[View, list[str]]:
    """Engines at ports of five digits, of which the first is sick; and those ports."""
    found = scenes.sick_view(full=full)
    ports = ["43621", "43622", "43623"]
    urls = [f"http://{host}:{port}" for port in ports]
    first, second = found.snapshot.engines
    engines = tuple(moved(one, url, kind) for one, url in zip((first, second, second), urls, strict=True))
    of_host, sick, well = found.judgement.verdicts
    verdicts = (of_host, *(replace(v, scope=url) for v, url in zip((sick, well, well), urls, strict=True)))
    judgement = replace(found.judgement, verdicts=verdicts)
    return replace(found, snapshot=replace(found.snapshot, engines=engines), judgement=judgement), ports


def ports_view() -> View:
    """Three engines at ports of five digits, the first of them sick."""
    return far_up("127.0.0.1", "sglang")[0]


def nameless_view() -> View:
    """One engine that serves, and one that has not told what it is."""
    base = scenes.calm_view()
    away = SourceStatus(SourceState.FAILED, "404", since=scenes.NOW - 60, failures=9)
    other = EngineView(url="http://127.0.0.1:43621", engine=Observed(None, away))
    found = replace(base.snapshot, engines=(base.snapshot.engines[0], other))
    of_host, well, _ = base.judgement.verdicts
    unknown = Verdict(other.url, "unknown", "UNKNOWN", missing=("engine figures (404)",))
    return replace(base, snapshot=found, judgement=Judgement((of_host, well, unknown)))


SCENES: dict[str, Callable[[], View]] = {"ports": ports_view, "nameless": nameless_view}
