"""The process that takes everything down with the supervisor, however the supervisor died.

It leads the process group of the simulated engine and waits for the end of a pipe that only the
supervisor holds open. SIGKILL to the group also ends what is stopped and what does not listen.
"""

from __future__ import annotations

import os
import signal
import sys

from tui.demo.process import set_title


def main() -> None:
    """Run it: ``LEASH_FD`` in the arguments."""
    # not the terminal's signals: the supervisor decides
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    os.setpgid(0, 0)
    set_title("infertop-leash")
    os.write(1, b"\n")  # the group exists: the engine can join it
    os.close(1)
    while os.read(int(sys.argv[1]), 1):
        pass
    os.killpg(0, signal.SIGKILL)
