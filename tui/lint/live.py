"""The lint of an engine that runs: the settings in force against what was measured of it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tui.lint.commandline import CommandLine, docker_test
from tui.lint.compose import DEFAULT_STOP_S
from tui.lint.engines import Engine
from tui.lint.judge import outcomes
from tui.lint.measured import NOTHING
from tui.lint.rule import Hit, s
from tui.lint.shape import Container, Handler, HealthCheck, Probe, Workload
from tui.model.settings import ManifestProbes
from tui.model.text import clean
from tui.model.verdicts import Finding
from tui.probing.arithmetic import load_budget

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tui.lint.measured import Figures, ProbeFigure
    from tui.lint.rule import Case, Rule
    from tui.lint.shape import Platform, ProbeName
    from tui.model.places import ContainerReading, UnitReading
    from tui.model.readings import EngineKind
    from tui.model.settings import ProbeSpec
    from tui.model.verdicts import Level

_OF_PROBES = frozenset(
    ("P01", "P02", "P03", "P04", "P05", "P06", "P07", "P08", "P09", "P10", "P11", "P12", "P13", "P14", "P16",
     "P17", "P19", "P22", "P23", "D03", "D10", "R04", "R05")
)  # fmt: skip
_OF_PLACES = frozenset(("P08", "D01", "D02", "D12", "D13", "D14", "B01", "B02", "B03", "B04"))
_OF_ABSENCE = frozenset(("P15",))
_OF_MANIFESTS = frozenset(
    ("D01", "D02", "D04", "D05", "D06", "D07", "D08", "D09", "D11", "R01", "R02", "R03", "R06", "B02", "B03")
)  # fmt: skip
"""Beside those of its probes, which are judged as they are in force."""
_OF_LOADS = frozenset(("P01", "P02"))
_MILDER: Mapping[Level, Level] = {"error": "warning", "warning": "info", "info": "info"}
_WRITTEN = ("timeoutSeconds", "restart", "Restart", "KillMode")
"""Settings in force have no file that would tell a written one from a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeManifest(ManifestProbes):
    """One container of a manifest that runs an engine, with all that the lint knows of its workload."""

    workload: Workload
    """That container alone in it."""


@dataclass(frozen=True, slots=True)
class Load:
    """The present process's way from its start to its first good answer."""

    started_at: float
    """Epoch seconds."""
    took_s: float
    """So far, while it lasts."""
    over: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """What is in force for one engine."""

    url: str
    kind: EngineKind | None = None
    version: str | None = None
    options: Mapping[str, str] | None = None
    """Given and by default, by long name without dashes; None where its command line is not known."""
    command: tuple[str, ...] = ()
    probes: Mapping[ProbeName, ProbeSpec] = field(default_factory=dict)
    """The operator's own, paths filled in."""
    complete: bool = False
    """They are a manifest's: a probe that is not among them does not exist."""
    container: ContainerReading | None = None
    unit: UnitReading | None = None
    manifest: Workload | None = None
    """What the operator says that it runs as: its container alone in it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was measured of it."""

    figures: Figures = NOTHING
    early: frozenset[str] = frozenset()
    """Kinds of probes that were watched too shortly for a percentile."""
    load: Load | None = None


def lint(settings: Settings, seen: Seen) -> tuple[Finding, ...]:
    """Findings on what can be judged; a rule whose measured input is missing says nothing here.

    Args:
        settings: in force.
        seen: measured.
    """
    figures = replace(seen.figures, load_s=_load_s(settings, seen), engine=settings.kind)
    engine = _engine(settings)
    hits: list[tuple[Rule, Case, Hit]] = []
    for workload, ids in _workloads(settings):
        hits += [
            (rule, case, outcome)
            for rule, case, outcome in outcomes(workload, (figures,), engine)
            if rule.id in ids and isinstance(outcome, Hit)
        ]
    too_short = {hit.values["kind"] for rule, _, hit in hits if rule.id == "P03"}
    hits = [
        (rule, case, hit)
        for rule, case, hit in hits
        # P03 has measured what P04 fears; P04 before the first answer would be on every screen at its start
        if rule.id != "P04" or (hit.values["kind"] not in too_short and "measured" in hit.arithmetic)
    ]
    return tuple(_finding(settings.url, rule, case, hit, seen) for rule, case, hit in _joined(hits))


def _load_s(settings: Settings, seen: Seen) -> float | None:
    """The longest load; one that still lasts counts from when it has outlived the probe's budget."""
    known, load = seen.figures.load_s, seen.load
    guard = settings.probes.get("startup") or settings.probes.get("liveness")
    if load is None or (not load.over and (guard is None or load.took_s <= load_budget(guard))):
        return known
    return max(load.took_s, known or 0.0)


# ---------------------------------------------------------------------------------------- shapes


