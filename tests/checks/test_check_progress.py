"""Two looks at an engine: what is a hang, and what only looks like one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.checks.progress import (
    Kept,
    Look,
    Rank,
    answered,
    follow,
    from_document,
    state_file,
    to_document,
)

if TYPE_CHECKING:
    from pathlib import Path

URL = "http://127.0.0.1:8000"
BOOT = "a-boot"


def look(
    at: float, steps: float | None, running: float = 2.0, *, started: float | None = 1e9, **rank: Any
) -> Look:
    return Look(at, BOOT, started, {"0": Rank((steps,), running, **rank)})


def stalled(*looks: Look) -> tuple[float, bool] | None:
    """Seconds without a step at the last of several looks, and whether that is a hang."""
    kept: Kept | None = None
    stall = None
    for each in looks:
        document = None if kept is None else json.loads(json.dumps(to_document(kept, URL)))
        kept, stall = follow(from_document(document, URL, BOOT, each.at), each)
    return None if stall is None else (stall.seconds, stall.hung)


def test_no_step_with_work_for_five_seconds_is_a_hang() -> None:
    assert stalled(look(100, 50), look(104.5, 50)) == (4.5, False)
    assert stalled(look(100, 50), look(105, 50)) == (5.0, True)
    assert stalled(look(100, 50), look(105, 51)) is None


def test_many_probes_a_second_do_not_begin_the_stall_anew() -> None:
    assert stalled(*(look(100 + second, 50) for second in range(8))) == (7.0, True)


def test_work_that_has_just_come_is_no_hang() -> None:
    assert stalled(look(100, 50, 0), look(200, 50, 3)) is None
    assert stalled(look(100, 50, 0), look(200, 50, 3), look(206, 50, 3)) == (6.0, True)
    assert stalled(look(100, 50, 3), look(110, 50, 0), look(120, 50, 3)) is None


def test_the_first_steps_may_compile() -> None:
    assert stalled(look(100, 3), look(130, 3)) == (30.0, False)
    assert stalled(look(100, 3), look(221, 3)) == (121.0, True)


def test_a_restart_is_a_first_look() -> None:
    assert stalled(look(100, 50), look(200, 50, started=1e9 + 90)) is None
    assert stalled(look(100, 50, started=None), look(200, 40, started=None)) is None
    kept, _ = follow(None, look(100, 50))
    kept, _ = follow(kept, look(200, 51))
    assert kept.up_since == 100
    kept, _ = follow(kept, look(300, 5, started=1e9 + 150))
    assert kept.up_since == 300


def test_a_scheduler_s_own_word_needs_no_second_look() -> None:
    assert stalled(look(100, 50, 0, age_s=6.5)) == (6.5, True)
    assert stalled(look(100, 50, 0, age_s=0.4)) is None
    assert stalled(look(100, 50, 3, age_s=0.4), look(100.1, 51, 3, age_s=0.4)) is None
    assert stalled(look(100, 50, 3, age_s=2.5), look(101, 50, 3, age_s=3.5)) == (3.5, False)


def test_each_rank_is_judged_for_itself() -> None:
    def two(at: float, steps: float) -> Look:
        return Look(at, BOOT, None, {"0": Rank((steps,), 2.0), "1": Rank((70.0,), 1.0, 4.0)})

    kept, _ = follow(None, two(100, 50))
    _, stall = follow(kept, two(110, 90))
    assert stall is not None
    assert (stall.rank, stall.seconds, stall.running, stall.waiting, stall.hung) == (
        "1",
        10.0,
        1.0,
        4.0,
        True,
    )


def test_a_look_without_figures_does_not_end_a_stall() -> None:
    kept, _ = follow(None, look(100, 50))
    kept = answered(kept, BOOT, 103)
    assert kept.served_at == 103
    assert follow(kept, look(106, 50))[1] is not None
    assert answered(None, BOOT, 103) == Kept(BOOT, 103, 103)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"url": "http://other:1"},
        {"boot": "another"},
        {"served_at": 1e6},
        {"up_since": "x"},
        {"up_since": True},
        {"up_since": -1},
        {"ranks": []},
        {"ranks": {"0": 3}},
        {"ranks": {"0": {"beat": 5}}},
        {"ranks": {str(n): {"beat": []} for n in range(2000)}},
    ],
    ids=str,
)
def test_a_document_that_is_not_ours_is_no_earlier_look(change: dict[str, Any]) -> None:
    document = to_document(follow(None, look(100, 50))[0], URL)
    assert from_document(document, URL, BOOT, 200) is not None
    assert from_document(document | change, URL, BOOT, 200) is None


def test_a_clock_behind_the_kept_one_begins_anew() -> None:
    document = to_document(follow(None, look(100, 50))[0], URL)
    assert from_document(document, URL, BOOT, 99) is None
    document["ranks"]["0"]["since"] = 1e4  # not of this look: a stall that begins in the future is none
    kept = from_document(document, URL, BOOT, 200)
    assert kept is not None
    assert follow(kept, look(200, 50))[1] is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    up=_JSON,
    served=_JSON,
    started=_JSON,
    ranks=_JSON | st.dictionaries(st.just("0"), st.fixed_dictionaries({"beat": _JSON, "since": _JSON})),
)
def test_hostile_documents_never_raise(up: Any, served: Any, started: Any, ranks: Any) -> None:
    document = to_document(Kept(BOOT, 1, 1), URL)
    document |= {"up_since": up, "served_at": served, "started": started, "ranks": ranks}
    kept = from_document(document, URL, BOOT, 200)
    follow(kept, look(200, 50))
    huge = from_document(document | {"up_since": 10**400}, URL, BOOT, 200)
    assert huge is None


def test_file_names_cannot_leave_the_directory(tmp_path: Path) -> None:
    hosts = (
        "http://[fe80::1]:8000",
        "http://../../etc/passwd:8000",
        "http://" + "a" * 500,
        "http://h/" + "é" * 900,
    )
    for url in hosts:
        file = state_file(tmp_path, url)
        assert file.parent == tmp_path
        assert len(file.name) < 120
    assert state_file(tmp_path, "http://a:1/x") != state_file(tmp_path, "http://a:1/y")
