"""Which probe settings are in force for an engine, and where they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tui.lint.commandline import curl_passes_errors, docker_test
from tui.model.settings import ProbeSpec
from tui.model.urls import host_port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.places import Healthcheck
    from tui.model.readings import EngineKind
    from tui.model.settings import EngineTarget, ManifestProbes, ProbeSettings
    from tui.probing.loop import Kind

KINDS: Final[tuple[Kind, ...]] = ("startup", "liveness", "readiness")
_DEFAULTS: Final[dict[EngineKind, dict[Kind, ProbeSpec]]] = {
    "vllm": {"liveness": ProbeSpec("/health"), "readiness": ProbeSpec("/health")},
    # its /health generates a token: never under 1 s, and 20 s until it gives up on a hung scheduler
    "sglang": {
        "liveness": ProbeSpec("/health", period_s=30.0, timeout_s=25.0),
        "readiness": ProbeSpec("/ready"),
    },
    "trtllm": {"liveness": ProbeSpec("/health"), "readiness": ProbeSpec("/health")},
    "triton": {"liveness": ProbeSpec("/v2/health/live"), "readiness": ProbeSpec("/v2/health/ready")},
}
SGLANG_HEALTH: Final = ("/health", "/health_generate")
NO_READY: Final = "no /ready before SGLang 0.5.20"
SGLANG_PACE_S: Final = 30.0
SGLANG_PATIENCE_S: Final = 25.0
"""A call makes the server of a hung scheduler wait for 20 s; each generates a token, or queues for one."""
_URL: Final = re.compile(
    r"https?://(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?::\d{1,5})?(/[^\s'\"?#;|&)]*)?"
)


@dataclass(frozen=True, slots=True)
class InForce:
    """The probes to make.

    ``specs`` are those that the platform has; ``ours`` are the other routes that we look at all the same,
    from which nothing follows.
    """

    origin: str = ""
    specs: Mapping[Kind, ProbeSpec] = field(default_factory=dict)
    ours: Mapping[Kind, ProbeSpec] = field(default_factory=dict)
    notes: Mapping[Kind, str] = field(default_factory=dict)
    """Why a probe is not made by us."""
    docker: bool = False
    """The liveness probe is a HEALTHCHECK, and follows Docker's rules."""
    own_routes: bool = False
    """Readiness is on the engine's default route, which old versions may lack."""


def default_specs(engine: EngineKind) -> Mapping[Kind, ProbeSpec]:
    """The tool's own probes of an engine: its health routes with the kubelet's cadence, where it bears it."""
    return _DEFAULTS[engine]


def in_force(
    engine: EngineKind,
    target: EngineTarget,
    settings: ProbeSettings,
    healthcheck: Healthcheck | None = None,
) -> InForce:
    """The first that says anything: manifest, config, the container's HEALTHCHECK, the engine's defaults.

    Args:
        engine: its kind.
        target: the endpoint.
        settings: of config and command line.
        healthcheck: of the container that it was found in.
    """
    manifest = next((found for found in settings.manifest if found.engine == engine), None)
    if manifest is not None:
        return _of_manifest(engine, target, manifest)
    given: dict[Kind, ProbeSpec | None] = {
        "startup": settings.startup, "liveness": settings.liveness, "readiness": settings.readiness,
    }  # fmt: skip
    own = default_specs(engine)
    if any(given.values()):
        specs = {
            kind: _with_path(engine, kind, spec) for kind in KINDS if (spec := given[kind] or own.get(kind))
        }
        ready = settings.readiness
        return InForce("the config", specs, own_routes=ready is None or not ready.path)
    if healthcheck is not None and (found := _of_healthcheck(engine, healthcheck)) is not None:
        return found
    return InForce(f"{engine}'s defaults", own, own_routes=True)


def _of_manifest(engine: EngineKind, target: EngineTarget, manifest: ManifestProbes) -> InForce:
    specs, notes = {}, {}
    own = {kind: spec for kind, spec in default_specs(engine).items() if kind not in manifest.specs}
    for kind in KINDS:
        spec = manifest.specs.get(kind)
        if spec is None:
            continue
        specs[kind] = _at_target(target, spec, manifest.port)
        if spec.handler in ("exec", "grpc"):
            where = "it would run in the container" if spec.handler == "exec" else "no grpc is spoken here"
            notes[kind] = f"{spec.handler}: not run ({where})"
        elif spec.host and spec.host != host_port(target.url)[0]:
            notes[kind] = "not run: it asks another host"
    return InForce(manifest.origin, specs, own, notes, own_routes="readiness" in own)


def _at_target(target: EngineTarget, spec: ProbeSpec, port: int | None) -> ProbeSpec:
    """A port that is the engine's own in its container is that of the endpoint, wherever it is published.

    Where the manifest does not tell the engine's port, a probe of its container is taken to ask for it.
    """
    if spec.port and port is not None and spec.port != port:
        return spec
    secure = target.url.startswith("https:")
    if (spec.scheme == "https") == secure:
        return replace(spec, port=0)
    return replace(spec, port=host_port(target.url)[1])  # the other scheme at the same port


def _of_healthcheck(engine: EngineKind, check: Healthcheck) -> InForce | None:
    if not check.test or check.test[0] == "NONE":
        return None
    words = " ".join(check.test[1:])
    url = _URL.search(words)
    spec = ProbeSpec(
        path=(url[1] or "/") if url is not None else "",
        initial_delay_s=check.start_period_s,
        period_s=check.interval_s,
        timeout_s=check.timeout_s,
        failure_threshold=check.retries,
        handler="exec" if url is None else "httpGet",
    )
    own = dict(default_specs(engine))
    notes: dict[Kind, str] = {}
    if url is None:
        notes["liveness"] = "HEALTHCHECK: not run (it runs in the container)"
    elif curl_passes_errors(docker_test(check.test)):
        notes["liveness"] = "HEALTHCHECK: not run (curl without -f passes on any answer)"
    own.pop("liveness", None)
    return InForce(
        "the container's HEALTHCHECK", {"liveness": spec}, own, notes, docker=True, own_routes=True
    )


def _with_path(engine: EngineKind, kind: Kind, spec: ProbeSpec) -> ProbeSpec:
    """A path that is left empty is the engine's default route; for the startup probe, that of liveness."""
    own = default_specs(engine)
    return spec if spec.path else replace(spec, path=own.get(kind, own["liveness"]).path)


def paced(engine: EngineKind, spec: ProbeSpec) -> bool:
    """SGLang's generating routes are asked at their own pace, whatever was set."""
    path = spec.path.partition("?")[0]
    return engine == "sglang" and spec.handler == "httpGet" and path in SGLANG_HEALTH


def without_ready(force: InForce) -> InForce:
    """SGLang before 0.5.20: readiness by the newest answer of /health; unknown if liveness is elsewhere."""
    liveness = force.specs.get("liveness") or force.ours.get("liveness")
    if liveness is None or liveness.path != "/health":
        return replace(force, notes={**force.notes, "readiness": NO_READY}, own_routes=False)
    own = default_specs("sglang")["liveness"]

    def changed(specs: Mapping[Kind, ProbeSpec]) -> Mapping[Kind, ProbeSpec]:
        return {
            kind: replace(spec, path=own.path, period_s=own.period_s, timeout_s=own.timeout_s)
            if kind == "readiness"
            else spec
            for kind, spec in specs.items()
        }

    return replace(force, specs=changed(force.specs), ours=changed(force.ours), own_routes=False)
