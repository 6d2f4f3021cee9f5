"""Which engine a container runs, with which options, and what its routes prove."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.lint.commandline import CommandLine, Shell, options, understand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.lint.shape import Container, Handler
    from tui.model.readings import EngineKind

NAMES: Mapping[EngineKind, str] = {
    "vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "triton": "Triton",
}  # fmt: skip
DRAIN_VERSION = (0, 18)
"""The first vLLM with ``--shutdown-timeout``; before it, running requests are lost on SIGTERM."""

_COMMANDS: tuple[tuple[EngineKind, re.Pattern[str]], ...] = (
    ("trtllm", re.compile(r"\btrtllm-serve\b|tensorrt_llm\.commands\.serve")),
    ("triton", re.compile(r"\btritonserver\b")),
    ("sglang", re.compile(r"\bsglang\.launch_server\b|(?:^|[\s/])sglang\s+serve\b")),
    ("vllm", re.compile(r"(?:^|[\s/])vllm\s+serve\b|\bvllm\.entrypoints\.")),
)
_ANY = re.compile("|".join(pattern.pattern for _, pattern in _COMMANDS))
_IMAGES: tuple[tuple[EngineKind, re.Pattern[str]], ...] = (
    ("triton", re.compile(r"triton(?:inference)?-?server")),
    ("trtllm", re.compile(r"tensorrt[-_]?llm|trtllm")),
    ("sglang", re.compile(r"sglang")),
    ("vllm", re.compile(r"vllm")),
)
_HELPERS = re.compile(r"router|gateway|proxy|exporter|benchmark|scheduler|grafana|controller|operator|webui")
_TAG = re.compile(r":v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?[^/]*$")
_PORTS: Mapping[EngineKind, int] = {"vllm": 8000, "sglang": 30000, "trtllm": 8000, "triton": 8000}
_LOOPBACK_BY_DEFAULT = frozenset(("sglang", "trtllm"))
_TENSOR_PARALLEL = ("tensor-parallel-size", "tp-size", "tp")
_STATIC = frozenset(
    ("/version", "/v1/models", "/models", "/ping", "/metrics", "/docs", "/openapi.json",
     "/get_model_info", "/model_info")
)  # fmt: skip
_GENERATES = ("/health_generate", "/v1/completions", "/v1/chat/completions", "/generate")
_RUN_FLAGS = frozenset(
    ("--", "--detach", "--disable-content-trust", "--init", "--interactive", "--no-healthcheck", "--no-hosts",
     "--oom-kill-disable", "--privileged", "--publish-all", "--quiet", "--read-only", "--replace", "--rm",
     "--rmi", "--sig-proxy", "--tls-verify", "--tty")
)  # fmt: skip
"""Options of ``docker run`` and ``podman run`` without a value; all others take the next word."""
_RUN_SHORT_FLAGS = "ditPq"
_URL_PATH = re.compile(r"https?://[^/\s'\"]+(/[^\s'\"?#;|&)]*)?")


@dataclass(frozen=True, slots=True)
class Engine:
    """What is known of the server in a container."""

    kind: EngineKind | None = None
    version: tuple[int, ...] | None = None
    """From the image's tag."""
    options: Mapping[str, str] | None = None
    """By long name without dashes; None where the command line is not in the file."""
    from_file: bool = False
    """Some options stand in a config file that the lint cannot see."""
    command: CommandLine = field(default_factory=lambda: CommandLine((), "none"))
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For texts."""
        return NAMES[self.kind] if self.kind else "the server"

    @property
    def shell(self) -> Shell:
        """What process 1 of the container is."""
        return self.command.shell

    def option(self, *names: str) -> str | None:
        """The value of the first of these options that is there."""
        return next((self.options[n] for n in names if n in self.options), None) if self.options else None

    def seconds(self, name: str) -> float | None:
        """An option's number; None where it is absent or no number."""
        return _number(self.option(name))

    @property
    def port(self) -> int | None:
        """Where it serves HTTP; None when that cannot be told."""
        if self.kind is None or self.options is None:
            return None
        value = self.option("http-port", "port")
        if value is None:
            return None if self.from_file else _PORTS[self.kind]
        number = _number(value)
        return None if number is None else int(number)

    @property
    def loopback_only(self) -> str:
        """Why it listens on 127.0.0.1 alone; empty when it does not, or that cannot be told."""
        if self.kind is None or self.options is None:
            return ""
        host = self.option("host", "http-address")
        if host in ("127.0.0.1", "localhost", "::1"):
            return f"--host {host}"
        if host is None and not self.from_file and self.kind in _LOOPBACK_BY_DEFAULT:
            return "no --host: its default is 127.0.0.1"
        return ""

    @property
    def tls(self) -> bool | None:
        """Whether it serves HTTPS; None when that cannot be told."""
        if self.kind not in ("vllm", "sglang") or self.options is None or self.from_file:
            return None
        return self.option("ssl-certfile", "ssl-keyfile") is not None

    @property
    def wants_key(self) -> bool:
        """An API key is set."""
        return self.option("api-key") is not None or "VLLM_API_KEY" in self.env

    @property
    def tensor_parallel(self) -> int | None:
        """GPUs that one model is spread over; None when that cannot be told."""
        number = _number(self.option(*_TENSOR_PARALLEL))
        return None if number is None else int(number)

    @property
    def drain_s(self) -> float | None:
        """The engine's own limit for a drain: 0 aborts; None: no limit, or it cannot be told."""
        if self.kind == "vllm" and self.version is not None and self.version < DRAIN_VERSION:
            return 0.0
        name, default = {"vllm": ("shutdown-timeout", 0.0), "triton": ("exit-timeout-secs", 30.0)}.get(
            self.kind or "", ("", None)
        )
        if not name or self.options is None:
            return None
        if self.option(name) is None:
            return None if self.from_file else default
        return self.seconds(name)

    def protects(self, path: str) -> bool:
        """The route answers 401 without the key."""
        if not self.wants_key:
            return False
        if self.kind == "vllm":
            return path.startswith("/v1")
        return self.kind == "sglang" and not path.startswith(("/health", "/metrics", "/ready"))

    def generates(self, path: str) -> bool:
        """A GET of the route runs a generation, which waits behind the users' requests."""
        if path.startswith(_GENERATES):
            return True
        switched_off = self.env.get("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "").lower() in ("false", "0")
        return self.kind == "sglang" and path == "/health" and not (self._old_sglang or switched_off)

    def static(self, path: str) -> bool:
        """The route answers from the HTTP process alone, whatever the engine does."""
        return path in _STATIC or (path == "/health" and self._old_sglang)

    @property
    def _old_sglang(self) -> bool:
        return self.kind == "sglang" and self.version is not None and self.version < (0, 5)


def engine_of(container: Container) -> Engine:
    """What a container's image, command and arguments say."""
    words = (container.command or ()) + (container.args or ())
    words = tuple(_resolved(word, container.env) for word in words)
    command = understand(words, _ANY)
    text = " ".join(command.words)[:20_000]
    image, arguments = _in_words(command.words) or (container.image, command.words)
    kind = next((k for k, pattern in _COMMANDS if pattern.search(text)), None)
    visible = kind is not None
    if kind is None:
        kind = _by_image(image)
        # arguments alone go to the entry point of the engine's image; another command may be anything
        visible = kind is not None and (container.command is None or image != container.image)
        visible = visible and bool(words or container.image)
    found = options(arguments) if visible else None
    return Engine(
        kind=kind,
        version=_version(image),
        options=found,
        from_file=found is not None and ("config" in found or "extra-llm-api-options" in found),
        command=command,
        env=container.env,
    )


def route_of(handler: Handler) -> str:
    """The path that a probe asks for, by httpGet or in an exec'ed URL; empty where it asks for none."""
    if handler.kind == "httpGet":
        return (handler.path or "/").partition("?")[0]
    found = _URL_PATH.search(" ".join(handler.words)[:20_000])
    return "" if found is None else (found[1] or "/")


def _by_image(image: str) -> EngineKind | None:
    name = image.lower().partition("@")[0]
    repository = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    if _HELPERS.search(repository.rpartition("/")[2]):
        return None
    return next((kind for kind, pattern in _IMAGES if pattern.search(repository)), None)


def _in_words(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """Image and arguments of a ``docker run``: what stands behind its own options."""
    if not words or words[0].rpartition("/")[2] not in ("docker", "podman", "nerdctl"):
        return None
    position = next((at for at, word in enumerate(words) if word in ("run", "create")), len(words)) + 1
    # a variable of the unit stands for options: an image would name the engine
    while position < len(words) and words[position].startswith(("-", "$")):
        position += 2 if _value_follows(words[position]) else 1
    return (words[position], words[position + 1 :]) if position < len(words) else None


def _value_follows(option: str) -> bool:
    """Whether the word after this option of ``docker run`` belongs to it."""
    if option.startswith("--"):
        return "=" not in option and option not in _RUN_FLAGS
    rest = option[1:].lstrip(_RUN_SHORT_FLAGS)  # several in one word: -dit
    return option.startswith("-") and len(rest) == 1


def _version(image: str) -> tuple[int, ...] | None:
    found = _TAG.search(image.partition("@")[0])
    return None if found is None else tuple(int(part) for part in found.groups() if part is not None)


def _resolved(word: str, env: Mapping[str, str]) -> str:
    """``$(NAME)`` and ``${NAME}`` replaced by the container's own variables, where they are written."""
    if "$" not in word:
        return word
    return re.sub(r"\$\((\w+)\)|\$\{(\w+)\}", lambda m: env.get(m[1] or m[2], m[0]), word[:20_000])


def _number(value: str | None) -> float | None:
    if value is None or not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", value.strip()):
        return None
    return float(value)
