"""config.json in the spellings of many models, and hostile ones."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.model_dirs import config, write_config
from tui.memory.dtypes import BF16, FP8, FP16, FP32
from tui.memory.errors import ModelError
from tui.memory.fields import Fields
from tui.memory.files import CONFIG_LIMIT
from tui.memory.kv import bytes_per_token
from tui.memory.model_config import read_shape, shape_of
from tui.memory.shape import Attention, Latent, ModelShape, Quantization

if TYPE_CHECKING:
    from pathlib import Path


def shape(values: dict[str, Any], over: dict[str, int] | None = None) -> ModelShape:
    return shape_of(Fields(values, "config.json"), over)


def windows(model: ModelShape) -> list[tuple[int, int | None]]:
    return [(cache.layers, cache.window) for cache in model.caches if isinstance(cache, Attention)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"n_layer": 12, "n_embd": 768, "n_head": 12}, 2 * 12 * 768 * 2),  # GPT-2
        ({"n_layer": 40, "n_embd": 6144, "n_head": 48, "multi_query": True}, 2 * 40 * 128 * 2),  # StarCoder: MQA
        # Falcon 7B: num_kv_heads means nothing with multi_query ...
        (
            {"num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71, "num_kv_heads": 71,
             "multi_query": True, "new_decoder_architecture": False},
            2 * 32 * 64 * 2,
        ),
        # ... and multi_query means nothing in Falcon 40B
        (
            {"num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8,
             "multi_query": True, "new_decoder_architecture": True},
            2 * 60 * 8 * 64 * 2,
        ),
        # DBRX
        ({"n_layers": 40, "d_model": 6144, "n_heads": 48, "attn_config": {"kv_n_heads": 8}}, 2 * 40 * 8 * 128 * 2),
        # ChatGLM
        (
            {"num_layers": 28, "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128,
             "multi_query_attention": True, "multi_query_group_num": 2},
            2 * 28 * 2 * 128 * 2,
        ),
        # DeepSeek V3.2: an index key of 128 bytes and a 4-byte scale beside the latent vector
        (config("deepseek-v3") | {"index_head_dim": 128, "index_topk": 2048}, 61 * (576 * 2 + 132)),
        # MiMo V2: windows with heads of their own, keys wider than values
        (
            {"num_hidden_layers": 2, "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 4,
             "head_dim": 192, "v_head_dim": 128, "hybrid_layer_pattern": [0, 1], "sliding_window": 128,
             "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128},
            (4 + 8) * (192 + 128) * 2,
        ),
        # Gemma 4: full layers with wider heads
        (
            {"model_type": "gemma4_text", "num_hidden_layers": 6, "hidden_size": 2304, "num_attention_heads": 8,
             "num_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 2,
             "attention_k_eq_v": True, "sliding_window": 512},
            (5 * 4 * 256 + 2 * 512) * 2 * 2,
        ),
    ],
)  # fmt: skip
def test_every_spelling_of_the_heads(values: dict[str, Any], expected: int) -> None:
    assert bytes_per_token(shape(values), FP16) == expected


PLAIN = {"hidden_size": 1024, "num_attention_heads": 8}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"num_hidden_layers": 4}, [(4, None)]),
        ({"num_hidden_layers": 4, "sliding_window": None}, [(4, None)]),
        ({"num_hidden_layers": 4, "sliding_window": 64}, [(4, 64)]),
        ({"num_hidden_layers": 4, "sliding_window": 64, "use_sliding_window": False}, [(4, None)]),
        (
            {"num_hidden_layers": 4, "sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3},
            [(3, None), (1, 64)],
        ),
        ({"num_hidden_layers": 34, "sliding_window": 1024, "model_type": "gemma3_text"}, [(5, None), (29, 1024)]),
        ({"num_hidden_layers": 8, "sliding_window": 64, "model_type": "cohere2"}, [(2, None), (6, 64)]),
        (
            {"num_hidden_layers": 3, "sliding_window": 128,
             "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
            [(1, None), (2, 128)],
        ),
        ({"num_hidden_layers": 8, "model_type": "llama4_text", "attention_chunk_size": 8192}, [(2, None), (6, 8192)]),
        (
            {"num_hidden_layers": 4, "attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0]},
            [(1, None), (3, 8192)],
        ),
        # Gemma 3n: the last ten layers read the KV of others
        (
            {"num_hidden_layers": 30, "sliding_window": 512, "model_type": "gemma3n_text", "num_kv_shared_layers": 10},
            [(4, None), (16, 512)],
        ),
    ],
)  # fmt: skip
def test_which_layers_have_a_window(values: dict[str, Any], expected: list[tuple[int, int | None]]) -> None:
    assert windows(shape(PLAIN | values)) == expected


def test_the_text_part_of_a_multimodal_model_counts() -> None:
    nested = {
        "model_type": "qwen2_5_omni",
        "torch_dtype": "bfloat16",
        "thinker_config": {
            "text_config": PLAIN | {"num_hidden_layers": 4},
            "audio_config": {"num_hidden_layers": 32},
        },
        "vision_config": {"num_hidden_layers": 24, "hidden_size": 1280},
    }
    model = shape(nested)
    assert (model.layers, model.stored) == (4, BF16)


def test_a_text_part_without_layers_leaves_a_flat_config_in_force() -> None:
    assert shape(PLAIN | {"num_hidden_layers": 4, "text_config": {"model_type": "llama"}}).layers == 4


def test_values_from_outside_count_in_place_of_the_config_s() -> None:
    llava = {"model_type": "llava", "text_config": {"model_type": "llama", "max_position_embeddings": 4096}}
    with pytest.raises(ModelError, match="num_hidden_layers: missing"):
        shape(llava)
    over = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8}
    assert bytes_per_token(shape(llava, over), FP16) == 131_072
    assert bytes_per_token(shape(config("llama-2-13b"), {"num_key_value_heads": 10}), FP16) == 819_200 // 4


def test_the_hidden_size_alone_is_mha() -> None:
    assert bytes_per_token(shape({}, {"num_hidden_layers": 40, "hidden_size": 5120}), FP16) == 819_200
    assert bytes_per_token(shape({}, {"num_hidden_layers": 40, "hidden_size": 5120}), FP16, 8) == 102_400


@pytest.mark.parametrize(
    ("section", "quantization", "kv"),
    [
        ({"quant_method": "fp8"}, Quantization("fp8", 8), None),
        ({"quant_method": "awq", "bits": 4}, Quantization("awq", 4), None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, Quantization("bitsandbytes", 4), None),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4}}},
             "kv_cache_scheme": {"num_bits": 8, "type": "float"}},
            Quantization("compressed-tensors", 4),
            FP8,
        ),
        (
            {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "producer": {"name": "modelopt"}},
            Quantization("nvfp4", 4),
            FP8,
        ),
        ({"quant_method": "unheard-of"}, Quantization("unheard-of", None), None),
    ],
)  # fmt: skip
def test_quantisation(
    section: dict[str, Any], quantization: Quantization, kv: object, tmp_path: Path
) -> None:
    model = shape(config("llama-3-70b") | {"quantization_config": section})
    assert (model.quantization, model.kv_dtype) == (quantization, kv)
    beside = write_config(tmp_path, config("llama-3-70b"))
    (beside / "hf_quant_config.json").write_text(json.dumps(section))
    assert read_shape(beside).quantization == quantization


def test_what_the_six_configs_say_beyond_the_layers() -> None:
    deepseek = shape(config("deepseek-v3"))
    assert deepseek.caches == (Latent(61, 512, 64),)
    assert (deepseek.context_len, deepseek.quantization) == (163_840, Quantization("fp8", 8))
    assert shape(config("gemma-2-9b")).stored == FP32
    assert shape(config("qwen2.5-7b")).heads == 28


BASE = PLAIN | {"num_hidden_layers": 2}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "num_hidden_layers: missing"),
        ({"num_hidden_layers": 2}, "hidden_size: missing"),
        ({"num_hidden_layers": "40"}, "num_hidden_layers: expected an integer, found '40'"),
        ({"num_hidden_layers": True}, "expected an integer, found true"),
        ({"num_hidden_layers": 0}, "from 1 to 10000, found 0"),
        ({"num_hidden_layers": -1}, "from 1 to 10000, found -1"),
        ({"num_hidden_layers": 10**400}, "found a huge integer"),
        ({"num_hidden_layers": 2.5}, "expected an integer, found 2.5"),
        ({"num_hidden_layers": [1]}, "expected an integer, found a list"),
        (BASE | {"num_key_value_heads": 3}, "8 attention heads cannot share 3 KV heads"),
        (BASE | {"num_key_value_heads": 16}, "8 attention heads cannot share 16 KV heads"),
        (BASE | {"hidden_size": 1023}, "1023 is no multiple of 8 heads, and there is no head_dim"),
        (BASE | {"layer_types": ["full_attention"]}, "lists 1 layers of 2"),
        (
            BASE | {"layer_types": ["full_attention", "\x1b[31mred\x1b[0m"]},
            "layers of kind 'red' are not understood",
        ),
        (BASE | {"layer_types": ["full_attention", 7]}, "expected a list of strings, found 7 in it"),
        (BASE | {"layer_types": {}}, "expected a list, found an object"),
        (BASE | {"layer_types": ["mlp", "moe"]}, "no layer keeps anything"),
        (BASE | {"layer_types": ["sliding_attention"] * 2}, "sliding_window: missing"),
        (BASE | {"layer_types": ["linear_attention"] * 2}, "dimensions the config does not give"),
        (BASE | {"hybrid_override_pattern": "M?"}, "layers of kind '?' are not understood"),
        (BASE | {"model_type": "longcat_flash"}, "not all alike"),
        (BASE | {"model_type": ["llama"]}, "model_type: expected a string, found a list"),
        (BASE | {"block_configs": [{}]}, "block_configs: layers that differ"),
        (BASE | {"is_encoder_decoder": True}, "models with an encoder"),
        (BASE | {"kv_lora_rank": 512}, "qk_rope_head_dim: missing"),
        (BASE | {"kv_lora_rank": 512, "sliding_window": 64}, "latent attention with a window"),
    ],
)
def test_what_cannot_be_understood_names_its_key(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        shape(values)
    assert message in str(caught.value)
    assert str(caught.value).startswith("config.json: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"num_hidden_layers": NaN}', "NaN is not a number"),
        (b'{"num_hidden_layers": ' + b"9" * 100_000 + b"}", "config.json"),
        (b"[]", "expected a JSON object"),
        (b'"\x1b[2J"', "not JSON"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not JSON"),
    ],
    ids=["empty", "cut", "binary", "deep", "nan", "digits", "list", "escape", "lfs"],
)
def test_a_malformed_file_is_one_clear_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read_shape(tmp_path)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


def test_files_are_bounded_and_regular(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(CONFIG_LIMIT + 1)
    with pytest.raises(ModelError, match="larger than 8 MiB"):
        read_shape(tmp_path)
    path.unlink()
    os.mkfifo(path)  # opening it for reading would wait for a writer
    with pytest.raises(ModelError, match="not a regular file"):
        read_shape(tmp_path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:  # opening it would fail: it is told without that
        other.bind(os.path.relpath(path))
    with pytest.raises(ModelError, match="not a regular file"):
        read_shape(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ModelError, match="not a regular file"):
        read_shape(tmp_path)
    path.rmdir()
    path.symlink_to(path)
    with pytest.raises(ModelError, match=r"config\.json: "):
        read_shape(tmp_path)
    path.unlink()
    with pytest.raises(ModelError, match="No such file"):
        read_shape(tmp_path)


KEYS = [
    "model_type", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "kv_lora_rank", "qk_rope_head_dim", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types",
    "hybrid_override_pattern", "no_rope_layers", "attention_chunk_size", "num_kv_shared_layers", "text_config",
    "linear_attn_config", "quantization_config", "torch_dtype", "max_position_embeddings", "mamba_d_state",
    "mamba_n_heads", "mamba_d_conv", "attn_layer_period", "attn_config", "multi_query", "global_head_dim",
]  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 70)
    | st.integers()
    | st.floats()
    | st.sampled_from(["llama", "gemma2", "jamba", "mamba2", "M*", "fp8", "bfloat16", "\x1b[0m"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=12))
def test_any_config_is_a_shape_or_a_clear_error(values: dict[str, Any]) -> None:
    try:
        model = shape(values)
    except ModelError as error:
        assert str(error).isprintable()
    else:
        assert model.layers > 0
        assert bytes_per_token(model, FP16) >= 0
