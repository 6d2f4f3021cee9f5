"""Fixtures for tests that read the fake NVML. Where there is no C compiler they skip, and fail under CI."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

import pytest

from tests.support.fake_nvml import FakeNvml, NoCompilerError, build_library
from tests.support.nvml_rows import Clock, make_source
from tui.sources.nvml import side_lane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tui.sources.nvml.source import NvmlSource


@pytest.fixture(scope="session")
def build_nvml(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Builds the fake library, once for each list of functions left out."""
    base = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        base = base.parent  # all workers' own

    def build(*without: str) -> Path:
        try:
            return build_library(base, without)
        except NoCompilerError:
            if os.environ.get("CI"):
                pytest.fail("no C compiler: the tests against the fake NVML cannot run")
            pytest.skip("no C compiler to build the fake NVML")

    return build


@pytest.fixture
def fake_nvml(build_nvml: Callable[..., Path], tmp_path: Path) -> FakeNvml:
    """A fake NVML with 8 cards for another process: start it with ``fake_nvml.environment()``."""
    fake = FakeNvml(tmp_path / "nvml-state", build_nvml())
    fake.count(8)
    return fake


@pytest.fixture
def nvml_here(fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    """The fake NVML, in force in this process.

    A process can have one library of this soname only, the first: the whole library of functions stays
    for every later test here, and without its state file it is as good as absent.
    """
    for name, value in fake_nvml.environment().items():
        monkeypatch.setenv(name, value)
    ctypes.CDLL(fake_nvml.environment()["INFERTOP_NVML_LIBRARY"], mode=ctypes.RTLD_GLOBAL)
    if not hasattr(ctypes.CDLL("libnvidia-ml.so.1"), "fake_nvml_calls"):
        pytest.fail("this process has loaded another libnvidia-ml.so.1 before the fake one")
    yield fake_nvml
    fake_nvml.heal()  # or threads that hang in a call would wait for ever


@pytest.fixture
def no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake needs no time between two samples of GPM."""
    monkeypatch.setattr(side_lane, "GAP_S", 0.0)


@pytest.fixture
def clock() -> Clock:
    """What ``source`` takes for the time."""
    return Clock()


@pytest.fixture
def source(nvml_here: FakeNvml, clock: Clock, tmp_path: Path) -> Iterator[NvmlSource]:
    """A source over the fake NVML, on a host of its own."""
    source = make_source(tmp_path, clock)
    yield source
    source.close()
