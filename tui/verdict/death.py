"""Why an engine has gone, in words: what its end was, and what to do that is not already done."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from tui.model.units import gib, seconds
from tui.model.verdicts import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.model.death import DeathReading, ExitReading
    from tui.verdict.signals import Signals

KILL, TERM, ABRT, BUS, SEGV = 137, 143, 134, 135, 139
_SIGNALS: Final = {
    129: "SIGHUP", 130: "SIGINT", 132: "SIGILL", ABRT: "SIGABRT", BUS: "SIGBUS", 136: "SIGFPE",
    KILL: "SIGKILL", SEGV: "SIGSEGV", TERM: "SIGTERM",
}  # fmt: skip
_NATIVE: Final = "it crashed in native code (CUDA, NCCL or an extension)"
_SHOWN: Final = 100
"""Characters of a line of its log among the evidence; the engine's own sheet has the whole."""


def stopping(s: Signals) -> Evidence | None:
    """Who says that it was asked to stop."""
    said = s.picture.stopping
    return Evidence("stopping", said, text=said) if said and s.explaining else None


def our_test(s: Signals) -> Evidence | None:
    """What a restart test of ours says of its absence."""
    said = s.picture.our_test
    return Evidence("our_test", said, text=said) if said and s.explaining else None


def death(s: Signals) -> tuple[Evidence, ...]:
    """How it ended, where that was looked into: the exit, the kernel's word, the last error of its log."""
    found = s.picture.death
    return tuple(_evidence(found, s.picture.ended_s)) if found is not None and s.explaining else ()


def _evidence(death: DeathReading, ended_s: float | None) -> Iterator[Evidence]:
    if (text := exit_text(death, ended_s)) is not None:
        code = death.exit.code if death.exit is not None else None
        yield Evidence("exit", None if code is None else float(code), text=text)
    for line in death.kernel[-1:]:
        yield Evidence("kernel", line.kind, text=f'kernel "{_cut(line.text)}"')
    for said in death.log[-1:]:
        yield Evidence("log", said, text=f'log "{_cut(said)}"')


def exit_text(death: DeathReading, ended_s: float | None) -> str | None:
    """``exited 137, OOMKilled, 12s ago``; None where nothing of it is known.

    Args:
        death: what was found out.
        ended_s: seconds since it ended, where that is known.
    """
    ended = death.exit
    if ended is None:
        return "it was asked to stop" if death.asked_to_stop else None
    words = []
    if ended.code is not None:
        words.append(f"exited {ended.code}")
    elif death.restarted:
        words.append("started again")
    if ended.error:
        words.append("not started")
    if (why := _why(death, ended)) is not None:
        words.append(why)
    if not words:
        return None
    words += [f"{seconds(ended_s)} ago"] if ended_s is not None else []
    words += [f"restarted {_times(ended.restarts)}"] if ended.restarts else []
    return ", ".join(words)


def death_advice(death: DeathReading | None) -> tuple[str, ...]:
    """What to do about this end, before what is right for every one."""
    if death is None:
        return ()
    return tuple(_advice(death))


def _why(death: DeathReading, ended: ExitReading) -> str | None:
    """The end in one or two words, by the reason and never by the number alone."""
    code = ended.code
    if ended.oom_killed or any(line.kind == "oom" for line in death.kernel):
        return "OOMKilled"
    if death.restarted:
        return None
    if ended.result in ("timeout", "watchdog", "start-limit-hit"):
        return {"timeout": "the grace ran out", "watchdog": "systemd's watchdog"}.get(
            ended.result, "systemd has given up starting it"
        )
    if code == KILL:
        if death.asked_to_stop:
            return "SIGKILL after it was asked to stop"
        return "SIGKILL, not for memory" if ended.oom_killed is False else "SIGKILL"
    if code == 0:
        if death.core_crashed:
            return "after its core had crashed"
        return "as it was asked to" if death.asked_to_stop else None
    return _SIGNALS.get(code or 0)


def _advice(death: DeathReading) -> Iterator[str]:
    ended = death.exit
    killed_for_memory = any(line.kind == "oom" for line in death.kernel)
    if ended is None:
        if killed_for_memory:
            yield "the kernel ended it for memory: raise its limit, or give it less to hold"
        elif death.asked_to_stop:
            yield "its log says that it was asked to stop: see who stopped it"
        elif death.core_crashed:
            yield "its core crashed: its log tells why, in the lines before the server's own end"
            yield "vLLM often ends with 0 then, a clean stop to Restart=on-failure: use Restart=always"
        return
    code = ended.code
    if ended.error:
        yield f"it could not be started: {_cut(ended.error)}"
    if ended.oom_killed or killed_for_memory:
        limit = f" (now {gib(ended.mem_limit_mib)} GiB)" if ended.mem_limit_mib else ""
        yield f"memory of the host or of its limit ran out: raise the limit{limit}, or give it less to hold"
    elif death.restarted:
        yield "it has been started again: find out why it ended before the next time"
    elif ended.result == "start-limit-hit":
        yield f"systemd starts it no more: mend the cause, then systemctl reset-failed {ended.name}"
    elif ended.result == "watchdog":
        yield "WatchdogSec ran out: the engine was hung, or never sends keep-alive messages"
    elif code == KILL:
        yield from _killed(death, ended)
    elif code == TERM:
        yield "143: SIGTERM ended it before it could drain: see who stopped it"
    elif code == SEGV:
        yield f"139: {_NATIVE}; a Triton whose exit timeout ran out in a drain ends so too"
    elif code == ABRT:
        yield f"134: {_NATIVE}: see the lines before its end"
    elif code == BUS:
        yield "135: SIGBUS, often a small /dev/shm: docker run --shm-size, or an emptyDir of medium Memory"
    elif code == 0:
        yield from _zero(death, ended)
    elif code is not None:
        yield f"exit {code}: the reason stands in its log"


def _killed(death: DeathReading, ended: ExitReading) -> Iterator[str]:
    grace = ended.grace_s
    now = f" (now {seconds(grace)})" if grace is not None and math.isfinite(grace) else ""
    if death.asked_to_stop or ended.result == "timeout":
        yield f"137 after a stop: the grace{now} ran out before it had drained: make it longer"
    elif ended.oom_killed is False:
        yield "137, and not for memory: somebody sent SIGKILL (kill -9, docker kill, a liveness probe)"
    else:
        yield "137: SIGKILL, for memory or by somebody: the kernel's log tells which"


def _zero(death: DeathReading, ended: ExitReading) -> Iterator[str]:
    if death.core_crashed:
        if ended.policy == "on-failure":
            yield "exit 0 after a core crash: Restart=on-failure will not start it again; use Restart=always"
        else:
            yield "exit 0 after a core crash: it counts as a clean stop"
    elif death.asked_to_stop:
        yield "exit 0: it was asked to stop, and nothing but who stopped it starts it again"
    elif ended.policy == "on-failure":
        yield "exit 0: Restart=on-failure will not start it again, whether it was stopped or crashed"
    else:
        yield "exit 0: stopped by somebody, or a crash that ends with 0 (vLLM's core)"


def _times(restarts: int) -> str:
    return "once" if restarts == 1 else f"{restarts} times"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
