"""A queueing model of an engine's scheduler: seats, KV blocks, prefill budget, preemption, prefix cache.

It runs on the caller's clock: ``begin_step`` plans an iteration and says how long it takes,
``end_step`` delivers its tokens. Between the two nothing moves, so an engine whose worker never
answers stands still as a real one does.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.demo.kv_cache import BlockPool
from tui.demo.updates import Finished, Gauges, Totals, Update

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.demo.spec import EngineSpec

# SGLang reserves a share of the tokens a request may still produce; the share sinks with every decode
# step and is raised after a retraction.
_RATIO_START, _RATIO_LEAST, _RATIO_DECAY = 0.7, 0.1, 0.001


@dataclass(slots=True, eq=False)
class Request:
    """One sequence and how far it has come."""

    id: int
    arrived_s: float
    """Monotonic time of its arrival at the API server."""
    prompt_tokens: int
    target_tokens: int
    """How many tokens it will produce."""
    max_tokens: int
    """How many it was allowed: more than the target if it ends by itself."""
    hashes: Sequence[int] = ()
    """Of its full prompt blocks, each covering everything before it."""
    queued_s: float = 0.0
    started_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float = 0.0
    generated: int = 0
    computed: int = 0
    cached: int = 0
    preemptions: int = 0
    uncounted: int = 0
    held: list[int] = field(default_factory=list)
    private: int = 0
    gone: bool = False

    @property
    def length(self) -> int:
        """Tokens of the sequence so far."""
        return self.prompt_tokens + self.generated


class Scheduler:
    """Decides who is in the batch, iteration by iteration."""

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._block = spec.block_size
        self._pool = BlockPool(spec.kv_tokens // spec.block_size, caching=spec.prefix_caching)
        self._reserving = spec.dialect == "sglang"
        self._ratio = _RATIO_START
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self._by_id: dict[int, Request] = {}
        self._plan: list[tuple[Request, int]] = []
        self._begun_s: float | None = None
        self._counts: Counter[str] = Counter()
        self._busy_s = 0.0
        self._admitted: list[tuple[int, int, int]] = []

    # ------------------------------------------------------------------------------ from outside

    @property
    def unfinished(self) -> int:
        """Requests running or waiting."""
        return len(self._by_id)

    def submit(self, request: Request, now: float) -> None:
        """Queue a request."""
        request.queued_s = now
        self._by_id[request.id] = request
        self._waiting.append(request)

    def abort(self, request_id: int) -> bool:
        """Forget a request whose client has gone; its blocks are free at once."""
        request = self._by_id.pop(request_id, None)
        if request is None:
            return False
        request.gone = True
        if request in self._running:
            self._running.remove(request)
            self._free(request)
        else:
            self._waiting.remove(request)
        return True

    def change(self, spec: EngineSpec) -> None:
        """Take new settings; sequences that no longer fit are preempted."""
        self._spec = spec
        self._pool.caching = spec.prefix_caching
        self._pool.resize(spec.kv_tokens // self._block)
        while self._pool.used > self._pool.capacity:
            self._preempt(self._running[-1])

    def gauges(self) -> Gauges:
        """The state now."""
        return Gauges(
            running=len(self._running),
            waiting=len(self._waiting),
            kv_usage=self._pool.usage,
            used_tokens=min(self._pool.used, self._pool.capacity) * self._block,
            evictable_tokens=self._pool.evictable * self._block,
            context_tokens=sum(request.computed for request in self._running),
            new_token_ratio=self._ratio,
        )

    def totals(self) -> Totals:
        """The counts so far."""
        counts = self._counts
        return Totals(
            **{name: counts[name] for name in Totals._fields if name not in ("busy_s", "evicted_tokens")},
            evicted_tokens=self._pool.evicted * self._block,
            busy_s=self._busy_s,
        )

    # ------------------------------------------------------------------------------ one iteration

    def begin_step(self, now: float) -> float | None:
        """Plan the next iteration.

        Returns:
            How long it takes in seconds, or None if there is nothing to do.
        """
        self._plan = []
        budget = self._spec.max_num_batched_tokens
        preempted, budget = self._plan_running(budget)
        if not preempted:
            budget = self._plan_waiting(budget, now)
        if not self._plan:
            return None
        self._begun_s = now
        prefill = sum(tokens for request, tokens in self._plan if tokens > 1 or request.generated == 0)
        self._counts["computed_tokens"] += prefill
        return (
            self._spec.decode_step_s
            + self._spec.decode_seq_s * (len(self._plan) - 1)
            + prefill / self._spec.prefill_tok_s
        )

    def end_step(self, now: float, update: Update) -> None:
        """Finish the planned iteration at ``now`` and add what came of it to ``update``."""
        if self._begun_s is None:
            return
        self._busy_s += now - self._begun_s
        self._begun_s = None
        self._counts["steps"] += 1
        latencies: Counter[float] = Counter()
        produced = prompt = 0
        for request, tokens in self._plan:
            if request.gone:
                continue
            request.computed += tokens
            if request.computed < request.length:
                continue
            if request.first_token_s is None:
                request.first_token_s = now
                prompt += request.prompt_tokens
                queued_s = (request.started_s or now) - request.queued_s
                update.first.append((request.id, now - request.arrived_s, queued_s))
            else:
                latencies[now - request.last_token_s] += 1
            request.last_token_s = now
            request.generated += 1
            produced += 1
            update.tokens[request.id] = update.tokens.get(request.id, 0) + 1
            if request.uncounted:
                self._counts["preemptions_counted"] += request.uncounted
                request.uncounted = 0
            if request.generated >= request.target_tokens:
                update.finished.append(self._finish(request, now))
        self._counts["prompt_tokens"] += prompt
        self._counts["generated_tokens"] += produced
        update.itl.extend(latencies.items())
        if produced:
            update.iterations.append(prompt + produced)
            self._ratio = max(_RATIO_LEAST, self._ratio - _RATIO_DECAY)
        update.batches.extend(self._admitted)
        self._admitted = []
        update.at_s = now
        update.gauges = self.gauges()
        update.totals = self.totals()

    # ------------------------------------------------------------------------------ parts

    def _plan_running(self, budget: int) -> tuple[bool, int]:
        """Give every running sequence its tokens, preempting the latest when blocks run out."""
        preempted = False
        index = 0
        while index < len(self._running) and budget > 0:
            request = self._running[index]
            tokens = min(request.length - request.computed, budget)
            while not self._extend(request, tokens):
                victim = self._running[-1]
                self._preempt(victim)
                preempted = True
                if victim is request:
                    break
            else:
                self._plan.append((request, tokens))
                budget -= tokens
                index += 1
        return preempted, budget

    def _plan_waiting(self, budget: int, now: float) -> int:
        """Admit from the head of the queue while seats, blocks and the token budget last."""
        admitted = new = cached = 0
        while self._waiting and budget > 0 and len(self._running) < self._spec.max_num_seqs:
            request = self._waiting[0]
            # the last token of a prompt is always computed: its logits are needed
            matched = list(
                request.hashes[: self._pool.match(request.hashes[: (request.length - 1) // self._block])]
            )
            tokens = min(request.length - len(matched) * self._block, budget)
            if not self._fits(request, matched, tokens):
                break
            self._waiting.popleft()
            self._pool.reference(matched)
            request.held = matched
            request.computed = len(matched) * self._block
            self._extend(request, tokens)
            if request.preemptions == 0:
                request.started_s = max(now, request.queued_s)  # it may have come after the step was due
                request.cached = request.computed
                self._counts["query_tokens"] += request.prompt_tokens
                self._counts["hit_tokens"] += request.cached
            self._running.append(request)
            self._plan.append((request, tokens))
            budget -= tokens
            admitted, new, cached = admitted + 1, new + tokens, cached + request.computed
        if admitted:
            self._admitted.append((admitted, new, cached))
        return budget

    def _fits(self, request: Request, matched: Sequence[int], tokens: int) -> bool:
        new = self._blocks(len(matched) * self._block + tokens) - len(matched)
        spare = 0
        if self._reserving and self._running:
            reserved = sum((r.max_tokens - r.generated) * self._ratio for r in (*self._running, request))
            spare = self._blocks(int(reserved))
        return self._pool.admits(matched, new, spare)

    def _extend(self, request: Request, tokens: int) -> bool:
        """Give a sequence the blocks its next tokens need; False if the pool has too few."""
        have = len(request.held) + request.private
        new = self._blocks(request.computed + tokens) - have
        if new <= 0:
            return True
        full = (request.computed + tokens) // self._block
        held = self._pool.grow(new, request.hashes[have:full])
        if held is None:
            return False
        request.held += held
        request.private += new - len(held)
        return True

    def _preempt(self, request: Request) -> None:
        """Take a sequence out of the batch; it will be computed again from its prompt and its tokens."""
        self._running.remove(request)
        self._free(request)
        self._plan = [(other, tokens) for other, tokens in self._plan if other is not request]
        request.preemptions += 1
        request.uncounted += 1
        self._counts["preemptions"] += 1
        self._counts["preempted_input_tokens"] += request.prompt_tokens
        self._counts["preempted_output_tokens"] += request.generated
        self._ratio = min(1.0, self._ratio + 0.3)
        self._waiting.appendleft(request)

    def _finish(self, request: Request, now: float) -> Finished:
        self._running.remove(request)
        self._free(request)
        del self._by_id[request.id]
        started, first = request.started_s or now, request.first_token_s or now
        return Finished(
            id=request.id,
            reason="stop" if request.target_tokens < request.max_tokens else "length",
            prompt_tokens=request.prompt_tokens,
            generated_tokens=request.generated,
            cached_tokens=request.cached,
            max_tokens=request.max_tokens,
            preemptions=request.preemptions,
            queue_s=started - request.queued_s,
            prefill_s=first - started,
            decode_s=now - first,
            e2e_s=now - request.arrived_s,
        )

    def _free(self, request: Request) -> None:
        self._pool.release(request.held, request.private)
        request.held, request.private, request.computed = [], 0, 0

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._block)
