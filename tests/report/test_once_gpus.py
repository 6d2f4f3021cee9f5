"""What ``once`` says of devices that do not answer, are cut up, or have news of their memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tui.model.readings import GpuProcess, GpuReading, GpuSet
from tui.model.snapshot import HostSnapshot
from tui.model.status import Observed, SourceState, SourceStatus
from tui.model.verdicts import Judgement
from tui.report import once_json, once_text

FRESH = SourceStatus(SourceState.FRESH, age_s=0.1)
STUCK = SourceStatus(SourceState.FAILED, "stuck", "stuck in nvmlInit for 9 s", age_s=9.0)
DETAIL = "no longer counted by the driver; Xid 79: the GPU has fallen off the bus"


def lost(**changes: Any) -> GpuReading:
    known: dict[str, Any] = {
        "uuid": "GPU-3", "name": "NVIDIA H100", "sm_pct": 96.0, "power_w": 640.0, "state": "lost",
        "reason": "lost", "detail": DETAIL, "xid": 79, "xid_text": "the GPU has fallen off the bus",
        "xid_age_s": 12.0, "stale_s": 12.5, "pci_bus_id": "0000:13:00.0", "ecc_uncorrected": 0,
        "throttle": (), "processes": (GpuProcess(7, "vllm", 100.0),), "throttle_share": (("idle", 0.5),),
    }  # fmt: skip
    return GpuReading(3, **{**known, **changes})


def snapshot(*gpus: GpuReading, status: SourceStatus = FRESH, **more: Any) -> HostSnapshot:
    return HostSnapshot(10.0, 1_700_000_000.0, gpus=Observed(GpuSet(gpus, "550", **more), status))


def document(found: HostSnapshot) -> dict[str, Any]:
    answer = once_json.document(found, Judgement())
    return dict(json.loads(json.dumps(answer, allow_nan=False)))


def test_a_row_that_does_not_answer_has_its_identity_and_no_figures() -> None:
    (row,) = document(snapshot(lost()))["gpus"]
    kept = {
        "index": 3, "uuid": "GPU-3", "name": "NVIDIA H100", "pci_bus_id": "0000:13:00.0", "xid": 79,
        "xid_age_s": 12.0, "xid_text": "the GPU has fallen off the bus", "state": "lost", "reason": "lost",
        "detail": DETAIL, "stale_s": 12.5, "missing": [],
    }  # fmt: skip
    assert {key: row[key] for key in kept} == kept
    assert {key for key, value in row.items() if value is not None} == kept.keys()


def test_when_the_driver_hangs_no_row_has_figures() -> None:
    (row,) = document(snapshot(GpuReading(0, uuid="GPU-0", sm_pct=5.0), status=STUCK))["gpus"]
    assert (row["uuid"], row["sm_pct"], row["stale_s"]) == ("GPU-0", None, 9.0)
    assert (row["state"], row["reason"], row["detail"]) == ("error", "stuck", "stuck in nvmlInit for 9 s")


def test_a_row_that_answers_has_all_its_figures() -> None:
    found = snapshot(
        GpuReading(
            0, sm_pct=5.0, nvlinks_up=18, throttle_share=(("sw_power_cap", 0.25),), recovered_s=4.0,
            detail="2 uncorrected memory errors", processes=(GpuProcess(7, "vllm", 100.0, 40.0, 20.0),),
        ),
        other_gpus=("an AMD GPU is on the PCI bus: not read",),
    )  # fmt: skip
    answer = document(found)
    (row,) = answer["gpus"]
    assert (row["state"], row["detail"], row["recovered_s"]) == ("ok", "2 uncorrected memory errors", 4.0)
    assert (row["sm_pct"], row["nvlinks_up"], row["throttle_share"]) == (5.0, 18, {"sw_power_cap": 0.25})
    assert row["processes"] == [
        {"pid": 7, "name": "vllm", "mem_mib": 100.0, "sm_pct": 40.0, "mem_ctrl_pct": 20.0}
    ]
    assert (row["stale_s"], row["xid_text"], row["parent_uuid"]) == (None, None, None)
    assert answer["other_gpus"] == ["an AMD GPU is on the PCI bus: not read"]
    assert answer["driver_version"] == "550"


def test_an_instance_names_its_card() -> None:
    card = GpuReading(1, uuid="GPU-1", mig=True)
    part = GpuReading(1, uuid="MIG-1", parent_uuid="GPU-1", mig_name="1g.10gb", mig_index=2)
    row = document(snapshot(card, part))["gpus"][1]
    assert (row["parent_uuid"], row["mig_name"], row["mig_index"]) == ("GPU-1", "1g.10gb", 2)


def test_the_text_has_no_old_figures_and_says_why_once() -> None:
    part = GpuReading(3, parent_uuid="GPU-3", mig_name="1g.10gb", state="lost", detail=DETAIL, stale_s=9.0)
    text = once_text.render(snapshot(lost(), part, notes=("cannot be remembered",)), Judgement())
    assert "96" not in text
    assert "640" not in text
    assert text.count(DETAIL) == 1
    assert "\n     1g.10gb " in text
    assert "\n  cannot be remembered\n" in text


@pytest.mark.parametrize("reading", [True, False])
def test_without_our_gpus_others_are_named(reading: bool) -> None:
    line = "an AMD GPU is on the PCI bus: not read"
    if reading:
        found = snapshot(other_gpus=(line,))
    else:
        status = SourceStatus(SourceState.UNSUPPORTED, "no_driver", f"no NVIDIA driver here; {line}")
        found = HostSnapshot(10.0, 1_700_000_000.0, gpus=Observed(None, status))
        assert document(found)["gpus_detail"] == f"no NVIDIA driver here; {line}"
    assert line in once_text.render(found, Judgement())
