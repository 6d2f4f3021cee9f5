"""What each bottleneck says to a person, and what to do in the engine's own flags, by the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.verdict import fits
from tui.verdict.prose import If, Texts

if TYPE_CHECKING:
    from tui.model.verdicts import VerdictName

_DOWN_SEATS = "lower {option}{{seats}}{{under}}: fewer preemptions, others wait longer"
_LONGEST = "ask clients for a smaller max_tokens: each request is admitted by its longest answer"
_ROUTE = "route by session or prefix; after a restart, let the cache fill before full traffic"
_MORE_SEATS = "raise {option}{{seats}}{after}: slower tokens for each, more KV in use"
_BUILD = ", and build a compiled engine again"
_MAYBE_SEATS = "see whether running stands at {option}; raise it then: slower tokens for each, more KV in use"
_CROWDED = "prefill crowds out decode: {how}; first tokens come later"
_PROMPTS = "prompts wait, tokens do not: raise {option}; tokens come slower"
_SLOW_DECODE = "tokens come too slowly: lower {option}{{seats}}{{under}}; others wait longer"

BOTTLENECKS: dict[VerdictName, Texts] = {
    "kv_cache": Texts(
        "KV CACHE FULL",
        "The KV cache is exhausted: requests are preempted, or wait for blocks with seats to spare.",
        (
            "add a replica, or tensor parallel over more GPUs: the weights leave more room on each",
            "quantize the weights (AWQ, GPTQ, FP8): more room for the cache, some accuracy lost",
            "until then limit the rate at the gateway, or send some to a smaller model",
            "do not restart it to clear it: the same load fills it again",
        ),
        {
            "vllm": (
                If(fits.crowded, _DOWN_SEATS.format(option="--max-num-seqs")),
                "shorter --max-model-len{context}: prompts over it are refused",
                If(
                    fits.device_may_have_room,
                    "raise --gpu-memory-utilization{fraction} if the device has room: less is left for peaks",
                ),
                "--kv-cache-dtype fp8{kv_dtype}: twice the tokens, some accuracy lost",
            ),
            "sglang": (
                If(
                    fits.preempts,
                    "raise --schedule-conservativeness{caution}: fewer retractions, others wait longer",
                ),
                If(fits.crowded, _DOWN_SEATS.format(option="--max-running-requests")),
                If(
                    fits.by_worst_case,
                    "lower --schedule-conservativeness{caution}: admits more at once, may retract some",
                ),
                If(
                    fits.by_worst_case,
                    _LONGEST,
                    "shorter --context-length{context}: prompts over it are refused",
                ),
                If(
                    fits.device_may_have_room,
                    "raise --mem-fraction-static{fraction} if the device has room: less is left for peaks",
                ),
                "--kv-cache-dtype fp8_e5m2{kv_dtype}: twice the tokens, some accuracy lost",
            ),
            "trtllm": (
                If(
                    fits.preempts,
                    "capacity_scheduler_policy GUARANTEED_NO_EVICT: no pauses, others wait longer",
                ),
                If(fits.crowded, _DOWN_SEATS.format(option="max_batch_size")),
                If(
                    fits.by_worst_case,
                    "capacity_scheduler_policy MAX_UTILIZATION: admits more at once, may pause some",
                ),
                If(fits.by_worst_case, _LONGEST, "shorter max_seq_len{context}: prompts over it are refused"),
                If(
                    fits.device_may_have_room,
                    "raise kv_cache_free_gpu_memory_fraction{fraction} if the device has room",
                ),
            ),
            "triton": (
                If(
                    fits.preempts, "batch_scheduler_policy guaranteed_no_evict: no pauses, others wait longer"
                ),
                If(fits.crowded, _DOWN_SEATS.format(option="max_batch_size")),
                If(
                    fits.by_worst_case,
                    "batch_scheduler_policy max_utilization: admits more at once, may pause some",
                ),
                If(fits.by_worst_case, _LONGEST),
                If(fits.device_may_have_room, "raise kv_cache_free_gpu_mem_fraction if the device has room"),
            ),
        },
    ),
    "gpu_memory": Texts(
        "GPU MEMORY SHORT",
        "Device memory is short outside the KV cache: allocations fail, or dead processes hold it.",
        (
            If(
                fits.may_be_orphans,
                "end processes that hold memory and serve nothing (nvidia-smi names them)",
            ),
            "quantize the weights (AWQ, GPTQ, FP8), or tensor parallel over more GPUs",
        ),
        {
            "vllm": (
                "lower --gpu-memory-utilization{fraction}: 0.85 leaves room for peaks, and fewer KV blocks",
                "lower --max-num-batched-tokens{batched}: smaller peaks, slower prefill",
            ),
            "sglang": (
                "lower --mem-fraction-static{fraction}: room for peaks, and a smaller pool",
                "lower --chunked-prefill-size{chunk}: smaller peaks, slower prefill",
            ),
            "trtllm": (
                "lower kv_cache_free_gpu_memory_fraction{fraction}: room for peaks, and fewer KV blocks",
                "lower max_num_tokens{batched}: smaller peaks, slower prefill",
            ),
            "triton": (
                "lower kv_cache_free_gpu_mem_fraction: room for peaks, and fewer KV blocks",
                "fewer instances of the models beside it: each holds memory of its own",
            ),
        },
        (If(fits.orphans, "end the orphaned processes first, by pid: no option gives their memory back"),),
    ),
    "power_thermal": Texts(
        "GPU THROTTLED",
        "Heat, a power cap or a power brake holds the clock down, and users notice.",
        (
            If(
                fits.power_brake,
                "a power brake comes from power supply or BMC, not from the load: see their logs",
            ),
            If(fits.heat, "check air flow, fans and inlet temperature"),
            If(
                fits.power_cap,
                "compare the enforced power limit with the requested one (nvidia-smi -q -d POWER)",
            ),
            If(
                fits.power_cap,
                "where the limit is as high as it goes: less load for each card, or more cards",
            ),
            If(
                fits.set_clocks,
                "see whether somebody set the clocks: nvidia-smi -q -d CLOCK; -rgc frees them",
            ),
            If(fits.reason_unknown, "find the reason first: nvidia-smi -q -d PERFORMANCE"),
            "do not restart the engine: the clock stays where it is",
        ),
    ),
    "network": Texts(
        "NETWORK BOUND",
        "Devices wait for transfers: tensors between ranks, or KV blocks between servers.",
        (
            "check that the fast path is in use: RDMA devices visible, NVLink or peer access, link width",
            "keep tensor parallel within a host; pipeline or data parallel across the slow link",
            "larger transfers: page or block size of the KV connector",
            "a restart helps only with another layout of ranks or other devices",
        ),
    ),
    "io_disk": Texts(
        "DISK BOUND",
        "Reads are what everything waits for.",
        (
            If(
                fits.swaps, "the host's memory is short and it swaps: give it more, or end what else takes it"
            ),
            If(
                fits.serves,
                "find who reads and writes (pidstat -d), and move it away: backups, logs, KV offload",
                "copy the model to local NVMe, or tmpfs where memory allows; one read of it fills the cache",
            ),
            If(
                fits.from_share,
                "a model on a network share: keep a copy on each host, or mount it with more connections",
            ),
            If(fits.serves, "", "use a streaming loader, or more reader threads"),
            "do not restart it: the next load reads everything again",
        ),
    ),
    "degraded_cache": Texts(
        "PREFIX CACHE COLD",
        "Prompts are computed again that used to hit the prefix cache: only the first token is late.",
        (
            If(fits.evicts, _ROUTE),
            "do not restart it: the cache would begin from nothing",
        ),
        {
            "vllm": (
                If(
                    fits.may_evict,
                    "more KV blocks keep prefixes longer: raise --gpu-memory-utilization{fraction}",
                ),
                If(fits.hits_nothing, "see that --enable-prefix-caching is not switched off"),
            ),
            "sglang": (
                If(
                    fits.may_evict,
                    "a larger pool keeps prefixes longer: raise --mem-fraction-static{fraction}",
                ),
                If(fits.hits_nothing, "see that --disable-radix-cache is not set"),
            ),
            "trtllm": (
                If(
                    fits.may_evict,
                    "more blocks keep prefixes longer: raise kv_cache_free_gpu_memory_fraction{fraction}",
                ),
                If(fits.hits_nothing, "kv_cache_config: see that enable_block_reuse is on"),
            ),
            "triton": (
                If(fits.may_evict, "more blocks keep prefixes longer: raise kv_cache_free_gpu_mem_fraction"),
                If(fits.hits_nothing, "see that enable_kv_cache_reuse is on"),
            ),
        },
        (If(fits.evicts, "", _ROUTE),),
    ),
    "lock_contention": Texts(
        "LOCK CONTENTION",
        "Many threads are half busy and hand one lock around; no core is full and the GPU waits.",
        (
            "set thread counts to the cores you have: OMP_NUM_THREADS, tokenizer threads",
            "scrape /metrics less often; drop labels with many values",
            "a restart for its own sake changes nothing: the same threads fight again",
        ),
    ),
    "cpu": Texts(
        "CPU BOUND",
        "A thread or the CPU quota is full, or threads wait for a core, and the GPU waits for them.",
        (
            "keep other work off these cores; set OMP_NUM_THREADS to those that it has",
            "batch the preprocessing; a fast (Rust) tokenizer; fewer and longer pieces to stream",
        ),
        {
            "vllm": (
                If(
                    fits.front_thread,
                    "more front processes: raise --api-server-count{servers}; each wants its own core",
                ),
            ),
            "sglang": (
                If(
                    fits.front_thread,
                    "more tokenizers: raise --tokenizer-worker-num{tokenizers}; each wants its own core",
                ),
                "--skip-tokenizer-init, with clients that send tokens: less for its front to do",
            ),
            "trtllm": (
                If(
                    fits.front_thread,
                    "more post-processing: raise --num_postprocess_workers{post}; each wants a core",
                ),
            ),
            "triton": (
                If(
                    fits.front_thread,
                    "raise the instance count of pre- and post-processing models; each wants a core",
                ),
            ),
        },
        (
            If(fits.cores_full, "raise the CPU quota, or give it more cores: what it has is used up"),
            If(
                fits.model_thread,
                "the thread that steps the model is full: a faster core for it alone, or a replica",
            ),
        ),
    ),
    "queueing_upstream": Texts(
        "TROUBLE UPSTREAM",
        "Clients wait or fail although this engine has room, or one rank gets all the load.",
        (
            If(
                fits.uneven,
                "spread the load: route by queue length or KV usage; sticky sessions may fill one rank",
            ),
            "look before the engine: router policy, connection pools, idle timeouts, request limits",
            If(
                fits.piled,
                "connections wait to be accepted: a longer backlog hides it; fewer connections, kept open",
            ),
            "restarting the engine changes nothing",
        ),
    ),
    "scheduler_limit": Texts(
        "SEATS FULL",
        "Every seat of the batch is taken and requests wait while the KV cache has room.",
        (
            If(fits.more_seats, "go up in steps and watch KV usage and inter-token latency"),
            If(
                fits.seats_are_free,
                "seats are free, something else holds back: LoRA slots, remote KV, grammars, a long prompt",
            ),
            "add a replica; a restart for its own sake changes nothing",
        ),
        {
            "vllm": (
                If(fits.more_seats, _MORE_SEATS.format(option="--max-num-seqs", after="")),
                If(fits.may_be_seats, _MAYBE_SEATS.format(option="--max-num-seqs")),
                If(fits.deferred, "deferred requests hold seats: upgrade, or restart"),
            ),
            "sglang": (
                If(fits.more_seats, _MORE_SEATS.format(option="--max-running-requests", after="")),
                If(fits.may_be_seats, _MAYBE_SEATS.format(option="--max-running-requests")),
            ),
            "trtllm": (
                If(fits.more_seats, _MORE_SEATS.format(option="max_batch_size", after=_BUILD)),
                If(fits.may_be_seats, _MAYBE_SEATS.format(option="max_batch_size")),
            ),
            "triton": (
                If(fits.more_seats, _MORE_SEATS.format(option="max_batch_size", after=_BUILD)),
                If(fits.may_be_seats, _MAYBE_SEATS.format(option="max_batch_size")),
            ),
        },
        (
            If(fits.pool_is_full_too, "more seats would be preempted: the KV cache is nearly full as well"),
            If(fits.told_why, "vllm:num_requests_waiting_by_reason tells why they wait"),
            If(fits.seats_cost_tokens, "tokens are late already: more seats slow each of them further"),
        ),
    ),
    "compute": Texts(
        "COMPUTE BOUND",
        "The GPU does real work without a pause, and users wait for it.",
        (
            "add replicas or tensor parallel ranks",
            "a smaller model or lower precision: some accuracy lost",
            "do not restart it: it does what it can",
        ),
        {
            "vllm": (
                If(fits.prefill_crowds, _CROWDED.format(how="lower --max-num-batched-tokens{batched}")),
                If(fits.prefill_is_slow, _PROMPTS.format(option="--max-num-batched-tokens{batched}")),
                If(fits.decode_is_slow, _SLOW_DECODE.format(option="--max-num-seqs")),
            ),
            "sglang": (
                If(fits.prefill_crowds, _CROWDED.format(how="lower --chunked-prefill-size{chunk}")),
                If(fits.prefill_is_slow, _PROMPTS.format(option="--chunked-prefill-size{chunk}")),
                If(fits.decode_is_slow, _SLOW_DECODE.format(option="--max-running-requests")),
            ),
            "trtllm": (
                If(
                    fits.prefill_crowds,
                    _CROWDED.format(how="enable_chunked_prefill on, lower max_num_tokens{batched}"),
                ),
                If(fits.prefill_is_slow, _PROMPTS.format(option="max_num_tokens{batched}")),
                If(fits.decode_is_slow, _SLOW_DECODE.format(option="max_batch_size")),
            ),
            "triton": (
                If(
                    fits.prefill_crowds,
                    _CROWDED.format(how="enable_chunked_context on, lower max_num_tokens"),
                ),
                If(fits.prefill_is_slow, _PROMPTS.format(option="max_num_tokens")),
                If(fits.decode_is_slow, _SLOW_DECODE.format(option="max_batch_size")),
            ),
        },
        (
            If(
                fits.prefill_floods,
                "first tokens are late and the others too: no budget of prompts helps both; more replicas do",
            ),
        ),
    ),
}
