"""A card that is cut into MIG instances is one card in every verdict."""

from __future__ import annotations

from dataclasses import replace

from tui.model.history import History
from tui.model.readings import GpuReading, GpuSet
from tui.model.settings import Slo, Thresholds
from tui.model.snapshot import HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus
from tui.verdict.gpu_signals import gpu_signals
from tui.verdict.judge import judge_all

CARD = GpuReading(1, uuid="GPU-1", mig=True, mem_used_mib=70_000.0, mem_total_mib=80_000.0)
PARTS = tuple(
    GpuReading(1, uuid=f"MIG-{i}", parent_uuid="GPU-1", mem_used_mib=9_000.0, mem_total_mib=10_000.0)
    for i in range(3)
)
WELL = GpuReading(0, uuid="GPU-0", sm_pct=50.0)


def test_a_lost_card_is_named_once() -> None:
    rows = (WELL, *(replace(g, state="lost", reason="lost", xid=79) for g in (CARD, *PARTS)))
    fresh = SourceStatus(SourceState.FRESH, age_s=0.0)
    snapshot = HostSnapshot(10.0, 1_700_000_000.0, gpus=Observed(GpuSet(rows), fresh))
    verdict = judge_all(snapshot, History(), Thresholds(), Slo()).verdicts[0]
    assert verdict.verdict == "gpu_fault"
    assert [evidence.text for evidence in verdict.evidence] == ["GPU 1 Xid 79"]


def test_instances_are_no_cards() -> None:
    signals = gpu_signals((WELL, CARD, *PARTS))
    assert signals.card_count == 2
    assert signals.used_ratio_max == 0.9  # the fullest part: it is what runs out


def test_an_instance_whose_card_is_not_seen_stands_for_itself() -> None:
    """In a container that was given one instance and nothing else."""
    alone = replace(PARTS[0], state="error", reason="driver_error")
    signals = gpu_signals((WELL, alone))
    assert signals.unreadable == (alone,)
    assert signals.card_count == 2
