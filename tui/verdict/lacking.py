"""What cannot be known of one engine here, why, and what would bring it."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from tui.model.readings import EngineReading, Missing
from tui.verdict.advice import ACCESS_ADVICE
from tui.verdict.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tui.model.snapshot import EngineView
    from tui.verdict.picture import Picture

_ASKED = frozenset(name.partition(".")[2] for rule in RULES for name in rule.inputs)
"""Fields that some rule looks at: a figure that none asks for makes no verdict blind."""
_OF_ENGINE = frozenset((*(f.name for f in fields(EngineReading)), "engine figures")) - {"engine"}
_REMOTE = ("the engine does not run on this host", "run infertop on its host")
_NO_DEVICE = "run infertop on the host that has the GPUs, outside a container without them"
_OF_GPUS: dict[str | None, tuple[str, str]] = {
    "no_driver": ("no NVIDIA driver here", _NO_DEVICE),
    "not_supported": ("no NVIDIA device here", _NO_DEVICE),
    "driver_mismatch": (
        "the NVIDIA driver and its library differ in version",
        "reboot, or install the same version",
    ),
    "no_permission": ("no right to ask the NVIDIA driver", "run with access to /dev/nvidia*"),
    "old_driver": ("the NVIDIA driver is too old", "a newer driver"),
    "stuck": (
        "a call into the NVIDIA driver does not return",
        "look at the kernel log; the host may need a reboot",
    ),
}
_WHY: dict[str, tuple[str, str]] = {
    "host": ("the host's figures cannot be read", "a readable /proc"),
    "probes": ("no probe has been answered yet", "wait for the first round, or see [probes] in the config"),
    "generate probe": (
        "nobody has asked for a token to see whether one comes",
        "key g, --generate, or [probes] generate = true",
    ),
    "generate probe with a longer timeout": ("the last one was given up", "wait for the next"),
    "phase": ("nothing tells what its supervisor believes", "infertop on its host, as root"),
    "step heartbeat": ("no figure of it counts steps", "the engine's metrics; or the generate probe (key g)"),
    "engine figures": ("its metrics are not to be had", "a metrics route that answers"),
    "the engine to go on": ("somebody has paused it or put it to sleep", "resume it"),
    "why requests fail: see the engine's log": ("no figure tells", "its log"),
    "a figure that explains this picture": ("no rule knows this picture", ""),
    "max_num_seqs": ("the number of its seats is not known", "infertop on its host reads its command line"),
}  # fmt: skip


def lacking(names: Iterable[str], picture: Picture, view: EngineView) -> tuple[Missing, ...]:
    """One entry for each input that is missing: those that a rule asked for first.

    Args:
        names: what rules and verdict call missing.
        picture: as they saw it.
        view: the engine, with what its sources say is missing.
    """
    told = {m.field: m for m in reversed((*_told(view, picture),))}
    found: dict[str, Missing] = {}
    for name in names:
        if picture.engine is None and name in _OF_ENGINE:
            continue  # the engine itself is what is missing
        entry = _entry(name, told, picture)
        found.setdefault(entry.field, entry)
    if picture.engine is not None:
        for field, missing in told.items():
            if field in _ASKED:
                found.setdefault(field, missing)
    return tuple(found.values())


def _told(view: EngineView, picture: Picture) -> Iterator[Missing]:
    """What the sources themselves say is missing."""
    if view.engine.reading is not None:
        yield from view.engine.reading.missing
    if picture.host is not None:
        yield from picture.host.missing
    if picture.own is not None:
        yield from picture.own.missing
    for gpu in picture.gpus or ():
        yield from gpu.missing


def _entry(name: str, told: dict[str, Missing], picture: Picture) -> Missing:
    base, _, rest = name.partition(" (")
    reason = rest.rstrip(")")
    section, _, field = base.rpartition(".")
    if base == "gpus" or (section == "gpus" and picture.gpus is None):
        why = _REMOTE if not picture.local and picture.live else _OF_GPUS.get(picture.gpus_reason)
        return Missing("gpus", *(why or ("no device figures", "")))
    if (known := told.get(field)) is not None:
        return known
    if base == "engine":
        return Missing(
            "engine", f"its metrics are not to be had: {reason or 'no answer'}", ACCESS_ADVICE.get(reason, "")
        )
    if base == "host" and picture.live and not picture.local:
        return Missing("host", *_REMOTE)
    if name.startswith("a longer look"):
        return Missing(name, "what is slow and what hangs look the same at first", "wait")
    if base in _WHY:
        return Missing(base, *_WHY[base])
    return Missing(base, "not reported here")
