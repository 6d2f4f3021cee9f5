from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.ui.layout import Needs, arrange
from tui.ui.view import PANES, PaneName

NEEDS = st.builds(
    Needs,
    gpus=st.sampled_from([0, 1, 8, 16]),
    engines=st.sampled_from([0, 1, 2, 4, 12]),
    probes=st.integers(0, 36),
    disks=st.integers(0, 12),
)
FULL = st.sampled_from([None, *PANES, "help"])


@settings(max_examples=400)
@given(st.integers(1, 220), st.integers(1, 70), NEEDS, FULL)
def test_boxes_stay_on_the_screen_and_apart(
    width: int, height: int, needs: Needs, full: PaneName | None
) -> None:
    layout = arrange(width, height, needs, full)
    assert layout.boxes
    cells: set[tuple[int, int]] = set()
    for box in layout.boxes.values():
        assert box.width > 0
        assert box.height > 0
        own = {(x, y) for x in range(box.x, box.x + box.width) for y in range(box.y, box.y + box.height)}
        assert not own & cells
        cells |= own
    assert all(0 <= x < width and 0 <= y < height for x, y in cells)


@pytest.mark.parametrize("size", [(200, 60), (160, 45), (120, 40)])
def test_large_screens_show_five_regions(size: tuple[int, int]) -> None:
    layout = arrange(*size, Needs(8, 2, 4, 3), None)
    assert layout.framed
    assert set(PANES) <= set(layout.boxes)


def test_sixteen_gpus_and_twelve_engines_have_all_their_rows_at_160x45() -> None:
    boxes = arrange(160, 45, Needs(16, 12, 24, 3), None).boxes
    assert boxes["gpus"].height - 3 >= 16
    assert boxes["engines"].height - 3 >= 12


def test_a_terminal_of_80x24_has_a_row_for_each_gpu_and_engine() -> None:
    layout = arrange(80, 24, Needs(8, 2, 4, 3), None)
    assert not layout.framed
    assert layout.boxes["gpus"].height == 9
    assert layout.boxes["engines"].height == 3
    assert layout.boxes["verdict"].height >= 5


@pytest.mark.parametrize("size", [(60, 15), (40, 12)])
def test_small_screens_keep_every_pane(size: tuple[int, int]) -> None:
    boxes = arrange(*size, Needs(8, 2, 4, 3), None).boxes
    assert set(boxes) == {"header", *PANES, "footer"}
    assert boxes["verdict"].height >= 4


def test_the_verdict_is_the_last_to_go() -> None:
    assert set(arrange(40, 1, Needs(8, 2, 4, 3), None).boxes) == {"verdict"}
    assert "verdict" in arrange(160, 45, Needs(8, 2, 4, 3), "engines").boxes
