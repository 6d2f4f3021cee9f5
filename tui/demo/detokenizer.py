"""SGLang's detokenizer process: everything the scheduler says goes through it."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time

from tui.demo.process import Inherited, die_with_parent, set_title


def main() -> None:
    """Run it: ``FROM_FD TO_FD READY_S`` in the arguments."""
    die_with_parent()
    source, target = socket.socket(fileno=int(sys.argv[1])), socket.socket(fileno=int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(max(0.0, float(sys.argv[3]) - time.monotonic()))
    set_title("sglang::detokenizer")
    leash = Inherited.from_environment().leash
    watched: list[socket.socket | int] = [source, *([leash] if leash >= 0 else [])]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if leash in ready:
            os._exit(0)
        data = source.recv(65536)
        if data:
            target.sendall(data)
        else:  # the scheduler is gone; the main process ends this one once it has noticed
            watched.remove(source)
            if not watched:
                signal.pause()
