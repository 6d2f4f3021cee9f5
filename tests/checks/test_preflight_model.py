"""Model directories before a start: whole, broken and hostile ones."""

from __future__ import annotations

import json
import os
import time
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.model_dirs import config, write_config, write_safetensors
from tests.support.preflight_hosts import of, write_model
from tui.checks.preflight.intent import Intent
from tui.checks.preflight.model_directory import ModelLook, read_model_directory

if TYPE_CHECKING:
    from pathlib import Path

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4000000000\n"
LAST = "model-00003-of-00003.safetensors"


def look(model: Path | str, **options: str) -> ModelLook:
    found = read_model_directory(
        Intent(model=str(model), options={k.replace("_", "-"): v for k, v in options.items()})
    )
    for finding in found.findings:
        assert finding.text.isprintable() and len(finding.text) < 500
    return found


def bad(found: ModelLook) -> list[tuple[str, str, str]]:
    return [(f.id, f.level, f.text) for f in found.findings if f.level != "ok"]


def only_error(found: ModelLook, id_: str) -> str:
    """The text of the one finding that is not ok."""
    (one,) = bad(found)
    assert one[:2] == (id_, "error")
    return one[2]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def test_a_whole_model(model: Path) -> None:
    found = look(model)
    assert bad(found) == []
    assert [f.id for f in found.findings] == [
        "model-directory", "model-config", "model-tokenizer", "model-weights",
    ]  # fmt: skip
    assert of(found.findings, "model-weights")[0].text == "weights: 3 files, 0.0 GiB, all there and whole"
    assert (of(found.findings, "model-weights")[0].value, of(found.findings, "model-weights")[0].limit) == (
        600_000, 600_000,
    )  # fmt: skip
    assert found.shape is not None and found.weights is not None


# ------------------------------------------------------------------------------------------- weights


def test_a_missing_shard(model: Path) -> None:
    (model / LAST).unlink()
    assert only_error(look(model), "model-weights") == f"{LAST}: No such file or directory"


def test_a_truncated_shard(tmp_path: Path) -> None:
    text = only_error(look(write_model(tmp_path / "model", cut=1)), "model-weights")
    size = (tmp_path / "model" / LAST).stat().st_size
    assert text == f"{LAST} is cut short: {size:,} bytes, its header promises {size + 1:,}"


def test_without_an_index_the_numbers_tell_what_is_missing(model: Path) -> None:
    (model / "model.safetensors.index.json").unlink()
    assert bad(look(model)) == []
    (model / "model-00002-of-00003.safetensors").unlink()
    text = only_error(look(model), "model-weights")
    assert text == "model-00002-of-00003.safetensors: No such file or directory"


def test_a_dangling_link_as_the_hub_s_cache_leaves_it(model: Path) -> None:
    (model / LAST).unlink()
    (model / LAST).symlink_to("../../blobs/gone")
    assert "No such file" in only_error(look(model), "model-weights")


def test_pointers_of_git_lfs(model: Path) -> None:
    (model / LAST).write_text(POINTER)
    assert (
        only_error(look(model), "model-weights") == f"{LAST} is a Git LFS pointer, not the file: git lfs pull"
    )
    (model / "tokenizer.json").write_text(POINTER)
    assert of(look(model).findings, "model-tokenizer")[0].level == "error"


