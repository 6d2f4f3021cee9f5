"""``infertop demo``: the live screen over a simulated host, or only its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.commands.log_file import logging_to
from tui.commands.look import add_look_arguments, screen_options, with_look
from tui.commands.setup import config_from, need_terminal, real_sources
from tui.commands.usage import UsageError
from tui.demo import serve
from tui.demo.control import HELP, ControlError, ControlFile
from tui.demo.spec import EngineSpec, SpecError

if TYPE_CHECKING:
    import argparse

    from tui.demo.traffic import TrafficSpec
    from tui.model.settings import Config
    from tui.ui.app import ScreenOptions

DESCRIPTION = """The live screen over a simulated host, marked SIMULATED: a real engine process with
real sockets, signals and a scheduler, and GPUs and a host that follow its load.
With --serve only the engine, without a terminal: the first line of stdout is
http://127.0.0.1:PORT pid=N"""
EXAMPLE = "infertop demo --serve --sigterm drain-500 --traffic 5 --control demo.jsonl"
EPILOG = HELP


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    parser.add_argument("--serve", action="store_true", help="only the engine")
    add_look_arguments(parser)
    serve.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0; 2 when the engine could not be started."""
    if args.serve:
        return serve.run(args)

    need_terminal()
    try:
        spec, traffic = serve.specs(args)
        control = ControlFile(args.control) if args.control else None
    except (SpecError, ControlError, ValueError) as error:
        raise UsageError(str(error)) from None
    try:
        return show(with_look(config_from(args), args), screen_options(args), spec, traffic, control)
    finally:
        if control is not None:
            control.close()


def show(
    config: Config,
    options: ScreenOptions,
    spec: EngineSpec | None = None,
    traffic: TrafficSpec | None = None,
    control: ControlFile | None = None,
) -> int:
    """The live screen over a simulated host: by default steady, busy and healthy."""
    from tui.demo.host import STEADY, DemoMonitor
    from tui.ui.run import run_screen

    if traffic is None or traffic.rate <= 0:
        traffic = STEADY
    monitor = DemoMonitor(config, spec or EngineSpec(port=0), traffic, real_sources(), control=control)
    with logging_to(None):
        return run_screen(monitor, config, options).status
