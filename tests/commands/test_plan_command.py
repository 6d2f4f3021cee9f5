"""``infertop plan`` as an operator types it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.model_dirs import config, write_config, write_safetensors
from tui import cli

if TYPE_CHECKING:
    from pathlib import Path

ARTICLE = [
    "--layers",
    "40",
    "--hidden",
    "5120",
    "--params-b",
    "13",
    "--max-model-len",
    "4096",
    "--max-num-seqs",
    "32",
]
CONTRACT = {
    "schema", "weights_gib", "kv_bytes_per_token", "kv_gib", "temporaries_gib", "system_gib", "total_gib",
    "gpu_mem_gib", "fits", "max_sequences", "max_tokens",
}  # fmt: skip


def plan(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(["plan", *words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def plan_json(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    status, out, _ = plan(capsys, *words, "--json")
    document: dict[str, Any] = json.loads(out)
    return status, document


def usage(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The error line of a usage error, whoever found it."""
    try:
        status = cli.main(["plan", *words])
    except SystemExit as stop:
        status = int(str(stop.code))
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, "")
    assert "Traceback" not in printed.err
    return printed.err


def test_the_article_s_example(capsys: pytest.CaptureFixture[str]) -> None:
    status, document = plan_json(capsys, *ARTICLE, "--gpu-mem-gib", "80", "--dtype", "fp16")
    assert status == 1
    assert set(document) >= CONTRACT
    assert document["schema"] == 1
    assert document["kv_bytes_per_token"] == 819_200
    assert document["kv_gib"] == 100.0  # 107 GB
    assert document["weights_gib"] == pytest.approx(26e9 / 2**30, abs=1e-3)
    parts = ("weights_gib", "kv_gib", "temporaries_gib", "system_gib")
    assert document["total_gib"] == pytest.approx(sum(document[name] for name in parts), abs=0.01)
    assert (document["fits"], document["max_sequences"]) == (False, 14)


@pytest.mark.parametrize(
    ("dtype", "gb"), [("fp16", 26), ("bf16", 26), ("int8", 13), ("fp8", 13), ("int4", 6.5)]
)
def test_weights_by_format(capsys: pytest.CaptureFixture[str], dtype: str, gb: float) -> None:
    status, document = plan_json(capsys, *ARTICLE, "--gpu-mem-gib", "200", "--dtype", dtype)
    assert document["weights_gib"] == pytest.approx(gb * 1e9 / 2**30, abs=1e-3)
    assert document["kv_bytes_per_token"] == 819_200
    assert (status, document["fits"]) == (0, True)


