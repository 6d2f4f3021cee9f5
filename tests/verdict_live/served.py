"""A real process that looks like a vLLM server, and in which something real is wrong.

Started as ``python .../vllm serve MODEL --port N --wrong WHAT [FILE]``; it ends when its standard input does.
It imports nothing but the standard library and its own exposition: what looks like an engine core is started
under that title, in an interpreter that finds no packages.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.server
import mmap
import os
import random
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from tests.support.vllm_text import Rank, exposition

if TYPE_CHECKING:
    from collections.abc import Callable

FIGHTERS = 16
READERS = 32
PIECE = 32768
"""Small enough to keep a disk busy at a low rate, large enough that it is the disk they wait for."""
WEIGHTS_MIB = 32
TOLD = {
    "/version": '{"version":"0.32.0"}',
    "/v1/models": '{"object":"list","data":[{"id":"llama","object":"model","owned_by":"vllm"}]}',
}
CORE = "VLLM::EngineCore"


def busy_engine(seconds: float) -> str:
    """Eight requests that get their tokens later than the target, and nobody who waits."""
    tokens = int(50 * seconds)
    rank = Rank(
        running=8, kv=0.2, steps=tokens / 8, generated=tokens, prompt=tokens, asked=tokens, hit=tokens * 0.6,
        stop=int(seconds), observed={"itl": (0.15,) * tokens, "ttft": (0.35,) * (tokens // 20)},
    )  # fmt: skip
    return exposition(rank)


class Routes(http.server.BaseHTTPRequestHandler):
    """What a monitor asks for."""

    protocol_version = "HTTP/1.1"
    began = time.monotonic()

    def do_GET(self) -> None:
        body = TOLD.get(self.path, "")
        if self.path == "/metrics":
            body = busy_engine(time.monotonic() - self.began)
        self.send_response(200 if body or self.path == "/health" else 404)
        kind = "application/json" if self.path in TOLD else "text/plain; version=0.0.4"
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: its output is nobody's."""


def spin() -> None:
    while True:
        pass


def fight(lock: threading.Lock) -> None:
    while True:
        with lock:
            os.getloadavg()  # lets the interpreter's own lock go, as any call to the system does


def read(path: str) -> None:
    file, piece = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, PIECE)
    pieces = WEIGHTS_MIB * 2**20 // PIECE
    while True:
        os.preadv(file, [piece], random.randrange(pieces) * PIECE)


def go_wrong(what: str, *rest: str) -> None:
    """Begin what is wrong, in threads of its own, and go on until standard input ends."""
    lock = threading.Lock()
    jobs: dict[str, tuple[int, str, int, Callable[[], None]]] = {
        "spin": (1, "tokenizer", 0, spin),
        "fight": (FIGHTERS, "pool", 0, lambda: fight(lock)),
        "read": (READERS, "loader", 10, lambda: read(rest[0])),
    }
    count, name, before_others, work = jobs[what]
    with contextlib.suppress(PermissionError):  # or on a busy machine they wait for a core, not for the disk
        os.nice(-before_others)
    for number in range(count):
        threading.Thread(target=_named, args=(f"{name}-{number}", work), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(0)


def _named(name: str, work: Callable[[], None]) -> None:
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME: what the kernel shows as comm
    work()


def main() -> None:
    """Run it."""
    port = int(sys.argv[sys.argv.index("--port") + 1])
    wrong = sys.argv[sys.argv.index("--wrong") + 1 :]
    if wrong[0] != "read":  # what loads has not opened its port yet
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Routes)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    if wrong[0] != "fight":
        go_wrong(*wrong)
    code = f"from tests.verdict_live.served import go_wrong; go_wrong(*{wrong!r})"
    with subprocess.Popen([CORE, "-c", code], executable=sys.executable, stdin=subprocess.PIPE):
        sys.stdin.read()
