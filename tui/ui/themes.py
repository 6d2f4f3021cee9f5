"""Themes from TOML files: checked before Textual sees them, a bad one reported and left out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.theme import Theme

from tui.config._toml import TOMLDecodeError, loads
from tui.config.places import config_home
from tui.model.text import clean
from tui.ui.lines import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PACKAGE = Path(__file__).parents[1]
ROLES: tuple[Role, ...] = get_args(Role)
COLORS = (
    "background", "foreground", "surface", "panel", "primary", "secondary", "accent", "warning",
    "error", "success",
)  # fmt: skip
_ATTRIBUTES = ("bold", "dim", "italic", "underline", "reverse")
_MOST_BYTES = 65536


class ThemeError(Exception):
    """What is wrong with a theme file, by file and key."""


@dataclass(frozen=True)
class ScreenTheme:
    """A theme: Textual's colours, and the style of each role."""

    name: str
    textual: Theme
    styles: Mapping[Role, Style]


def directories() -> list[Path]:
    """Where themes are looked for: those shipped with the program, then the user's, which win."""
    packaged = PACKAGE / "_themes"  # in a wheel; a checkout has them beside the package
    shipped = packaged if packaged.is_dir() else PACKAGE.parent / "themes"
    home = config_home()
    return [shipped] if home is None else [shipped, home / "themes"]


def load_all(places: Iterable[Path]) -> tuple[dict[str, ScreenTheme], list[str]]:
    """Every theme by name, a later one in place of an earlier of its name; and what was left out, and why."""
    themes: dict[str, ScreenTheme] = {}
    faults: list[str] = []
    for place in places:
        for path in sorted(place.glob("*.toml")) if place.is_dir() else ():
            try:
                theme = parse(_text(path), path.name)
            except (ThemeError, OSError, UnicodeDecodeError) as error:
                faults.append(clean(f"theme {path.name}: {error}"))
            else:
                themes[theme.name] = theme
    return themes, faults


_SIXTEEN: Mapping[Role, tuple[int, int]] = {
    "text": (7, 0), "muted": (7, 8), "label": (7, 8), "value": (15, 0), "title": (15, 0), "key": (15, 0),
    "border": (8, 8), "focus": (14, 4), "bar": (6, 4), "trough": (8, 7), "spark": (12, 4),
    "calm": (10, 0), "notice": (11, 5), "badge": (15, 15), "flag": (0, 15), "hot": (9, 1), "warn": (11, 5),
    "stale": (7, 8),
}  # fmt: skip
"""ANSI colours of each role, on a dark and on a light ground. The nearest ones to a theme's own would be
grey for most: of the dark theme's eighteen, fourteen. Text has 4:1 in the palettes of the Linux console,
xterm and Windows: bright black on black has 2.8:1, blue on black 1.6:1, green on white 2.2:1."""
_SIXTEEN_GROUNDS: Mapping[Role, tuple[int, int]] = {"badge": (1, 1), "flag": (3, 5)}


def for_sixteen(theme: ScreenTheme) -> Mapping[Role, Style]:
    """The styles of a theme for a terminal of sixteen colours; attributes stay.

    A theme whose every role has the foreground's colour has one colour here too.
    """
    plain = RichColor.parse(theme.textual.foreground or "")
    monochrome = all(style.color == plain for style in theme.styles.values())
    place = 0 if theme.textual.dark else 1
    ground = RichColor.from_ansi((0, 15)[place])

    def styled(role: Role, style: Style) -> Style:
        if monochrome:
            return style + Style(color=RichColor.from_ansi(_SIXTEEN["value"][place]), bgcolor=ground)
        own = _SIXTEEN_GROUNDS.get(role)
        back = ground if own is None else RichColor.from_ansi(own[place])
        return style + Style(color=RichColor.from_ansi(_SIXTEEN[role][place]), bgcolor=back)

    return {role: styled(role, style) for role, style in theme.styles.items()}


def _text(path: Path) -> str:
    if not path.is_file():
        raise ThemeError("not a regular file")  # a FIFO would wait for a writer, before the screen stands
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode()


def parse(text: str, name: str) -> ScreenTheme:
    """A theme of TOML text.

    Raises:
        ThemeError: not TOML, a key missing or unknown, a value that is no colour.
    """
    try:
        document = loads(text)
    except TOMLDecodeError as error:
        raise ThemeError(str(error)) from None
    called = document.get("name", name.removesuffix(".toml"))
    dark = document.get("dark", True)
    if not isinstance(called, str) or not called or clean(called, 40) != called:
        raise ThemeError("name: expected a short text")
    if not isinstance(dark, bool):
        raise ThemeError("dark: expected true or false")
    if unknown := set(document) - {"name", "dark", "colors", "roles"}:
        raise ThemeError(f"{sorted(unknown)[0]}: unknown key; expected one of name, dark, colors, roles")
    colors = _table(document, "colors", COLORS)
    roles = _table(document, "roles", ROLES)
    for key, value in colors.items():
        _color(value, f"colors.{key}")
    ground, fore = (_color(colors[key], f"colors.{key}") for key in ("background", "foreground"))
    styles: dict[Role, Style] = {role: _style(roles[role], f"roles.{role}", fore, ground) for role in ROLES}
    return ScreenTheme(called, Theme(name=called, dark=dark, **colors), styles)


def _table(document: Mapping[str, Any], key: str, names: tuple[str, ...]) -> dict[str, Any]:
    table = document.get(key)
    if not isinstance(table, dict):
        raise ThemeError(f"{key}: expected a table, got {'nothing' if table is None else 'something else'}")
    if unknown := set(table) - set(names):
        raise ThemeError(f"{key}.{sorted(unknown)[0]}: unknown key; expected one of {', '.join(names)}")
    for name in names:
        if not isinstance(table.get(name), str):
            got = "something else" if name in table else "nothing"
            raise ThemeError(f"{key}.{name}: expected a text, got {got}")
    return table


def _color(text: str, key: str) -> Color:
    try:
        return Color.parse(text)
    except ColorParseError:
        # what was got first: the header of a narrow screen cuts off the end
        raise ThemeError(f"{key}: {clean(text, 40)!r}: expected a colour such as #5f87af or red") from None


def _style(text: str, key: str, plain: Color, ground: Color) -> Style:
    """A style of ``[attribute ...] [colour] [on colour]``; what it leaves out is the theme's.

    A terminal's own colour would be as good as none on the theme's ground: black on black where it is light.
    """
    words = text.split()
    rest = [word for word in words if word not in _ATTRIBUTES]
    if "on" in rest:
        place = rest.index("on")
        fore, back = rest[:place], rest[place + 1 :]
        if len(back) != 1:
            raise ThemeError(f"{key}: expected a colour behind 'on'")
        ground = _color(back[0], key)
    else:
        fore = rest
    if len(fore) > 1:
        raise ThemeError(f"{key}: expected attributes, a colour, and 'on' a colour")

    def has(attribute: str) -> bool | None:
        return True if attribute in words else None

    return Style(
        color=(_color(fore[0], key) if fore else plain).rich_color,
        bgcolor=ground.rich_color,
        bold=has("bold"),
        dim=has("dim"),
        italic=has("italic"),
        underline=has("underline"),
        reverse=has("reverse"),
    )
