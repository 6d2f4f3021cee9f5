"""Command lines as far as a lint needs them: shells, the program that is meant, its options, sleeps."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal

Shell = Literal["none", "single", "compound", "exec", "trap"]

_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh"))
_REPLACED = frozenset(("bash", "zsh", "ksh"))
"""Shells that put a single command in their place; dash, the sh of Debian and Ubuntu, was seen not to."""
_INITS = frozenset(("tini", "dumb-init", "docker-init", "catatonit"))
_WRAPPERS = frozenset(
    ("exec", "nohup", "setsid", "env", "time", "nice", "numactl", "taskset", "sudo", "command")
)
_OPERATOR = re.compile(r"[;&|()]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`")
_PIPE = re.compile(r"(?<!\|)\|(?!\|)")
_NUMBER = re.compile(r"[0-9.]+[smhd]?")
_CONTROL = frozenset(("if", "then", "!", "timeout", "{"))
_SAYS_NOTHING = frozenset(("exit", "true", ":", "echo", "false", "set", "fi", "then", "else", "kill", "}"))
"""Commands beside a curl that do not judge its answer."""
_CURL_VALUE = re.compile("[ACDEFHKPQTUXYbcdehmortuwxyz]")
"""Short options of curl that take what follows, in the same word, as their value."""
_SLEEP = re.compile(r"\bsleep\s+([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd]?)\b")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LOOP = re.compile(r"(?:^|[\s;&|(])(?:while|until)\s")
_LIMIT = re.compile(r"\btimeout\s|-l[te]\s|-g[te]\s|\bSECONDS\b|\bseq\s|\bbreak\b")
_MAX_SCRIPT = 20_000
_MAX_WORDS = 5000
"""Of one command; 100,000 words ``exec`` took 18 s to take away one by one."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What a command comes down to."""

    words: tuple[str, ...]
    """The program that is meant, with its arguments: behind shells, inits, ``exec`` and ``env``."""
    shell: Shell
    """What process 1 is: ``single`` and ``compound`` are shells that stay, with one or several commands;
    ``exec`` is one that replaces itself by the command; ``trap`` one that handles signals."""
    init: bool = False
    """An init stands before it."""


def understand(words: tuple[str, ...], wanted: re.Pattern[str]) -> CommandLine:
    """Take a command apart.

    Args:
        words: program and arguments.
        wanted: matches the text of the command that is meant, of several in a script.
    """
    init = False
    rest = _unwrapped(words[:_MAX_WORDS])
    while rest and _base(rest[0]) in _INITS:
        init = True
        rest = rest[1:]
        while rest and rest[0].startswith("-"):
            rest = rest[2:] if rest[0] in ("-e", "-p", "-s", "-w", "-r") and rest[0] != "-s" else rest[1:]
        rest = _unwrapped(rest)
    script = script_of(rest)
    if script is None:
        return CommandLine(rest, "none", init)
    commands = simple_commands(script)
    if not commands:
        return CommandLine((), "single", init)
    meant = next((c for c in reversed(commands) if wanted.search(" ".join(c))), commands[-1])
    shell: Shell = "single" if len(commands) == 1 else "compound"
    if "exec" in meant or (shell == "single" and _base(rest[0]) in _REPLACED):
        shell = "exec"
    elif any(command[0] == "trap" for command in commands):
        shell = "trap"
    return CommandLine(_unwrapped(meant), shell, init)


def script_of(words: tuple[str, ...]) -> str | None:
    """The script of ``sh -c SCRIPT``; None where the program is no shell or gets no script."""
    if not words or _base(words[0]) not in _SHELLS:
        return None
    for position, word in enumerate(words[1:], 1):
        if word.startswith("-") and not word.startswith("--") and "c" in word[1:]:
            return words[position + 1][:_MAX_SCRIPT] if position + 1 < len(words) else ""
        if not word.startswith("-") and word != "pipefail":
            return None
    return None


