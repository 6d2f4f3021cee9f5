"""What is to be started: as the user says it, and where they do not, as the engine's command line does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tui.memory.breakdown import DATA, PIPELINE, TENSOR, fraction_option, whole_option
from tui.memory.model_files import model_option
from tui.model.text import clean
from tui.sources.command_line import command_args
from tui.sources.http_socket import explicit_port
from tui.sources.recognition import DEFAULT_PORT, by_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.model.readings import EngineKind

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
ALL: Final = "all"
"""In place of a list: every GPU, whatever the environment chooses."""
_WRAPPERS: Final = frozenset(
    (
        "env", "nice", "ionice", "chrt", "taskset", "numactl", "nohup", "setsid", "stdbuf", "exec", "time",
        "tini", "dumb-init", "catatonit", "sudo", "nsys",
    )
)  # fmt: skip
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_LENGTHS = ("max-model-len", "context-length", "max-seq-len")
_SEATS = ("max-num-seqs", "max-running-requests", "max-batch-size")
_LENGTH = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([kKmMgG]?)")
_SCALES = {"": 1, "k": 10**3, "K": 1 << 10, "m": 10**6, "M": 1 << 20, "g": 10**9, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Intent:
    """What is to be started. None: not said, and not to be had from the command line either."""

    model: str = ""
    """A directory, or a name of the Hugging Face hub."""
    engine: EngineKind | None = None
    host: str = ""
    port: int | None = None
    gpus: tuple[str, ...] | None = None
    """Indexes, or beginnings of UUIDs; None: all."""
    gpus_from: str = "--gpus"
    """Who chose them."""
    min_free_mib: float = 20_000.0
    min_disk_gib: float = 50.0
    cuda: tuple[int, int] | None = None
    tp: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    seats: int | None = None
    """Sequences at once by the command line: as many as may run, not as many as are meant to be full."""
    utilization: float | None = None
    dtype: str = "auto"
    kv_dtype: str = "auto"
    command: tuple[str, ...] = ()
    """What is run if nothing is wrong."""
    program: tuple[str, ...] = ()
    """The engine's part of it, behind ``env``, ``numactl`` and the like."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the engine's command line, as ``command_args`` has them."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the engine will find."""

    @property
    def needed_gpus(self) -> int:
        """GPUs of this host that the engine takes: tensor x pipeline x data parallel, shared by its hosts."""
        pp, hosts = whole_option(self.options, PIPELINE) or 1, whole_option(self.options, ("nnodes",)) or 1
        dp = whole_option(self.options, ("data-parallel-size-local", *DATA)) or 1
        if "enable-dp-attention" in self.options:
            dp = 1  # SGLang's ranks then share the tensor-parallel GPUs
        return -(-(self.tp or 1) * pp // hosts) * dp

    @property
    def more_hosts(self) -> bool:
        """Ray may place ranks on other hosts; how many is not said."""
        return self.options.get("distributed-executor-backend") == "ray"


def completed(given: Intent, environment: Mapping[str, str]) -> Intent:
    """The intent with what its command line says where the user did not.

    Args:
        given: what the user said; ``command`` among it.
        environment: this process's.
    """
    assigned, program = _unwrapped(given.command)
    variables = {**environment, **assigned}
    identity = by_command(program)
    engine = given.engine or (identity.engine if identity is not None else None)
    options = command_args(program) if identity is not None else {}
    port = given.port or (explicit_port(engine, options) or DEFAULT_PORT[engine] if engine else None)
    gpus, source = given.gpus, given.gpus_from
    if gpus is None and VISIBLE in variables:
        gpus, source = _visible(variables[VISIBLE]), VISIBLE
    if gpus == (ALL,):
        gpus = None
    lengths = next((options[name] for name in _LENGTHS if name in options), "")
    return replace(
        given,
        model=given.model or model_option(options),
        engine=engine,
        host=options.get("host") or options.get("http-address") or "",
        port=port,
        gpus=gpus,
        gpus_from=source,
        tp=given.tp or whole_option(options, TENSOR),
        max_model_len=given.max_model_len or _length(lengths),
        seats=whole_option(options, _SEATS),
        utilization=given.utilization or fraction_option(options),
        dtype=given.dtype if given.dtype != "auto" else options.get("dtype", "auto"),
        kv_dtype=given.kv_dtype if given.kv_dtype != "auto" else options.get("kv-cache-dtype", "auto"),
        program=program if identity is not None else (),
        options=options,
        environment=variables,
    )


def _unwrapped(command: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables that wrappers set, and what they run; the command itself where that is not an engine."""
    words = tuple(command)
    if not words or words[0].rpartition("/")[2] not in _WRAPPERS:
        return {}, words
    assigned: dict[str, str] = {}
    for at, word in enumerate(words):
        if by_command(words[at:]) is not None:
            return assigned, words[at:]
        if match := _ASSIGNMENT.fullmatch(word):
            assigned[match[1]] = match[2]
    return {}, words


def _visible(text: str) -> tuple[str, ...]:
    """What CUDA takes of its variable: it stops at the first entry that is none."""
    chosen: list[str] = []
    for entry in text.split(","):
        entry = entry.strip()
        if not (entry.isdigit() or entry.startswith(("GPU-", "MIG-"))):
            break
        chosen.append(clean(entry, 64))
    return tuple(chosen)


def _length(text: str) -> int | None:
    """Tokens as vLLM takes them: 32768, 32k (thousands), 32K (1024s)."""
    match = _LENGTH.fullmatch(text)
    if match is None:
        return None
    tokens = int(float(match[1]) * _SCALES[match[2]])
    return tokens if 0 < tokens < 1 << 30 else None
