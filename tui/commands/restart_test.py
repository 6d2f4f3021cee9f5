"""``infertop restart-test``: end an engine and measure how long it is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.commands import testing

if TYPE_CHECKING:
    import argparse

DESCRIPTION = testing.description(
    "End an engine of this host and measure its way back: the phases of the start, the\n"
    "outcome of a request a second, how long it was down and when a probe notices."
)
EXAMPLE = "infertop restart-test http://127.0.0.1:8000 --mode tree --dry-run"
EPILOG = """modes: tree, SIGKILL to the whole engine (default); api-server, SIGKILL to its main process
alone; graceful, SIGTERM or --stop-command, and a start; supervisor, systemctl restart."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    testing.add_arguments(parser)
    parser.add_argument(
        "--mode", choices=("graceful", "api-server", "tree", "supervisor"), default="tree", help="see below"
    )
    parser.add_argument(
        "--cache-traffic", action="store_true", help="SGLang: measure when its prefix cache hits again"
    )


def run(args: argparse.Namespace) -> int:
    """The exit status that the description promises."""
    return testing.run(args, "restart")
