"""``infertop verdict``: the live rules on recorded observations, one JSON object a line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tui.commands.setup import config_from
from tui.commands.usage import UsageError
from tui.config.inputs import open_input
from tui.model.text import clean
from tui.verdict.observation import classify_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from tui.model.settings import Config

DESCRIPTION = """Classify observations (JSON lines: id, engine, observations) by the rules
of the live screen."""
EXAMPLE = "infertop verdict observations.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    parser.add_argument("file", metavar="FILE", help="JSON lines; - for standard input")


def run(args: argparse.Namespace) -> int:
    """0; 2 when a line is malformed: it is named by its number and the others are judged all the same."""
    config = config_from(args)
    if args.file == "-":
        return _classify(sys.stdin.buffer, args, config)
    try:
        lines = open_input(Path(args.file))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UsageError(f"{clean(args.file)}: {getattr(error, 'strerror', None) or error}") from None
    with lines:
        return _classify(lines, args, config)


def _classify(lines: Iterable[bytes], args: argparse.Namespace, config: Config) -> int:
    status = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            result = classify_line(line.decode("utf-8"), config.thresholds, config.slo)
        except ValueError as error:
            print(f"infertop: {args.file}: line {number}: {error}", file=sys.stderr)
            status = 2
            continue
        print(json.dumps(result, ensure_ascii=True))
    return status
