"""The devices before a start, through the real binding over the fake NVML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fake_nvml import MIB
from tests.support.preflight_hosts import of, write_model
from tui.checks.preflight import gpus
from tui.checks.preflight.fit import fit_findings
from tui.checks.preflight.host import orphan_findings
from tui.checks.preflight.intent import Intent
from tui.checks.preflight.model_directory import read_model_directory
from tui.model.status import SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml
    from tui.checks.finding import CheckFinding

pytest_plugins = ("tests.support.nvml_plugin",)
pytestmark = pytest.mark.usefixtures("no_gap")

FREE_MIB = 80_000
GIB = 1024


@pytest.fixture
def cards(nvml_here: FakeNvml) -> FakeNvml:
    """Two cards that nobody uses."""
    with nvml_here.together():
        nvml_here.count(2)
        for card in (0, 1):
            nvml_here.set(card, "mem_free", FREE_MIB * MIB)
    return nvml_here


def look(**intent: Any) -> list[CheckFinding]:
    return list(gpus.findings(Intent(**intent), gpus.look(20.0)))


def bad(findings: list[CheckFinding]) -> list[tuple[str, str]]:
    return [(finding.id, finding.level) for finding in findings if finding.level != "ok"]


def test_two_good_cards(cards: FakeNvml) -> None:
    found = look(tp=2)
    assert bad(found) == []
    assert [f.id for f in found] == [
        "driver", "gpu-count", "gpu-memory", "gpu-memory", "gpu-compute-mode", "gpu-ecc", "gpu-nvlink",
    ]  # fmt: skip
    assert [(f.value, f.limit) for f in of(found, "gpu-memory")] == [(FREE_MIB, 20_000)] * 2
    assert "550.54.15" in of(found, "driver")[0].text
    assert of(found, "gpu-nvlink")[0].value == 18


def test_three_gib_free_on_the_second_gpu_only(cards: FakeNvml) -> None:
    cards.set(1, "mem_free", 3 * GIB * MIB)
    cards.processes(1, [(4_000_123, 77_000 * MIB)])
    found = look()
    assert bad(found) == [("gpu-memory", "error")]
    text = of(found, "gpu-memory")[1].text
    assert text.startswith("GPU 1 (NVIDIA H100 80GB HBM3): 3,072 of 81,559 MiB free, 20,000 needed")
    assert "held by pid 4000123" in text and "77,000 MiB" in text
    assert bad(look(min_free_mib=3072)) == []


def test_only_the_chosen_gpus_count(cards: FakeNvml) -> None:
    cards.set(1, "mem_free", 3 * GIB * MIB)
    found = look(gpus=("0",))
    assert bad(found) == []
    assert of(found, "gpu-count")[0].text == "1 GPU chosen by --gpus: NVIDIA H100 80GB HBM3; 1 needed"
    chosen = look(gpus=("GPU-00000001",), gpus_from="CUDA_VISIBLE_DEVICES")
    assert bad(chosen) == [("gpu-memory", "error")]
    absent = of(look(gpus=("0", "7")), "gpu-count")[0]
    assert (absent.level, absent.text) == ("error", "not there: GPU 7 (--gpus)")


def test_fewer_gpus_than_ranks(cards: FakeNvml) -> None:
    found = of(look(tp=4), "gpu-count")[0]
    assert (found.level, found.value, found.limit) == ("error", 2, 4)
    ray = of(look(tp=4, options={"distributed-executor-backend": "ray"}), "gpu-count")[0]
    assert ray.level == "warning" and "other hosts" in ray.text


def test_a_lost_card_is_named_and_the_other_is_judged(cards: FakeNvml) -> None:
    cards.fail(1, "*", 15)
    found = look()
    assert bad(found) == [("gpu-state", "error")]
    assert "GPU 1" in of(found, "gpu-state")[0].text and "lost" in of(found, "gpu-state")[0].text.lower()
    assert len(of(found, "gpu-memory")) == 1


@pytest.mark.parametrize(
    ("field", "value", "wanted", "words"),
    [
        ("compute_mode", 2, ("gpu-compute-mode", "error"), "prohibited: no program may compute"),
        ("compute_mode", 3, ("gpu-compute-mode", "warning"), "exclusive_process: one process alone"),
        ("ecc_volatile_uncorrected", 3, ("gpu-ecc", "warning"), "3 uncorrected memory errors"),
        ("remap_pending", 1, ("gpu-ecc", "warning"), "reset the GPU"),
        ("remap_failed", 1, ("gpu-ecc", "error"), "replace the card"),
        ("nvlinks_up", 0xFF, ("gpu-nvlink", "warning"), "8 of 18 NVLinks up"),
        ("name", "NVIDIA L4", ("gpu-count", "warning"), "should be alike"),
    ],
)
def test_what_is_wrong_with_one_card(
    cards: FakeNvml, field: str, value: int | str, wanted: tuple[str, str], words: str
) -> None:
    cards.set(1, field, value)
    found = look(tp=2)
    assert bad(found) == [wanted]
    assert words in of(found, wanted[0])[0].text


def test_an_exclusive_card_that_is_taken_is_an_error(cards: FakeNvml) -> None:
    cards.set(0, "compute_mode", 3)
    cards.processes(0, [(4_000_123, 300 * MIB)])
    found = of(look(), "gpu-compute-mode")[0]
    assert found.level == "error" and "pid 4000123 does" in found.text


def test_what_a_card_does_not_tell_is_not_zero(cards: FakeNvml) -> None:
    with cards.together():
        cards.count(1)
        for field in ("mem_total", "mem_free", "ecc_volatile_uncorrected", "compute_mode"):
            cards.set(0, field, None)
    found = look()
    assert bad(found) == [("gpu-memory", "warning")]
    assert of(found, "gpu-memory")[0].value is None
    assert not of(found, "gpu-ecc") and not of(found, "gpu-compute-mode")


def test_a_card_in_mig_mode_stands_for_its_instances(cards: FakeNvml) -> None:
    cards.instances(1, [0, 1])
    found = look(gpus=("1",), min_free_mib=8000)
    assert [f.text.partition(":")[0] for f in of(found, "gpu-memory")] == [
        "GPU 1.0 (1g.10gb)",
        "GPU 1.1 (1g.10gb)",
    ]
    assert bad(found) == []
    cards.instances(1, [])
    cards.set(1, "mig", 1)
    assert bad(look(gpus=("1",))) == [("gpu-state", "error")]


def test_a_driver_that_opens_its_devices_slowly_is_waited_for(cards: FakeNvml) -> None:
    cards.set(0, "persistence", 0)
    cards.delay(None, "nvmlInitWithFlags", 2500)
    found = of(look(), "driver")[0]
    assert found.level == "warning" and "persistence mode" in found.text
    assert isinstance(found.value, float) and 2.5 <= found.value < 10


def test_a_driver_that_never_answers_ends_at_the_deadline(cards: FakeNvml) -> None:
    cards.hang(None, "nvmlInitWithFlags")
    with pytest.raises(SourceError) as caught:
        gpus.look(1.0)
    assert caught.value.reason == "stuck"


def test_memory_that_belongs_to_nobody_is_an_orphan_on_the_chosen_cards(cards: FakeNvml) -> None:
    cards.set(1, "mem_free", 60_000 * MIB)
    seen = gpus.look(20.0)
    found = orphan_findings(Intent(), seen)
    held = [f for f in found if "GPU 1" in f.text]
    assert [(f.level, f.value) for f in held] == [("warning", 81_559 - 551 - 60_000)]
    assert held[0].text.startswith("21,008 MiB of GPU 1 in use: no process accounts for it; ")
    assert not [f for f in orphan_findings(Intent(gpus=("0",)), seen) if "GPU 1" in f.text]


# ------------------------------------------------------------------------------------------- does it fit


def fit(model: Path, **intent: Any) -> dict[str, CheckFinding]:
    wanted = Intent(model=str(model), **intent)
    return {
        f.id: f for f in fit_findings(wanted, read_model_directory(wanted), gpus.look(20.0).last, "0.11.0")
    }


def test_whether_it_fits_is_told_from_what_is_free_now(cards: FakeNvml, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    found = fit(model, engine="vllm", tp=2)
    assert (found["gpu-share"].level, found["model-fits"].level) == ("ok", "ok")
    assert "of 71.2 GiB on each of 2 GPUs" in found["model-fits"].text  # 0.9 of 81,008 MiB
    cards.set(1, "mem_free", 5 * GIB * MIB)
    found = fit(model, engine="vllm", tp=2)
    assert found["gpu-share"].level == "error" and "GPU 1" in found["gpu-share"].text
    assert found["model-fits"].level == "error"  # 4 GiB of overhead, and no sequence of 4,096 tokens
    assert "leave room for" in found["model-fits"].text
    assert fit(model, engine="vllm")["gpu-share"].level == "ok"  # it takes the first GPU only
    assert "gpu-share" not in fit(model, engine="sglang")


def test_a_share_that_would_do_is_named(cards: FakeNvml, tmp_path: Path) -> None:
    cards.set(0, "mem_free", 65_000 * MIB)
    text = fit(write_model(tmp_path / "model"), engine="vllm")["gpu-share"].text
    assert text.endswith("it refuses to start with less: --gpu-memory-utilization 0.8 would do")
    assert fit(tmp_path / "model", engine="vllm", utilization=0.8)["gpu-share"].level == "ok"


def test_how_many_sequences_have_room(cards: FakeNvml, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    one = fit(model)["model-fits"]
    assert "room for 21 sequences of 4,096 tokens" in one.text  # (0.9 x 79.1 - 4) / 3.125 GiB
    assert fit(model, seats=256)["model-fits"].level == "ok"  # an engine's default: not all are long
    many = fit(model, max_num_seqs=32)["model-fits"]
    assert (many.level, many.value, many.limit) == ("warning", 21, 32)
    assert fit(model, tp=3)["model-fits"].level == "error"  # 40 heads do not divide
    long = fit(model, max_model_len=2_000_000)
    assert long["model-fits"].level == "error"
    assert (
        long["model-config"].level == "warning"
        and "beyond the 4096 of the model" in long["model-config"].text
    )
    assert "model-config" not in fit(model)


def test_what_the_arithmetic_lacks_is_said(cards: FakeNvml, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    (model / "config.json").write_text('{"model_type": "new"}')
    found = fit(model)["model-fits"]
    assert found.level == "warning" and found.text.startswith(
        "not checked: whether the model fits: config.json"
    )
    pipeline = fit(model, options={"pipeline-parallel-size": "2"})["model-fits"]
    assert pipeline.text.startswith("not checked")
