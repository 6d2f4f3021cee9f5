"""What ``drain-test`` and ``restart-test`` share: plan, confirmation, and the test without the screen."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import shlex
import sys
from typing import TYPE_CHECKING

from tui.commands.setup import config_from, targets_from
from tui.commands.usage import UsageError

if TYPE_CHECKING:
    from tui.actions.plan import Plan, TestKind
    from tui.actions.planning import Prepared
    from tui.model.settings import EngineTarget

_EXPLAINED = """Off unless it is allowed, and never without the string to confirm it. Progress goes to
stderr, the report (JSON, schema 1) to stdout.

Exit status: 0 passed, 1 failed, 2 it could not be run or was refused."""


def description(first: str) -> str:
    """The head of a command's help."""
    return f"{first}\n{_EXPLAINED}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of both tests."""
    add = parser.add_argument
    add("url", metavar="URL", help="an engine of this host")
    add("--dry-run", action="store_true", help="print the plan and what speaks against it, send nothing")
    add("--json", action="store_true", help="the plan of --dry-run as JSON")
    add("--allow-actions", action="store_true", help="allow it, as enabled = true in [actions] does")
    add("--confirm", metavar="STRING", help="the target's name, as --dry-run shows it")
    add("--grace", metavar="S", type=_seconds, help="seconds that it may take to end")
    add("--with-traffic", action="store_true", help="although requests of others are in flight")
    add(
        "--kill-after-grace", action="store_true", help="SIGKILL to what has not ended after the grace period"
    )
    add("--stop-command", metavar="COMMAND", type=_command, default=(), help="stops it, in place of SIGTERM")
    add("--start-command", metavar="COMMAND", type=_command, default=(), help="starts it again afterwards")
    add("--metrics-url", metavar="URL", help="metrics on another port")


def add_requests(parser: argparse.ArgumentParser) -> None:
    """The argument of a test that has streams in flight when it stops the engine."""
    parser.add_argument(
        "--requests", metavar="N", type=_requests, default=8, help="own requests in flight at the stop (8)"
    )


def run(args: argparse.Namespace, test: TestKind) -> int:
    """Plan, and carry out what was confirmed."""
    from tui.actions.plan import RefusedError
    from tui.actions.planning import make_plan
    from tui.actions.safety import check_enabled, refusals
    from tui.actions.stops import Wish

    wish = Wish(
        test=test,
        mode=getattr(args, "mode", "tree"),
        grace_s=args.grace,
        with_traffic=args.with_traffic,
        kill_after_grace=args.kill_after_grace,
        stop_command=args.stop_command,
        start_command=args.start_command,
        cache_traffic=getattr(args, "cache_traffic", False),
        **({"requests": args.requests} if "requests" in args else {}),
    )
    config = config_from(args)
    (target,) = targets_from(config, [args.url], [] if args.metrics_url is None else [args.metrics_url])
    try:
        if not args.dry_run:
            check_enabled(config, allow_actions=args.allow_actions)
        prepared = asyncio.run(make_plan(wish, target, config))
        with prepared.held:
            refused = refusals(prepared.plan, config, allow_actions=args.allow_actions)
            if args.dry_run:
                _show(prepared.plan, refused, as_json=args.json)
                return 0
            return _carry_out(args, prepared, refused, target)
    except RefusedError as error:
        raise UsageError(f"refused: {error}") from None


def _carry_out(args: argparse.Namespace, prepared: Prepared, refused: list[str], target: EngineTarget) -> int:
    """Start the test in a process of its own and tell of it."""
    from tui.actions import launch
    from tui.actions.plan import RefusedError
    from tui.actions.plan_text import lines
    from tui.actions.safety import check_confirmed

    if refused:
        raise RefusedError(refused[0])
    plan, held = prepared
    if args.confirm is None:
        raise RefusedError(f"to be confirmed with --confirm {shlex.quote(plan.target.name)}")
    check_confirmed(plan, args.confirm)
    print(*lines(plan), sep="\n", file=sys.stderr)
    held.verify()
    try:
        files = launch.start(plan, target)
    except OSError as error:
        raise UsageError(f"the test cannot be started: {error}") from None
    return launch.follow(files, sys.stderr, sys.stdout)


def _show(plan: Plan, refused: list[str], *, as_json: bool) -> None:
    from tui.actions.plan_text import lines

    if as_json:
        print(json.dumps({**plan.document(), "refused": refused}, ensure_ascii=True))
        return
    print(*lines(plan), *(f"  would be refused now: {why}" for why in refused), sep="\n")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 86400")
    return value


def _requests(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 256")
    return int(text)


def _command(text: str) -> tuple[str, ...]:
    """One argument, split as a shell does and run without one."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not a command: {error}") from None
    if not words:
        raise argparse.ArgumentTypeError("an empty command")
    return words
