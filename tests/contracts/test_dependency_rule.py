"""The dependency rule, twice: on the import graph, and in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("textual", "rich", "plotext")


def test_import_contracts_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def loaded_by(statement: str) -> set[str]:
    """Top-level modules present after a statement in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys\nprint(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("tui", ("argparse", "asyncio", "httpcore", "httpx", "psutil", "pynvml", *HEAVY)),
        ("tui.model.readings", ("asyncio", "httpcore", "httpx", "psutil", "pynvml", *HEAVY)),
        ("tui.exposition.parse", ("asyncio", "httpcore", "httpx", "psutil", "pynvml", *HEAVY)),
        ("tui.verdict.judge", ("asyncio", "httpcore", "httpx", "psutil", "pynvml", *HEAVY)),
        ("tui.config.load", ("asyncio", "httpcore", "httpx", "psutil", "pynvml", *HEAVY)),
        ("tui.cli", ("asyncio", "httpcore", "httpx", "psutil", "pynvml", *HEAVY)),
        ("tui.commands.verdict", ("asyncio", "httpcore", "httpx", "psutil", "pynvml", *HEAVY)),
        ("tui.commands.once", ("httpcore", "httpx", "pynvml", *HEAVY)),
        ("tui.runtime.monitor", ("httpcore", "httpx", "pynvml", *HEAVY)),
    ],
)
def test_a_fresh_interpreter_loads_only_what_the_layer_needs(module: str, absent: tuple[str, ...]) -> None:
    found = loaded_by(f"import {module}")
    assert not found & set(absent)
