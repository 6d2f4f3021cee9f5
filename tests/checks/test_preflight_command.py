"""``infertop preflight`` as a program: its status, its contract, and the command that takes its place."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fake_nvml import MIB
from tests.support.preflight_hosts import TELLING, write_model, write_program, write_python
from tests.support.program import ROOT, command, environment, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fake_nvml import FakeNvml

pytest_plugins = ("tests.support.nvml_plugin",)

PACKAGES = {"vllm": "0.11.0", "nvidia-cuda-runtime-cu12": "12.1.105"}
RELAXED = ("--min-disk-gib", "0")


@pytest.fixture
def host(fake_nvml: FakeNvml) -> FakeNvml:
    """Two free cards."""
    with fake_nvml.together():
        fake_nvml.count(2)
        for card in (0, 1):
            fake_nvml.set(card, "mem_free", 80_000 * MIB)
    return fake_nvml


@pytest.fixture
def vllm(tmp_path: Path) -> list[str]:
    """The command line of an engine that tells what it was given."""
    python = write_python(tmp_path / "venv", PACKAGES)
    model = write_model(tmp_path / "model")
    return [
        str(write_program(python, "vllm", TELLING)),
        "serve",
        str(model),
        "--port",
        "1",
        "--api-key",
        "hunter2",
    ]


def found(text: str) -> dict[str, list[Any]]:
    by_id: dict[str, list[Any]] = {}
    for finding in json.loads(text)["findings"]:
        by_id.setdefault(finding["id"], []).append(finding)
    return by_id


def test_the_command_takes_this_process_s_place(tmp_path: Path, host: FakeNvml, vllm: list[str]) -> None:
    with subprocess.Popen(
        command("preflight", *RELAXED, "--", *vllm),
        cwd=tmp_path,
        env=environment(tmp_path, host.environment()),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_ignore_interrupts,
    ) as process:
        out, err = process.communicate("a request", timeout=40)
    told = json.loads(out)  # and nothing else is on stdout
    assert process.returncode == 7
    assert told["pid"] == process.pid
    assert told["arguments"] == vllm[1:]
    assert told["stdin"] == "a request"
    assert int(told["ignored"][0], 16) & _bit(signal.SIGINT)  # as by nohup: that stays
    assert "0 errors" in err and "hunter2" not in err
    assert "driver 550.54.15 is new enough for CUDA 12.1 (nvidia-cuda-runtime-cu12): 530.30.02" in err
    assert "vllm 0.11.0" in err and "port 1 is free" in err


def _bit(number: int) -> int:
    return 1 << (number - 1)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_the_command_is_not_run_when_something_is_wrong(
    tmp_path: Path, host: FakeNvml, vllm: list[str]
) -> None:
    host.driver("525.60")
    host.set(1, "mem_free", 3 * 1024 * MIB)
    (tmp_path / "model" / "model-00002-of-00003.safetensors").unlink()
    env = {**host.environment(), "LD_LIBRARY_PATH": ""}
    ended = run("preflight", *RELAXED, "--json", "--", *vllm, home=tmp_path, env=env)
    assert (ended.status, ended.out) == (1, "")
    document, _, last = ended.err.partition("\n")
    assert last == f"infertop: {vllm[0]} was not started\n"
    assert json.loads(document)["passed"] is False
    by_id = found(document)
    errors = {id_ for id_, findings in by_id.items() if findings[0]["level"] == "error"}
    assert errors == {"driver-cuda", "gpu-memory", "model-weights"}
    assert by_id["driver-cuda"][0]["limit"] == "530.30.02"
    assert [f["value"] for f in by_id["gpu-memory"]] == [3072, 80_000]  # the worst first
    assert by_id["model-weights"][0]["text"].startswith("model-00002-of-00003.safetensors: No such file")


def test_warnings_stop_it_only_if_they_shall(tmp_path: Path, host: FakeNvml) -> None:
    words = ["grep", "SigIgn", "/proc/self/status"]
    env = host.environment()
    warned = ("--min-disk-gib", "1e6")
    ended = run("preflight", *warned, "--", *words, home=tmp_path, env=env)
    assert ended.status == 0 and "warning  disk of the cache" in ended.err
    # Python ignores both for itself; the command must not inherit that
    assert not int(ended.out.split()[1], 16) & (_bit(signal.SIGPIPE) | _bit(signal.SIGXFSZ))
    ended = run("preflight", *warned, "--strict", "--", *words, home=tmp_path, env=env)
    assert (ended.status, ended.out) == (1, "")


def test_without_a_command_the_findings_are_the_answer(tmp_path: Path, host: FakeNvml) -> None:
    model = write_model(tmp_path / "model")
    ended = run("preflight", "--model", str(model), "--json", *RELAXED, home=tmp_path, env=host.environment())
    document = ended.json()
    assert list(document) == ["schema", "passed", "findings"]
    assert (document["schema"], document["passed"], ended.status, ended.err) == (1, True, 0, "")
    for finding in document["findings"]:
        assert list(finding) == ["id", "level", "text", "value", "limit"]
        assert finding["level"] in ("ok", "warning")
    assert "room for 21 sequences" in found(ended.out)["model-fits"][0]["text"]
    ended = run("preflight", "--model", str(tmp_path / "gone"), home=tmp_path, env=host.environment())
    lines = ended.out.splitlines()
    assert ended.status == 1 and ended.err == ""
    assert lines[0] == f"error    {tmp_path}/gone: no such directory"
    assert lines[-1].startswith("1 error, ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to check"),
        (("--model", "m", "--"), "no command behind --"),
        (("vllm", "serve", "m"), "'vllm' is no option: the command to run stands behind --"),
        (("--model", "m", "--cuda", "twelve"), "is not a CUDA release"),
        (("--model", "m", "--gpus", "0,x"), "neither all nor a list"),
        (("--model", "m", "--port", "70000"), "not a number from 1 to 65535"),
        (("--model", "m", "--dtype", "float7"), "'float7' is none of"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    from tui import cli

    try:
        status = cli.main(["preflight", *words])
    except SystemExit as stop:
        status = int(str(stop.code))
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, "")
    assert message in printed.err


def test_it_loads_neither_the_screen_nor_torch(tmp_path: Path, host: FakeNvml) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    heavy = {"textual", "rich", "plotext", "httpx", "torch", "vllm"}
    code = (
        "import sys\nfrom tui import cli\n"
        "cli.main(['preflight', '--model', 'org/model', '--engine', 'vllm', '--port', '1'])\n"
        f"found = {heavy!r} & set(sys.modules)\n"
        "sys.exit(f'loaded {found}' if found else 0)"
    )
    env = environment(tmp_path, host.environment())
    env["PYTHONPATH"] = f"{ROOT}:{tmp_path}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=40, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "org/model is not on this host" in done.stdout
