"""``infertop config``: the commented template, or the check of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tui.config.load import ConfigError, load
from tui.config.template import render

if TYPE_CHECKING:
    import argparse

DESCRIPTION = "Print the config file's template, every key at its default; or check a file."
EXAMPLE = "infertop config > ~/.config/infertop/config.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    parser.add_argument("--check", metavar="FILE", type=Path, help="check a file instead of printing one")


def run(args: argparse.Namespace) -> int:
    """0; 2 when the checked file has faults, which go to stderr one a line."""
    if args.check is None:
        print(render(), end="")
        return 0
    try:
        load(args.check)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{args.check}: fine")
    return 0
