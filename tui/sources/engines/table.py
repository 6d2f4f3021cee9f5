"""What a table of an engine is made of: quantities, and where they are found in its metrics.

A place is written as a Prometheus selector, ``name{label="value",other=~"pattern"}``, with the name as the
engine writes it; names are compared with colons as underscores and without the prefix that Ray gives them.
Of the places of a quantity, newest first, the first counts that a scrape has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tui.exposition.parse import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.model.readings import EngineKind

Combine = Literal["sum", "max", "mean"]

_PLACE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?$")
_MATCHER = re.compile(r'(\w+)(=~|!~|=)"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Place:
    """One selector."""

    written: str
    sample: str
    """Canonical name."""
    matchers: tuple[tuple[str, Callable[[str], bool]], ...]
    """Label, and what its value must be."""

    @classmethod
    def of(cls, written: str) -> Place:
        """Parse a selector; a mistake in a table ends the program at import."""
        match = _PLACE.match(written)
        if match is None:
            raise ValueError(written)
        found = _MATCHER.findall(match[2] or "")
        matchers = tuple((label, _matcher(operator, value)) for label, operator, value in found)
        return cls(written, canonical(match[1]), matchers)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """The labels of a sample of this name are those that are meant."""
        return all(test(labels.get(label, "")) for label, test in self.matchers)


def _matcher(operator: str, value: str) -> Callable[[str], bool]:
    if operator == "=":
        return value.__eq__
    pattern = re.compile(value)
    return lambda text: (pattern.fullmatch(text) is None) is (operator == "!~")


@dataclass(frozen=True, slots=True)
class Source:
    """The samples of one quantity."""

    selectors: tuple[str, ...]
    """Newest first."""
    scale: float = 1.0
    """Factor to the canonical unit."""
    within: Combine = "sum"
    """How several series of one rank combine."""
    across: Combine = "sum"
    """How ranks combine."""
    since: str = ""
    """The version that brought it, e.g. ``vLLM 0.9.2``: named where it is missing."""
    zero_with: tuple[str, ...] = ()
    """Names that show that the engine has it: it does not exist before its first event, and is 0 then."""
    places: tuple[Place, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", tuple(map(Place.of, self.selectors)))
        object.__setattr__(self, "zero_with", tuple(map(canonical, self.zero_with)))

    @property
    def samples(self) -> tuple[str, ...]:
        """Canonical names, in the order of the places."""
        return tuple(dict.fromkeys(place.sample for place in self.places))


@dataclass(frozen=True, slots=True)
class Hint:
    """Why a figure is missing, and what would bring it."""

    why: str
    enable: str = ""


@dataclass(frozen=True, slots=True)
class EngineTable:
    """All that is read of one engine, by canonical quantity; one that an engine lacks is left out."""

    engine: EngineKind
    path: str
    """Where its metrics are."""
    own: tuple[str, ...]
    """Beginnings of the canonical names that are the engine's own: without any its statistics are off."""
    off: Hint
    """What that means."""
    absent: Hint | None
    """What it means that ``path`` is not there; None where that has no reason of the engine's own."""
    rank_label: str
    gauges: Mapping[str, Source]
    """``running``, ``waiting``, ``waiting_by_reason`` (by the label ``reason``), ``kv_usage`` or, where that
    is absent, ``kv_used`` of ``kv_total`` (in one unit), ``capacity`` (tokens, or an information family with
    ``capacity_labels``) or ``capacity_blocks`` of ``capacity_block_tokens``, ``max_num_seqs``, ``preempted``
    (requests that lost their seat and wait for another), ``awake`` (1 while not asleep), ``started`` (epoch
    seconds), ``step_age`` (seconds), ``gen_tok_s``, ``spec_accept_ratio``, ``spec_accept_length``,
    ``queue_mean_s``, ``queue_p95_s``, ``e2e_p95_s``: the last six where no counter or histogram tells."""
    counters: Mapping[str, Source]
    """``generation_tokens``, ``prompt_tokens``, ``preemptions``, ``evictions``, ``prefix_queries`` or
    ``prefix_misses`` with ``prefix_hits`` (in one unit; and the same with ``live_`` in front, for when no
    request has ended), ``finished``, ``finished_in_error`` (a part of it), ``rejected``, ``http_5xx``,
    ``http_503``, ``http_429``, ``spec_drafts``, ``spec_draft_tokens``, ``spec_accepted_tokens``, ``e2e_sum``
    and ``queue_sum`` (seconds, over the requests of ``finished``, where there is no histogram)."""
    histograms: Mapping[str, Source]
    """``ttft``, ``itl``, ``tpot`` (a request's mean), ``e2e``, ``queue``; without ``_bucket``, ``_sum``."""
    heartbeat: tuple[Source, ...] = ()
    """Figures of which one moves at every step that does work."""
    queues: Mapping[str, Source] = field(default_factory=dict)
    """Queues that together are ``waiting``, by the reason for which their requests wait."""
    optional_queues: frozenset[str] = frozenset()
    """Those that an engine may lack; without any other the sum is unknown."""
    also_waiting: Mapping[str, Source] = field(default_factory=dict)
    """Reasons for which requests wait that are no part of ``waiting``."""
    finish_reasons: tuple[tuple[Source, str], ...] = ()
    """Counters of requests that ended, and the label that holds why, or ``=word``."""
    rejections: tuple[tuple[Source, str], ...] = ()
    """The same of requests that were turned away before they ran."""
    capacity_labels: tuple[tuple[str, ...], ...] = ()
    """Labels whose product is the size of the KV cache in tokens; the first set that holds numbers counts."""
    replica_labels: tuple[str, ...] = ()
    """Labels of processes that report the same figure: of each rank only the lowest is read."""
    total_label: str = ""
    """A gauge may have series by this label beside the total, in which it is empty."""
    model_label: str = "model_name"
    front: tuple[str, ...] = ()
    """Families by model that count a request once more in each model that it passes inside the server."""
    backend_own: str = ""
    """Beginning of names whose models are the ones that generate: every request passes one of them once."""
    hints: Mapping[str, Hint] = field(default_factory=dict)
    """By field of ``EngineReading``: what this engine never tells."""
    inapplicable: frozenset[str] = frozenset()
    """Fields that mean nothing of this engine: nobody misses them."""
    instead: Mapping[str, tuple[str, Hint]] = field(default_factory=dict)
    """By field: a family that is there in place of a usable one, and what that means."""

    instantaneous: frozenset[str] = field(init=False)
    """Canonical names of everything that is a gauge."""

    def __post_init__(self) -> None:
        gauges = (*self.gauges.values(), *self.queues.values(), *self.also_waiting.values())
        names = frozenset(name for source in gauges for name in source.samples)
        object.__setattr__(self, "instantaneous", names)

    def wanted(self) -> frozenset[str]:
        """Every sample name to read."""
        plain = [
            *self.gauges.values(), *self.counters.values(), *self.heartbeat, *self.queues.values(),
            *self.also_waiting.values(), *(source for source, _ in (*self.finish_reasons, *self.rejections)),
        ]  # fmt: skip
        names = {name for source in plain for name in (*source.samples, *source.zero_with)}
        names.update(canonical(name) for name, _ in self.instead.values())
        for source in self.histograms.values():
            names.update(f"{name}{suffix}" for name in source.samples for suffix in ("_bucket", "_sum"))
        return frozenset(names)

    def source(self, quantity: str) -> Source | None:
        """Where a quantity is found, whatever kind it is; None where the engine lacks it."""
        for kind in (self.gauges, self.counters, self.histograms):
            if quantity in kind:
                return kind[quantity]
        if quantity == "waiting" and self.queues:
            return next(iter(self.queues.values()))
        return self.heartbeat[0] if quantity == "heartbeat" and self.heartbeat else None


def counter(*names: str, scale: float = 1.0, since: str = "", zero_with: tuple[str, ...] = ()) -> Source:
    """A counter, with and without the suffix that clients add to its name."""
    written = []
    for name in names:
        base, brace, rest = name.partition("{")
        written += [f"{base}_total{brace}{rest}", name]
    return Source(tuple(written), scale, since=since, zero_with=zero_with)
