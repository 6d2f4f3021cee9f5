"""What to do about a verdict: the texts' lines for this engine, with the values that are in force."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tui.model.text import clean
from tui.verdict.death import death_advice
from tui.verdict.picture import HELD_SHOWN
from tui.verdict.texts import FIND_OUT, NEED_FLAGS, TEXTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.verdicts import VerdictName
    from tui.verdict.picture import Hold, Picture
    from tui.verdict.prose import Line
    from tui.verdict.signals import Signals

ACCESS_ADVICE: dict[str | None, str] = {
    "401": "set token_env of its [[engines]] in the config, or INFERTOP_TOKEN",
    "403": "set token_env of its [[engines]] in the config, or INFERTOP_TOKEN",
    "404": "check the URL and its path; metrics elsewhere: --metrics-url",
    "dns": "check the host name, and whether this host can resolve it",
    "tls": "check http against https; set ca_file, or verify = false, of its [[engines]]",
    "timeout": "look whether the process lives and its port is open from here",
    "redirect": "give the address that it redirects to",
    "not_metrics": "check the URL: something else answers there; metrics elsewhere: --metrics-url",
    "stats_off": "start the engine with its statistics on",
}
"""What to do where the figures cannot be had, by why."""
IN_FORCE: dict[str, tuple[str, ...]] = {
    "seats": ("max-num-seqs", "max-running-requests", "max-batch-size"),
    "context": ("max-model-len", "context-length", "max-seq-len"),
    "fraction": ("gpu-memory-utilization", "mem-fraction-static", "kv-cache-free-gpu-memory-fraction"),
    "batched": ("max-num-batched-tokens", "max-num-tokens"),
    "chunk": ("chunked-prefill-size",),
    "kv_dtype": ("kv-cache-dtype",),
    "caution": ("schedule-conservativeness",),
    "servers": ("api-server-count",),
    "tokenizers": ("tokenizer-worker-num",),
    "post": ("num-postprocess-workers",),
    "drain": ("shutdown-timeout",),
    "exit": ("exit-timeout-secs",),
}
"""The options behind the texts' fields, as ``command_args`` spells them."""
UNDER = "under"
"""The texts' field for a limit that changes nothing while it is above what runs."""
TAKES_A_RESTART = "options take effect with a restart: after a drain, at a quiet hour; it costs the load time"
_QUANTIZED_KV = "--kv-cache-dtype"
_FRACTION = "--gpu-memory-utilization{fraction}"
_POOL_IN_FORCE = ("num-gpu-blocks-override", "kv-cache-memory-bytes")
"""Either fixes the size of vLLM's pool, whatever the fraction says."""
_NOW = " (now "


def advice(name: VerdictName, s: Signals) -> tuple[str, ...]:
    """What to do about this picture, most urgent first, with the values in force where they are known."""
    picture = s.picture
    if not TEXTS[name].advice:
        return ()
    if name == "unknown" and picture.engine_reason in ACCESS_ADVICE:
        return (ACCESS_ADVICE[picture.engine_reason],)
    if name == "engine_hung" and (held := _let_go(picture)):
        return held
    found = _filled(_lines(name, s), picture.seats, _running(s), tuple(picture.args.items()))
    known = death_advice(picture.death) if name == "engine_down" else ()
    return (*known, *(line for line in found if line != FIND_OUT)) if known else found


_LET_GO: dict[Hold, str] = {
    "stopped": "kill -CONT {pid}",
    "traced": "let the debugger go on, or detach it",
    "blocked": "a signal does not reach it: see the kernel log, its disk or share, and the GPU",
    "zombie": "restart the engine: it does not start its workers again",
}


def _let_go(picture: Picture) -> tuple[str, ...]:
    """What lets processes run again that cannot: a line for each of the most certain kind."""
    held = picture.processes.held if picture.processes is not None else ()
    for how, what in _LET_GO.items():
        lines = [f"{p.text}: {what.format(pid=p.pid)}" for p in held if p.how == how]
        if lines:
            more = (f"and {len(lines) - HELD_SHOWN} more",) if len(lines) > HELD_SHOWN else ()
            return (*lines[:HELD_SHOWN], *more, "let liveness look at progress, not at a status route")
    return ()


def _running(s: Signals) -> float | None:
    """What runs where most does: limits of seats are each rank's own."""
    ranks = s.engine.ranks if s.engine is not None else ()
    loads = [rank.running for rank in ranks if rank.running is not None]
    return max(loads) if len(loads) > 1 else s.running


def _lines(name: VerdictName, s: Signals) -> tuple[str, ...]:
    """Those that are right for the picture, as the texts have them."""
    texts, kind = TEXTS[name], s.picture.kind
    flags = _fitting(texts.flags.get(kind, ()) if kind else (), s)
    restart = (TAKES_A_RESTART,) if flags and name in NEED_FLAGS else ()
    return (*_fitting(texts.first, s), *flags, *_fitting(texts.advice, s), *restart)


def _fitting(lines: tuple[Line, ...], s: Signals) -> list[str]:
    said = [
        line if isinstance(line, str) else line.text if line.holds(s) else line.otherwise for line in lines
    ]
    return [text for text in said if text]


@functools.lru_cache(maxsize=256)
def _filled(
    lines: tuple[str, ...], seats: float | None, running: float | None, given: tuple[tuple[str, str], ...]
) -> tuple[str, ...]:
    """The same each second while nothing but figures moves."""
    args = dict(given)
    values = _Values(seats, running, args)
    found = []
    for text in lines:
        line = _by_its_size(text, args)
        if line.startswith(_QUANTIZED_KV) and values["kv_dtype"].startswith(_NOW + "fp8"):
            continue  # it is done already
        found.append(line.format_map(values) if "{" in line else line)
    return tuple(found)


def _by_its_size(line: str, args: Mapping[str, str]) -> str:
    """A line about vLLM's memory fraction, by the option that is in force where that is another."""
    if _FRACTION not in line:
        return line
    for name in _POOL_IN_FORCE:
        if value := clean(args.get(name, ""), 20):
            now = f"--{name}{_NOW}{value})".replace("{", "{{").replace("}", "}}")
            return line.replace(_FRACTION, now).replace(": 0.85 leaves", ": leaves")
    return line


class _Values(dict[str, str]):
    """What the texts' fields become, each looked up when a line first has it."""

    def __init__(self, seats: float | None, running: float | None, args: Mapping[str, str]) -> None:
        super().__init__()
        self._seats, self._args = seats, args
        if running:
            self[UNDER] = f" below the {running:.0f} that run"

    def __missing__(self, field: str) -> str:
        if field == UNDER:
            return ""
        if field == "seats" and self._seats is not None:
            value = f"{self._seats:.0f}"
        else:
            given = (self._args.get(name) for name in IN_FORCE[field])
            value = next((clean(option, 20) for option in given if option), "")
        self[field] = f"{_NOW}{value})" if value else ""
        return self[field]
