"""The comparison with the captures itself: a capture is like itself and unlike those of other endings."""

from __future__ import annotations

import pytest

from tests.demo.recording import CAPTURES, differences, load_capture

_NAMES = [
    (dialect, path.stem)
    for dialect, folder in (("vllm", "vllm-0.32"), ("sglang", "sglang-0.5.23"))
    for path in sorted((CAPTURES / folder).glob("*.json"))
    if path.stem != "families" and not path.stem.startswith("orphans")
]


@pytest.mark.parametrize(("dialect", "name"), _NAMES)
def test_a_capture_is_like_itself(dialect: str, name: str) -> None:
    assert differences(load_capture(dialect, name), load_capture(dialect, name), 1.0) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("drain-sigterm-default", "drain-sigterm-timeout60"),
        ("drain-sigterm-default", "crash-enginecore-kill9-loaded"),
        ("drain-sigterm-default", "drain-sigterm-default-nonstreaming"),
        ("drain-sigterm-timeout60", "drain-sigterm-timeout60-queued"),
        ("drain-sigterm-timeout60", "drain-sigterm-timeout3"),
        ("hang-enginecore-stop", "hang-apiserver-stop"),
        ("kill9-apiserver", "hang-enginecore-then-sigterm"),
        ("crash-enginecore-kill9-idle", "kill9-apiserver"),
    ],
)
def test_endings_are_told_apart(first: str, second: str) -> None:
    assert differences(load_capture("vllm", first), load_capture("vllm", second), 1.0)
    assert differences(load_capture("vllm", second), load_capture("vllm", first), 1.0)


def test_a_wrong_order_is_noticed() -> None:
    capture, seen = (load_capture("vllm", "drain-sigterm-timeout60") for _ in range(2))
    worker = next(row for row in seen.transitions if row[1] == "worker")
    seen.transitions.remove(worker)
    seen.transitions.append((99_999.0, *worker[1:]))
    assert any("worker" in text for text in differences(capture, seen, 1.0))
