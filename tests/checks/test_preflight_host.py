"""Disk, shared memory, limits, the port and the engine's packages: real files, sockets and processes."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.preflight_hosts import write_module, write_program, write_python
from tests.support.waiting import wait_for
from tui.checks.preflight import host, run
from tui.checks.preflight.engine_package import import_finding, interpreter, package_finding, read_installed
from tui.checks.preflight.intent import Intent, completed
from tui.checks.preflight.ports import port_finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.checks.finding import CheckFinding

TORCH = """
class version: cuda = "12.8"
class cuda:
    is_available = staticmethod(lambda: {count} > 0)
    device_count = staticmethod(lambda: {count})
__version__ = "2.8.0+cu128"
"""


# ------------------------------------------------------------------------------------------- disk, memory, limits


def test_each_disk_counts_once(tmp_path: Path) -> None:
    intent = Intent(environment={"HOME": str(tmp_path)}, min_disk_gib=0.0)
    (found,) = host.disk_findings(intent, tmp_path)
    assert found.level == "ok" and found.text.startswith("disk of the model directory")
    (cache,) = host.disk_findings(intent, None)
    assert f"the cache ({tmp_path}/.cache)" in cache.text  # it need not exist yet
    (full,) = host.disk_findings(Intent(min_disk_gib=1e6, environment=intent.environment), tmp_path)
    assert full.level == "warning" and full.text.endswith("GiB free, 1e+06 GiB wanted")
    assert isinstance(full.value, float) and full.limit == 1e6


def test_a_read_only_disk_needs_no_room(tmp_path: Path) -> None:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    readonly = [Path(m[1]) for m in mounts if "ro" in m[3].split(",") and Path(m[1]).is_dir()]
    if not readonly:
        pytest.skip("nothing is mounted read-only here")
    intent = Intent(min_disk_gib=1e6, environment={"HOME": str(tmp_path)})
    found = list(host.disk_findings(intent, readonly[0]))
    assert [f.level for f in found] == ["ok", "warning"]
    assert found[0].text.endswith("read-only, none needed")


def test_shared_memory_counts_with_several_ranks(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    several = host.shm_finding(Intent(tp=2), str(tmp_path))
    free = disk.f_bavail * disk.f_frsize / host.GIB
    assert several.level == ("ok" if free >= host.SHM_GIB else "warning") and several.limit == host.SHM_GIB
    small = host.shm_finding(Intent(tp=2), "/proc")  # a file system without blocks
    assert small.level == "warning" and "an engine on 2 GPUs wants 1 GiB (Docker: --shm-size" in small.text
    assert host.shm_finding(Intent(), "/proc").level == "ok"
    assert host.shm_finding(Intent(tp=2), str(tmp_path / "gone")).level == "warning"


@contextlib.contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def limits(tmp_path: Path, **intent: Any) -> dict[str, CheckFinding]:
    return {f.id: f for f in host.limit_findings(Intent(**intent), str(tmp_path / "infiniband"))}


def test_open_files_are_judged_by_what_the_engine_can_have(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with limited(resource.RLIMIT_NOFILE, 1024):
        found = limits(tmp_path)["open-files"]
        assert (found.level, found.value, found.limit) == ("warning", 1024, host.OPEN_FILES)
        assert found.text.startswith("open files: 1024; 65535 wanted")
        raised = limits(tmp_path, engine="vllm")["open-files"]
        assert raised.value == (None if hard == resource.RLIM_INFINITY else hard)
        assert "the engine raises it as far as it may" in raised.text


def test_locked_memory_counts_with_infiniband(tmp_path: Path) -> None:
    with limited(resource.RLIMIT_MEMLOCK, 64 << 10):
        assert limits(tmp_path, tp=2)["locked-memory"].level == "ok"
        (tmp_path / "infiniband" / "mlx5_0").mkdir(parents=True)
        found = limits(tmp_path, tp=2)["locked-memory"]
        assert (found.level, found.value, found.limit) == ("warning", 64, "unlimited")
        assert limits(tmp_path)["locked-memory"].level == "ok"


# ------------------------------------------------------------------------------------------- the port


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A process that listens on loopback, with a secret among its arguments: its pid and port."""
    code = (
        "import socket, sys\n"
        "s = socket.create_server(('127.0.0.1', 0))\n"
        "print(s.getsockname()[1], flush=True)\n"
        "sys.stdin.read()\n"
    )
    (tmp_path / "serve.py").write_text(code)
    # by a short name: a long command line is told by its beginning only
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    with subprocess.Popen(
        ["./python", "serve.py", "--api-key", "hunter2"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        yield child.pid, int(child.stdout.readline())
        child.kill()


def test_a_port_in_use_and_by_whom(listener: tuple[int, int]) -> None:
    pid, port = listener
    found = port_finding(Intent(port=port))
    assert found.level == "error"
    assert found.text.startswith(f"port {port} is in use at 127.0.0.1 by pid {pid} (")
    assert found.text.endswith("--api-key ***)") and "hunter2" not in found.text
    assert port_finding(Intent(port=port, host="127.0.0.2")).level == "ok"
    assert port_finding(Intent(port=port, host="127.0.0.1")).level == "error"


def test_a_port_that_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert port_finding(Intent(port=port)).level == "error"
    found = port_finding(Intent(port=port))
    assert (found.level, found.text) == ("ok", f"port {port} is free")
    assert port_finding(Intent()).text.startswith("not checked")


def test_a_holder_that_cannot_be_seen_is_named_by_its_user(listener: tuple[int, int], tmp_path: Path) -> None:
    found = port_finding(Intent(port=listener[1]), str(tmp_path))  # a /proc that shows no process
    assert found.level == "error" and "that cannot be seen from here" in found.text


# ------------------------------------------------------------------------------------------- the engine's packages

PACKAGES = {"vllm": "0.11.0", "torch": "2.8.0+cu128", "nvidia-cuda-runtime-cu12": "12.8.90"}


def starting(*command: str, **environment: str) -> Intent:
    return completed(Intent(command=command), {"HOME": "/nonexistent", **environment})


def test_the_packages_of_the_python_that_the_script_names(tmp_path: Path) -> None:
    python = write_python(tmp_path / "venv", PACKAGES)
    vllm = write_program(python, "vllm", "raise SystemExit('it was run')")
    for intent in (
        starting(str(vllm), "serve", "m"),
        starting("vllm", "serve", "m", PATH=str(python.parent)),
        starting(str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", "m"),
    ):
        found = read_installed(intent)
        assert (found.python, found.engine, found.torch) == (str(python), "0.11.0", "2.8.0+cu128")
        assert (found.cuda, found.why) == ((12, 8), "nvidia-cuda-runtime-cu12")
        assert package_finding(intent, found).text == f"vllm 0.11.0, torch 2.8.0+cu128 for {python}"


def test_the_first_lines_that_installers_write(tmp_path: Path) -> None:
    python = write_python(tmp_path / "a venv", PACKAGES)
    script = tmp_path / "vllm"
    for first in (
        f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n",
        "#!/usr/bin/env python\n",
        "#!/usr/bin/env -S python -u\n",
    ):
        script.write_text(first + "import vllm\n")
        script.chmod(0o755)
        assert interpreter(starting(str(script), "serve", "m", PATH=str(python.parent))) == str(python)
    for other in ("#!/bin/bash\n", "", "\x7fELF"):
        script.write_text(other)
        assert interpreter(starting(str(script), "serve", "m", PATH=str(python.parent))) is None


def test_a_shim_is_no_interpreter(tmp_path: Path) -> None:
    shim = tmp_path / "python3"
    shim.write_text('#!/bin/bash\nexec pyenv exec python3 "$@"\n')
    shim.chmod(0o755)
    intent = starting("python3", "-m", "sglang.launch_server", PATH=str(tmp_path))
    finding = package_finding(intent, read_installed(intent))
    assert finding.level == "warning" and finding.text.startswith("not checked: sglang")


def test_an_engine_that_is_not_installed(tmp_path: Path) -> None:
    python = write_python(tmp_path / "venv", {"torch": "2.4.1+cu121"})
    intent = starting(str(write_program(python, "vllm", "")), "serve", "m")
    found = read_installed(intent)
    assert (found.cuda, found.why) == ((12, 1), "torch 2.4.1+cu121")
    assert (package_finding(intent, found).level, package_finding(intent, found).value) == ("error", None)
    elsewhere = completed(Intent(engine="vllm"), {"PATH": str(python.parent)})
    assert package_finding(elsewhere, read_installed(elsewhere)).level == "warning"


def test_broken_metadata_is_passed_over(tmp_path: Path) -> None:
    python = write_python(tmp_path / "venv", PACKAGES)
    info = next(python.parent.parent.glob("lib/*/site-packages/vllm-*"))
    (info / "METADATA").unlink()
    assert read_installed(starting(str(write_program(python, "vllm", "")), "serve", "m")).engine is None


def test_the_import_is_the_engine_s_own(tmp_path: Path) -> None:
    python = write_python(tmp_path / "venv", PACKAGES)
    # modules of the same second and size would be taken from their bytecode
    intent = completed(Intent(engine="vllm"), {"PATH": str(python.parent), "PYTHONDONTWRITEBYTECODE": "1"})
    write_module(python, "torch", TORCH.format(count=2))
    write_module(python, "vllm", "print('banner')\n__version__ = '0.11.0'")
    good = import_finding(intent)
    assert (good.level, good.value) == ("ok", 2)
    assert good.text == "vllm 0.11.0, torch 2.8.0+cu128 for CUDA 12.8: imported, 2 CUDA devices"
    write_module(python, "torch", TORCH.format(count=0))
    assert "torch finds no CUDA device" in import_finding(intent).text
    write_module(python, "vllm", "raise ImportError('libcudart.so.12: \\x1b[31mnot found, token=hunter2')")
    text = import_finding(intent).text
    assert text == "import vllm fails (exit 1): ImportError: libcudart.so.12: not found, token=***"
    write_module(python, "vllm", "import os; os.abort()")
    assert "signal 6" in import_finding(intent).text


def test_an_import_that_hangs_is_ended(tmp_path: Path) -> None:
    python = write_python(tmp_path / "venv", {})
    note = tmp_path / "pid"
    write_module(
        python,
        "vllm",
        f"import os, signal, sys\nopen({str(note)!r}, 'w').write(str(os.getpid()))\nsignal.pause()",
    )
    intent = completed(Intent(engine="vllm"), {"PATH": str(python.parent)})
    found = import_finding(intent, deadline_s=2.0)
    assert found.level == "error" and found.text == "import vllm: no end within 2 s"
    assert not Path(f"/proc/{note.read_text()}").exists()


# ------------------------------------------------------------------------------------------- all together


async def test_a_topic_that_hangs_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()  # nothing is ever written: a file system that does not answer
    monkeypatch.setattr(run, "read_model_directory", lambda _intent: os.read(read, 1))
    monkeypatch.setenv("INFERTOP_NVML_LIBRARY", str(tmp_path / "none"))
    intent = completed(Intent(model=str(tmp_path), port=1), {"HOME": str(tmp_path)})
    found = {f.id: f for f in await run.examine(intent, 1.5)}
    os.write(write, b"x")
    assert found["model-directory"].text.startswith("model-directory: no answer within the time")
    assert found["driver"].level == "error" and "INFERTOP_NVML_LIBRARY" in found["driver"].text
    assert found["disk"].level in ("ok", "warning")
    assert found["model-fits"].text == "not checked: whether the model fits: the GPUs could not be read"
    wait_for(lambda: not _blocked(read), 5.0)


def _blocked(descriptor: int) -> bool:
    os.set_blocking(descriptor, False)
    try:
        return bool(os.read(descriptor, 1))
    except BlockingIOError:
        return False
