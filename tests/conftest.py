"""Where accepted screens live, and how patient property tests are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest_textual_snapshot as plugin  # type: ignore[import-untyped]
from hypothesis import settings

from tests.support.byte_code import keep_byte_code
from tests.support.signal_guard import guard, no_stray_signal  # noqa: F401  # a fixture of every test

if TYPE_CHECKING:
    import pytest

_FONT_ADDRESS = re.compile(r',\s*url\("https?://[^"]*"\) format\("[^"]*"\)')
_normalize = plugin.normalize_svg
SNAPSHOTS = Path(__file__).parents[1] / "snapshots"

keep_byte_code()
guard()

# the machine that runs the tests may be busy with anything
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    # upstream offers no setting for it; one folder a test module
    def dirname(cls: type[Any], *, test_location: Any) -> str:
        return str(SNAPSHOTS / Path(test_location.filepath).stem)

    plugin.SVGImageExtension.dirname = classmethod(dirname)
    # an accepted screen names no host to load a font from: the machine's own will do
    plugin.normalize_svg = lambda svg: _FONT_ADDRESS.sub("", _normalize(svg))
