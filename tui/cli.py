"""Arguments to a command. Only the chosen command's module is imported: ``once`` must start fast."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui import __version__
from tui.commands.usage import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = 2
_OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What a write to a full or vanished standard output fails with; it names no file."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command; its module has DESCRIPTION, EXAMPLE, perhaps EPILOG, add_arguments(parser), run(args)."""

    module: str
    summary: str


COMMANDS = {
    "once": Command("tui.commands.once", "sample a few times, print figures and verdict"),
    "verdict": Command("tui.commands.verdict", "classify recorded observations"),
    "plan": Command("tui.commands.plan", "will a model fit: weights and KV cache by arithmetic"),
    "demo": Command("tui.commands.demo", "a simulated engine and host to practise on"),
    "check": Command("tui.commands.check", "is one engine well: for exec probes and HEALTHCHECK"),
    "config": Command("tui.commands.config", "print the config template, or check a file"),
    "preflight": Command("tui.commands.preflight", "what must hold before an engine starts; then start it"),
    "lint": Command("tui.commands.lint", "judge the probe and shutdown settings of manifests and units"),
    "drain-test": Command("tui.commands.drain_test", "stop an engine with requests in flight"),
    "restart-test": Command("tui.commands.restart_test", "end an engine and measure how long it is away"),
}
SCREEN = Command("tui.commands.screen", "the live screen")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; usage errors exit with 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale without our dash must not cost the answer
    try:
        return _begin(words)
    except UsageError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the reader of a pipe went away; Python would complain again while flushing at exit
        sys.stdout = None
        return 1
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_LOST:
            raise
        sys.stdout = None  # as above
        return _complain(f"standard output: {error.strerror}")


def _begin(words: list[str]) -> int:
    name, rest = _command(words)
    command = COMMANDS[name] if name else SCREEN
    module = importlib.import_module(command.module)
    parser = argparse.ArgumentParser(
        prog=f"infertop {name}".strip(),
        description=module.DESCRIPTION,
        epilog=_epilog(name, module.EXAMPLE, getattr(module, "EPILOG", "")),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings (default: infertop config)")
    parser.add_argument(
        "--read-only", action="store_true", help="never act on a process nor generate, whatever is configured"
    )
    parser.add_argument("--version", action="version", version=f"infertop {__version__}")
    return _run(module, parser, rest)


def _run(module: Any, parser: argparse.ArgumentParser, words: list[str]) -> int:
    try:
        return int(module.run(parser.parse_args(words)))
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()  # what cannot be written must be known before the exit status is


def _complain(text: str) -> int:
    try:
        print(f"infertop: {text}", file=sys.stderr)
    except OSError:
        sys.stderr = None  # it cannot be said anywhere; the status still tells
    return USAGE


def _command(words: list[str]) -> tuple[str, list[str]]:
    """The command's name and the other words: a command may stand behind global options."""
    position = 0
    while position < len(words) and words[position].startswith("-"):
        if words[position] == "--":
            return "", words
        position += 2 if words[position] == "--config" else 1
    if position < len(words) and words[position] in COMMANDS:
        return words[position], words[:position] + words[position + 1 :]
    return "", words


def _epilog(name: str, example: str, more: str) -> str:
    lines = []
    if not name:
        width = max(map(len, COMMANDS))
        lines.append("commands (infertop COMMAND --help):")
        lines += [f"  {word:<{width}}  {command.summary}" for word, command in COMMANDS.items()]
        lines.append("")
    return "\n".join([*lines, f"example: {example}", *(["", more] if more else [])])
