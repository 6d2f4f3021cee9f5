"""``infertop check``: is this engine well, in one look of a few seconds at most.

The looks of exec probes come every few seconds, so that one remembers of the last what shows a hang.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from tui.checks import progress
from tui.checks.finding import CheckFinding
from tui.checks.health_bounded import bounded
from tui.checks.health_engine import EngineRoutes
from tui.checks.health_figures import figures
from tui.checks.health_gpu import GpuCheck
from tui.checks.health_start import boot_id, started_within
from tui.config.state import read_json, state_dir, write_json
from tui.model.status import SourceError
from tui.model.units import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.checks.health_figures import Figures
    from tui.checks.progress import Kept, Look, Stall
    from tui.model.readings import EngineKind
    from tui.model.settings import EngineTarget

Purpose = Literal["liveness", "readiness"]

RESTART_CURES = frozenset(("engine-dead", "engine-down", "engine-silent", "engine-progress"))
"""Findings that fail liveness: a restart of the engine ends them, and costs the time of a load."""
OUT_OF_SERVICE = RESTART_CURES | frozenset(
    ("engine-answers", "engine-loading", "engine-not-ready", "model-listed", "gpu-answers")
)
"""Findings that fail readiness: whoever sends requests here gets none served, or not for long."""
HIT_RATE_LIMIT = 0.2
WARM_CACHE_S = 300.0
"""A prefix cache is cold for so long after a start."""
MIN_PREFIX_TOKENS = 1000.0
"""Fewer say nothing of the traffic."""
PREFILL_S = 120.0
"""No prefill takes longer than this without a step, whatever a card seems to do."""
STATE_S = 0.5
"""A home directory may hang."""
LEAST_STATE_S = 0.1
"""What a healthy disk needs, even where the engine has taken all of the time."""
_LASTING = frozenset(("404", "stats_off", "401", "403"))
"""Reasons that are the operator's choice: progress cannot be judged, and nothing is wrong."""


def check(
    target: EngineTarget, timeout_s: float, *, purpose: Purpose | None = None, strict: bool = False
) -> list[CheckFinding]:
    """All findings on one engine and the GPUs of this host.

    Args:
        target: the engine.
        timeout_s: for everything together.
        purpose: what the answer is for: only what a restart cures, or what should take it out of service,
            stays an error then; without one every error does.
        strict: warnings are errors, as far as ``purpose`` lets them be.
    """
    until = time.monotonic() + timeout_s
    gpus = GpuCheck()
    gpus.start()
    found = _engine(target, until)
    answers = gpus.findings(until)
    found = [_unless_at_work(finding, gpus.at_work) for finding in found]
    return levelled([*found, *answers], purpose, strict)


def _unless_at_work(finding: CheckFinding, at_work: str) -> CheckFinding:
    """A prefill in one piece is one step, of which no figure of the engine tells before its end.

    Of a host with several engines it may be another's card that works; that only puts the verdict off.
    """
    stalled = finding.value if isinstance(finding.value, float) else PREFILL_S
    if finding.id != "engine-progress" or finding.level != "error" or not at_work or stalled >= PREFILL_S:
        return finding
    text = f"{finding.text}, while {at_work}: a long prefill looks like this, for {PREFILL_S:.0f} s at most"
    return replace(finding, level="warning", text=text)


def levelled(findings: Sequence[CheckFinding], purpose: Purpose | None, strict: bool) -> list[CheckFinding]:
    """With the levels that they have for a purpose."""
    failing = {"liveness": RESTART_CURES, "readiness": OUT_OF_SERVICE}
    levelled_ones = []
    for finding in findings:
        level = finding.level
        if strict and level == "warning":
            level = "error"
        if purpose is not None and level == "error" and finding.id not in failing[purpose]:
            level = "warning"
        levelled_ones.append(replace(finding, level=level))
    return levelled_ones


def _engine(target: EngineTarget, until: float) -> list[CheckFinding]:
    routes = EngineRoutes(target, until)
    memory = _Memory(target.url, until)
    try:
        found = routes.identify()
    except SourceError as error:
        return [_refused(target.url, error, memory.kept(), routes), *memory.notes]
    if routes.identity is None:
        return found
    found += routes.health()
    found += routes.models()
    before = memory.kept()
    try:
        seen = figures(routes)
    except SourceError as error:
        memory.keep(progress.answered(before, memory.boot, time.monotonic()))
        found.append(_without_figures(error, routes.identity.engine))
        return [*found, *memory.notes]
    look = progress.Look(time.monotonic(), memory.boot, seen.started, seen.ranks)
    kept, stall = progress.follow(before, look)
    memory.keep(kept)
    found.append(_progress(look, before, stall, routes))
    uptime_s = look.at - kept.up_since if seen.started is None else max(0.0, time.time() - seen.started)
    return [*found, *_hit_rate(seen, uptime_s), *memory.notes]


