"""``--manifest FILE``: the containers in it that run a known engine, with their probes and their workload."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tui.lint.engines import engine_of
from tui.lint.files import MAX_BYTES, read
from tui.lint.live import WholeManifest
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tui.lint.shape import Container, LintError, Probe, Workload
    from tui.model.settings import ProbeSpec


class ManifestError(Exception):
    """Why a manifest cannot be used, with file and line."""


def read_manifest(path: Path) -> tuple[WholeManifest, ...]:
    """One entry for each container that runs an engine, in the order of the file.

    Raises:
        ManifestError: unreadable, malformed, or without such a container.
    """
    try:
        if path.exists() and not path.is_file():
            raise ManifestError(f"{path}: not a regular file")  # a FIFO would wait for a writer
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}") from None
    errors: list[LintError] = []
    workloads = read(str(path), content, errors)
    if errors:
        raise ManifestError(_where(errors[0]))
    found = tuple(
        probes
        for workload in workloads
        if workload.platform == "kubernetes"
        for container in workload.containers
        if (probes := _probes(workload, container)) is not None
    )
    if not found:
        raise ManifestError(
            f"{path}: no Kubernetes container in it runs vLLM, SGLang, TensorRT-LLM or Triton"
        )
    return found


def _where(error: LintError) -> str:
    name = clean(error.file, 300)
    return f"{name}: {error.text}" if error.line is None else f"{name}:{error.line}: {error.text}"


def _probes(workload: Workload, container: Container) -> WholeManifest | None:
    engine = engine_of(container)
    if engine.kind is None:
        return None
    name = clean(workload.file, 300)
    return WholeManifest(
        origin=f"{name}:{container.line}",
        engine=engine.kind,
        specs={kind: _spec(probe, container.ports, name) for kind, probe in container.probes.items()},
        port=engine.port,
        workload=replace(workload, containers=(container,)),
    )


def _spec(probe: Probe, ports: Mapping[str, int], name: str) -> ProbeSpec:
    """The probe as we would make it; the API server takes none without a handler, or with two."""
    handler = probe.handlers[0] if len(probe.handlers) == 1 else None
    if handler is None or handler.kind == "sleep":
        needs = "exactly one of httpGet, tcpSocket, exec, grpc"
        raise ManifestError(f"{name}:{probe.line}: the {probe.kind} probe needs {needs}")
    port = ports.get(handler.port, 0) if isinstance(handler.port, str) else handler.port or 0
    return replace(
        probe.spec,
        handler=handler.kind,
        path=f"/{handler.path.lstrip('/')}" if handler.kind == "httpGet" else "",
        port=port,
        scheme="https" if handler.scheme == "HTTPS" else "http",
        host=handler.host,
        headers=tuple(handler.header_values.items()),
    )
