"""Which lines of an engine's log tell of an error, and which that it was asked to stop.

By their general form, not by the wording of one version: the last line of a Python traceback, the level of
a logger, what CUDA, NCCL, glibc and the kernel say when they give up.
"""

from __future__ import annotations

import re
from typing import Final

from tui.model.death import StopMark
from tui.model.text import clean
from tui.sources.command_line import redact

MOST_LINES: Final = 3
LINE: Final = 200
"""Characters of a line at most."""
_RAW: Final = 4000
"""Characters of a line that are looked at."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LEVEL = r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
# "(EngineCore pid=30937) ERROR 11-30 11:46:55 [core.py:1454] " and "[2026-11-30 12:02:46 TP0] ": what stands
# after them keeps the indentation that tells a traceback's frames from its last line
_PREFIX = re.compile(
    rf"(?:\([\w.-]+ pid=\d+\) ?)?(?:(?P<level>{_LEVEL}):? +(?:\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? "
    rf"(?:\[[^\]\s]{{1,80}}\] )?)?)?(?:\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]{{0,40}}\] )?"
)
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):$")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|Fault)(?::|$)")
_STRONG = re.compile(
    r"CUDA error|CUDA out of memory|out of memory|OutOfMemory|NCCL (?:error|WARN)|ncclUnhandled|Xid"
    r"|Segmentation fault|Bus error|Fatal Python error|core dumped|terminate called|Aborted"
    r"|[Aa]ddress already in use|No space left on device|exited unexpectedly"
    r"|Main process exited|Failed with result|killed by the OOM killer",
)
_WEAK = re.compile(r"^(?:\S+ ){0,3}\[?(?:ERROR|CRITICAL|FATAL)\b|^\W*(?:[Ff]atal|[Ee]rror):|^[EF]\d{4} \d\d:")
_ASIDE = re.compile(r"^INFO: +\S+ - \"|^The above exception|^During handling of")

# Anchored to the start of a line and to the engines' own prefixes: a prompt that is logged must not stop it.
# One pattern, so that the last match in the text decides.
_MARK = re.compile(
    r"^(?:\x1b\[[0-9;]{0,20}m){0,8}(?:"  # bounded, as all that repeats: a line of 64 KiB took a second
    r"(?P<stop>"
    r"(?:\(\w+ pid=\d+\) )?(?:INFO|WARNING) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[\w.]+:\d+\] "
    r"(?:\[shutdown\] API server: (?:shutdown triggered|stopping engine client)"
    r"|(?:\[shutdown\] )?EngineCore: (?:draining|aborting) in-flight requests)"
    r"|INFO: +Shutting down$"
    r"|\[\d{4}-\d\d-\d\d [^\]]{0,60}\] (?:SIGTERM received\. .*Draining requests"
    r"|Gracefully exiting\.\.\. Remaining number of requests)"
    r"|(?:[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+\] \"?)?"
    r"(?:Timeout \d+: Found \d+ |Waiting for in-flight requests)"
    r"|\S{1,255}\.service: (?:Stopping|State 'stop-)|Stopping \S{1,255}\.service"
    r").*"
    r"|(?P<start>"
    r"(?:\(\w+ pid=\d+\) )?INFO:? .{0,60}(?:vLLM (?:API server )?version|Started server process"
    r"|Waiting for application startup|Application startup complete|Starting vLLM API server)"
    r"|\[\d{4}-\d\d-\d\d [^\]]{0,60}\] (?:server_args=|The server is fired up)"
    r"|(?:[I]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+\] \"?)Started (?:HTTPService|GRPCInferenceService)"
    r"|Started \S{1,255}\.service"
    r").*"
    r")",
    re.MULTILINE,
)
_CRASH = re.compile(
    r"engine core exited unexpectedly|EngineDeadError|EngineCore (?:died|failed|encountered)"
    r"|core proc\w* died",
    re.IGNORECASE,
)


def error_lines(text: str) -> tuple[str, ...]:
    """The last lines that tell of an error, oldest first; the gravest where there are many.

    What ends a traceback and what hardware, kernel or libraries say goes before what merely has the level
    of an error; a line that is there twice counts once. Cleaned, 200 characters at most, secrets redacted.
    """
    strong: dict[str, int] = {}
    weak: dict[str, int] = {}
    in_traceback = False
    for number, raw in enumerate(text.splitlines()):
        line = _ANSI.sub("", raw[:_RAW]).rstrip()
        prefix = _PREFIX.match(line)
        said = line[prefix.end() :] if prefix is not None else line
        level = prefix["level"] if prefix is not None else None
        if _TRACEBACK.search(said):
            in_traceback = True
        elif not said.strip() or _ASIDE.match(line):
            continue
        elif in_traceback and said[0] in " \t":
            continue  # a frame
        elif in_traceback or _EXCEPTION.match(said) or _STRONG.search(said):
            in_traceback = False
            _keep(strong, said, number)
        elif level in ("ERROR", "CRITICAL", "FATAL") or _WEAK.match(line):
            _keep(weak, said, number)
    chosen = sorted(strong, key=strong.__getitem__)[-MOST_LINES:]
    if len(chosen) < MOST_LINES:
        rest = [line for line in sorted(weak, key=weak.__getitem__) if line not in strong]
        chosen += rest[-(MOST_LINES - len(chosen)) :]
    numbers = {**weak, **strong}
    return tuple(sorted(chosen, key=numbers.__getitem__))


def _keep(found: dict[str, int], said: str, number: int) -> None:
    shown = shown_line(said)
    if shown:
        found[shown] = number


def shown_line(text: str) -> str:
    """A line from outside that may be shown: secrets hidden, cleaned, bounded."""
    (whole,) = redact([text.strip()[:_RAW]])
    # ``--api-key X`` is two words, and only a list of words tells what belongs to the option
    return clean(" ".join(redact(whole.split(" "))), LINE)


def stop_mark(text: str) -> StopMark:
    """Whether the newest mark is of a stop; a start after it, of the next server, makes it void.

    A server also shuts down when its core has died: where the log tells of that first, nobody asked.
    """
    begun, first, last = 0, None, None
    for found in _MARK.finditer(text):
        if found["stop"] is None:
            begun, first, last = found.end(), None, None
        else:
            first, last = first or found, found
    if first is None or last is None:
        return StopMark(started=begun > 0)
    if core_crashed(text[begun : first.start()]):
        return StopMark()
    line = last[0]
    prefix = _PREFIX.match(line)
    return StopMark(shown_line(line[prefix.end() :] if prefix is not None else line))


def last_run(text: str) -> str:
    """What the newest server of a log wrote: from its last line about its start on."""
    begun = 0
    for found in _MARK.finditer(text):
        begun = found.end() if found["start"] is not None else begun
    return text[begun:]


def core_crashed(text: str) -> bool:
    """The log says that the engine core went without having been asked."""
    return _CRASH.search(text) is not None
