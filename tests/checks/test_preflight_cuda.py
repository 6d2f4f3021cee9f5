"""Driver against CUDA: by numbers, never by text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tui.checks.preflight.cuda import compatibility_driver, driver_finding, parse_cuda

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("driver", "cuda", "level", "least"),
    [
        ("525.60", "12.1", "error", "530.30.02"),
        ("525.60.13", "12.1", "warning", "530.30.02"),
        ("530.30.02", "12.1", "ok", "530.30.02"),
        ("530.30.1", "12.1", "warning", "530.30.02"),
        ("530.100", "12.1", "ok", "530.30.02"),  # as text it is older than 530.30
        ("1000.1", "12.1", "ok", "530.30.02"),
        ("570.26", "12.8", "ok", "570.26"),
        ("570.26.00", "12.8", "ok", "570.26"),
        ("535.104.05", "12.2", "ok", "535.54.03"),  # as text it is older than 535.54
        ("550.54.15", "12.4", "ok", "550.54.14"),
        ("550.54.15", "12.4.131", "ok", "550.54.14"),
        ("575.51.03", "13.0", "error", "580.65.06"),
        ("470.82.01", "11.8", "warning", "520.61.05"),
        ("470.82.01", "12.0", "error", "525.60.13"),
        ("575.51.03", "12.99", "ok", "575.51.03"),  # newer than the table: at least what the last one needs
        ("580.65.06", "13.7", "ok", "580.65.06"),
    ],
)
def test_versions_are_compared_by_their_numbers(driver: str, cuda: str, level: str, least: str) -> None:
    found = driver_finding(driver, parse_cuda(cuda), "--cuda")
    assert (found.level, found.value, found.limit) == (level, driver, least)
    assert driver in found.text and least in found.text


def test_what_an_older_driver_can_still_do_is_said() -> None:
    text = driver_finding("525.85.12", (12, 4), "nvidia-cuda-runtime-cu12").text
    assert "runs from 525.60.13 on" in text and "(PTX) does not" in text
    assert "12.4 (nvidia-cuda-runtime-cu12)" in text
    assert "PTX" not in driver_finding("525.60", (12, 1), "--cuda").text  # nothing runs there


def test_what_is_not_known_is_not_found_good() -> None:
    assert driver_finding(None, (12, 1), "--cuda").level == "warning"
    assert driver_finding("[N/A]", (12, 1), "--cuda").level == "warning"
    unknown = driver_finding("550.54.15", None, "give --cuda")
    assert unknown.text.startswith("not checked") and unknown.limit is None
    assert driver_finding("550.54.15", (9, 0), "--cuda").text.startswith("not checked")


@pytest.mark.parametrize("text", ["", "12", "x.y", "12.1-rc", "9999.1", "12.1\n13.0", "-1.2"])
def test_what_is_no_release_is_none(text: str) -> None:
    assert parse_cuda(text) is None


def test_a_compatibility_library_makes_up_for_an_old_driver(tmp_path: Path) -> None:
    assert compatibility_driver(f"{tmp_path}/gone::{tmp_path}") is None
    for name in (
        "libcuda.so",
        "libcuda.so.1",
        "libcuda.so.535.54.03",
        "libcuda.so.580.65.06",
        "libcuda.so.x.y",
    ):
        (tmp_path / name).touch()
    newest = compatibility_driver(f"/nonexistent:{tmp_path}")
    assert newest == "580.65.06"
    found = driver_finding("525.60", (13, 0), "--cuda", newest)
    assert found.level == "warning" and "compatibility library of 580.65.06" in found.text
    assert driver_finding("525.60", (13, 0), "--cuda", "535.54.03").level == "error"
    assert driver_finding("580.65.06", (13, 0), "--cuda", newest).level == "ok"
