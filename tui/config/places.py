"""Where an operator's own files are looked for."""

from __future__ import annotations

import os
from pathlib import Path


def config_home() -> Path | None:
    """``$XDG_CONFIG_HOME/infertop``, by default below the home directory.

    None where there is none that this user may look into: in containers the home directory is often
    another user's, or nobody's.
    """
    base = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        home = (Path(base) if base else Path.home() / ".config") / "infertop"
    except RuntimeError:  # no $HOME, and a user without an entry in passwd
        return None
    return home if os.access(home, os.X_OK) else None
