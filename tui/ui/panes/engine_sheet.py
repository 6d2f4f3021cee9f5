"""What a zoomed engine tells of itself: how it was started, where it runs, where its memory went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.places import Place
from tui.model.units import gib, number, seconds
from tui.ui.lines import Line, Span, folded, narrow
from tui.ui.panes.own_sheet import own_facts
from tui.verdict.death import exit_text

if TYPE_CHECKING:
    from tui.model.snapshot import EngineView

_TOLD = (
    "max-num-seqs", "max-running-requests", "max-batch-size", "max-model-len", "context-length",
    "max-seq-len",
    "gpu-memory-utilization", "mem-fraction-static", "kv-cache-free-gpu-memory-fraction",
    "kv-cache-memory-bytes", "max-num-batched-tokens", "chunked-prefill-size", "tensor-parallel-size",
    "tp-size", "tp", "pipeline-parallel-size", "data-parallel-size", "dp-size", "kv-cache-dtype", "dtype",
    "quantization", "shutdown-timeout", "api-server-count", "tokenizer-worker-num",
)  # fmt: skip
"""Options that decide about memory, seats and restarts; the JSON has all."""
_RUNTIMES = {"podman": "Podman", "containerd": "containerd", "crio": "CRI-O"}


def about(engine: EngineView, size: int) -> list[Line]:
    """Lines of one engine; none where nothing is known."""
    given = [f"{name} {narrow(engine.args[name])}" for name in _TOLD if name in engine.args]
    assumed = [f"{name} {value}" for name, value in engine.defaults.items() if name in _TOLD]
    access = ["found on this host, so no token is sent to it"] if engine.discovered else []
    access += [f"through the proxy {engine.proxy}; probes go past it"] if engine.proxy else []
    access += ["its certificate is not checked (verify = false)"] if engine.unverified else []
    facts = (
        ("started with", given),
        ("by default", assumed),
        ("access", access),
        ("runs in", _place(engine)),
        ("stops", [narrow(engine.stopping)] if engine.stopping else []),
        ("last end", _end(engine)),
        *((line_of, [line]) for line_of, line in _end_lines(engine)),
        ("a GPU has", _arithmetic(engine)),
        ("of GPU", _shares(engine)),
        *own_facts(engine.own.reading if engine.own.status.ok else None),
    )
    return [line for label, texts in facts if texts for line in labelled(label, texts, size)]


def _place(engine: EngineView) -> list[str]:
    """Container, pod and unit, and what their supervisors would do."""
    place = engine.place
    if place is None:
        return []
    found = [f"pod {narrow(place.pod_uid)}"] if place.pod_uid else []
    if place.container_id:
        found += _container(engine, place.container_id)
    unit, status = engine.unit.reading, engine.unit.status
    if place.unit and not place.container_id:
        found.append(f"unit {narrow(place.unit)}")
        if unit is not None:
            found += [narrow(f"{unit.active} ({unit.sub})")] if unit.active else []
            found += [f"Restart={narrow(unit.restart)}"] if unit.restart else []
            found += [f"restarted {unit.restarts} times"] if unit.restarts else []
            found += [f"stops within {seconds(unit.stop_timeout_s)}"] if unit.stop_timeout_s else []
            found += [f"memory limit {gib(unit.mem_limit_mib)} GiB"] if unit.mem_limit_mib else []
        elif status.reason:
            found.append(f"systemctl: {narrow(status.detail or status.reason)}")
    return found


def _end(engine: EngineView) -> list[str]:
    death = engine.death.reading
    if death is None:
        return []
    found = [text] if (text := exit_text(death, None)) is not None else []
    return found + [f"{gap.field} not known: {narrow(gap.why)}" for gap in death.missing]


def _end_lines(engine: EngineView) -> list[tuple[str, str]]:
    """What kernel and log say of its end, a line each."""
    death = engine.death.reading
    if death is None:
        return []
    return [
        *(("kernel", narrow(line.text)) for line in death.kernel),
        *(("its log", narrow(line)) for line in death.log),
    ]


def _arithmetic(engine: EngineView) -> list[str]:
    memory = engine.memory
    if memory is None:
        return []
    found = [f"weights {gib(memory.weights_mib)} GiB ({memory.origin})"] if memory.weights_mib else []
    if memory.kv_mib is not None:
        beside = f" (expected {gib(memory.kv_predicted_mib)})" if memory.kv_predicted_mib is not None else ""
        found.append(f"KV {gib(memory.kv_mib)} GiB{beside}")
    if memory.sequences is not None:
        found.append(f"room for {memory.sequences} sequences of {memory.sequence_tokens} tokens")
    return found + ([f"not known: {narrow(memory.why)}"] if memory.why else [])


def _shares(engine: EngineView) -> list[str]:
    return [
        f"{share.gpu}: engine {gib(share.engine_mib)}"
        + (f", rest {gib(share.rest_mib)}" if share.rest_mib is not None else "")
        + f", free {gib(share.free_mib)} of {gib(share.total_mib)} GiB"
        for share in (engine.memory.gpus if engine.memory else ())
    ]


def _container(engine: EngineView, container_id: str) -> list[str]:
    reading, status = engine.container.reading, engine.container.status
    if reading is None:
        who = _RUNTIMES.get((engine.place or Place()).runtime or "", "Docker")
        why = [f"{who}: {narrow(status.detail or status.reason)}"] if status.reason else []
        why += ["its socket needs root or the group docker"] if status.reason == "no_permission" else []
        return [f"container {container_id[:12]}", *why]
    found = [f"container {narrow(reading.name or container_id[:12])}"]
    found += [narrow(reading.state)] if reading.state else []
    found += ["killed for memory"] if reading.oom_killed else []
    found += [f"restart policy {narrow(reading.restart_policy)}"] if reading.restart_policy else []
    found += [f"restarted {reading.restarts} times"] if reading.restarts else []
    found += [f"memory limit {gib(reading.mem_limit_mib)} GiB"] if reading.mem_limit_mib else []
    found += [f"{number(reading.cpus, 1)} CPUs"] if reading.cpus else []
    return found


def labelled(label: str, texts: list[str], size: int) -> list[Line]:
    """A name and all that is said of it: the pane scrolls."""
    first, *others = folded("  ".join(texts), size - len(label) - 1)
    blank = Span(" " * (len(label) + 1))
    return [(Span(f"{label} ", "label"), Span(first, "muted")), *((blank, Span(t, "muted")) for t in others)]
