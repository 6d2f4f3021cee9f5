"""Which engine a process belongs to, and what it does there, by its title or its command line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from tui.sources.command_line import program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.model.readings import EngineKind, ProcessRole
    from tui.sources.command_line import Program


class Identity(NamedTuple):
    """What a process was recognised as."""

    engine: EngineKind
    role: ProcessRole
    titled: bool = False
    """By a title that it gave itself, so that its command line is gone."""
    inferred: bool = False
    """By its children alone: a program of the operator's own with an engine inside."""


HTTP_ROLES: Final = frozenset(("api_server", "launcher"))
DEFAULT_PORT: Final[dict[EngineKind, int]] = {"vllm": 8000, "sglang": 30000, "triton": 8000, "trtllm": 8000}
DEFAULT_HOST: Final[dict[EngineKind, str]] = {"sglang": "127.0.0.1", "trtllm": "localhost"}
"""Where the others listen at every address."""

# Titles as the engines set them; the kernel cuts them at 15 characters in comm, and a rank may follow.
_TITLES: Final[tuple[tuple[re.Pattern[str], EngineKind, ProcessRole], ...]] = (
    (re.compile(r"VLLM::EngineCor"), "vllm", "engine_core"),
    (re.compile(r"VLLM::Worker"), "vllm", "worker"),
    (re.compile(r"VLLM::APIServer"), "vllm", "api_server"),
    (re.compile(r"VLLM::DPCoordin"), "vllm", "coordinator"),
    (re.compile(r"VLLM::\w"), "vllm", "other"),
    (re.compile(r"sglang::schedul"), "sglang", "scheduler"),
    (re.compile(r"sglang::detoken"), "sglang", "detokenizer"),
    (re.compile(r"sglang::data_pa"), "sglang", "coordinator"),
    (re.compile(r"sglang::tokeniz"), "sglang", "tokenizer"),
    (re.compile(r"sglang::\w"), "sglang", "other"),
)
# The same endings behind a prefix of the operator's own (VLLM_PROCESS_NAME_PREFIX).
_ENDINGS: Final[tuple[tuple[re.Pattern[str], ProcessRole], ...]] = (
    (re.compile(r"[^/\s]+::EngineCore"), "engine_core"),
    (re.compile(r"[^/\s]+::Worker"), "worker"),
    (re.compile(r"[^/\s]+::APIServer"), "api_server"),
    (re.compile(r"[^/\s]+::DPCoordinator"), "coordinator"),
)
_MODULES: Final[dict[str, EngineKind]] = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "sglang.launch_server": "sglang",
    "tensorrt_llm.commands.serve": "trtllm",
}
# Modules and programs that serve only when told to: `vllm bench serve` and `vllm chat` do not.
_SERVERS: Final[dict[str, EngineKind]] = {
    "vllm": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "sglang": "sglang",
    "sglang.cli.main": "sglang",
}


def by_title(comm: str, arguments: Sequence[str]) -> Identity | None:
    """Recognise a process by the title that vLLM's and SGLang's children give themselves."""
    if "::" not in comm and not (arguments and "::" in arguments[0]):
        return None
    # a title that is longer than what was there before may be cut or missing in either place
    for title in (arguments[0] if arguments else "", comm):
        for pattern, engine, role in _TITLES:
            if pattern.match(title):
                return Identity(engine, role, titled=True)
    return None


def by_command(arguments: Sequence[str]) -> Identity | None:
    """Recognise a server, or a helper program of one, by the program that its command line runs.

    A shell, an editor, a pager or a script that only has an engine's name among its arguments is
    none: the name must be the program's own, and the word ``serve`` its first argument.
    """
    running = program(arguments)
    if running is None:
        return None
    if running.path:
        return _by_file(running)
    engine = _MODULES.get(running.name)
    if engine is None and running.arguments[:1] == ("serve",):
        engine = _SERVERS.get(running.name)
    return None if engine is None else _server(engine, running)


def _by_file(running: Program) -> Identity | None:
    name, first = running.name, running.arguments[0] if running.arguments else ""
    if name == "tritonserver":
        return None if running.python else Identity("triton", "api_server")
    if name == "triton_python_backend_stub":
        return Identity("triton", "backend")
    if name == "trtllmExecutorWorker":
        return Identity("trtllm", "worker")
    if name == "trtllm-serve":
        return Identity("trtllm", "worker" if first == "disaggregated_mpi_worker" else "api_server")
    if first == "serve" and name in ("vllm", "sglang"):
        return _server(_SERVERS[name], running)
    if running.python and name.endswith(".py"):
        module = running.path.removesuffix(".py").replace("/", ".")
        for known, engine in _MODULES.items():
            if module.endswith(f".{known}"):
                return _server(engine, running)
    return None


def _server(engine: EngineKind, running: Program) -> Identity:
    headless = engine == "vllm" and "--headless" in running.arguments
    return Identity(engine, "launcher" if headless else "api_server")


def within(engine: EngineKind, comm: str, arguments: Sequence[str]) -> Identity:
    """What a descendant of an engine's server is, where it is known; its role is ``other`` where it is not.

    Args:
        engine: the server's.
        comm: the descendant's name.
        arguments: its command line.
    """
    title = arguments[0] if arguments else comm
    for pattern, role in _ENDINGS:
        if pattern.match(title):
            return Identity(engine, role, titled=True)
    running = program(arguments)
    if running is not None and running.name in ("mpi4py.futures.server", "trtllmExecutorWorker"):
        return Identity(engine, "worker")
    return Identity(engine, "other")


def runs_a_script(arguments: Sequence[str]) -> bool:
    """Whether this is Python with a script or module of its own: what may have an engine inside it."""
    running = program(arguments)
    return running is not None and running.python and not running.name.startswith("multiprocessing")
