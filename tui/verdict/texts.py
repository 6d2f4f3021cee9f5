"""What each verdict says to a person: headline, meaning, and what to do in the engine's own flags."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tui.model.readings import EngineKind
    from tui.model.verdicts import VerdictName

ENGINES: tuple[EngineKind, ...] = ("vllm", "sglang", "trtllm", "triton")


@dataclass(frozen=True, slots=True)
class Texts:
    """One verdict in words. ``{seats}`` and the like become " (now ...)" where the value in force is known.

    ``advice`` is for every engine; ``flags`` come first and speak one engine's own options. A line says what
    to do and in which direction, then what that costs; where a restart would be a mistake, that it would.
    """

    title: str
    explanation: str
    advice: tuple[str, ...] = ()
    flags: Mapping[EngineKind, tuple[str, ...]] = field(default_factory=dict)


FIND_OUT = "find the exit reason first: 137 (Error or OOMKilled), 143, or 0 that nobody asked for"
"""Not said where it is found."""

SPIN = "SM 100 % with the memory controller at 0 %: a collective waits; check peer access and the links"
"""Not said of a host without devices."""

TEXTS: dict[VerdictName, Texts] = {
    "gpu_fault": Texts(
        "GPU FAULT",
        "A device is lost, unreadable or marked as broken by the driver.",
        (
            "drain this node and take it out of rotation",
            "save the kernel log (Xid lines) and nvidia-smi -q: a reset wipes them",
            "reset the GPU or reboot; replace the card if the fault returns",
            "do not just restart the engine: the card stays as it is",
        ),
    ),
    "engine_down": Texts(
        "ENGINE DOWN",
        "The server is gone, or every request to it fails at once.",
        (
            FIND_OUT,
            "restart it; a unit with Restart=on-failure stays down after exit code 0",
            "if its process is still alive, end that one first: it holds port and GPU memory",
            "it serves again only after its load time; send traffic once it is ready, not once it runs",
        ),
    ),
    "engine_hung": Texts(
        "ENGINE HUNG",
        "There is work, and the engine makes no step; its status routes may go on saying 200.",
        (
            "save the stacks (py-spy dump) and the kernel log, then restart",
            "let liveness look at progress, not at a status route",
            SPIN,
            "a restart costs the load time and all requests in flight: rule out one long prefill first",
        ),
    ),
    "loading": Texts(
        "LOADING",
        "The engine starts: weights are read, kernels compiled, graphs captured.",
        (
            "wait; a restart begins from nothing: none while bytes, GPU memory or compilers move",
            "compare with the startup budget: initialDelay + period x failureThreshold must outlast the load",
        ),
    ),
    "draining": Texts(
        "DRAINING",
        "A stop was asked for; requests in flight run to their end.",
        (
            "do not restart it",
            "compare the grace that is left with the longest stream: what is over it is cut",
        ),
        {
            "vllm": (
                "from 0.18 on: --shutdown-timeout{drain} must outlast the longest stream",
                "its default 0 drains nothing: streams in flight fall silent until their clients hang up",
            ),
            "sglang": (
                "take its traffic away: it serves new requests while it drains, and waits without end",
            ),
            "trtllm": ("it waits for open requests without end: the grace period is the only limit",),
            "triton": ("--exit-timeout-secs{exit} must outlast the longest request; 30 unless it is set",),
        },
    ),
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
                "lower --max-num-seqs{seats}; shorter --max-model-len{context}",
                "that costs: others wait longer, prompts over the limit are refused",
                "raise --gpu-memory-utilization{fraction} if the device has room: less is left for peaks",
                "--kv-cache-dtype fp8{kv_dtype}: twice the tokens, some accuracy lost",
            ),
            "sglang": (
                "lower --max-running-requests{seats}; shorter --context-length{context}",
                "that costs: others wait longer, prompts over the limit are refused",
                "raise --mem-fraction-static{fraction} if the device has room: less is left for peaks",
                "retracting: raise --schedule-conservativeness{caution}; waiting below 0.9: lower it",
                "--kv-cache-dtype fp8_e5m2{kv_dtype}: twice the tokens, some accuracy lost",
            ),
            "trtllm": (
                "lower max_batch_size{seats} or max_seq_len{context}",
                "that costs: others wait longer, prompts over the limit are refused",
                "raise kv_cache_free_gpu_memory_fraction{fraction} if the device has room",
                "waiting with usage below 0.9: admission is by worst case; scheduler policy MAX_UTILIZATION",
            ),
            "triton": (
                "lower max_batch_size{seats}; raise kv_cache_free_gpu_mem_fraction if the device has room",
                "that costs: others wait longer, less is left for peaks",
                "waiting with usage below 0.9: batch_scheduler_policy max_utilization; it may pause requests",
            ),
        },
    ),
    "gpu_memory": Texts(
        "GPU MEMORY SHORT",
        "Device memory is short outside the KV cache: allocations fail, or dead processes hold it.",
        (
            "end orphaned processes by the pid that the driver names",
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
    ),
    "power_thermal": Texts(
        "GPU THROTTLED",
        "Heat, a power cap or a power brake holds the clock down, and users notice.",
        (
            "check air flow, fans and inlet temperature",
            "compare the enforced power limit with the requested one (nvidia-smi -q -d POWER)",
            "a power brake comes from power supply or BMC, not from the load",
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
            "copy the model to local NVMe, or tmpfs where memory allows; one sequential read fills the cache",
            "a model on a network share: keep a copy on each host, or mount it with more connections",
            "use a streaming loader, or more reader threads",
            "do not restart it: the next load reads everything again",
        ),
    ),
    "degraded_cache": Texts(
        "PREFIX CACHE COLD",
        "Prompts are computed again that used to hit the prefix cache: only the first token is late.",
        (
            "route by session or prefix; after a restart, let the cache fill before full traffic",
            "do not restart it: the cache would begin from nothing",
        ),
        {
            "vllm": (
                "more KV blocks keep prefixes longer: raise --gpu-memory-utilization{fraction}",
                "see that --enable-prefix-caching is not switched off",
            ),
            "sglang": (
                "a larger pool keeps prefixes longer: raise --mem-fraction-static{fraction}",
                "see that --disable-radix-cache is not set",
            ),
            "trtllm": (
                "kv_cache_config: enable_block_reuse on; raise kv_cache_free_gpu_memory_fraction{fraction}",
            ),
            "triton": ("enable_kv_cache_reuse on; raise kv_cache_free_gpu_mem_fraction",),
        },
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
            "raise the CPU quota; set OMP_NUM_THREADS; keep other work off these cores",
            "batch the preprocessing; a fast (Rust) tokenizer; fewer and longer pieces to stream",
        ),
        {
            "vllm": ("more front processes: raise --api-server-count{servers}; each wants its own core",),
            "sglang": (
                "more tokenizers: raise --tokenizer-worker-num{tokenizers}; each wants its own core",
                "or --skip-tokenizer-init, with clients that send tokens",
            ),
            "trtllm": ("more post-processing: raise --num_postprocess_workers{post}; each wants a core",),
            "triton": ("raise the instance count of pre- and post-processing models; each wants a core",),
        },
    ),
    "queueing_upstream": Texts(
        "TROUBLE UPSTREAM",
        "Clients wait or fail although this engine has room, or one rank gets all the load.",
        (
            "look before the engine: router policy, connection pools, idle timeouts, request limits",
            "connections that wait to be accepted: a longer backlog hides it; fewer connections, kept open",
            "restarting the engine changes nothing",
        ),
    ),
    "scheduler_limit": Texts(
        "SEATS FULL",
        "Every seat of the batch is taken and requests wait while the KV cache has room.",
        ("go up in steps and watch KV usage and inter-token latency",),
        {
            "vllm": (
                "raise --max-num-seqs{seats}: slower tokens for each, more KV in use",
                "deferred requests that hold seats: upgrade, or restart",
            ),
            "sglang": ("raise --max-running-requests{seats}: slower tokens for each, more KV in use",),
            "trtllm": ("raise max_batch_size{seats}; a compiled engine must be built again",),
            "triton": ("raise max_batch_size{seats} in config.pbtxt; build the engine again with it",),
        },
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
                "prefill crowds out decode: lower --max-num-batched-tokens{batched}; first tokens come later",
                "tokens come too slowly: lower --max-num-seqs{seats}; others wait longer",
            ),
            "sglang": (
                "prefill crowds out decode: lower --chunked-prefill-size{chunk}; first tokens come later",
                "tokens come too slowly: lower --max-running-requests{seats}; others wait longer",
            ),
            "trtllm": (
                "prefill crowds out decode: enable_chunked_prefill on, lower max_num_tokens{batched}",
                "tokens come too slowly: lower max_batch_size{seats}; others wait longer",
            ),
            "triton": (
                "prefill crowds out decode: enable_chunked_context on, lower max_num_tokens",
                "tokens come too slowly: lower max_batch_size{seats}; others wait longer",
            ),
        },
    ),
    "healthy": Texts("HEALTHY", "Work goes through with latency in target, and nobody waits."),
    "idle": Texts("IDLE", "No requests; a GPU or thread that spins meanwhile only waits for some."),
    "unknown": Texts(
        "UNKNOWN",
        "No rule fires, and an input that would prove health is missing.",
        ("bring the missing inputs: on the screen, v tells what would",),
    ),
}  # fmt: skip

NEED_FLAGS = frozenset(("kv_cache", "gpu_memory", "scheduler_limit", "compute", "cpu", "degraded_cache"))
"""What an engine's own options do something about."""
_NEED_NO_ADVICE = frozenset(("healthy", "idle"))


def check_complete(ids: Iterable[VerdictName]) -> None:
    """Refuse a verdict that has nothing to say.

    Raises:
        LookupError: texts are missing; names the verdict and what it lacks.
    """
    for name in (*ids, "unknown"):
        texts = TEXTS.get(name)
        if texts is None or not texts.title or not texts.explanation:
            raise LookupError(f"verdict {name}: no title or explanation")
        if name not in _NEED_NO_ADVICE and not texts.advice:
            raise LookupError(f"verdict {name}: no advice")
        lacks = set(ENGINES) - set(texts.flags) if name in NEED_FLAGS else set()
        if lacks:
            raise LookupError(f"verdict {name}: no advice for {', '.join(sorted(lacks))}")