def split(text: str) -> tuple[str, ...]:
    """A line as a shell would split it; at white space where its quotes do not match."""
    text = text[:_MAX_SCRIPT]
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def simple_commands(script: str) -> list[tuple[str, ...]]:
    """The simple commands of a script, in order; control words stay part of them."""
    text = re.sub(r"(?m)^\s*#.*$", "", script.replace("\\\n", " "))
    text = _SUBSTITUTION.sub("$_", text).strip().replace("\n", " ; ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError:
        tokens = text.split()
    commands: list[tuple[str, ...]] = []
    current: list[str] = []
    for token in [*tokens, ";"]:
        if _OPERATOR.fullmatch(token):
            if current:
                commands.append(tuple(current))
            current = []
        else:
            current.append(token)
    return commands


def options(words: tuple[str, ...]) -> dict[str, str]:
    """Options by name, without dashes and with ``-`` for ``_``; one without a value is ``""``."""
    found: dict[str, str] = {}
    for position, word in enumerate(words):
        if not word.startswith("-") or len(word) < 2:
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and position + 1 < len(words) and not words[position + 1].startswith("--"):
            value = words[position + 1]
        found[name.replace("_", "-")] = value
    return found


def docker_test(test: tuple[str, ...]) -> tuple[str, ...]:
    """What the ``test`` of a health check runs: the words behind ``CMD``, or ``CMD-SHELL``'s shell."""
    if test[:1] == ("CMD-SHELL",):
        return ("/bin/sh", "-c", *test[1:2])
    return test[1:] if test[:1] == ("CMD",) else ()


def sleep_seconds(words: tuple[str, ...]) -> float | None:
    """All sleeps of a command added up; None where it has none."""
    script = script_of(words)
    found = _SLEEP.findall(" ".join(words)[:_MAX_SCRIPT] if script is None else script)
    return sum(float(number) * _UNITS[unit] for number, unit in found) if found else None


def waits_without_limit(words: tuple[str, ...]) -> bool:
    """A loop that ends only when something becomes so."""
    text = " ".join(words)[:_MAX_SCRIPT]
    return bool(_LOOP.search(text)) and not _LIMIT.search(text)


def curl_passes_errors(words: tuple[str, ...]) -> bool:
    """A command that asks with ``curl`` and without ``-f``: any answer makes it succeed, a 503 too.

    False where something looks at what curl prints: a pipe, or a test of its output.
    """
    script = script_of(words)
    text = " ".join(words)[:_MAX_SCRIPT] if script is None else script
    if script is not None and (_PIPE.search(text) or _SUBSTITUTION.search(text)):
        return False
    commands = [words[:_MAX_WORDS]] if script is None else simple_commands(script)
    asked = [found for command in commands if (found := _curl(command)) is not None]
    others = [command for command in commands if _curl(command) is None]
    judged = any(_base("".join(command[:1])) not in _SAYS_NOTHING for command in others)
    return bool(asked) and not judged and not any(map(_fails_on_status, asked))


def _curl(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """The arguments of a curl, behind what may stand before it; None where it is another program."""
    at = next((i for i, word in enumerate(words) if _base(word) == "curl"), None)
    if at is None or not all(_before(word) for word in words[:at]):
        return None
    return words[at + 1 :]


def _before(word: str) -> bool:
    option = word.startswith("-") or _ASSIGNMENT.fullmatch(word) or _NUMBER.fullmatch(word)
    return bool(option) or _base(word) in _WRAPPERS or word in _CONTROL


def _fails_on_status(arguments: tuple[str, ...]) -> bool:
    for word in arguments:
        if word in ("--fail", "--fail-with-body"):
            return True
        if word.startswith("-") and not word.startswith("--"):
            flags = _CURL_VALUE.split(word[1:], maxsplit=1)[0]
            if "f" in flags:
                return True
    return False


def _unwrapped(words: tuple[str, ...]) -> tuple[str, ...]:
    while words:
        if _ASSIGNMENT.fullmatch(words[0]) or _base(words[0]) in _WRAPPERS:
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[1:]
        else:
            break
    return words


def _base(word: str) -> str:
    return word.rpartition("/")[2]
