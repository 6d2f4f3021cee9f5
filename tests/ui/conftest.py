from __future__ import annotations

import time

import pytest


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clock times on the screen are local: the same everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
