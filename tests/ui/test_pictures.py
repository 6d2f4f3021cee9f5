"""The README shows the screens as they are, and every picture that it names is there."""

from __future__ import annotations

import re

from tests.ui.pictures import PICTURES, ROOT, SOURCES, source


def test_the_pictures_are_the_accepted_screens() -> None:
    assert {path.stem for path in PICTURES.iterdir()} == set(SOURCES)
    stale = [name for name in SOURCES if (PICTURES / f"{name}.svg").read_bytes() != source(name).read_bytes()]
    assert not stale, "make pictures"


def test_the_readme_shows_each_of_them() -> None:
    shown = re.findall(r"!\[[^]]+\]\(pictures/([a-z-]+)\.svg\)", (ROOT / "README.md").read_text())
    assert sorted(shown) == sorted(SOURCES)
