from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tui.ui import themes

if TYPE_CHECKING:
    from collections.abc import Sequence

SHIPPED = Path(__file__).parents[2] / "themes"
DARK = (SHIPPED / "dark.toml").read_text()


def test_the_shipped_themes_are_whole() -> None:
    found, faults = themes.load_all([SHIPPED])
    assert {"dark", "light", "mono"} <= set(found)
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
        ([("#808080", "greyish")], r"roles.muted: 'greyish' is no colour"),
        ([('background = "#121212"', 'background = "nope"')], r"colors.background: 'nope' is no colour"),
        ([('spark = "#', 'sparkle = "#')], r"roles.spark: expected a text"),
        ([('stale = "italic', 'extra = "bold"\nstale = "italic')], r"roles.extra: unknown key"),
        (
            [('badge = "bold #ffffff on #d70000"', 'badge = "bold on"')],
            r"roles.badge: expected a colour behind",
        ),
        ([('text = "#b2b2b2"', 'text = "#b2b2b2 #ffffff"')], r"roles.text: expected attributes"),
        ([("dark = true", "dark = 1")], r"dark: expected true or false"),
        ([("[roles]", "[rules]")], r"rules: unknown key"),
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
