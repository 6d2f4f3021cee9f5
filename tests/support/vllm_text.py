"""A small vLLM exposition whose every figure is given."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LATENCIES = {
    "ttft": "time_to_first_token_seconds",
    "itl": "inter_token_latency_seconds",
    "e2e": "e2e_request_latency_seconds",
    "queue": "request_queue_time_seconds",
}


@dataclass(frozen=True)
class Rank:
    """One engine core."""

    running: float = 0
    waiting: float = 0
    kv: float = 0.0
    steps: float = 0
    generated: float = 0
    prompt: float = 0
    preemptions: float = 0
    asked: float = 0
    hit: float = 0
    stop: float = 0
    error: float = 0
    observed: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By latency: every observation since start."""
    awake: float = 1


def exposition(
    *ranks: Rank,
    started: float | None = 1000.0,
    rejected: float = 0,
    http_5xx: float = 0,
    model: str = "llama",
) -> str:
    """The body of ``/metrics``."""
    lines = [] if started is None else [f"process_start_time_seconds {started}"]
    for number, rank in enumerate(ranks or (Rank(),)):
        who = f'engine="{number}",model_name="{model}"'
        plain = {
            "num_requests_running": rank.running,
            "num_requests_waiting": rank.waiting,
            "kv_cache_usage_perc": rank.kv,
            "iteration_tokens_total_count": rank.steps,
            "generation_tokens_total": rank.generated,
            "prompt_tokens_total": rank.prompt,
            "num_preemptions_total": rank.preemptions,
            "prefix_cache_queries_total": rank.asked,
            "prefix_cache_hits_total": rank.hit,
        }
        lines += [f"vllm:{name}{{{who}}} {value}" for name, value in plain.items()]
        lines += [
            f'vllm:request_success_total{{{who},finished_reason="stop"}} {rank.stop}',
            f'vllm:request_success_total{{{who},finished_reason="error"}} {rank.error}',
            f'vllm:num_requests_waiting_by_reason{{{who},reason="capacity"}} {rank.waiting}',
            f'vllm:engine_sleep_state{{{who},sleep_state="awake"}} {rank.awake}',
            f'vllm:cache_config_info{{{who},num_gpu_blocks="64",block_size="16",kv_cache_size_tokens="None"}} 1.0',
        ]
        for latency, name in LATENCIES.items():
            lines += _histogram(f"vllm:{name}", who, rank.observed.get(latency, ()))
    lines.append(f'vllm:admission_rejections_total{{reason="max_num_queued_reqs"}} {rejected}')
    if http_5xx:
        lines.append(
            f'http_requests_total{{handler="/v1/completions",method="POST",status="5xx"}} {http_5xx}'
        )
        lines.append('http_requests_total{handler="none",method="GET",status="5xx"} 1000')
    return "\n".join(lines) + "\n"


def _histogram(name: str, who: str, observed: tuple[float, ...]) -> list[str]:
    lines = []
    for bound in (0.1, 0.2, 0.4, math.inf):
        text = "+Inf" if bound == math.inf else str(bound)
        lines.append(f'{name}_bucket{{{who},le="{text}"}} {sum(value <= bound for value in observed)}')
    return [*lines, f"{name}_sum{{{who}}} {sum(observed)}", f"{name}_count{{{who}}} {len(observed)}"]
