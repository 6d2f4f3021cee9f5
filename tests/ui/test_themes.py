from __future__ import annotations

import itertools
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.color import Color
from rich.style import Style
from rich.terminal_theme import TerminalTheme

from tui.ui import themes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui.ui.lines import Role

SHIPPED = Path(__file__).parents[2] / "themes"
DARK = (SHIPPED / "dark.toml").read_text()


def test_the_shipped_themes_are_whole() -> None:
    found, faults = themes.load_all([SHIPPED])
    assert set(found) == {"dark", "light", "high-contrast", "okabe-ito", "mono"}
    assert faults == []
    for theme in found.values():
        assert set(theme.styles) == set(themes.ROLES)


def test_they_are_found_beside_a_checkout_or_inside_the_package() -> None:
    assert themes.directories()[0] in (SHIPPED, themes.PACKAGE / "_themes")
    assert (themes.directories()[0] / "dark.toml").is_file()


def test_a_packaged_folder_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "_themes").mkdir()
    monkeypatch.setattr(themes, "PACKAGE", tmp_path)
    assert themes.directories()[0] == tmp_path / "_themes"


def test_the_users_own_are_loaded_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "infertop" / "themes"
    own.mkdir(parents=True)
    (own / "mine.toml").write_text(DARK.replace('name = "dark"', 'name = "mine"'))
    (own / "dark.toml").write_text(DARK.replace("#d70000", "#ff00ff"))
    found, faults = themes.load_all(themes.directories())
    assert faults == []
    assert {"mine", "dark", "light"} <= set(found)
    assert found["dark"].styles["badge"].bgcolor is not None
    assert found["dark"].styles["badge"].bgcolor.name == "#ff00ff"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            [("#808080", "greyish")],
            r"roles.muted: 'greyish': expected a colour such as #5f87af or red",
        ),
        (
            [('background = "#121212"', 'background = "nope"')],
            r"colors.background: 'nope': expected a colour",
        ),
        ([('spark = "#', 'sparkle = "#')], r"roles.sparkle: unknown key; expected one of text, muted, "),
        ([('spark = "#5f5f87"', "")], r"roles.spark: expected a text, got nothing"),
        ([('spark = "#5f5f87"', "spark = 5")], r"roles.spark: expected a text, got something else"),
        (
            [('stale = "italic', 'extra = "bold"\nstale = "italic')],
            r"roles.extra: unknown key; expected one of text, ",
        ),
        (
            [('badge = "bold #ffffff on #d70000"', 'badge = "bold on"')],
            r"roles.badge: expected a colour behind",
        ),
        ([('text = "#b2b2b2"', 'text = "#b2b2b2 #ffffff"')], r"roles.text: expected attributes"),
        ([("dark = true", "dark = 1")], r"dark: expected true or false"),
        ([("[roles]", "[rules]")], r"rules: unknown key; expected one of name, dark, colors, roles"),
        ([("[colors]", "[colors")], r".+"),
        ([('name = "dark"', "name = 7")], r"name: expected a short text"),
    ],
)
def test_a_bad_file_is_reported_by_file_and_key_and_left_out(
    changes: Sequence[tuple[str, str]], complaint: str, tmp_path: Path
) -> None:
    text = DARK
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "broken.toml").write_text(text)
    (tmp_path / "fine.toml").write_text(DARK)
    found, faults = themes.load_all([tmp_path])
    assert set(found) == {"dark"}
    assert len(faults) == 1
    assert faults[0].startswith("theme broken.toml: ")
    with pytest.raises(themes.ThemeError, match=complaint):
        themes.parse(text, "broken.toml")


def test_a_fifo_is_left_out_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    found, faults = themes.load_all([tmp_path])
    assert found == {}
    assert faults == [f"theme {name}.toml: not a regular file" for name in ("pipe", "zero")]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    found, faults = themes.load_all([tmp_path, tmp_path / "missing"])
    assert found == {}
    assert len(faults) == 1


# ---------------------------------------------------------------------------------------- what people can see

READ = set(themes.ROLES) - {"border", "bar", "trough", "spark"}
"""Roles of text; the others are lines and areas."""
LOUD: tuple[Role, ...] = ("text", "calm", "warn", "hot", "focus")


def rgb(color: Color | None, terminal: TerminalTheme | None = None) -> tuple[float, float, float]:
    assert color is not None
    triplet = color.get_truecolor(terminal)
    return triplet.red / 255, triplet.green / 255, triplet.blue / 255


def linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def contrast(style: Style, terminal: TerminalTheme | None = None) -> float:
    """By WCAG 2: 1 to 21."""
    light, dark = sorted(
        (
            sum(w * linear(c) for w, c in zip((0.2126, 0.7152, 0.0722), rgb(color, terminal), strict=True))
            for color in (style.color, style.bgcolor)
        ),
        reverse=True,
    )
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("name", "text", "area"),
    [("dark", 4.5, 3), ("light", 4.5, 3), ("okabe-ito", 4.5, 3), ("high-contrast", 10, 8), ("mono", 10, 8)],
)
def test_text_and_areas_stand_out_from_their_ground(name: str, text: float, area: float) -> None:
    styles = themes.load_all([SHIPPED])[0][name].styles
    ratios = {role: contrast(style) for role, style in styles.items()}
    assert {role for role in READ if ratios[role] < text} == set()
    assert {role for role in ("bar", "spark") if ratios[role] < area} == set()


