"""``infertop check``: the exec health check of one engine."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING

from tui.checks.finding import passed
from tui.commands.setup import config_from, targets_from
from tui.commands.usage import UsageError
from tui.config.state import state_dir
from tui.model.settings import EngineTarget
from tui.model.urls import host_port
from tui.report import checks as report

if TYPE_CHECKING:
    from tui.model.settings import Config

DESCRIPTION = """Is one engine well: its GPUs answer, its model is listed, its health route
passes, it makes steps while it has work. One line a finding, failing first.

Exit status: 0 pass, 1 fail, 2 usage error."""
EXAMPLE = "infertop check --as liveness --timeout 4 http://127.0.0.1:8000"
EPILOG = """\
--as liveness   fails only on what a restart can cure: no step with work
                present, a dead core, no answer
--as readiness  fails on what should take it out of service: also loading,
                draining, no model, a lost GPU
without --as    every error fails
--strict        first makes errors of warnings: GPU memory, hit rate, no driver
Give the probe that runs it a longer timeout than --timeout."""

_DEFAULT_URLS = ["http://127.0.0.1:8000", "http://127.0.0.1:30000"]
"""vLLM, trtllm-serve and Triton; SGLang."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    parser.add_argument(
        "url", metavar="URL", nargs="?", help="the engine; none: the config's, or a local one"
    )
    parser.add_argument("--strict", action="store_true", help="warnings fail too")
    parser.add_argument(
        "--as", dest="purpose", choices=("liveness", "readiness"), help="what the answer is used for"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=timeout, default=4.0, help="seconds for everything together (4)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object (schema 1)")


def run(args: argparse.Namespace) -> int:
    """The exit status that the description promises."""
    target = _target(config_from(args), args.url)
    from tui.checks.health import check  # 0.1 s that a usage error need not wait for

    findings = check(target, args.timeout, purpose=args.purpose, strict=args.strict)
    good = passed(findings)
    if args.json:
        print(json.dumps(report.document(findings, good), ensure_ascii=True, allow_nan=False))
    else:
        print(report.render(findings), end="")
    return 0 if good else 1


def timeout(text: str) -> float:
    """Seconds for the whole check, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.2 <= value <= 600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.2 to 600")
    return value


def _target(config: Config, url: str | None) -> EngineTarget:
    """The engine that is named, else the config's only one, else one at a default port of this host."""
    targets = targets_from(config, [] if url is None else [url], [])
    if len(targets) > 1:
        raise UsageError(f"name one engine: the config has {', '.join(target.url for target in targets)}")
    if targets:
        return targets[0]
    if not config.discovery.enabled:
        raise UsageError("no engine is named, and the config does not want one looked for")
    found = _listening() or _served_before() or _DEFAULT_URLS[:1]
    if len(found) > 1:
        raise UsageError(f"name one engine: it may be {' or '.join(found)}")
    return EngineTarget(url=found[0], discovered=True)


def _listening() -> list[str]:
    from tui.sources.kernel.sockets import listeners_here

    try:
        ports = {listener.port for listener in listeners_here().values()}
    except OSError:  # a sandbox without netlink and /proc/net
        return []
    return [url for url in _DEFAULT_URLS if host_port(url)[1] in ports]


def _served_before() -> list[str]:
    """Where an earlier check found an engine: that its port is closed now is what must not be missed."""
    from tui.checks.progress import state_file

    home = state_dir()
    return [] if home is None else [url for url in _DEFAULT_URLS if state_file(home, url).exists()]
