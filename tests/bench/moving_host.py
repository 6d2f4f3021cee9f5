"""A host whose every figure moves each second, and the record of what it showed when."""

from __future__ import annotations

import random
import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support import captures
from tests.support.servers import Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.fake_nvml import FakeNvml

COUNTERS = {
    "generation_tokens_total": 700.0, "prompt_tokens_total": 250.0, "iteration_tokens_total_count": 60.0,
    "prefix_cache_queries_total": 250.0, "prefix_cache_hits_total": 80.0,
}  # fmt: skip
_TTFT = re.compile(r'^(vllm:time_to_first_token_seconds_bucket\{.*le="([^"]+)".*\}) (\S+)$', re.M)


class MovingEngine:
    """A vLLM exposition of real size (a capture) in which running, waiting, KV and the counters move."""

    def __init__(self, seed: int) -> None:
        self.port = 0
        """Where it is served."""
        self._random = random.Random(seed)
        self._body = captures.text("vllm-0.32/metrics-load.txt")
        self.shown: list[tuple[float, dict[str, float]]] = []
        self._values = {"running": 40.0, "waiting": 4.0, "kv": 0.5}
        self._counted = dict.fromkeys(COUNTERS, 10_000.0)
        self._firsts = 1000.0
        self.tick()

    def tick(self) -> None:
        r, v = self._random, self._values
        v["running"] = min(99, max(1, v["running"] + r.randint(-3, 3)))
        v["waiting"] = min(50, max(0, v["waiting"] + r.randint(-2, 2)))
        v["kv"] = min(0.85, max(0.05, v["kv"] + r.uniform(-0.03, 0.03)))
        for name, rate in COUNTERS.items():
            self._counted[name] += rate * r.uniform(0.8, 1.2)
        self._firsts += r.randint(1, 4)
        self._text = self._render()
        self.shown.append((time.monotonic(), dict(v)))

    def reply(self) -> Reply:
        return Reply(200, self._text)

    def _render(self) -> str:
        figures = {
            "num_requests_running": self._values["running"],
            "num_requests_waiting": self._values["waiting"],
            "kv_cache_usage_perc": self._values["kv"],
            **self._counted,
        }
        body = self._body
        for name, value in figures.items():
            body = re.sub(rf"(?m)^(vllm:{name}\{{[^}}]*\}}) \S+$", rf"\g<1> {value}", body)
        return _TTFT.sub(
            lambda m: f"{m[1]} {self._firsts if m[2] == '+Inf' or float(m[2]) >= 0.25 else 0}", body
        )


@dataclass
class MovingHost:
    """Moves engines and cards once a second on a thread of its own."""

    fake: FakeNvml
    engines: list[MovingEngine]
    moving: bool = True
    cards: list[tuple[float, list[dict[str, Any]]]] = field(default_factory=list)
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join(5)

    @staticmethod
    def shown_since(since: float, of: Sequence[tuple[float, Any]]) -> list[Any]:
        """What was in force at any time since: all that was set since then, and what was in force before."""
        earlier = [value for at, value in of if at < since]
        return [*earlier[-1:], *(value for at, value in of if at >= since)]

    def _run(self) -> None:
        tick = 0
        due = time.monotonic()
        while not self._done.is_set():
            if self.moving or tick == 0:
                values = self.fake.move(tick)
                self.cards.append((time.monotonic(), values))
                for engine in self.engines:
                    engine.tick()
            tick += 1
            due += 1.0
            self._done.wait(max(0.0, due - time.monotonic()))
