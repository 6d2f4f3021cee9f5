"""Kubernetes manifests: Pod, Deployment, StatefulSet, DaemonSet, and Lists of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.lint import commandline
from tui.lint.fields import Fields
from tui.lint.nodes import Scalar
from tui.lint.shape import Container, Gateway, Handler, PreStop, Probe, Workload
from tui.model.settings import ProbeSpec
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.lint.nodes import Node
    from tui.lint.shape import HandlerKind, LintError, ProbeName

CONTROLLERS = frozenset(("Deployment", "StatefulSet", "DaemonSet"))
DEFAULT_GRACE_S = 30.0
DEFAULT_PROGRESS_S = 600.0
DEFAULT_SHM_MIB = 64.0
"""What container runtimes give a pod."""

_HANDLERS: tuple[HandlerKind, ...] = ("httpGet", "tcpSocket", "exec", "grpc")
_KINDS: tuple[ProbeName, ...] = ("startup", "liveness", "readiness")
_TIMES = {
    "initialDelaySeconds": ("initial_delay_s", 0),
    "periodSeconds": ("period_s", 10),
    "timeoutSeconds": ("timeout_s", 1),
    "successThreshold": ("success_threshold", 1),
    "failureThreshold": ("failure_threshold", 3),
}
_READ_TIMEOUT = "nginx.ingress.kubernetes.io/proxy-read-timeout"
_TARGET_GROUP = (
    "alb.ingress.kubernetes.io/target-group-attributes",
    "service.beta.kubernetes.io/aws-load-balancer-target-group-attributes",
)
_DEREGISTRATION = re.compile(r"deregistration_delay\.timeout_seconds=([0-9]{1,6})")
_QUANTITY = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([KMGT]i?|)")
_MIB = {"": 2**-20, "K": 1e3 / 2**20, "M": 1e6 / 2**20, "G": 1e9 / 2**20, "T": 1e12 / 2**20,
        "Ki": 2**-10, "Mi": 1.0, "Gi": 1024.0, "Ti": 2.0**20}  # fmt: skip


def objects(root: Node, file: str, errors: list[LintError]) -> tuple[list[Workload], list[Gateway]]:
    """What runs pods in one document, and what stands before them; other kinds are passed over."""
    found: list[Workload] = []
    gateways: list[Gateway] = []
    for document in _documents(Fields(file, errors, root, 0, "a document")):
        kind = document.text("kind")
        if kind in CONTROLLERS or kind == "Pod":
            found.append(_workload(document, clean(kind), file))
        elif kind in ("Ingress", "Service"):
            gateways += _gateways(document.map("metadata").map("annotations"))
    return found, gateways


def _gateways(notes: Fields) -> list[Gateway]:
    """Timeouts that well-known annotations set."""
    found = []
    read = notes.text(_READ_TIMEOUT)
    if read.isascii() and read.isdigit() and len(read) < 9:
        found.append(Gateway(notes.at(_READ_TIMEOUT), "proxy-read-timeout", read_timeout_s=float(read)))
    for name in _TARGET_GROUP:
        delay = _DEREGISTRATION.search(notes.text(name)[:2000])
        if delay is not None:
            found.append(Gateway(notes.at(name), "deregistration_delay", deregistration_s=float(delay[1])))
    return found


def is_manifest(root: Fields) -> bool:
    """Whether a document is a Kubernetes object."""
    return "kind" in root and "apiVersion" in root


def _documents(root: Fields) -> Iterator[Fields]:
    if root.text("kind").endswith("List") and "items" in root:
        for item in root.maps("items"):
            yield from _documents(item)
    else:
        yield root


def _workload(document: Fields, kind: str, file: str) -> Workload:
    meta, spec = document.map("metadata"), document.map("spec")
    pod = spec if kind == "Pod" else spec.map("template").map("spec")
    if "containers" not in pod:
        document.error(pod.line, f"{kind} without containers")
    volumes = _shm_volumes(pod)
    containers = [
        _container(c, volumes, shared=pod.boolean("hostIPC") is True) for c in pod.maps("containers")
    ]
    containers += [
        _container(c, volumes, shared=False)
        for c in pod.maps("initContainers")
        if c.text("restartPolicy") == "Always"
    ]
    lines = {**document.lines(), **meta.lines(), **spec.lines(), **pod.lines()}
    workload = Workload(
        platform="kubernetes",
        kind=kind,
        name=clean(meta.text("name") or meta.text("generateName"), 80) or "(no name)",
        namespace=clean(meta.text("namespace"), 80),
        file=file,
        line=document.at("kind"),
        containers=tuple(containers),
        grace_s=float(pod.integer("terminationGracePeriodSeconds", int(DEFAULT_GRACE_S))),
        restart=clean(pod.text("restartPolicy"), 20) or "Always",
        lines=lines,
    )
    return workload if kind == "Pod" else _with_strategy(workload, spec)


def _with_strategy(workload: Workload, spec: Fields) -> Workload:
    name = "strategy" if workload.kind == "Deployment" else "updateStrategy"
    strategy = spec.map(name)
    rolling = strategy.map("rollingUpdate")
    deployment = workload.kind == "Deployment"
    return replace(
        workload,
        replicas=None if workload.kind == "DaemonSet" else spec.integer("replicas", 1),
        strategy=clean(strategy.text("type"), 40) or "RollingUpdate",
        surge=_share(rolling, "maxSurge", "25%" if deployment else 0),
        unavailable=_share(rolling, "maxUnavailable", "25%" if deployment else 1),
        progress_deadline_s=float(spec.integer("progressDeadlineSeconds", int(DEFAULT_PROGRESS_S)))
        if deployment
        else None,
        lines={**workload.lines, **strategy.lines(), **rolling.lines()},
    )


def _share(rolling: Fields, name: str, default: int | str) -> int | str:
    node = rolling.node(name)
    if node is None:
        return default
    if isinstance(node, Scalar) and re.fullmatch(r"[0-9]{1,4}%", node.text):
        return node.text
    return max(0, rolling.integer(name, 0))


def _container(raw: Fields, shm_volumes: dict[str, float | None], *, shared: bool) -> Container:
    ports = {}
    for port in raw.maps("ports"):
        if port.text("name"):
            ports[port.text("name")] = port.integer("containerPort", 0)
    limits = {**_gpus(raw.map("resources").map("requests")), **_gpus(raw.map("resources").map("limits"))}
    probes: dict[ProbeName, Probe] = {}
    for kind in _KINDS:
        if f"{kind}Probe" in raw:
            probes[kind] = _probe(raw.map(f"{kind}Probe"), kind)
    return Container(
        name=clean(raw.text("name"), 80) or "(no name)",
        line=raw.line,
        image=clean(raw.text("image"), 300),
        command=raw.words("command"),
        args=raw.words("args"),
        env={e.text("name"): e.text("value") for e in raw.maps("env") if "value" in e},
        ports=ports,
        gpus=sum(limits.values()),
        probes=probes,
        pre_stop=_pre_stop(raw.map("lifecycle")),
        shm_mib=None if shared else _shm(raw, shm_volumes),
        lines=raw.lines(),
    )


def _gpus(resources: Fields) -> dict[str, int]:
    names = [n for n in resources if n == "nvidia.com/gpu" or n.startswith("nvidia.com/mig-")]
    found = {}
    for name in names:
        text = resources.text(name)  # a quantity: quotes are allowed
        if text.isascii() and text.isdigit() and len(text) < 6:
            found[name] = int(text)
        elif text:
            resources.error(resources.at(name), f"{name}: expected a whole number")
    return found


def _probe(raw: Fields, kind: ProbeName) -> Probe:
    values = {field: raw.integer(name, default) for name, (field, default) in _TIMES.items()}
    grace = raw.integer("terminationGracePeriodSeconds", -1)
    return Probe(
        kind=kind,
        line=raw.line,
        spec=ProbeSpec(
            initial_delay_s=float(values["initial_delay_s"]),
            period_s=float(values["period_s"]),
            timeout_s=float(values["timeout_s"]),
            success_threshold=values["success_threshold"],
            failure_threshold=values["failure_threshold"],
        ),
        handlers=tuple(_handler(raw, name) for name in _HANDLERS if name in raw),
        grace_s=float(grace) if "terminationGracePeriodSeconds" in raw else None,
        lines=raw.lines(),
    )


def _handler(raw: Fields, kind: HandlerKind) -> Handler:
    inner = raw.map(kind)
    port: int | str | None = None
    node = inner.node("port")
    if isinstance(node, Scalar):
        port = (
            int(node.text)
            if node.text.isascii() and node.text.isdigit() and len(node.text) < 6
            else node.text
        )
    elif node is not None:
        inner.error(node.line, "port: expected a number or a name")
    sent = {h.text("name"): h.text("value") for h in inner.maps("httpHeaders")}
    return Handler(
        kind=kind,
        line=raw.at(kind),
        path=clean(inner.text("path"), 300),
        port=clean(port, 40) if isinstance(port, str) else port,
        scheme=clean(inner.text("scheme"), 10).upper() or "HTTP",
        host=clean(inner.text("host"), 100),
        headers=frozenset(name.lower() for name in sent),
        header_values=sent,
        words=inner.words("command") or () if kind == "exec" else (),
    )


def _pre_stop(lifecycle: Fields) -> PreStop | None:
    if "preStop" not in lifecycle:
        return None
    hook = lifecycle.map("preStop")
    line = lifecycle.at("preStop")
    if "sleep" in hook:
        return PreStop(line, float(hook.map("sleep").integer("seconds", 0)))
    words = hook.map("exec").words("command")
    if words is None:
        return PreStop(line, None)
    waits = commandline.waits_without_limit(words)
    return PreStop(line, None if waits else commandline.sleep_seconds(words), waits)


def _shm_volumes(pod: Fields) -> dict[str, float | None]:
    """Sizes in MiB of the volumes that can serve as /dev/shm; None: not limited."""
    found: dict[str, float | None] = {}
    for volume in pod.maps("volumes"):
        empty = volume.map("emptyDir")
        if empty.text("medium") == "Memory":
            size = _QUANTITY.fullmatch(empty.text("sizeLimit"))
            found[volume.text("name")] = None if size is None else float(size[1]) * _MIB[size[2]]
        elif volume.map("hostPath").text("path") == "/dev/shm":
            found[volume.text("name")] = None
    return found


def _shm(raw: Fields, volumes: dict[str, float | None]) -> float | None:
    for mount in raw.maps("volumeMounts"):
        if mount.text("mountPath").rstrip("/") == "/dev/shm":
            return volumes.get(mount.text("name"))
    return DEFAULT_SHM_MIB