@pytest.mark.parametrize("ground", ["background", "surface", "panel"])
def test_what_textual_writes_stands_out_from_every_ground(ground: str) -> None:
    for name, theme in themes.load_all([SHIPPED])[0].items():
        colours = (theme.textual.foreground or "", getattr(theme.textual, ground))
        fore, back = (Color.parse(colour) for colour in colours)
        assert contrast(Style(color=fore, bgcolor=back)) > (7 if name == "high-contrast" else 4.5), name


def palette(colours: str) -> TerminalTheme:
    """A terminal's sixteen colours, as hexadecimal words."""
    rows = [(int(word[:2], 16), int(word[2:4], 16), int(word[4:], 16)) for word in colours.split()]
    return TerminalTheme((0, 0, 0), (255, 255, 255), rows[:8], rows[8:])


PALETTES = {
    "console": "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa 555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff",
    "xterm": "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff",
    "windows": "0c0c0c c50f1f 13a10e c19c00 0037da 881798 3a96dd cccccc 767676 e74856 16c60c f9f1a5 3b78ff b4009e 61d6d6 f2f2f2",
}  # fmt: skip


@pytest.mark.parametrize("colours", PALETTES)
@pytest.mark.parametrize("name", ["dark", "light", "okabe-ito", "high-contrast", "mono"])
def test_no_text_and_no_chart_vanishes_in_sixteen_colours(name: str, colours: str) -> None:
    terminal = palette(PALETTES[colours])
    styles = themes.for_sixteen(themes.load_all([SHIPPED])[0][name])
    ratios = {role: contrast(style, terminal) for role, style in styles.items()}
    assert {role: ratio for role, ratio in ratios.items() if role in READ and ratio < 3.95} == {}
    assert {role: ratio for role, ratio in ratios.items() if role in ("bar", "spark") and ratio < 3} == {}


CVD = {
    "none": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""Machado, Oliveira and Fernandes (2009), severity 1, on linear light."""


def lab(color: Color | None, kind: str) -> tuple[float, float, float]:
    """As somebody with that kind of colour blindness sees it, in CIE L*a*b*."""
    light = [linear(channel) for channel in rgb(color)]
    r, g, b = (
        min(1.0, max(0.0, sum(weight * channel for weight, channel in zip(row, light, strict=True))))
        for row in CVD[kind]
    )
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("kind", CVD)
def test_colours_of_meaning_are_told_apart_with_any_colour_blindness(kind: str) -> None:
    styles = themes.load_all([SHIPPED])[0]["okabe-ito"].styles
    for one, other in itertools.combinations(LOUD, 2):
        distance = math.dist(lab(styles[one].color, kind), lab(styles[other].color, kind))
        assert distance > 15, (one, other, distance)  # 2.3 is just noticed, 10 seen at a glance


def test_what_is_loud_is_told_without_colour() -> None:
    for theme in themes.load_all([SHIPPED])[0].values():
        badge, text = theme.styles["badge"], theme.styles["text"]
        assert badge.bold
        assert badge.reverse or badge.bgcolor != text.bgcolor
        assert theme.styles["hot"].bold


def test_sixteen_colours_keep_their_meaning() -> None:
    found = themes.load_all([SHIPPED])[0]
    looks = {
        name: {
            role: (style.color and style.color.number, style.bgcolor and style.bgcolor.number)
            for role, style in themes.for_sixteen(theme).items()
            if role in ("text", "muted", "calm", "warn", "hot", "badge", "flag", "focus", "bar")
        }
        for name, theme in found.items()
    }
    on_dark = {
        "text": (7, 0), "muted": (7, 0), "calm": (10, 0), "warn": (11, 0), "hot": (9, 0), "badge": (15, 1),
        "flag": (0, 3), "focus": (14, 0), "bar": (6, 0),
    }  # fmt: skip
    on_light = {
        "text": (0, 15), "muted": (8, 15), "calm": (0, 15), "warn": (5, 15), "hot": (1, 15), "badge": (15, 1),
        "flag": (15, 5), "focus": (4, 15), "bar": (4, 15),
    }  # fmt: skip
    assert looks["dark"] == looks["okabe-ito"] == looks["high-contrast"] == on_dark
    assert looks["light"] == on_light
    assert {(style.color, style.bgcolor) for style in themes.for_sixteen(found["mono"]).values()} == {
        (Color.from_ansi(15), Color.from_ansi(0))
    }
    assert themes.for_sixteen(found["high-contrast"])["hot"].underline