def _engine(settings: Settings) -> Engine:
    version = re.match(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", settings.version or "")
    options = settings.options
    return Engine(
        kind=settings.kind,
        version=None
        if version is None
        else tuple(int(part) for part in version.groups() if part is not None),
        options=options,
        from_file=options is not None and ("config" in options or "extra-llm-api-options" in options),
        command=CommandLine(settings.command, "none"),
    )


def _workloads(settings: Settings) -> Iterator[tuple[Workload, frozenset[str]]]:
    """The probes as a pod would have them; and where the engine runs, if that has settings of its own."""
    name = clean(settings.url, 80)
    probes = {
        kind: Probe(kind, 0, spec, (Handler(spec.handler, 0, spec.path),), lines=dict.fromkeys(_WRITTEN, 0))
        for kind, spec in settings.probes.items()
    }
    ids = _OF_PROBES | _OF_ABSENCE if settings.complete else _OF_PROBES
    yield _workload("kubernetes", name, Container(name, 0, probes=probes)), ids
    docker, unit = settings.container, settings.unit
    if settings.manifest is not None:
        yield settings.manifest, _OF_MANIFESTS
    if docker is not None:
        check = docker.healthcheck
        health = None
        if check is not None:
            words = docker_test(check.test)
            health = HealthCheck(
                0, check.interval_s, check.timeout_s, check.retries, check.start_period_s, words
            )
        workload = _workload("compose", name, Container(name, 0, command=settings.command, health=health))
        # Docker tells a stop timeout only where one was set
        grace = DEFAULT_STOP_S if docker.stop_timeout_s is None else docker.stop_timeout_s
        yield replace(workload, grace_s=grace, restart=docker.restart_policy or ""), _OF_PLACES
    elif unit is not None:
        workload = _workload("systemd", name, Container(name, 0, command=settings.command))
        yield (
            replace(
                workload,
                grace_s=unit.stop_timeout_s,
                restart=unit.restart or "",
                kill_mode=unit.kill_mode or "",
            ),
            _OF_PLACES,
        )


def _workload(platform: Platform, name: str, container: Container) -> Workload:
    return Workload(platform, "engine", name, "", 0, (container,), lines=dict.fromkeys(_WRITTEN, 0))


# ---------------------------------------------------------------------------------------- findings


def _joined(hits: list[tuple[Rule, Case, Hit]]) -> list[tuple[Rule, Case, Hit]]:
    """Hits that differ in the probe's kind alone, as one: ``liveness and readiness``."""
    found: dict[object, tuple[Rule, Case, Hit]] = {}
    for rule, case, hit in hits:
        rest = tuple((name, value) for name, value in hit.values.items() if name != "kind")
        key = (rule.id, case.workload.platform, hit.level, hit.arithmetic, rest)
        if "kind" not in hit.values or key not in found:
            found[key if "kind" in hit.values else (*key, len(found))] = (rule, case, hit)
            continue
        first = found[key][2]
        kinds = f"{first.values['kind']} and {hit.values['kind']}"
        found[key] = (rule, case, replace(first, values={**first.values, "kind": kinds}))
    return list(found.values())


def _finding(url: str, rule: Rule, case: Case, hit: Hit, seen: Seen) -> Finding:
    level = hit.level or rule.prose.level
    text = rule.prose.text.format_map(hit.values)
    if rule.id == "P03":
        kind, path = str(hit.values["kind"]), str(hit.values["path"])
        early = kind.partition(" ")[0] in seen.early
        level = _MILDER[level] if early else level
        text = _too_slow(case, kind, path, early=early)
    elif rule.id == "D03":
        text = f"SIGTERM loses running requests: {hit.values['why']}"
    elif rule.id in _OF_LOADS:
        text = _killed(case, seen)
    return Finding(
        rule.id, level, url, clean(text), hit.arithmetic, rule.prose.instead.format_map(hit.values)
    )


def _too_slow(case: Case, kind: str, path: str, *, early: bool) -> str:
    """P03 in the words that fit a line of the screen."""
    probe = case.container.probes[kind.partition(" ")[0]]  # type: ignore[index]  # a rule's value is a text
    figure: ProbeFigure | None = case.figure(probe, path)
    timeout, p99 = probe.spec.timeout_s, 0.0 if figure is None else figure.p99_s or 0.0
    # figures first: a narrow screen cuts off the end
    compared = f"timeout {s(timeout)} < {'' if timeout < p99 else '2 * '}probe p99 {s(p99)}"
    return f"{compared}{' so far' if early else ''}: a busy server looks dead to {kind}"


def _killed(case: Case, seen: Seen) -> str:
    """P01 and P02: what the kubelet would do to the load, or would have done, at the earliest.

    Its probes may be up to a period later: the pane, which has made them, tells the instant.
    """
    guard = case.container.probes.get("startup") or case.container.probes["liveness"]
    budget, longest, load = load_budget(guard.spec), case.figures.load_s or 0.0, seen.load
    if budget >= longest:
        text = f"can be killed from {s(budget)} after its start on, near a restart loop"
    elif load is None or (load.over and load.took_s < longest):
        text = f"would be killed from {s(budget)} after its start on, restart loop"
    else:
        text = f"would be killed from {_clock(load.started_at + budget)} on, restart loop"
    lasts = load is not None and not load.over and load.took_s >= longest
    takes = f"its load takes {s(longest)} so far" if lasts else f"a load takes {s(longest)}"
    return f"{text}: {guard.kind} allows {s(budget)}, {takes}"


def _clock(epoch_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(epoch_s))
