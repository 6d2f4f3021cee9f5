"""What the panes draw from: one frozen picture of the host, and how the operator wants to see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from tui.model.settings import Thresholds
from tui.model.units import DASH
from tui.model.verdicts import CALM, VerdictName
from tui.ui.lines import Span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.model.explanations import Explanation
    from tui.model.snapshot import EngineView, HostSnapshot
    from tui.model.verdicts import Evidence, Judgement, Verdict
    from tui.ui.charts import Trends
    from tui.ui.moments import Mark
    from tui.ui.sheet import Sheet

PaneName = Literal["header", "verdict", "gpus", "engines", "host", "probes", "help", "drill", "footer"]
PANES: tuple[PaneName, ...] = ("verdict", "gpus", "engines", "host", "probes")
"""Those that can be focused and zoomed, by the digit that jumps to them."""

QUIET = CALM
"""Verdicts that are no news."""
TRANSIENT = frozenset(("loading", "draining", "unknown"))
"""Verdicts that call for attention, not for alarm."""

_BESIDE = frozenset((("power_thermal", "sm_pct"),))
"""Figures that a verdict names although they are no trouble: a card is held down while it is busy."""

_WORST_FIRST = [
    *(name for name in get_args(VerdictName) if name not in (*CALM, "unknown")),
    "unknown",
    "healthy",
    "idle",
]


@dataclass(frozen=True, slots=True)
class Mode:
    """How the operator wants to see it."""

    full: PaneName | None = None
    """The pane that fills the screen."""
    focused: PaneName | None = None
    paused: bool = False
    notice: str = ""
    """One line for the header: what went wrong in the screen itself. It stays."""
    said: str = ""
    """The answer to a key: in place of the footer, for a few seconds."""
    plots: bool = False
    """The plotting library is loaded."""
    scope: str | None = None
    """Whose verdict is explained; None: the headline's."""
    filter: str = ""
    """Rows of engines and GPUs that do not hold it, whatever the case, are hidden."""
    typing: bool = False
    """The filter is being typed."""
    skipped: int = 0
    """Rows of the focused table that are scrolled away."""
    slow: bool = False
    """The terminal takes too long: there are fewer frames."""
    drill: str = ""
    """One line for the header: a test that runs, or has ended and was not looked at."""


@dataclass(frozen=True, slots=True)
class View:
    """Everything a pane may show."""

    snapshot: HostSnapshot
    judgement: Judgement
    trends: Trends
    timelines: Mapping[str, Sequence[tuple[float, str]]] = field(default_factory=dict)
    mode: Mode = Mode()
    thresholds: Thresholds = field(default_factory=Thresholds)
    marks: tuple[Mark, ...] = ()
    """Moments that the operator has marked, oldest first."""
    explanation: Explanation | None = None
    """Of the engine that is looked at, while one is."""
    sheet: Sheet | None = None
    """A page about a test, on the pane ``drill``."""

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self.snapshot.taken_at


def severity(name: str) -> int:
    """0 is the worst: availability, bottlenecks, unknown, healthy, idle."""
    return _WORST_FIRST.index(name) if name in _WORST_FIRST else len(_WORST_FIRST)


def ranked(view: View) -> list[Verdict]:
    """Every verdict, worst first; of equals an engine's before the host's."""
    verdicts = view.judgement.verdicts
    return sorted(verdicts, key=lambda verdict: (severity(verdict.verdict), verdict.scope == "host"))


def headline(view: View) -> Verdict | None:
    """The verdict that the eye must find."""
    return next(iter(ranked(view)), None)


def scopes(view: View) -> list[str]:
    """What can be looked at, in an order that stays: the host, then the engines as they are listed."""
    judged = {verdict.scope for verdict in view.judgement.verdicts}
    return [scope for scope in ("host", *(engine.url for engine in view.snapshot.engines)) if scope in judged]


def looked_at(view: View) -> Verdict | None:
    """The verdict that is explained: the one that was chosen while it exists, else the headline."""
    chosen = (verdict for verdict in view.judgement.verdicts if verdict.scope == view.mode.scope)
    return next(chosen, None) or headline(view)


def others(view: View) -> list[Verdict]:
    """The verdicts that are not the headline, worst first; the host's only where no engine has the same."""
    of_engines = {v.verdict for v in view.judgement.verdicts if v.scope != "host"}
    return [v for v in ranked(view)[1:] if v.scope != "host" or v.verdict not in of_engines]


def urgent_first(view: View) -> list[EngineView]:
    """Engines by how bad their verdict is; equals keep their order, so that rows do not dance."""
    ranks = {verdict.scope: severity(verdict.verdict) for verdict in view.judgement.verdicts}
    return sorted(view.snapshot.engines, key=lambda engine: ranks.get(engine.url, 0))


def is_hot(
    view: View, scope: str | None, signals: Sequence[str], value: float | None, *, low: bool = False
) -> bool:
    """Whether a figure is what made a verdict: those are tinted, and nothing else is.

    Args:
        view: the picture.
        scope: whose figure it is; None: any verdict's (a GPU belongs to no single engine).
        signals: the names under which rules call it.
        value: the figure; it must be past the threshold itself.
        low: it is one of which there is too little, so it must be below it.
    """
    if value is None:
        return False
    return any(
        evidence.signal in signals and (_undercuts if low else _exceeds)(evidence, value)
        for verdict in view.judgement.verdicts
        if verdict.verdict not in QUIET and scope in (None, verdict.scope)
        for evidence in verdict.evidence
        if (verdict.verdict, evidence.signal) not in _BESIDE
    )


def _exceeds(evidence: Evidence, value: float) -> bool:
    limit = evidence.threshold
    if isinstance(limit, str) or limit is None:
        return False
    return value >= limit if evidence.comparison == ">=" else evidence.comparison == ">" and value > limit


def _undercuts(evidence: Evidence, value: float) -> bool:
    limit = evidence.threshold
    return isinstance(limit, (int, float)) and evidence.comparison == "<" and value < limit


def figure(text: str, *, hot: bool = False, stale: bool = False) -> Span:
    """A figure in its cell: unknown is muted, an old one dim, one that made the verdict tinted."""
    if text == DASH:
        return Span(text, "muted")
    return Span(text, "stale" if stale else "hot" if hot else "value")