def test_the_text_shows_its_arithmetic_and_what_to_change(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = plan(capsys, *ARTICLE, "--gpu-mem-gib", "80")
    assert status == 1
    assert max(map(len, out.splitlines())) <= 100
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "KV cache 100.0 107.4 819,200 bytes x 4,096 tokens x 32 sequences, fp16" in lines
    assert "weights 24.2 26.0 13 billion parameters, 16 bits each" in lines
    assert "40 layers x 5,120 x 2 x 2 bytes" in lines
    assert "does not fit: 56.2 GiB too much." in lines
    assert "--max-num-seqs 14 now 32; what comes beyond waits in the queue" in lines
    assert "--max-model-len 1792 now 4096; longer requests are refused" in lines
    assert "--tp 2 now 1; GPUs of the same kind; vLLM: --tensor-parallel-size" in lines


def test_following_the_advice_makes_it_fit(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = plan_json(capsys, *ARTICLE, "--gpu-mem-gib", "80")
    assert len(document["changes"]) > 3
    for change in document["changes"]:
        more = [word for step in change["set"] for word in (step["option"], step["to"])]
        status, _, _ = plan(capsys, *ARTICLE, "--gpu-mem-gib", "80", *more)
        assert status == 0, more


def test_a_model_directory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_config(tmp_path, config("llama-3-70b"))
    tensors = {f"model.layers.{n}.self_attn.k_proj.weight": ("BF16", [1024, 8192]) for n in range(80)}
    size = write_safetensors(tmp_path / "model.safetensors", tensors)
    words = ["--model", str(tmp_path), "--gpu-mem-gib", "80", "--tp", "4", "--max-num-seqs", "16"]
    status, document = plan_json(capsys, *words)
    assert status == 0
    assert document["weights_gib"] == pytest.approx(size / 4 / 2**30, abs=1e-3)
    assert (document["kv_bytes_per_token"], document["kv_bytes_per_token_tp1"]) == (81_920, 327_680)
    assert (document["max_model_len"], document["kv_dtype"]) == (8192, "bf16")  # both are the model's own
    assert document["notes"] == []
    _, out, _ = plan(capsys, *words, "--kv-dtype", "fp8")
    assert "llama, 80 layers: 16 x 8,192 tokens on each of 4 GPUs of 80 GiB" in out
    assert "80 layers x 2 KV heads x 128 x 2 x 1 bytes" in out
    assert "fits: " in out


def test_options_count_in_place_of_the_model_s_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_config(tmp_path, config("llama-3-70b"))
    words = ["--model", str(tmp_path), "--gpu-mem-gib", "80", "--params-b", "35", "--layers", "40"]
    _, document = plan_json(capsys, *words, "--max-model-len", "100000")
    assert document["kv_bytes_per_token"] == 163_840
    assert document["parameters"] == 35_000_000_000
    assert "beyond the 8192 of the model" in document["notes"][0]


def test_windows_states_and_latent_vectors_are_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_config(tmp_path, config("gemma-2-9b"))
    words = ["--model", str(tmp_path), "--gpu-mem-gib", "80", "--params-b", "9.24"]
    _, out, _ = plan(capsys, *words)
    assert "21 layers x 8 KV heads x 256 x 2 x 2 bytes, no more than 4,096 tokens of a sequence" in out
    assert "2,113,929,216 bytes for 8,192 tokens x 1 sequence, fp16" in out
    write_config(tmp_path, config("deepseek-v3"))
    _, out, _ = plan(capsys, *words[:-1], "671", "--tp", "8", "--max-model-len", "4096")
    assert "61 layers x (512 latent + 64 rotary) x 2 bytes; the same on every GPU" in out
    assert "671 billion parameters, 8 bits each, says config.json / 8 GPUs" in out
    jamba = {"num_hidden_layers": 8, "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16}
    write_config(tmp_path, jamba | {"mamba_d_conv": 4, "hidden_size": 4096, "num_attention_heads": 32})
    _, out, _ = plan(capsys, *words, "--max-model-len", "4096", "--max-num-seqs", "100")
    assert "7 layers x a state of 155,648 values a sequence" in out
    assert "State bytes a sequence: 2,179,072" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--gpu-mem-gib"),
        (["--gpu-mem-gib", "80"], "a model needs --layers and --params-b; or --model DIR"),
        (
            ["--gpu-mem-gib", "80", "--layers", "40", "--params-b", "13"],
            "--hidden, or --kv-heads and --head-dim",
        ),
        (
            ["--gpu-mem-gib", "80", "--layers", "40", "--hidden", "5120", "--params-b", "13"],
            "--max-model-len is needed",
        ),
        ([*ARTICLE, "--gpu-mem-gib", "0"], "not a number from"),
        ([*ARTICLE, "--gpu-mem-gib", "nan"], "not a number from"),
        ([*ARTICLE, "--gpu-mem-gib", "inf"], "not a number from"),
        ([*ARTICLE, "--gpu-mem-gib", "80", "--tp", "0"], "not a number from 1 to 1024"),
        ([*ARTICLE, "--gpu-mem-gib", "80", "--tp", "3"], "engines refuse it"),
        ([*ARTICLE, "--gpu-mem-gib", "80", "--utilization", "1.5"], "not a number from"),
        ([*ARTICLE, "--gpu-mem-gib", "80", "--dtype", "float8"], "'float8' is none of"),
        ([*ARTICLE, "--gpu-mem-gib", "80", "--kv-dtype", "int4"], "'int4' is none of"),
        (
            [*ARTICLE, "--gpu-mem-gib", "80", "--kv-dtype", "fp8_ds_mla"],
            "only for models with latent attention",
        ),
        ([*ARTICLE, "--gpu-mem-gib", "80", "--kv-heads", "8"], "give --heads or --head-dim"),
        ([*ARTICLE, "--gpu-mem-gib", "80", "--heads", "40", "--kv-heads", "7"], "cannot share 7 KV heads"),
        (
            ["--gpu-mem-gib", "80", "--model", "meta-llama/Llama-2-13b"],
            "Llama-2-13b: config.json: No such file",
        ),
    ],
)
def test_usage_errors_exit_2_and_say_what_is_wrong(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert message in usage(capsys, *words)


def test_an_unreadable_model_exits_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--model", str(tmp_path), "--gpu-mem-gib", "80"]
    (tmp_path / "config.json").write_bytes(b'{"model_type": "\x1b[31m')
    assert "config.json: not JSON" in usage(capsys, *words)
    write_config(tmp_path, config("llama-2-13b"))
    assert "no safetensors or PyTorch weights: give --params-b" in usage(capsys, *words)
    (tmp_path / "model.safetensors").write_bytes(b"x" * 100)
    assert "model.safetensors: not a safetensors file" in usage(capsys, *words)


def test_unquoted_escape_sequences_of_a_config_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_config(tmp_path, config("llama-2-13b") | {"model_type": "\x1b]0;owned\x07\x1b[31mllama\u202e"})
    _, out, _ = plan(capsys, "--model", str(tmp_path), "--gpu-mem-gib", "80", "--params-b", "13")
    assert out.startswith("llama, 40 layers")
    assert out.replace("\n", "").isprintable()


def test_it_starts_without_the_screen_or_the_network() -> None:
    code = (
        "import sys\nfrom tui import cli\n"
        f"status = cli.main(['plan', '--gpu-mem-gib', '80', *{ARTICLE!r}])\n"
        "heavy = {'textual', 'rich', 'plotext', 'httpx', 'psutil', 'pynvml', 'asyncio', 'socket'}\n"
        "sys.exit(f'loaded {heavy & set(sys.modules)}' if heavy & set(sys.modules) else status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
