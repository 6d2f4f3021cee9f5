"""Command lines of other programs: their secrets, their options, the program an interpreter runs."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from tui.model.places import PublishedPort
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN: Final = "***"

_ARGUMENT_MAX = 1000
# An option whose value is a secret, by its name without dashes. The engines' parsers take any unique
# beginning of a name too: --api-k, --admin, --hf-t, --ssl-keyfile-p. vLLM sets members of JSON by dots
# (--kv-transfer-config.kv_connector_extra_config.password), Triton's --http-restricted-api holds a key.
_SECRET_OPTION = re.compile(
    r"api-?k|admin(?:$|-)|hf-to?k?e?n?$|ssl-keyfile-p|(?:http|grpc)-restricted-"
    r"|(?:.*[-.])?(?:api-?key|token|password|passwd|passphrase|pass|pwd|secret|bearer|credentials?)$"
    r"|.*[-.]key$",
    re.IGNORECASE,
)
# Text in which a secret is named, or shows by its own form; the first group stays.
_SECRET_TEXT = (
    re.compile(r"(://)[^/?#\s\"']+(?=@)"),
    re.compile(r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?)[^\"',}]+"),
    re.compile(r"(?i)(\bbearer\s+)[\w.~+/=-]+"),
    re.compile(
        r"(?i)((?:^|[\"'?&\s{,;=])[\w-]*"
        r"(?:api[_-]?key|token|passw(?:or)?d|passphrase|secret|(?:secret|access)[_-]?key|credentials?)"
        r"[\"']?\s*[:=]\s*)"
        r"(?:\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|[^\s&]+)"
    ),
    re.compile(r"()\b(?:hf_|sk-)[A-Za-z0-9_-]{16,}"),
)
_SHORT: Final = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-asc": "api-server-count",
    "-q": "quantization",
    "-h": "help",
}


def split(data: bytes) -> tuple[str, ...]:
    """The arguments in a /proc/PID/cmdline, the padding of an overwritten title dropped."""
    text = data.rstrip(b"\0 ").decode("utf-8", "replace")
    return tuple(text.split("\0")) if text else ()


def redact(arguments: Sequence[str]) -> tuple[str, ...]:
    """Arguments that may be shown: secrets replaced by ``***``, control characters gone, lengths bounded.

    Hidden are the values of options named for a key, token or password (``--api-key X`` and
    ``--api-key=X``), of variables (``HF_TOKEN=X``) and JSON members so named, and user names and
    passwords in URLs. A name with a plural (``--max-num-batched-tokens``) is no secret.
    """
    shown: list[str] = []
    hiding = several = False
    for argument in arguments:
        if argument.startswith("-") and len(argument) > 1:
            option, equals, _ = argument.partition("=")
            name = option.lstrip("-").replace("_", "-")
            secret = _SECRET_OPTION.match(name) is not None
            hiding = secret and not equals
            several = name.startswith("api")  # vLLM takes --api-key K1 K2
            shown.append(clean(f"{option}={HIDDEN}") if secret and equals else _harmless(argument))
        elif hiding:
            shown.append(HIDDEN)
            hiding = several
        else:
            shown.append(_harmless(argument))
    return tuple(shown)


def _harmless(argument: str) -> str:
    for pattern in _SECRET_TEXT:
        argument = pattern.sub(rf"\g<1>{HIDDEN}", argument)
    return clean(argument, _ARGUMENT_MAX)


def command_args(cmdline: Sequence[str]) -> dict[str, str]:
    """The options of a command line by long name without dashes, secrets hidden.

    ``--max-num-seqs 256``, ``--max-num-seqs=256`` and ``--max_num_seqs 256`` all are ``max-num-seqs:
    "256"``; an option without a value is ``"true"``; of several values the first is given, of an option
    given twice the last. The model that ``serve`` takes as its argument is ``model``.
    """
    words = redact(cmdline)
    running = program(words)
    arguments = words if running is None else running.arguments
    found: dict[str, str] = {}
    if running is not None and arguments:
        first = arguments[1:2] if arguments[0] == "serve" else arguments[: running.name == "trtllm-serve"]
        if first and not first[0].startswith("-"):
            found["model"] = first[0]
    for at, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name.startswith("--") and len(name) > 2:
            name = name[2:].replace("_", "-")
        elif name in _SHORT:
            name = _SHORT[name]
        else:
            continue
        if equals:
            found[name] = value
        else:
            following = arguments[at + 1] if at + 1 < len(arguments) else ""
            found[name] = following if _is_value(following) else "true"
    return found


def _is_value(word: str) -> bool:
    return bool(word) and (not word.startswith("-") or word[1:2].isdigit() or word == "-")


def published_port(arguments: Sequence[str]) -> PublishedPort | None:
    """What a ``docker-proxy`` carries where; None of any other command line."""
    if not arguments or arguments[0].rpartition("/")[2] != "docker-proxy":
        return None
    given = {name.lstrip("-"): value for name, value in itertools.pairwise(arguments)}
    ports = given.get("host-port", ""), given.get("container-port", "")
    # anybody may give a program that name, and of too many digits Python makes no number
    if given.get("proto") != "tcp" or not all(re.fullmatch(r"[0-9]{1,5}", port) for port in ports):
        return None
    host, inside = clean(given.get("host-ip", ""), 64), clean(given.get("container-ip", ""), 64)
    return PublishedPort(host, int(ports[0]), inside, int(ports[1]))


class Program(NamedTuple):
    """What runs: a program file, or the module or script that a Python interpreter was given."""

    name: str
    """The base name of the file, or the module's dotted name."""
    path: str
    """The file as it was given; empty for a module."""
    arguments: tuple[str, ...]
    """What follows."""
    python: bool
    """An interpreter runs it."""


_PYTHON = re.compile(r"python[\d.]*t?$|pypy[\d.]*$")
_TAKES_VALUE = frozenset("WX")  # -W arg, -X opt
_LAST = frozenset("cm")  # everything after belongs to the program


def program(arguments: Sequence[str]) -> Program | None:
    """The program of a command line; None for code given with ``-c``, a prompt, or nothing at all.

    An interpreter's own options are understood, so that a script which merely has ``vllm serve`` among
    its arguments is seen as the script that it is.
    """
    if not arguments:
        return None
    base = arguments[0].rpartition("/")[2]
    if not _PYTHON.match(base):
        return Program(base, arguments[0], tuple(arguments[1:]), python=False)
    at = 1
    while at < len(arguments):
        word = arguments[at]
        if not word.startswith("-") or word == "-":
            script = word.rpartition("/")[2]
            return Program(script, word, tuple(arguments[at + 1 :]), python=True)
        at += 1
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                at += 1
            continue
        for position, letter in enumerate(word[1:], 2):
            if letter not in _TAKES_VALUE and letter not in _LAST:
                continue
            value = word[position:]
            if not value:
                value, at = (arguments[at] if at < len(arguments) else ""), at + 1
            if letter == "m":
                return Program(value, "", tuple(arguments[at:]), python=True)
            if letter == "c":
                return None
            break
    return None
