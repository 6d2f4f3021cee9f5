"""Which settings of a watched engine are judged, and how often."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from tests.support.program import ROOT
from tests.verdict import made
from tui.model.places import ContainerReading, Place, UnitReading
from tui.model.readings import ProbeReading
from tui.model.settings import ManifestProbes, ProbeSettings, ProbeSpec
from tui.model.status import Observed
from tui.runtime.clock import SystemClock
from tui.runtime.live_lint import LiveLint
from tui.runtime.probe_manifest import read_manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.readings import ProbeKind
    from tui.model.snapshot import EngineView
    from tui.model.verdicts import Finding

SHORT = ProbeSpec("/health", timeout_s=1.0)
IN_FORCE: Mapping[ProbeKind, ProbeSpec] = {"liveness": SHORT, "readiness": SHORT}
PODDED = Place(container_id="c" * 64, runtime="docker", pod_uid="1-2-3")
NO_RESTART = Observed(ContainerReading("c" * 64, name="llm", restart_policy="no"), made.FRESH)


def watch(probes: ProbeSettings = ProbeSettings()) -> LiveLint:  # noqa: B008  # frozen
    """Without a state directory nothing is spawned."""
    return LiveLint(probes, None, "gpu-07", SystemClock(), asyncio.ensure_future)


def engine(**changes: Any) -> EngineView:
    """One that answers its probes in 1.4 s, and would drain on SIGTERM."""
    kinds: tuple[Any, Any] = ("liveness", "readiness")
    answers = tuple(ProbeReading(made.URL, kind, "/health", 200, 1.4, streak=1, age_s=0.0) for kind in kinds)
    server = made.process(100, "api_server", port=8000, cmdline=("vllm", "serve", "m"))
    good = dataclasses.replace(
        made.view(),
        probes=answers,
        probe_specs=IN_FORCE,
        processes=(server,),
        args={"shutdown-timeout": "20"},
    )
    return dataclasses.replace(good, **changes)


def found(lint: LiveLint, view: EngineView, at: float = made.NOW) -> dict[str, Finding]:
    snapshot = made.snapshot(view, at=at)
    lint.note(snapshot)
    return {finding.id: finding for finding in lint.findings(snapshot)}


def test_our_own_default_probes_are_not_judged() -> None:
    assert set(found(watch(), engine())) == {"drain-test"}


def test_a_manifest_of_another_engine_is_not_used_and_that_is_said() -> None:
    manifest = ManifestProbes("pods/article-sglang.yaml:12", "sglang", {"liveness": SHORT})
    view = engine(probe_origin="vllm's defaults")
    finding = found(watch(ProbeSettings(manifest=(manifest,))), view)["manifest-unused"]
    assert (finding.level, finding.scope) == ("warning", made.URL)
    assert finding.text == "--manifest pods/article-sglang.yaml is not used: no container in it runs vLLM"
    assert finding.arithmetic == "looked for vLLM, found SGLang (line 12); vllm's defaults are in force"
    both = (manifest, ManifestProbes("pods/article-sglang.yaml:40", "vllm", {"liveness": SHORT}))
    assert "manifest-unused" not in found(watch(ProbeSettings(manifest=both)), view)
    assert "manifest-unused" not in found(watch(), view)


def test_a_kind_that_the_config_gives_is_judged_with_what_is_in_force() -> None:
    lint = watch(ProbeSettings(liveness=ProbeSpec(timeout_s=1.0)))
    assert found(lint, engine())["P03"].text == (
        "timeout 1 s < probe p99 1.4 s so far: a busy server looks dead to liveness"
    )


def test_of_a_manifest_its_stop_and_its_rollout_are_judged_too() -> None:
    (manifest,) = read_manifest(ROOT / "tests/fixtures/manifests/gateway.yaml")
    view = engine(probe_origin=manifest.origin, probe_specs=manifest.specs)
    judged = found(watch(ProbeSettings(manifest=(manifest,))), view)
    assert judged["D04"].arithmetic == "preStop 15 s < 300 s (deregistration_delay)"
    assert judged["D11"].arithmetic == "deregistration_delay 300 s > grace 60 s"
    assert judged["R06"].arithmetic == "replicas 1"
    assert {finding.scope for finding in judged.values()} == {made.URL}
    slow = dataclasses.replace(made.reading(), e2e_p99_s=80.0)
    late = dataclasses.replace(view, engine=dataclasses.replace(view.engine, reading=slow))
    assert "grace 60 s" in found(watch(ProbeSettings(manifest=(manifest,))), late)["D01"].arithmetic
    assert found(watch(), view).keys().isdisjoint({"D01", "D04", "D11", "R02", "R06"})


def test_of_a_manifest_every_kind_is_judged_and_one_that_lacks() -> None:
    manifest = ManifestProbes("pod.yaml:12", "vllm", {"liveness": SHORT})
    lint = watch(ProbeSettings(manifest=(manifest,)))
    view = engine(probe_specs={"liveness": SHORT}, probe_origin="pod.yaml:12")
    assert {"P03", "P15"} <= found(lint, view).keys()
    other = engine(probe_origin="vllm's defaults")
    assert not {"P03", "P15"} & found(lint, other, made.NOW + 2).keys()


def test_a_container_that_nothing_starts_again_is_told_unless_the_kubelet_does() -> None:
    place = Place(container_id="c" * 64, runtime="docker")
    assert "B02" in found(watch(), engine(place=place, container=NO_RESTART))
    assert "B02" not in found(watch(), engine(place=PODDED, container=NO_RESTART))


def test_a_unit_is_the_engines_only_if_its_main_process_is() -> None:
    unit = UnitReading("llm.service", restart="no", main_pid=100)
    assert "B02" in found(watch(), engine(unit=Observed(unit, made.FRESH)))
    terminal = dataclasses.replace(unit, main_pid=77)
    assert "B02" not in found(watch(), engine(unit=Observed(terminal, made.FRESH)))


def test_a_command_line_that_cannot_be_seen_is_not_judged() -> None:
    told = engine(args={})
    assert "D03" in found(watch(), told)
    (server,) = told.processes or ()
    hidden = dataclasses.replace(server, cmdline=())
    assert "D03" not in found(watch(), engine(args={}, processes=(hidden,)))
    assert "D03" not in found(watch(), engine(args={}, processes=None))


def test_it_judges_once_a_second_and_forgets_who_has_gone() -> None:
    lint = watch(ProbeSettings(liveness=SHORT))
    assert "P03" in found(lint, engine())
    assert "P03" in found(lint, engine(probe_specs={}), made.NOW + 0.5)
    assert "P03" not in found(lint, engine(probe_specs={}), made.NOW + 1.0)
    other = made.snapshot(engine(url="http://127.0.0.1:8001"), at=made.NOW + 3)
    lint.note(other)
    assert not [f for f in lint.findings(other) if f.scope == made.URL]
