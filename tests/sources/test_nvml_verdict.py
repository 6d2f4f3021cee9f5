"""A card that is lost in mid-run and comes back, up to the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.nvml_rows import Clock, make_source, read_until
from tui.model.history import History
from tui.model.settings import Slo, Thresholds
from tui.model.snapshot import HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus
from tui.verdict.judge import Judge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml
    from tui.model.readings import GpuReading, GpuSet
    from tui.model.verdicts import Verdict

pytest_plugins = ("tests.support.nvml_plugin",)
pytestmark = pytest.mark.usefixtures("no_gap")

EPOCH = 1_700_000_000.0


@pytest.mark.parametrize("xid", [None, 79])
def test_device_3_of_8_is_lost_and_comes_back(nvml_here: FakeNvml, tmp_path: Path, xid: int | None) -> None:
    clock = Clock()
    source = make_source(tmp_path, clock)
    judge = Judge(Thresholds(), Slo())

    def verdict(gpus: GpuSet) -> Verdict:
        fresh = SourceStatus(SourceState.FRESH, age_s=0.0)
        snapshot = HostSnapshot(clock.now, EPOCH + clock.now, gpus=Observed(gpus, fresh))
        return judge.update(snapshot, History()).verdicts[0]

    def after(condition: Callable[[tuple[GpuReading, ...]], bool]) -> Verdict:
        read_until(source, condition)
        clock.now += 1.0
        return verdict(source.read())

    assert after(lambda gpus: all(gpu.nvlinks for gpu in gpus)).verdict == "unknown"  # there is no engine
    with nvml_here.together():
        nvml_here.fail(3, "nvmlDeviceGetTemperature", 15)
        if xid is not None:
            nvml_here.xid(3, xid)
    found = after(lambda gpus: gpus[3].state == "lost" and gpus[3].xid == xid)
    assert (found.verdict, found.since) == ("gpu_fault", EPOCH + clock.now)
    expected = "GPU 3 unreadable: lost" if xid is None else "GPU 3 Xid 79"
    assert [evidence.text for evidence in found.evidence] == [expected]
    since = found.since
    clock.now += 5.0
    assert verdict(source.read()).since == since
    nvml_here.heal()
    for _ in range(30):
        clock.now += 1.0
        found = verdict(source.read())
    assert found.verdict == "unknown"
    source.close()
