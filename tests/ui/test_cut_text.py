"""What has no room is cut with a mark, in every pane of every scene."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.ui import address_scenes, scenes, verdict_scenes
from tui.model.text import clean
from tui.ui.draw import draw
from tui.ui.lines import narrow, plain
from tui.ui.words import gpu_reason, host_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tui.ui.view import PaneName, View

SIZES = [(160, 45), (120, 40), (80, 24), (60, 15), (40, 12)]
FEW = 3
"""Words that two texts may begin with alike."""


def told(view: View) -> Iterator[str]:
    """Sentences that a pane may have too little room for."""
    snapshot = view.snapshot
    for reason, source in ((gpu_reason, snapshot.gpus), (host_reason, snapshot.host)):
        if source.status.reason:
            yield reason(source.status.reason, source.status.detail)
    for gpu in snapshot.gpus.reading.gpus if snapshot.gpus.reading else ():
        yield gpu.detail
    for verdict in view.judgement.verdicts:
        yield from (evidence.text for evidence in verdict.evidence)
        yield from verdict.missing
        yield from verdict.advice
    for finding in view.judgement.findings:
        yield finding.text
    for engine in snapshot.engines:
        yield from (probe.note for probe in engine.probes)


def pane_texts(view: View, size: tuple[int, int]) -> dict[str, str]:
    """Each pane's lines as one text, without frames and the room between columns."""
    _, panes, _ = draw(view, *size)
    return {
        name: " ".join(" ".join(plain(line).strip("│ ") for line in lines).split())
        for name, lines in panes.items()
    }


def shown_of(words: list[str], text: str) -> int:
    """How many words of a sentence stand there in a row, from its first on."""
    return next((n for n in range(len(words), 0, -1) if " ".join(words[:n]) in text), 0)


MADE: dict[str, Callable[[], View]] = {
    **scenes.SCENES,
    **address_scenes.SCENES,
    **{name: partial(verdict_scenes.judged, name) for name in verdict_scenes.SNAPSHOTS},
}


@pytest.mark.parametrize("scene", MADE)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("full", [None, "gpus", "engines", "probes", "verdict"])
def test_a_sentence_is_whole_or_ends_in_a_mark(
    scene: str, size: tuple[int, int], full: PaneName | None
) -> None:
    view = MADE[scene]()
    view = replace(view, mode=replace(view.mode, full=full))
    sentences = {narrow(clean(text, 400)) for text in told(view) if text}
    for name, text in pane_texts(view, size).items():
        if name == "host":
            continue  # it has figures of its own that begin as a verdict's do
        for sentence in sentences:
            words = sentence.split()
            shown = shown_of(words, text)
            if shown < min(FEW, len(words)) or shown == len(words):
                continue
            begun = re.escape(" ".join(words[:shown]))
            assert re.search(rf"{begun}(?:(?: ?[^ ]*)?…| \d+ more lines below)", text), (name, sentence, text)


@pytest.mark.parametrize("size", SIZES)
def test_the_reason_why_there_is_no_gpu_is_marked_where_it_is_cut(size: tuple[int, int]) -> None:
    text = pane_texts(scenes.bare_view(), size)["gpus"]
    assert "cannot be loaded" in text or re.search(r"no NVIDIA driver.*…", text)
