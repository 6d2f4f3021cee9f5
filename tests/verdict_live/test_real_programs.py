"""Real processes with real trouble, seen by the real program on this machine."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.verdict_live.live import LIMIT_S, WAITS, judged, served, texts, working
from tests.verdict_live.served import WEIGHTS_MIB
from tui.model.settings import Thresholds
from tui.sources.kernel.gauges import pressure

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml
    from tests.verdict_live.live import Json

pytest_plugins = ("tests.support.nvml_plugin",)
pytestmark = pytest.mark.timeout(LIMIT_S)


LIMITS = Thresholds()


CROWDED_PCT = 75.0
TAKEN = "others hold the cores of this machine"


@pytest.fixture
def cores() -> None:
    """With half a core for a dozen threads it is a core that they want, not a lock or a disk."""
    with contextlib.suppress(OSError):  # a kernel without PSI
        if pressure("/proc/pressure/cpu") >= CROWDED_PCT:
            pytest.skip(TAKEN)


def cores_taken(document: Json) -> str:
    psi_cpu = document["host"]["psi_cpu"]
    return TAKEN if psi_cpu is None or psi_cpu >= LIMITS.psi_cpu else ""


def disk_idle(document: Json) -> str:
    host = document["host"]
    limits = {"psi_io": LIMITS.psi_io, "iowait_pct": LIMITS.iowait_pct, "disk_util_pct": LIMITS.disk_util_pct}
    fast = (host["disk_read_mb_s"] or 0.0) >= LIMITS.disk_read_mb_s
    waits = any((host[name] or 0.0) >= limit for name, limit in limits.items()) and not fast
    return "" if waits else "the disk of this machine is too fast, or not visible, for these reads"


def test_one_thread_that_is_always_busy(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    working(fake_nvml, **WAITS)
    with served(tmp_path, "spin") as url:
        says = ("(tokenizer tokenizer-0)",)
        looks: dict[str, Any] = {
            "samples": 4, "interval": 0.8, "confidence": ("high",), "unless": cores_taken
        }  # fmt: skip
        judged(tmp_path, fake_nvml, url, "cpu", saying=says, **looks)


@pytest.mark.usefixtures("cores")
def test_many_threads_on_one_lock(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    working(fake_nvml, **WAITS)
    with served(tmp_path, "fight") as url:
        found, _ = judged(
            tmp_path, fake_nvml, url, "lock_contention", samples=7, interval=1.0, unless=cores_taken
        )
    assert "futex" in texts(found) or "switch" in texts(found)


@pytest.mark.usefixtures("cores")
def test_a_load_that_waits_for_its_disk(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(os.urandom(WEIGHTS_MIB * 2**20))
    file = os.open(weights, os.O_RDONLY)
    os.fsync(file)
    os.close(file)
    try:
        os.close(os.open(weights, os.O_RDONLY | os.O_DIRECT))
    except OSError as error:
        assert error.errno == errno.EINVAL
        pytest.skip("this file system has no O_DIRECT")
    working(fake_nvml, util_gpu=0, util_mem=0, power_mw=90_000)
    with served(tmp_path, "read", str(weights)) as url:
        looks: dict[str, Any] = {"samples": 4, "interval": 0.9, "unless": disk_idle}
        found, _ = judged(tmp_path, fake_nvml, url, "io_disk", saying=("reads ",), **looks)
    assert found["secondary"] == ["loading"]
