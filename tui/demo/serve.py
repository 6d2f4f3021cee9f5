"""``infertop demo --serve``: only the simulated engine, under a supervisor, without a terminal."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from tui.demo.control import ControlError, ControlFile
from tui.demo.spec import OWN_SIGTERM, SIGTERM_MODES, Dialect, EngineSpec, SpecError
from tui.demo.supervisor import RestartPolicy, StartError, Supervisor
from tui.demo.traffic import TrafficSpec

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``demo --serve``; defaults are those of the spec."""
    spec, traffic = EngineSpec(), TrafficSpec()
    add = parser.add_argument
    add("--dialect", choices=get_args(Dialect), default="vllm", help="whose server to be")
    add("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one (default)")
    add("--control", type=Path, metavar="PATH", help="file of orders, see below")
    add("--model", default=spec.model, metavar="NAME")
    add("--load-seconds", type=float, default=spec.load_s, metavar="S", help="start-up time (2)")
    add("--max-num-seqs", type=int, default=spec.max_num_seqs, metavar="N", help="seats in the batch (64)")
    add("--kv-tokens", type=int, default=spec.kv_tokens, metavar="N", help="size of the KV cache (131072)")
    add("--sigterm", choices=SIGTERM_MODES, help="what SIGTERM does (as the real one)")
    add("--shutdown-timeout", type=float, default=60.0, metavar="S", help="grace of drain-500 (60)")
    add("--under-shell", action="store_true", help="start it below a shell that swallows SIGTERM")
    add("--restart", choices=get_args(RestartPolicy), default="no", help="start it again when it has ended")
    add("--keep-orphans", type=float, default=0.0, metavar="S", help="orphans may outlive everything so long")
    add(
        "--time-scale",
        type=float,
        default=1.0,
        metavar="F",
        help="factor on the fixed waits of start and end",
    )
    add("--traffic", type=float, default=0.0, metavar="RATE", help="requests a second to send (0)")
    add(
        "--prompt-tokens",
        type=int,
        default=traffic.prompt_tokens,
        metavar="N",
        help="mean, of the traffic (500)",
    )
    add(
        "--output-tokens",
        type=int,
        default=traffic.output_tokens,
        metavar="N",
        help="mean, of the traffic (150)",
    )
    add("--shared-prefix", type=float, default=traffic.shared_prefix, metavar="0-1", help="of a prompt (0.5)")
    add(
        "--spread",
        type=float,
        default=traffic.spread,
        metavar="0-1",
        help="0: even, all alike; 1: at random (1)",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other setting, as in the control file",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until the engine has ended or a signal says so; 0, or 2 if it could not start."""
    try:
        spec, traffic = specs(args)
        control = ControlFile(args.control) if args.control else None
        return asyncio.run(_serve(args, spec, traffic, control))
    except (SpecError, ControlError, StartError, ValueError) as error:
        sys.stderr.write(f"infertop demo: {error}\n")
        return 2


def specs(args: argparse.Namespace) -> tuple[EngineSpec, TrafficSpec]:
    """Engine and traffic as the arguments want them.

    Raises:
        SpecError, ValueError: a value that is out of its range.
    """
    traffic = TrafficSpec().changed(
        {
            "rate": args.traffic,
            "prompt_tokens": args.prompt_tokens,
            "output_tokens": args.output_tokens,
            "shared_prefix": args.shared_prefix,
            "spread": args.spread,
        }
    )
    return _spec(args), traffic


def _spec(args: argparse.Namespace) -> EngineSpec:
    spec = EngineSpec(
        dialect=args.dialect,
        port=args.port,
        model=args.model,
        load_s=args.load_seconds,
        max_num_seqs=args.max_num_seqs,
        kv_tokens=args.kv_tokens,
        sigterm=args.sigterm or OWN_SIGTERM[args.dialect],
        shutdown_timeout_s=args.shutdown_timeout,
        keep_orphans_s=args.keep_orphans,
        time_scale=args.time_scale,
    )
    for setting in args.set:
        name, _, text = setting.partition("=")
        try:
            value = json.loads(text)
        except ValueError:
            value = text  # a bare word
        spec = spec.changed({name: value})
    return spec


async def _serve(
    args: argparse.Namespace, spec: EngineSpec, traffic: TrafficSpec, control: ControlFile | None
) -> int:
    supervisor = Supervisor(
        spec,
        traffic=traffic,
        under_shell=args.under_shell,
        restart=args.restart,
        control=control,
        on_event=_tell,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(signum, stop.set)
    try:
        await supervisor.start()
        jobs = [loop.create_task(job) for job in (supervisor.ended(), _wait(stop))]
        await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        for job in jobs:
            job.cancel()
    finally:
        await supervisor.stop()
        if control is not None:
            control.close()
    return 0


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
