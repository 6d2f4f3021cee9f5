"""What each verdict says to a person: headline, meaning, and what to do in the engine's own flags."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.model.text import clean
from tui.model.units import count
from tui.verdict.death import death_advice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tui.model.readings import EngineKind
    from tui.model.verdicts import VerdictName
    from tui.verdict.picture import Picture

ENGINES: tuple[EngineKind, ...] = ("vllm", "sglang", "trtllm", "triton")


@dataclass(frozen=True, slots=True)
class Texts:
    """One verdict in words. ``{seats}``, ``{context}`` and ``{fraction}`` become " (now ...)" where known.

    ``advice`` is for every engine; ``flags`` come first and speak one engine's own options.
    """

    title: str
    explanation: str
    advice: tuple[str, ...] = ()
    flags: Mapping[EngineKind, tuple[str, ...]] = field(default_factory=dict)


FIND_OUT = "find the exit reason first: 137 (Error or OOMKilled), 143, or 0 that nobody asked for"
"""Not said where it is found."""

TEXTS: dict[VerdictName, Texts] = {
    "gpu_fault": Texts(
        "GPU FAULT",
        "A device is lost, unreadable or marked as broken by the driver.",
        (
            "drain this node and take it out of rotation",
            "save the kernel log (Xid lines) and nvidia-smi -q",
            "reset the GPU or reboot; replace the card if the fault returns",
        ),
    ),
    "engine_down": Texts(
        "ENGINE DOWN",
        "The server is gone, or every request to it fails at once.",
        (
            FIND_OUT,
            "restart it; a unit with Restart=on-failure stays down after exit code 0",
            "if its process is still alive, end that one first: it holds port and GPU memory",
        ),
    ),
    "engine_hung": Texts(
        "ENGINE HUNG",
        "There is work, and the engine makes no step; its status routes may go on saying 200.",
        (
            "save the stacks (py-spy dump) and the kernel log, then restart",
            "let liveness look at progress, not at a status route",
            "SM 100 % with the memory controller at 0 %: a collective waits; check peer access and the links",
        ),
    ),
    "loading": Texts(
        "LOADING",
        "The engine starts: weights are read, kernels compiled, graphs captured.",
        (
            "wait; a restart begins from nothing",
            "compare with the startup budget: initialDelay + period x failureThreshold must outlast the load",
        ),
    ),
    "draining": Texts(
        "DRAINING",
        "A stop was asked for; requests in flight run to their end.",
        ("do not restart it", "compare the grace that is left with the longest stream"),
        {
            "vllm": (
                "--shutdown-timeout (0.18 and later) must outlast the longest stream",
                "its default 0 drains nothing: streams in flight fall silent until their clients hang up",
            )
        },
    ),
    "kv_cache": Texts(
        "KV CACHE FULL",
        "The KV cache is exhausted: requests are preempted, or wait for blocks with seats to spare.",
        ("add memory or a replica",),
        {
            "vllm": (
                "lower --max-num-seqs{seats}; shorter --max-model-len{context}",
                "--kv-cache-dtype fp8; raise --gpu-memory-utilization{fraction} if the device has room",
            ),
            "sglang": (
                "lower --max-running-requests{seats}; shorter --context-length{context}",
                "--kv-cache-dtype fp8_e5m2; raise --mem-fraction-static{fraction} if the device has room",
                "waiting with usage below 0.9: lower --schedule-conservativeness",
            ),
            "trtllm": (
                "lower max_batch_size{seats} or max_seq_len{context}",
                "raise kv_cache_free_gpu_memory_fraction if the device has room",
                "waiting with usage below 0.9: admission is by worst case; scheduler policy MAX_UTILIZATION",
            ),
            "triton": (
                "lower max_batch_size{seats}; raise kv_cache_free_gpu_mem_fraction",
                "waiting with usage below 0.9: batch_scheduler_policy max_utilization",
            ),
        },
    ),
    "gpu_memory": Texts(
        "GPU MEMORY SHORT",
        "Device memory is short outside the KV cache: allocations fail, or dead processes hold it.",
        ("end orphaned processes by the pid that the driver names",),
        {
            "vllm": ("lower --gpu-memory-utilization{fraction} or --max-num-batched-tokens",),
            "sglang": ("lower --mem-fraction-static{fraction} or --chunked-prefill-size",),
            "trtllm": ("lower kv_cache_free_gpu_memory_fraction or max_num_tokens",),
            "triton": ("lower kv_cache_free_gpu_mem_fraction, or the instance count of the model",),
        },
    ),
    "power_thermal": Texts(
        "GPU THROTTLED",
        "Heat, a power cap or a power brake holds the clock down, and users notice.",
        (
            "check air flow, fans and inlet temperature",
            "compare the enforced power limit with the requested one (nvidia-smi -q -d POWER)",
            "a power brake comes from power supply or BMC, not from the load",
        ),
    ),
    "network": Texts(
        "NETWORK BOUND",
        "Devices wait for transfers: tensors between ranks, or KV blocks between servers.",
        (
            "check that the fast path is in use: RDMA devices visible, NVLink or peer access, link width",
            "keep tensor parallel within a host; pipeline or data parallel across the slow link",
            "larger transfers: page or block size of the KV connector",
        ),
    ),
    "io_disk": Texts(
        "DISK BOUND",
        "Reads are what everything waits for.",
        (
            "copy the model to local NVMe; read it sequentially once to fill the page cache",
            "a model on a network share: keep a copy on each host, or mount it with more connections",
            "use a streaming loader, or more reader threads",
            "do not restart it: the next load reads everything again",
        ),
    ),
    "degraded_cache": Texts(
        "PREFIX CACHE COLD",
        "Prompts are computed again that used to hit the prefix cache: only the first token is late.",
        ("route by session or prefix; after a restart, let the cache fill before full traffic",),
        {
            "vllm": ("more KV blocks keep prefixes longer: --gpu-memory-utilization{fraction}",),
            "sglang": ("more pool keeps prefixes longer: --mem-fraction-static{fraction}",),
            "trtllm": ("kv_cache_config: enable_block_reuse, a larger free_gpu_memory_fraction",),
            "triton": ("enable_kv_cache_reuse; raise kv_cache_free_gpu_mem_fraction",),
        },
    ),
    "lock_contention": Texts(
        "LOCK CONTENTION",
        "Many threads are half busy and hand one lock around; no core is full and the GPU waits.",
        (
            "set thread counts to the cores you have: OMP_NUM_THREADS, tokenizer threads",
            "scrape /metrics less often; drop labels with many values",
        ),
    ),
    "cpu": Texts(
        "CPU BOUND",
        "A thread or the CPU quota is full, or threads wait for a core, and the GPU waits for them.",
        ("raise the CPU quota; set OMP_NUM_THREADS; keep other work off these cores",),
        {
            "vllm": ("more front processes: --api-server-count; fewer or shorter prompts for the tokenizer",),
            "sglang": ("more tokenizers: --tokenizer-worker-num; or --skip-tokenizer-init with token input",),
            "trtllm": ("more post-processing workers: --num_postprocess_workers",),
            "triton": ("raise the instance count of pre- and post-processing models",),
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
            "vllm": ("raise --max-num-seqs{seats}", "deferred requests that hold seats: upgrade, or restart"),
            "sglang": ("raise --max-running-requests{seats}",),
            "trtllm": ("raise max_batch_size{seats} (a compiled engine must be built again)",),
            "triton": ("raise max_batch_size{seats} in config.pbtxt and in the engine",),
        },
    ),
    "compute": Texts(
        "COMPUTE BOUND",
        "The GPU does real work without a pause, and users wait for it.",
        ("add replicas or tensor parallel ranks; a smaller model or lower precision",),
        {
            "vllm": ("prefill crowds out decode: lower --max-num-batched-tokens",),
            "sglang": ("prefill crowds out decode: lower --chunked-prefill-size",),
            "trtllm": ("prefill crowds out decode: lower max_num_tokens, chunked context on",),
            "triton": ("prefill crowds out decode: enable_chunked_context, lower max_num_tokens",),
        },
    ),
    "healthy": Texts("HEALTHY", "Work goes through with latency in target, and nobody waits."),
    "idle": Texts("IDLE", "No requests; a GPU or thread that spins meanwhile only waits for some."),
    "unknown": Texts(
        "UNKNOWN",
        "No rule fires, and an input that would prove health is missing.",
        ("bring the missing inputs",),
    ),
}  # fmt: skip

ACCESS_ADVICE: dict[str | None, str] = {
    "401": "set token_env of its [[engines]] in the config, or INFERTOP_TOKEN",
    "403": "set token_env of its [[engines]] in the config, or INFERTOP_TOKEN",
    "404": "check the URL and its path; metrics elsewhere: --metrics-url",
    "dns": "check the host name, and whether this host can resolve it",
    "tls": "check http against https; set ca_file, or verify = false, of its [[engines]]",
    "timeout": "look whether the process lives and its port is open from here",
    "redirect": "give the address that it redirects to",
    "not_metrics": "check the URL: something else answers there; metrics elsewhere: --metrics-url",
    "stats_off": "start the engine with its statistics on",
}
"""What to do where the figures cannot be had, by why."""
_NEED_FLAGS = frozenset(("kv_cache", "gpu_memory", "scheduler_limit", "compute", "cpu", "degraded_cache"))
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
        lacks = set(ENGINES) - set(texts.flags) if name in _NEED_FLAGS else set()
        if lacks:
            raise LookupError(f"verdict {name}: no advice for {', '.join(sorted(lacks))}")


_CONTEXT_FLAGS = ("max-model-len", "context-length", "max-seq-len", "max_seq_len")
_FRACTION_FLAGS = (
    "gpu-memory-utilization",
    "mem-fraction-static",
    "kv-cache-free-gpu-memory-fraction",
    "kv_cache_free_gpu_memory_fraction",
)


def advice(name: VerdictName, picture: Picture) -> tuple[str, ...]:
    """What to do, the engine's own flags first, with the values in force where they are known."""
    if name == "unknown" and picture.engine_reason in ACCESS_ADVICE:
        return (ACCESS_ADVICE[picture.engine_reason],)
    texts = TEXTS[name]
    flags = texts.flags.get(picture.kind, ()) if picture.kind else ()
    if not flags and not texts.advice:
        return ()
    seats = None if picture.seats is None else count(picture.seats)
    values = {
        "seats": _now(seats),
        "context": _now(_option(picture, _CONTEXT_FLAGS)),
        "fraction": _now(_option(picture, _FRACTION_FLAGS)),
    }
    general = tuple(line.format_map(values) for line in (*flags, *texts.advice))
    if name != "engine_down" or not (found := death_advice(picture.death)):
        return general
    return (*found, *(line for line in general if line != FIND_OUT))


def _option(picture: Picture, names: tuple[str, ...]) -> str | None:
    return next((clean(v, 20) for name in names if (v := picture.args.get(name))), None)


def _now(value: str | None) -> str:
    return f" (now {value})" if value else ""
