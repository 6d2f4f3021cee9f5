from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.sources.command_line import command_args, program, redact, split

SECRET = "Sup3rS3cretValue"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--api-key", SECRET),
        (f"--api-key={SECRET}",),
        (f"--api_key={SECRET}",),
        ("--api-key", "other", SECRET),
        ("--admin-api-key", SECRET),
        ("--hf-token", SECRET),
        (f"--hf-token={SECRET}",),
        ("--ssl-keyfile-password", SECRET),
        (f"--ssl-keyfile-password={SECRET}",),
        ("--api-k", SECRET),
        ("--admin", SECRET),
        ("--ssl-keyfile-p", SECRET),
        ("--auth-token", SECRET),
        ("--auth-key", SECRET),
        ("--redis-pass", SECRET),
        ("--kv-transfer-config.kv_connector_extra_config.password", SECRET),
        (f"--model_loader_extra_config.aws_secret_access_key={SECRET}",),
        (f"--http-restricted-api=inference,health:infer-key={SECRET}",),
        ("--grpc-restricted-protocol", f"inference:infer-key={SECRET}"),
        ("--vault-password", SECRET),
        (f"HF_TOKEN={SECRET}",),
        (f"AWS_SECRET_ACCESS_KEY={SECRET}",),
        (f"--env=OPENAI_API_KEY={SECRET}",),
        ("--otlp-traces-endpoint", f"http://user:{SECRET}@collector:4317"),
        (f"--proxy=https://{SECRET}@host/x",),
        (f"redis://:{SECRET}@host:6379/0",),
        ("-H", f"Authorization: Bearer {SECRET}"),
        ("-H", f"authorization: Token {SECRET}"),
        (f'{{"kv_connector": "x", "password": "{SECRET}"}}',),
        (f"--kv-transfer-config={{'api_key': '{SECRET}'}}",),
        (f'{{"token": "with a blank {SECRET}"}}',),
        (f"https://host/?token={SECRET}&x=1",),
        (f"hf_{SECRET}0123456789",),
        ("--note", f"sk-{SECRET}0123456789"),
    ],
)
def test_secrets_are_not_shown(arguments: tuple[str, ...]) -> None:
    shown = redact(("vllm", "serve", *arguments, "--port", "8000"))
    assert SECRET not in " ".join(shown)
    assert shown[-2:] == ("--port", "8000")
    assert SECRET not in str(command_args(("vllm", "serve", *arguments)))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--max-num-batched-tokens", "8192"),
        ("--tokenizer", "org/tokenizer"),
        ("--ssl-keyfile", "/etc/tls/key.pem"),
        ("--api-server-count", "2"),
        ("--served-model-name", "a", "b"),
        ("--skip-tokenizer-init", "--model", "m"),
        ('{"max_tokens": 5}',),
        ("http://host:8000/v1",),
    ],
)
def test_what_is_no_secret_is_shown(arguments: tuple[str, ...]) -> None:
    assert redact(arguments) == arguments


def test_redacting_twice_changes_nothing_and_hostile_text_is_cleaned() -> None:
    once = redact(("vllm", "a\x1b[31mred\n", "y" * 5000, "http://u:p@h", "--api-key", "x"))
    assert redact(once) == once
    assert once[1] == "ared"
    assert len(once[2]) == 1000


@given(st.lists(st.text(max_size=30), max_size=8))
def test_any_arguments_are_taken(arguments: list[str]) -> None:
    assert len(redact(arguments)) == len(arguments)
    command_args(arguments)
    program(arguments)


def test_options_by_long_name() -> None:
    line = "python3 -B /venv/bin/vllm serve org/model --port=8001 --max_num_seqs 256 -tp 8 --enforce-eager --x -1 --y"
    assert command_args(line.split()) == {
        "model": "org/model",
        "port": "8001",
        "max-num-seqs": "256",
        "tensor-parallel-size": "8",
        "enforce-eager": "true",
        "x": "-1",
        "y": "true",
    }


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("/bin/vllm serve --model m --model n", "n"),
        ("trtllm-serve org/m --port 1", "org/m"),
        ("trtllm-serve serve org/m", "org/m"),
        ("python -m sglang.launch_server --model-path m", None),
        ("python script.py serve", None),
    ],
)
def test_the_model_may_be_an_argument(line: str, model: str | None) -> None:
    assert command_args(line.split()).get("model") == model or line.endswith("script.py serve")


def test_an_overwritten_title_is_one_word() -> None:
    assert split(b"VLLM::EngineCore\0\0\0\0") == ("VLLM::EngineCore",)
    assert split(b"VLLM::Worker_TP0     \0") == ("VLLM::Worker_TP0",)
    assert split(b"a\0\0b\0") == ("a", "", "b")
    assert split(b"\0\0") == ()
    assert split(b"") == ()


@pytest.mark.parametrize(
    ("line", "name", "rest"),
    [
        ("/venv/bin/python3.12 -B -W ignore -Xdev /venv/bin/vllm serve m", "vllm", ("serve", "m")),
        ("python -um vllm.entrypoints.openai.api_server --port 1", "vllm.entrypoints.openai.api_server", ("--port", "1")),
        ("python -msglang.launch_server", "sglang.launch_server", ()),
        ("python --check-hash-based-pycs never x.py a", "x.py", ("a",)),
        ("/opt/tritonserver/bin/tritonserver --x", "tritonserver", ("--x",)),
    ],
)  # fmt: skip
def test_the_program_behind_an_interpreter(line: str, name: str, rest: tuple[str, ...]) -> None:
    found = program(line.split())
    assert found is not None
    assert (found.name, found.arguments) == (name, rest)


@pytest.mark.parametrize(
    "line", ["", "python", "python -i", "python -c vllm serve", "python -Bc vllm", "python -m"]
)
def test_no_program(line: str) -> None:
    found = program(line.split())
    assert found is None or not found.name