def test_many_faults_are_counted_not_listed(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", shards=9)
    for file in model.glob("*.safetensors"):
        file.write_bytes(b"")
    found = bad(look(model))
    assert len(found) == 6
    assert found[0][2].endswith("is empty") and found[5][2] == "4 more files of the weights are wrong"


def test_weights_of_another_version_than_the_index(tmp_path: Path) -> None:
    found = bad(look(write_model(tmp_path / "model", total=600_002)))
    assert [entry[:2] for entry in found] == [("model-weights", "warning")]
    assert "600,000 bytes, the index says 600,002" in found[0][2]


def test_files_of_pytorch(model: Path) -> None:
    for file in model.glob("model*"):
        file.unlink()
    with zipfile.ZipFile(model / "pytorch_model-00001-of-00002.bin", "w") as archive:
        archive.writestr("archive/data/0", b"\1" * 100_000)
    assert "pytorch_model-00002-of-00002.bin" in only_error(look(model), "model-weights")
    second = model / "pytorch_model-00002-of-00002.bin"
    second.write_bytes((model / "pytorch_model-00001-of-00002.bin").read_bytes())
    assert bad(look(model)) == []
    os.truncate(second, 90_000)
    assert f"{second.name} is cut short: 90,000 bytes" in only_error(look(model), "model-weights")
    second.unlink()
    index: dict[str, Any] = {
        "metadata": {"total_size": 100},
        "weight_map": {"a": "pytorch_model-00001-of-00002.bin"},
    }
    (model / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    assert bad(look(model)) == []


def test_no_weights_at_all(model: Path) -> None:
    for file in model.glob("model*"):
        file.unlink()
    assert only_error(look(model), "model-weights").startswith("no weights")
    (model / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    assert only_error(look(model), "model-weights") == "model.safetensors.index.json names no files"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(model: Path) -> None:
    (model / LAST).chmod(0)
    assert "Permission denied" in only_error(look(model), "model-weights")


# ------------------------------------------------------------------------------------------- the rest


@pytest.mark.parametrize(
    "files",
    [
        ("tokenizer.model",), ("vocab.json", "merges.txt"), ("vocab.txt",), ("tekken.json",),
        ("qwen.tiktoken",), ("tokenizer.model.v3",), ("spiece.model",),
    ],
)  # fmt: skip
def test_any_tokenizer_will_do(model: Path, files: tuple[str, ...]) -> None:
    (model / "tokenizer.json").unlink()
    assert only_error(look(model), "model-tokenizer").startswith("no tokenizer")
    for name in files:
        (model / name).write_text("x")
    assert bad(look(model)) == []


def test_half_a_tokenizer_is_none_unless_it_is_elsewhere(model: Path) -> None:
    (model / "tokenizer.json").unlink()
    (model / "vocab.json").write_text("{}")
    assert only_error(look(model), "model-tokenizer").startswith("no tokenizer")
    assert bad(look(model, tokenizer="org/other")) == []
    assert bad(look(model, skip_tokenizer_init="true")) == []
    (model / "merges.txt").write_text("")
    assert only_error(look(model), "model-tokenizer") == "merges.txt is empty"


def test_a_config_that_is_none(model: Path) -> None:
    (model / "config.json").write_text('{"model_type": ')
    assert only_error(look(model), "model-config").startswith("config.json: not JSON")
    (model / "config.json").unlink()
    assert only_error(look(model), "model-config") == "config.json: No such file or directory"
    (model / "params.json").write_text("{}")
    assert bad(look(model)) == []


def test_engines_of_tensorrt(tmp_path: Path) -> None:
    built = {"pretrained_config": {"architecture": "LlamaForCausalLM", "mapping": {"world_size": 2}}}
    write_config(tmp_path / "engine", built)
    (tmp_path / "engine" / "rank0.engine").write_bytes(b"x" * 100)
    assert only_error(look(tmp_path / "engine"), "model-weights") == "rank1.engine: No such file or directory"
    (tmp_path / "engine" / "rank1.engine").write_bytes(b"x" * 100)
    assert bad(look(tmp_path / "engine")) == []
    (tmp_path / "engine" / "rank1.engine").write_bytes(b"")
    assert only_error(look(tmp_path / "engine"), "model-weights") == "rank1.engine is empty"


def test_where_the_model_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no such directory" in only_error(look(tmp_path / "gone"), "model-directory")
    assert bad(look("org/name"))[0][:2] == ("model-directory", "warning")
    revision = "0123456789abcdef0123456789abcdef01234567"
    hub = tmp_path / "hub" / "models--org--name"
    (hub / "refs").mkdir(parents=True)
    (hub / "refs" / "main").write_text(revision)
    (hub / "snapshots").mkdir()
    write_model(hub / "snapshots" / revision)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    found = look("org/name")
    assert bad(found) == [] and found.directory == hub / "snapshots" / revision


def test_weights_that_are_not_read_from_the_directory(model: Path) -> None:
    for file in model.glob("model*"):
        file.unlink()
    assert bad(look(model, load_format="dummy")) == []
    assert of(look(model, load_format="auto").findings, "model-weights")[0].level == "error"
    assert bad(look("s3://bucket/model"))[0][:2] == ("model-directory", "warning")


def test_a_single_file(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + b"\0" * 100)
    assert bad(look(file)) == []
    file.write_bytes(b"<html>")
    assert "neither a directory nor a GGUF file" in only_error(look(file), "model-directory")


# ------------------------------------------------------------------------------------------- hostile


def header(path: Path, length: int, text: bytes = b"{}") -> None:
    path.write_bytes(length.to_bytes(8, "little") + text)


def test_hostile_directories_end_in_findings(model: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    header(model / LAST, 2**63)
    assert only_error(look(model), "model-weights") == f"{LAST}: not a safetensors file"
    header(model / LAST, 33 << 20)
    os.truncate(model / LAST, 1 << 40)
    assert "header larger than 32 MiB" in only_error(look(model), "model-weights")
    header(model / LAST, 40, b'{"a": {"dtype": "F16", "shape": [1]}}   ')
    assert "data_offsets" in only_error(look(model), "model-weights")
    (model / LAST).unlink()
    os.mkfifo(model / LAST)
    assert only_error(look(model), "model-weights") == f"{LAST}: not a regular file"
    (model / LAST).unlink()
    (model / LAST).symlink_to(LAST)
    assert "Too many levels of symbolic links" in only_error(look(model), "model-weights")
    (model / LAST).unlink()
    (model / LAST).mkdir()
    assert only_error(look(model), "model-weights") == f"{LAST}: not a regular file"
    (model / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../../etc/passwd"}}')
    assert "outside the model directory" in only_error(look(model), "model-weights")
    (model / "model.safetensors.index.json").write_text("[" * 100_000)
    assert "not JSON" in only_error(look(model), "model-weights")
    os.truncate(model / "model.safetensors.index.json", 1 << 40)
    assert "larger than 64 MiB" in only_error(look(model), "model-weights")
    (model / "config.json").unlink()
    os.mkfifo(model / "config.json")
    os.mkfifo(tmp_path / "fifo")
    assert "Not a directory" in only_error(look(tmp_path / "fifo"), "model-directory")
    (tmp_path / "loop").symlink_to("loop")
    assert "Too many levels" in only_error(look(tmp_path / "loop"), "model-directory")
    assert "null" in only_error(look("/a\0b"), "model-directory")
    assert time.monotonic() - began < 20


def test_a_series_of_a_hundred_thousand_is_not_walked(model: Path) -> None:
    (model / "model.safetensors.index.json").unlink()
    write_safetensors(model / "model-00001-of-99999.safetensors", {"a": ("F16", [1])})
    assert only_error(look(model), "model-weights").startswith("more than 10,000 files")


def test_names_with_escapes_are_made_safe(model: Path) -> None:
    name = "model-\x1b[31m\u202e.safetensors"
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    assert only_error(look(model), "model-weights") == "model-.safetensors: No such file or directory"
    write_config(model, config("llama-2-13b") | {"model_type": "\x1b]0;x\x07llama"})
    assert of(look(model).findings, "model-config")[0].text == "config.json is read: llama"
