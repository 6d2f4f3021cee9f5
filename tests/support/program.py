"""The real program in a child process, away from this user's settings and state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.signal_guard import HOOK

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a run of the program ended."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tui", *words]


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, with homes and state below ``home``, and without what it says of a terminal."""
    ours = ("INFERTOP_", "FAKE_NVML", "XDG_", "TERM", "COLORTERM")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return {
        **kept,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(HOOK))),
        **(extra or {}),
    }


def run(
    *words: str, home: Path, env: Mapping[str, str] | None = None, stdin: str = "", within_s: float = 40.0
) -> Ended:
    """Run it to its end, without a terminal."""
    done = subprocess.run(
        command(*words),
        cwd=home,
        env=environment(home, env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
