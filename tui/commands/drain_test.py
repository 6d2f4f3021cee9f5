"""``infertop drain-test``: stop an engine with requests in flight and say what became of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.commands import testing

if TYPE_CHECKING:
    import argparse

DESCRIPTION = testing.description(
    "Stop an engine of this host (SIGTERM, systemctl stop, a command) while requests\n"
    "are in flight, and tell what became of each, what was left and how long it took."
)
EXAMPLE = "infertop drain-test http://127.0.0.1:8000 --dry-run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    testing.add_arguments(parser)
    testing.add_requests(parser)


def run(args: argparse.Namespace) -> int:
    """The exit status that the description promises."""
    return testing.run(args, "drain")
