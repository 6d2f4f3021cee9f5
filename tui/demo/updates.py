"""What the engine core tells the API server: the changes since its last word, as one line of JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple


class Finished(NamedTuple):
    """A request that ran to its end. Times are seconds; phases as vLLM cuts them."""

    id: int
    reason: str
    """``length`` or ``stop``."""
    prompt_tokens: int
    generated_tokens: int
    cached_tokens: int
    max_tokens: int
    preemptions: int
    queue_s: float
    """From its arrival at the core to its first admission to the batch."""
    prefill_s: float
    """From that to the first token."""
    decode_s: float
    """From the first token to the last."""
    e2e_s: float
    """From its arrival at the API server."""


class Gauges(NamedTuple):
    """The state after the last step."""

    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    used_tokens: int = 0
    evictable_tokens: int = 0
    context_tokens: int = 0
    """Tokens of all running sequences."""
    new_token_ratio: float = 0.0


class Totals(NamedTuple):
    """Counts since the core started; they only grow."""

    steps: int = 0
    prompt_tokens: int = 0
    """Of requests that have got their first token."""
    generated_tokens: int = 0
    computed_tokens: int = 0
    """Prompt tokens computed, those of recomputed requests again."""
    query_tokens: int = 0
    """Prompt tokens looked up in the prefix cache."""
    hit_tokens: int = 0
    evicted_tokens: int = 0
    preemptions: int = 0
    preemptions_counted: int = 0
    """vLLM's count: a preemption shows only when its victim has produced a token again."""
    preempted_input_tokens: int = 0
    preempted_output_tokens: int = 0
    busy_s: float = 0.0
    """Time spent in steps."""


@dataclass(slots=True)
class Update:
    """Events of one or more steps, and the state after them."""

    at_s: float = 0.0
    """Monotonic time of the last step (or look, when idle)."""
    tokens: dict[int, int] = field(default_factory=dict)
    """New tokens by request."""
    finished: list[Finished] = field(default_factory=list)
    first: list[tuple[int, float, float]] = field(default_factory=list)
    """Requests that got their first token, the time to it, and how much of that they queued."""
    itl: list[tuple[float, int]] = field(default_factory=list)
    """Inter-token latencies, each with how many tokens had it."""
    iterations: list[int] = field(default_factory=list)
    """Tokens of each step that produced any."""
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """Admissions: requests, new tokens, cached tokens."""
    gauges: Gauges = field(default_factory=Gauges)
    totals: Totals = field(default_factory=Totals)
    pids: dict[str, int] = field(default_factory=dict)
    """Processes by title, told once when they are up; the engine is ready then."""

    def encode(self) -> bytes:
        """One line of JSON."""
        row = (
            self.at_s, list(self.tokens.items()), self.finished, self.first, self.itl, self.iterations,
            self.batches, self.gauges, self.totals, self.pids,
        )  # fmt: skip
        return json.dumps(row, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Update:
        """The update that ``encode`` wrote.

        Raises:
            ValueError: the line is not one.
        """
        try:
            at_s, tokens, finished, first, itl, iterations, batches, gauges, totals, pids = json.loads(line)
            return cls(
                at_s=at_s,
                tokens={int(key): int(count) for key, count in tokens},
                finished=[Finished(*row) for row in finished],
                first=[(int(key), float(ttft_s), float(queue_s)) for key, ttft_s, queue_s in first],
                itl=[(float(value), int(count)) for value, count in itl],
                iterations=iterations,
                batches=[(int(a), int(b), int(c)) for a, b, c in batches],
                gauges=Gauges(*gauges),
                totals=Totals(*totals),
                pids=pids,
            )
        except TypeError as error:
            raise ValueError(f"not an update: {error}") from None
