"""``infertop preflight``: what must hold before an engine is started, and then its start."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from tui.checks.finding import CheckFinding, passed
from tui.checks.preflight.cuda import parse_cuda
from tui.checks.preflight.intent import ALL, Intent, completed
from tui.checks.preflight.run import examine, import_engine
from tui.commands.plan import dtype, kv_type, real, whole
from tui.commands.usage import UsageError
from tui.model.text import clean
from tui.report import checks

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = """Before an engine starts: driver, GPUs, model, disk, limits, port, packages, fit.
What is not given is taken from COMMAND's own options. COMMAND takes infertop's
place (same pid) if there is no error; the findings are on stderr then.

Exit status: 0 no error, 1 an error, 2 usage error; or COMMAND's."""
EXAMPLE = "infertop preflight -- vllm serve /models/llama-3-70b --port 8000 -tp 4"

ENGINES = ("vllm", "sglang", "trtllm", "triton")
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them for itself; what is run in its place would inherit that."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    parser.usage = "%(prog)s [OPTIONS] [-- COMMAND ...]"
    what = parser.add_argument_group("what is to be started")
    what.add_argument("--model", metavar="DIR", default="", help="model directory, or a name of the hub")
    what.add_argument("--engine", metavar="NAME", choices=ENGINES, help=", ".join(ENGINES))
    what.add_argument("--port", metavar="N", type=whole(65535), help="its HTTP port (the engine's default)")
    what.add_argument(
        "--gpus", metavar="LIST", type=_gpus, help="0,1 or all (CUDA_VISIBLE_DEVICES, else all)"
    )
    what.add_argument("--tp", metavar="N", type=whole(1024), help="tensor-parallel GPUs (1)")
    what.add_argument("--max-model-len", metavar="N", type=whole(1 << 30), help="tokens of a sequence")
    what.add_argument("--max-num-seqs", metavar="N", type=whole(1 << 20), help="such sequences at once (1)")
    what.add_argument("--utilization", metavar="X", type=real(0.01, 1), help="share of a GPU for the engine")
    what.add_argument("--dtype", metavar="T", type=_dtype, default="auto", help="weights (as stored)")
    what.add_argument("--kv-dtype", metavar="T", type=_kv_type, default="auto", help="KV cache (as computed)")
    what.add_argument("--cuda", metavar="X.Y", type=_cuda, help="CUDA release (that of its packages)")
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--min-free-mib",
        metavar="N",
        type=real(0, 1e7),
        default=20_000.0,
        help="free memory of a GPU (20000)",
    )
    limits.add_argument(
        "--min-disk-gib", metavar="N", type=real(0, 1e7), default=50.0, help="free disk, a warning (50)"
    )
    limits.add_argument("--strict", action="store_true", help="warnings count as errors")
    limits.add_argument(
        "--timeout", metavar="S", type=real(0.5, 600), default=30.0, help="for all checks together (30)"
    )
    parser.add_argument(
        "--import", dest="imports", action="store_true", help="also import the engine (up to 120 s more)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object (schema 1)")
    parser.add_argument("command", metavar="-- COMMAND", nargs=argparse.REMAINDER, help="what to run")


def run(args: argparse.Namespace) -> int:
    """0 without an error, 1 with one; does not return where a command takes its place."""
    command = _command(args.command)
    if not command and not args.model:
        raise UsageError("nothing to check: give --model DIR, or -- and the engine's command")
    intent = completed(_intent(args, command), dict(os.environ))
    findings = asyncio.run(_examine(intent, args.timeout, imports=args.imports))
    good = passed(findings, strict=args.strict)
    _print(args, findings, good, to_stderr=bool(command))
    if command and good:
        _become(command)
    if command:
        print(f"infertop: {clean(command[0])} was not started", file=sys.stderr)
    return 0 if good else 1


async def _examine(intent: Intent, timeout_s: float, *, imports: bool) -> list[CheckFinding]:
    found = await examine(intent, timeout_s)
    return [*found, await import_engine(intent)] if imports else found


def _print(
    args: argparse.Namespace, findings: Sequence[CheckFinding], good: bool, *, to_stderr: bool
) -> None:
    stream = sys.stderr if to_stderr else sys.stdout
    if args.json:
        document = checks.document(list(findings), good)
        print(json.dumps(document, ensure_ascii=True, allow_nan=False), file=stream)
        return
    errors, warnings = (sum(f.level == level for f in findings) for level in ("error", "warning"))
    print(checks.render(list(findings)), end="", file=stream)
    print(f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}", file=stream)


def _become(command: tuple[str, ...]) -> NoReturn:
    """Run the command in this process's place, with the signals that Python found."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for number in _RESTORED:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise UsageError(f"{clean(command[0])}: {clean(error.strerror or str(error))}") from None


def _command(words: Sequence[str]) -> tuple[str, ...]:
    if not words:
        return ()
    if words[0] != "--":
        raise UsageError(f"{clean(words[0])!r} is no option: the command to run stands behind --")
    if len(words) == 1:
        raise UsageError("no command behind --")
    return tuple(words[1:])


def _intent(args: argparse.Namespace, command: tuple[str, ...]) -> Intent:
    return Intent(
        model=args.model,
        engine=args.engine,
        port=args.port,
        gpus=args.gpus,
        min_free_mib=args.min_free_mib,
        min_disk_gib=args.min_disk_gib,
        cuda=args.cuda,
        tp=args.tp,
        max_model_len=args.max_model_len,
        max_num_seqs=args.max_num_seqs,
        utilization=args.utilization,
        dtype=args.dtype,
        kv_dtype=args.kv_dtype,
        command=command,
    )


def _gpus(text: str) -> tuple[str, ...]:
    """Indexes; ``all`` stands for every GPU, whatever the environment says."""
    if text == ALL:
        return (ALL,)
    entries = tuple(entry.strip() for entry in text.split(","))
    if not all(entry.isascii() and entry.isdecimal() and len(entry) <= 4 for entry in entries):
        raise argparse.ArgumentTypeError(f"{text!r} is neither all nor a list of indexes such as 0,1")
    return entries


def _cuda(text: str) -> tuple[int, int]:
    release = parse_cuda(text)
    if release is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a CUDA release such as 12.1")
    return release


def _dtype(text: str) -> str:
    dtype(text)  # refuses what it does not know
    return text


def _kv_type(text: str) -> str:
    kv_type(text)
    return text
