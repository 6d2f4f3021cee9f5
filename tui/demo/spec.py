"""What an engine to simulate looks like: one frozen object, handed to the processes as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

Dialect = Literal["vllm", "sglang"]
SigtermMode = Literal[
    "drain-500", "drain-refused", "drain-serve", "abort-silent", "abort-finish", "ignore", "hang"
]

SIGTERM_MODES: tuple[SigtermMode, ...] = get_args(SigtermMode)
VERSIONS: dict[Dialect, str] = {"vllm": "0.32.0", "sglang": "0.5.23"}
OWN_SIGTERM: dict[Dialect, SigtermMode] = {"vllm": "abort-silent", "sglang": "drain-serve"}


class SpecError(ValueError):
    """A setting that no engine could have: the text names it and says what was expected."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Settings of one simulated engine; defaults make a busy, healthy small server.

    Times are seconds. ``time_scale`` multiplies the fixed waits of the real engines' lives (tear-down,
    watchdogs, looks), not the speed of decoding; 0.1 makes them ten times as fast.
    """

    port: int = 8000
    dialect: Dialect = "vllm"
    host: str = "127.0.0.1"
    model: str = "demo-8b"
    max_model_len: int = 4096
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 4096
    kv_tokens: int = 131072
    block_size: int = 16
    prefix_caching: bool = True
    tensor_parallel_size: int = 1
    decode_step_s: float = 0.015
    """One decode step of a small batch: the least inter-token latency."""
    decode_seq_s: float = 0.00002
    """What each further sequence of the batch adds to a step."""
    prefill_tok_s: float = 40000.0
    """Prompt tokens computed a second."""
    answer_tokens: int = 200
    """Mean length of an answer that ends by itself (``stop``)."""
    load_s: float = 2.0
    sigterm: SigtermMode = "abort-silent"
    shutdown_timeout_s: float = 60.0
    """Grace of ``drain-500`` (vLLM's --shutdown-timeout): what still runs then is aborted in silence."""
    keep_alive_on_engine_death: bool = False
    max_num_queued_reqs: int = 0
    """Admission limit on unfinished requests; 0 is none."""
    api_key: str = ""
    disable_log_stats: bool = False
    health_delay_s: float = 0.0
    """Added to every answer of the health routes."""
    keep_orphans_s: float = 0.0
    """How long engine cores may outlive both API server and supervisor; 0: not at all."""
    time_scale: float = 1.0

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise SpecError(f"{name}: {value!r} is not between {low} and {high}")
        for name, allowed in (("dialect", get_args(Dialect)), ("sigterm", SIGTERM_MODES)):
            if getattr(self, name) not in allowed:
                raise SpecError(f"{name}: {getattr(self, name)!r} is not one of {', '.join(allowed)}")
        # as the engines do: a sequence that can never fit would wait for ever
        if self.kv_tokens < self.max_model_len + self.block_size:
            raise SpecError(f"kv_tokens: {self.kv_tokens} cannot hold one sequence of {self.max_model_len}")

    @property
    def version(self) -> str:
        """The engine version whose habits are simulated."""
        return VERSIONS[self.dialect]

    def scaled(self, seconds: float) -> float:
        """A fixed wait of the real engine as this one keeps it."""
        return seconds * self.time_scale

    def to_json(self) -> str:
        """One line of JSON that ``from_json`` reads back."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> EngineSpec:
        """The spec that ``to_json`` wrote.

        Raises:
            SpecError: unknown name or value out of range.
        """
        return cls().changed(json.loads(text))

    def changed(self, changes: dict[str, Any]) -> EngineSpec:
        """A copy with some settings replaced.

        Raises:
            SpecError: unknown name, wrong type or value out of range.
        """
        for name, value in changes.items():
            kind = _KINDS.get(name)
            if kind is None:
                raise SpecError(f"{name}: no such setting")
            if kind is float and type(value) is int:
                continue
            if type(value) is not kind:
                raise SpecError(f"{name}: {value!r} is not of type {kind.__name__}")
        return replace(self, **changes)


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("port", 0, 65535),
    ("max_model_len", 16, 10_000_000),
    ("max_num_seqs", 1, 65536),
    ("max_num_batched_tokens", 1, 1_000_000),
    ("kv_tokens", 2, 1_000_000_000),
    ("block_size", 1, 4096),
    ("tensor_parallel_size", 1, 16),
    ("decode_step_s", 0.0001, 60.0),
    ("decode_seq_s", 0.0, 1.0),
    ("prefill_tok_s", 1.0, 1e9),
    ("answer_tokens", 1, 1_000_000),
    ("load_s", 0.0, 3600.0),
    ("shutdown_timeout_s", 0.0, 86400.0),
    ("max_num_queued_reqs", 0, 1_000_000),
    ("health_delay_s", 0.0, 3600.0),
    ("keep_orphans_s", 0.0, 86400.0),
    ("time_scale", 0.001, 10.0),
)
_KINDS: dict[str, type] = {field.name: type(field.default) for field in fields(EngineSpec)}


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """What the simulated machine around the engine is like."""

    hot_c: float = 0.0
    """How much warmer than usual the room is, degrees Celsius: from about 30 on busy cards throttle."""

    def changed(self, changes: dict[str, Any]) -> MachineSpec:
        """A copy with some figures replaced.

        Raises:
            SpecError: a value that is no number or out of range.
        """
        hot = changes.get("hot_c", self.hot_c)
        if isinstance(hot, bool) or not isinstance(hot, (int, float)) or not 0 <= hot <= 60:
            raise SpecError(f"hot_c: {hot!r} is not a number between 0 and 60")
        return MachineSpec(hot_c=float(hot))
