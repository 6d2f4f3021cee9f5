"""How the live screen looks: the options of every command that shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from tui.model.settings import Config
    from tui.ui.app import ScreenOptions


def add_look_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of theirs."""
    parser.add_argument(
        "--theme", metavar="NAME", help="dark, light, high-contrast, okabe-ito, mono, or one of your own"
    )
    parser.add_argument("--ascii", action="store_true", help="no characters beyond ASCII")
    parser.add_argument("--slow", action="store_true", help="a frame every 5 s, for slow links")
    parser.add_argument("--title", action="store_true", help="title the terminal or pane with the verdict")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")


def with_look(config: Config, args: argparse.Namespace) -> Config:
    """The settings with what the command line says of the screen."""
    screen = config.screen
    if args.theme is not None:
        screen = replace(screen, theme=args.theme, theme_named=True)
    screen = replace(screen, ascii=screen.ascii or args.ascii, slow=screen.slow or args.slow)
    return replace(config, screen=screen)


def screen_options(args: argparse.Namespace) -> ScreenOptions:
    """What the command line and the environment say of the terminal."""
    from tui.ui.app import ScreenOptions  # imports textual: what can fail before must fail fast

    return ScreenOptions.here(mouse=not args.no_mouse, title=args.title)
