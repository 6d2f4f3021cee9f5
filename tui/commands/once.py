"""``infertop once``: sample everything a few times, print figures and verdict."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from typing import TYPE_CHECKING

from tui.commands.setup import add_probe_arguments, config_from, real_sources, targets_from
from tui.commands.usage import UsageError
from tui.model.verdicts import CALM
from tui.report import once_json, once_text
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor

if TYPE_CHECKING:
    from tui.model.settings import Config, EngineTarget
    from tui.model.snapshot import HostSnapshot
    from tui.model.verdicts import Judgement
    from tui.runtime.sources import Sources

DESCRIPTION = """Sample GPUs, engines and host a few times, print figures and verdict.

Exit status: 1 if any verdict is other than healthy and idle (loading and
draining too); else 2 if any is unknown, or no engine was found; else 0."""
EXAMPLE = "infertop once --json http://127.0.0.1:8000"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    parser.add_argument("urls", metavar="URL", nargs="*", help="engines; none: those found on this host")
    parser.add_argument("--json", action="store_true", help="one JSON object (schema 1)")
    parser.add_argument("--interval", metavar="S", type=interval, help="seconds between samples (1)")
    parser.add_argument(
        "--samples", metavar="N", type=samples, default=2, help="how many (2); 7 decide on a hang"
    )
    parser.add_argument(
        "--metrics-url",
        metavar="URL",
        action="append",
        default=[],
        help="metrics on another port; the n-th belongs to the n-th URL",
    )
    add_probe_arguments(parser)
    parser.add_argument(
        "--format",
        metavar="TEMPLATE",
        help="one line, e.g. '{verdict} {scope}' (also title, confidence, because, host)",
    )


def run(args: argparse.Namespace) -> int:
    """The exit status that the description promises."""
    config = config_from(args)
    targets = targets_from(config, args.urls, args.metrics_url)
    try:
        template = None if args.format is None else once_text.template(args.format)
    except ValueError as error:
        raise UsageError(f"--format: {error}") from None
    snapshot, judgement = asyncio.run(sample(config, targets, real_sources(), args.samples))
    if args.json:
        print(json.dumps(once_json.document(snapshot, judgement), ensure_ascii=True, allow_nan=False))
    elif template is not None:
        print(template(snapshot, judgement))
    else:
        print(once_text.render(snapshot, judgement), end="")
    return exit_status(snapshot, judgement)


async def sample(
    config: Config, targets: tuple[EngineTarget, ...], sources: Sources, count: int
) -> tuple[HostSnapshot, Judgement]:
    """Run a monitor for ``count`` rounds and stop it."""
    monitor = Monitor(config, targets, sources, SystemClock(), backoff=False)
    try:
        return await monitor.sample(count)
    finally:
        await monitor.stop()


def exit_status(snapshot: HostSnapshot, judgement: Judgement) -> int:
    """1 for any known verdict that is not calm, else 2 for an unknown one or no engine, else 0."""
    verdicts = {found.verdict for found in judgement.verdicts}
    if verdicts - CALM - {"unknown"}:
        return 1
    return 2 if "unknown" in verdicts or not snapshot.engines else 0


def interval(text: str) -> float:
    """Seconds between samples, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.2 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.2 to 3600")
    return value


def samples(text: str) -> int:
    """A number of samples, for argparse."""
    if not text.isdecimal() or not 1 <= int(text) <= 10000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 10000")
    return int(text)
