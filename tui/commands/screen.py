"""``infertop``: the live screen."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tui import __version__
from tui.commands.log_file import logging_to
from tui.commands.look import add_look_arguments, screen_options, with_look
from tui.commands.once import interval
from tui.commands.setup import add_probe_arguments, config_from, need_terminal, real_sources, targets_from
from tui.runtime.clock import SystemClock
from tui.runtime.journal import LOG
from tui.runtime.monitor import Monitor

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """What is the bottleneck of this inference host, and is it healthy: live,
with the evidence. Without a URL it finds the engines on this host.
Press ? on the screen for its keys."""
EXAMPLE = "infertop http://127.0.0.1:8000 http://127.0.0.1:30000"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    parser.add_argument("urls", metavar="URL", nargs="*", help="engines; none: those found on this host")
    parser.add_argument("--interval", metavar="S", type=interval, help="seconds between refreshes (1)")
    add_look_arguments(parser)
    parser.add_argument("--allow-actions", action="store_true", help="allow tests (keys d and r)")
    parser.add_argument(
        "--log", metavar="FILE", type=Path, help="append failures, recoveries and verdict changes to a file"
    )
    parser.add_argument(
        "--metrics-url",
        metavar="URL",
        action="append",
        default=[],
        help="metrics on another port; the n-th belongs to the n-th URL",
    )
    add_probe_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 when the user quits."""
    need_terminal()
    config = with_look(config_from(args), args)
    if args.allow_actions:
        config = replace(config, actions=replace(config.actions, enabled=True))
    # with what it takes to ask them: tests on the screen do so, too
    config = replace(config, engines=targets_from(config, args.urls, args.metrics_url))
    monitor = Monitor(config, config.engines, real_sources(), SystemClock())
    with logging_to(args.log):
        from tui.ui.run import run_screen  # imports textual: what fails above must fail fast

        LOG.info("infertop %s begins, pid %d", __version__, os.getpid())
        options = screen_options(args)
        left = run_screen(monitor, config, options)
        LOG.info("infertop ends")
    if left.wants_demo:
        from tui.commands import demo

        return demo.show(config, options)
    return left.status
