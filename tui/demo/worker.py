"""vLLM's worker process: the core cannot step without it, and it outlives the core by two seconds."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time

from tui.demo.log import EngineLog
from tui.demo.process import Inherited, inherited_spec_json, set_title
from tui.demo.spec import EngineSpec

PING, ORPHANED = b"p", b"o"
READY = b"r"


def main() -> None:
    """Run a worker: ``CHANNEL_FD RANK START_S`` in the arguments."""
    fd, rank, ready_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    spec = EngineSpec.from_json(inherited_spec_json())
    channel = socket.socket(fileno=fd)
    # the core ends its workers itself; a signal to the process group is not for them
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = EngineLog(spec.dialect, "Worker" if spec.tensor_parallel_size == 1 else f"Worker_TP{rank}")
    _load(spec, log, ready_s, rank)
    channel.sendall(READY)
    os._exit(_serve(spec, channel, Inherited.from_environment()))


def _load(spec: EngineSpec, log: EngineLog, ready_s: float, rank: int) -> None:
    log.info("gpu_model_runner.py:4190", f"Starting to load model {spec.model}...")
    left = max(0.0, ready_s - time.monotonic())
    time.sleep(left * 0.8)
    set_title("VLLM::Worker" if spec.tensor_parallel_size == 1 else f"VLLM::Worker_TP{rank}")
    log.info("default_loader.py:501", f"Loading weights took {left * 0.8:.2f} seconds")
    time.sleep(left * 0.2)
    log.info("gpu_worker.py:480", "Graph capturing finished in 0 secs, took 0.32 GiB")


def _serve(spec: EngineSpec, channel: socket.socket, inherited: Inherited) -> int:
    leash = inherited.leash
    while True:
        watched = [fd for fd in (channel.fileno(), leash) if fd >= 0]
        ready, _, _ = select.select(watched, [], [])
        if leash in ready:
            return 0
        try:
            data = channel.recv(4096)
        except OSError:
            data = b""
        if not data:  # the core is gone: the real worker looks every two seconds
            time.sleep(spec.scaled(2.1))
            return 0
        if ORPHANED in data and spec.keep_orphans_s > 0:
            leash = -1
            inherited.let_go()
        if PING in data:
            channel.send(PING)
