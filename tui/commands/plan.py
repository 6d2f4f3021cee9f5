"""``infertop plan``: will this model, with so many sequences of such a length, fit into those GPUs?"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from tui.commands.usage import UsageError
from tui.memory import kv
from tui.memory.changes import changes
from tui.memory.dtypes import FP8_DS_MLA, KV_NAMES, WEIGHT_NAMES, Dtype, kv_dtype, weight_dtype
from tui.memory.errors import ModelError
from tui.memory.fields import Fields
from tui.memory.model_config import read_shape, shape_of
from tui.memory.plan import Setting, make_plan, remarks
from tui.memory.shape import Latent
from tui.memory.weights import assumed, read_weights
from tui.model.text import clean
from tui.report import plan_json, plan_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.memory.shape import ModelShape
    from tui.memory.weights import Weights

DESCRIPTION = """Will a model fit: weights, KV cache and the rest by arithmetic, without an engine or a GPU.

Figures are of one GPU. The model is a directory with config.json (weights: from safetensors headers
or an index), or is described by options; options given with --model count in place of its config.

Exit status: 0 fits, 1 does not, 2 usage error or unreadable model."""
EXAMPLE = (
    "infertop plan --layers 40 --hidden 5120 --params-b 13 "
    "--gpu-mem-gib 80 --max-model-len 4096 --max-num-seqs 32"
)

_SHAPE_OPTIONS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of this command."""
    model = parser.add_argument_group("the model")
    model.add_argument("--model", metavar="DIR", type=Path, help="Hugging Face model directory")
    model.add_argument("--layers", metavar="N", type=whole(10_000), help="hidden layers")
    model.add_argument("--hidden", metavar="N", type=whole(1 << 20), help="hidden size")
    model.add_argument("--heads", metavar="N", type=whole(1 << 16), help="attention heads")
    model.add_argument(
        "--kv-heads", metavar="N", type=whole(1 << 16), help="KV heads (as many as heads: MHA)"
    )
    model.add_argument(
        "--head-dim", metavar="N", type=whole(1 << 16), help="width of a head (hidden / heads)"
    )
    model.add_argument("--params-b", metavar="X", type=real(1e-6, 1e6), help="parameters in billions (10^9)")
    model.add_argument(
        "--dtype", metavar="T", type=dtype, help="weights: fp16, bf16, fp32, fp8, int8, int4 (as stored)"
    )
    model.add_argument(
        "--kv-dtype", metavar="T", type=kv_type, help="KV cache: fp16, bf16, fp8, int8 (as computed)"
    )
    gpu = parser.add_argument_group("the GPUs and the load")
    gpu.add_argument(
        "--gpu-mem-gib", metavar="X", type=real(0.1, 1e5), required=True, help="memory of one GPU"
    )
    gpu.add_argument("--tp", metavar="N", type=whole(1024), default=1, help="tensor-parallel GPUs (1)")
    gpu.add_argument(
        "--max-model-len", metavar="N", type=whole(1 << 30), help="tokens of a sequence (the model's)"
    )
    gpu.add_argument(
        "--max-num-seqs", metavar="N", type=whole(1 << 20), default=1, help="sequences at once (1)"
    )
    gpu.add_argument(
        "--utilization", metavar="X", type=real(0.01, 1), default=0.9,
        help="share for the engine (0.9: vLLM's default to 0.19; 0.92 since)",
    )  # fmt: skip
    gpu.add_argument(
        "--temporaries-gib", metavar="X", type=real(0, 1e4), default=3.0, help="activations, CUDA graphs (3)"
    )
    gpu.add_argument(
        "--system-gib", metavar="X", type=real(0, 1e4), default=1.0, help="CUDA context and the like (1)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object (schema 1)")


def run(args: argparse.Namespace) -> int:
    """0 fits, 1 does not."""
    try:
        shape = _shape(args)
        weights = _weights(args, shape)
        setting = _setting(args, shape)
        plan = make_plan(shape, weights, setting)
        ways = changes(shape, weights, plan)
    except ModelError as error:
        where = "" if args.model is None else f"{clean(str(args.model))}: "
        raise UsageError(f"{where}{error}") from None
    notes = remarks(shape, weights, setting)
    if args.json:
        print(
            json.dumps(
                plan_json.document(shape, weights, plan, ways, notes), ensure_ascii=True, allow_nan=False
            )
        )
    else:
        print(plan_text.render(shape, weights, plan, ways, notes), end="")
    return 0 if plan.fits else 1


def _shape(args: argparse.Namespace) -> ModelShape:
    over = {key: value for name, key in _SHAPE_OPTIONS.items() if (value := getattr(args, name)) is not None}
    if args.model is not None:
        shape = read_shape(args.model, over)
    else:
        _require(args, "layers", "params_b")
        if args.hidden is None and (args.head_dim is None or args.kv_heads is None):
            raise UsageError("a model needs --hidden, or --kv-heads and --head-dim; or --model DIR")
        if args.kv_heads is not None and args.heads is None and args.head_dim is None:
            raise UsageError(
                "--kv-heads says nothing without the width of a head: give --heads or --head-dim"
            )
        shape = shape_of(Fields({}, "options"), over)
    if reason := kv.refusal(shape, args.tp):
        raise UsageError(f"--tp {args.tp}: engines refuse it: {reason}")
    if args.kv_dtype == FP8_DS_MLA and not any(isinstance(cache, Latent) for cache in shape.caches):
        raise UsageError("--kv-dtype fp8_ds_mla: only for models with latent attention")
    return shape


def _require(args: argparse.Namespace, *names: str) -> None:
    missing = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) is None]
    if missing:
        raise UsageError(f"a model needs {' and '.join(missing)}; or --model DIR")


def _weights(args: argparse.Namespace, shape: ModelShape) -> Weights:
    if args.params_b is not None:
        return assumed(round(args.params_b * 1e9), shape.quantization)
    weights = read_weights(args.model, shape)
    if weights is None:
        raise UsageError("the directory holds no safetensors or PyTorch weights: give --params-b")
    return weights


def _setting(args: argparse.Namespace, shape: ModelShape) -> Setting:
    length = args.max_model_len or shape.context_len
    if length is None:
        raise UsageError("--max-model-len is needed: the model does not say how long its sequences may be")
    return Setting(
        gpu_mem_gib=args.gpu_mem_gib,
        max_model_len=length,
        max_num_seqs=args.max_num_seqs,
        tp=args.tp,
        dtype=args.dtype,
        kv_dtype=args.kv_dtype,
        utilization=args.utilization,
        temporaries_gib=args.temporaries_gib,
        system_gib=args.system_gib,
    )


def whole(most: int) -> Callable[[str], int]:
    """A parser of integers from 1, for argparse."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 12 and 1 <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {most}")
        return int(text)

    return parse


def real(low: float, high: float) -> Callable[[str], float]:
    """A parser of finite numbers in a range, for argparse."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low:g} to {high:g}")
        return value

    return parse


def dtype(text: str) -> Dtype | None:
    """A format of weights, for argparse; ``auto`` is as stored."""
    if text.lower() == "auto":
        return None
    if (found := weight_dtype(text)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(WEIGHT_NAMES)}")
    return found


def kv_type(text: str) -> Dtype | None:
    """A format of the KV cache, for argparse; ``auto`` is that of the computation."""
    if text.lower() == "auto":
        return None
    if (found := kv_dtype(text)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(KV_NAMES)}")
    return found