def _refused(url: str, error: SourceError, kept: Kept | None, routes: EngineRoutes) -> CheckFinding:
    """Nothing listens: it died where it served before, unless it was started again."""
    if kept is None:
        text = f"{url}: {error.detail}; not seen to serve yet: it loads, or was never started"
        return CheckFinding("engine-loading", "error", text, error.reason)
    ago_s = time.monotonic() - kept.served_at
    try:
        again = bounded(lambda: started_within(url, ago_s), routes.left(), "look for its process")
    except (OSError, TimeoutError):
        again = False  # what cannot be seen does not excuse a closed port
    if again:
        text = f"{url}: {error.detail}; started again since it last served: it loads"
        return CheckFinding("engine-loading", "error", text, error.reason)
    text = f"{url}: {error.detail}, and it served {seconds(ago_s)} ago"
    return CheckFinding("engine-down", "error", text, error.reason)


def _without_figures(error: SourceError, engine: EngineKind) -> CheckFinding:
    if engine == "triton" and error.reason == "stats_off":
        return CheckFinding(
            "model-listed", "error", "no model is loaded: no nv_inference family in /metrics", 0
        )
    level: Literal["ok", "warning"] = "ok" if error.reason in _LASTING else "warning"
    return CheckFinding("engine-progress", level, f"progress not judged: {error.detail}", error.reason)


def _progress(look: Look, before: Kept | None, stall: Stall | None, routes: EngineRoutes) -> CheckFinding:
    running = sum(rank.running for rank in look.ranks.values())
    waiting = sum(rank.waiting for rank in look.ranks.values())
    work = f"{running:.0f} running, {waiting:.0f} waiting"
    if not look.ranks:
        return CheckFinding("engine-progress", "ok", "progress not judged: this engine tells no step counter")
    if stall is not None and stall.hung:
        if routes.paused():
            return CheckFinding("engine-not-ready", "error", f"the engine is paused, with {work}")
        where = f" (rank {stall.rank})" if len(look.ranks) > 1 else ""
        text = (
            f"no engine step in {seconds(stall.seconds)} with {stall.running:.0f} running, "
            f"{stall.waiting:.0f} waiting{where}"
        )
        limit = progress.WARM_UP_STALLED_S if stall.warming_up else progress.STALLED_S
        return CheckFinding("engine-progress", "error", text, round(stall.seconds, 1), limit)
    if running + waiting == 0 and stall is None:
        return CheckFinding("engine-progress", "ok", "no work: no step is due")
    if stall is not None:
        slow = ", its first steps, which compile" if stall.warming_up else ""
        text = f"no engine step in {seconds(stall.seconds)} with {work}: too soon to judge{slow}"
        return CheckFinding("engine-progress", "ok", text, round(stall.seconds, 1), progress.STALLED_S)
    if before is None:
        return CheckFinding("engine-progress", "ok", f"progress is judged from the next look on ({work})")
    return CheckFinding("engine-progress", "ok", f"steps are made ({work})")


def _hit_rate(seen: Figures, uptime_s: float) -> list[CheckFinding]:
    if seen.prefix_hits is None or not seen.prefix_asked or seen.prefix_asked < MIN_PREFIX_TOKENS:
        return []
    ratio = min(1.0, seen.prefix_hits / seen.prefix_asked)
    text = f"prefix cache hit rate {ratio:.2f} since start"
    if ratio >= HIT_RATE_LIMIT:
        return [CheckFinding("prefix-hit-rate", "ok", text, round(ratio, 4), HIT_RATE_LIMIT)]
    if uptime_s < WARM_CACHE_S:
        text += f", not judged in the first {WARM_CACHE_S:.0f} s (up for {seconds(uptime_s)})"
        return [CheckFinding("prefix-hit-rate", "ok", text, round(ratio, 4), HIT_RATE_LIMIT)]
    text += f" ({seconds(uptime_s)} ago), below {HIT_RATE_LIMIT}"
    return [CheckFinding("prefix-hit-rate", "warning", text, round(ratio, 4), HIT_RATE_LIMIT)]


class _Memory:
    """The state file of one engine; what it cannot do is a note, never a failure.

    Args:
        url: the engine's.
        until: monotonic seconds at which the check must have ended.
    """

    def __init__(self, url: str, until: float) -> None:
        self.boot = boot_id()
        self.notes: list[CheckFinding] = []
        home = state_dir()
        self._url = url
        self._until = until
        self._file = None if home is None else progress.state_file(home, url)
        if self._file is None:
            self._note("there is no home directory for it")

    def kept(self) -> Kept | None:
        """Of the looks before; None for a first one."""
        if (file := self._file) is None:
            return None
        try:
            document = bounded(lambda: read_json(file, progress.LIMIT_BYTES), self._patience(), "read state")
        except (OSError, ValueError) as error:
            self._note(f"cannot be read: {_words(error)}")
            return None
        return progress.from_document(document, self._url, self.boot, time.monotonic())

    def keep(self, kept: Kept) -> None:
        """For the next look."""
        if (file := self._file) is None:
            return
        document = progress.to_document(kept, self._url)
        try:
            bounded(lambda: write_json(file, document), self._patience(), "write state")
        except OSError as error:
            self._note(f"cannot be written: {_words(error)}")

    def _patience(self) -> float:
        return min(STATE_S, max(LEAST_STATE_S, self._until - time.monotonic()))

    def _note(self, words: str) -> None:
        text = f"the state of this check {words}; without it a hang shows only where the engine itself tells"
        self.notes.append(CheckFinding("state", "ok", text))


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "its file system does not answer"
    return (error.strerror if isinstance(error, OSError) else None) or "not what was written"
