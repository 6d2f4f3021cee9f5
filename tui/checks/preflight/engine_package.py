"""Which engine the command would run: by the files of its Python, without running that or importing torch."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.checks.finding import CheckFinding
from tui.checks.preflight.cuda import compatibility_driver, parse_cuda
from tui.model.text import clean
from tui.sources.command_line import redact
from tui.sources.kernel.procfs import read_start

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import IO

    from tui.checks.preflight.intent import Intent
    from tui.model.readings import EngineKind

_PROGRAMS: Final[dict[EngineKind, str]] = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm-serve"}
_PACKAGES: Final[dict[EngineKind, str]] = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm"}
_MODULES: Final[dict[EngineKind, str]] = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt_llm"}
_RUNTIMES: Final = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?")
_HEAD: Final = 4096
IMPORT_S: Final = 120.0
_OUTPUT_MAX: Final = 1 << 16
_MARK: Final = "infertop-import "
_IMPORT: Final = (
    "import importlib, json, sys; found = importlib.import_module(sys.argv[1]); import torch; "
    f"print({_MARK!r} + json.dumps([str(getattr(found, '__version__', '')), str(torch.__version__), "
    "str(torch.version.cuda), torch.cuda.is_available(), torch.cuda.device_count()]))"
)


@dataclass(frozen=True, slots=True)
class Installed:
    """What the files of a Python say."""

    python: str = ""
    """The interpreter's path; empty where it is not known."""
    engine: str | None = None
    """The engine package's version."""
    torch: str | None = None
    cuda: tuple[int, int] | None = None
    """The release that torch and the engine were built for."""
    why: str = ""
    """For a person: where the release is from, or why something is not known."""
    compatibility: str | None = None
    """The driver whose CUDA library it would load in place of the installed one's."""


def read_installed(intent: Intent) -> Installed:
    """Find the Python that would run the engine, and look into its packages."""
    library = compatibility_driver(intent.environment.get("LD_LIBRARY_PATH", ""))
    return replace(_packages(intent), compatibility=library)


def _packages(intent: Intent) -> Installed:
    python = interpreter(intent)
    if python is None:
        return Installed(why="the Python of the engine was not found: give --cuda")
    folders = site_packages(python, intent.environment)
    versions = {name: _version(name, folders) for name in ("torch", *_RUNTIMES)}
    package = _PACKAGES.get(intent.engine) if intent.engine else None
    engine = _version(package, folders) if package else None
    build = re.search(r"\+cu(\d{2})(\d)(?!\d)", versions["torch"] or "")
    runtime = next(((name, versions[name]) for name in _RUNTIMES if versions[name]), None)
    if runtime is not None and (cuda := parse_cuda(runtime[1] or "")):
        return Installed(python, engine, versions["torch"], cuda, runtime[0])
    if build is not None:
        return Installed(
            python, engine, versions["torch"], (int(build[1]), int(build[2])), f"torch {versions['torch']}"
        )
    return Installed(
        python, engine, versions["torch"], None, f"no CUDA packages beside {clean(python)}: give --cuda"
    )


def package_finding(intent: Intent, found: Installed) -> CheckFinding:
    """Whether the engine is installed where the command would look for it."""
    package = _PACKAGES.get(intent.engine) if intent.engine else None
    if package is None:
        what = "Triton is no Python package" if intent.engine == "triton" else "give --engine"
        return CheckFinding("engine-package", "ok", f"not checked: the engine package: {what}")
    if not found.python:
        text = f"not checked: {package}: which Python would run it cannot be told from the PATH"
        return CheckFinding("engine-package", "warning", text)
    if found.engine is None:
        text = f"{package} is not installed for {clean(found.python)}"
        # without a command it may be meant to run elsewhere, such as in a container
        return CheckFinding("engine-package", "error" if intent.program else "warning", text, None, package)
    torch = f", torch {found.torch}" if found.torch else ""
    text = f"{package} {found.engine}{torch} for {clean(found.python)}"
    return CheckFinding("engine-package", "ok", text, found.engine)


def interpreter(intent: Intent) -> str | None:
    """The Python that runs the engine: the command's, else that of the engine's program, else the first."""
    path = intent.environment.get("PATH")
    names = [intent.program[0]] if intent.program else []
    if not names and intent.engine in _PROGRAMS:
        names = [_PROGRAMS[intent.engine], "python3"]
    for name in names:
        file = shutil.which(name, path=path)
        if file is None:
            continue
        if _PYTHON.fullmatch(Path(file).name) and not _is_script(file):
            return file
        if (python := _shebang(file, path)) is not None:
            return python
    return None


def site_packages(python: str, environment: Mapping[str, str]) -> list[str]:
    """Folders in which an interpreter looks for packages, the first to count first; only those that exist."""
    folders = [Path(entry) for entry in environment.get("PYTHONPATH", "").split(":") if entry]
    binary = Path(python).absolute()
    real = Path(os.path.realpath(python))
    version = re.fullmatch(r"(?:python|pypy)(3\.\d+t?)", real.name)
    pattern = f"python{version[1] if version else '3*'}"
    settings = _virtual(binary.parent.parent)
    prefixes = [binary.parent.parent]
    if settings is None or settings.get("include-system-site-packages", "").lower() == "true":
        home = Path(environment.get("HOME") or "/", ".local")
        prefixes += [home, real.parent.parent]
    for prefix in dict.fromkeys(prefixes):
        for lib in ("lib", "lib64", "local/lib"):
            folders += sorted(prefix.glob(f"{lib}/{pattern}/site-packages"))
            folders += sorted(prefix.glob(f"{lib}/{pattern}/dist-packages"))
        folders += [prefix / "lib/python3/dist-packages"]
    return list(dict.fromkeys(str(folder) for folder in folders if folder.is_dir()))


def import_finding(intent: Intent, deadline_s: float = IMPORT_S) -> CheckFinding:
    """Let the engine's Python import it and ask torch for CUDA: slow, but the truth.

    Args:
        intent: what is to be started.
        deadline_s: when it is ended.
    """
    python = interpreter(intent)
    if python is None:
        text = "import: which Python would run the engine cannot be told: give its command"
        return CheckFinding("import", "error", text)
    module = _MODULES.get(intent.engine, "torch") if intent.engine else "torch"
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            child = subprocess.Popen(
                [python, "-c", _IMPORT, module],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=dict(intent.environment),
            )
        except OSError as error:
            text = f"import {module}: {clean(python)}: {clean(error.strerror or str(error))}"
            return CheckFinding("import", "error", text)
        try:
            status = child.wait(deadline_s)
        except subprocess.TimeoutExpired:
            text = f"import {module}: no end within {deadline_s:g} s"
            return CheckFinding("import", "error", text, None, deadline_s)
        finally:
            child.kill()  # does nothing to one that has ended
            child.wait()
        return _imported(module, status, _tail(out), _tail(err))


def _imported(module: str, status: int, out: str, err: str) -> CheckFinding:
    line = next((text for text in reversed(out.splitlines()) if text.startswith(_MARK)), "")
    if status != 0 or not line:
        last = next((text for text in reversed(err.splitlines()) if text.strip()), "")
        how = f"signal {-status}" if status < 0 else f"exit {status}"
        why = clean(" ".join(redact([last])), 160) or "it says nothing"
        return CheckFinding("import", "error", f"import {module} fails ({how}): {why}", status, 0)
    try:
        version, torch, cuda, available, count = json.loads(line.removeprefix(_MARK))
    except ValueError:
        return CheckFinding("import", "error", f"import {module}: its answer makes no sense")
    name = clean(f"{module} {version}, torch {torch} for CUDA {cuda}", 160)
    if available is not True or not count:
        return CheckFinding("import", "error", f"{name}: torch finds no CUDA device", count, 1)
    return CheckFinding("import", "ok", f"{name}: imported, {count} CUDA devices", count, 1)


def _is_script(file: str) -> bool:
    """What stands in for an interpreter, as pyenv's shims do, is none: whose packages count, it decides."""
    try:
        return read_start(file, 2) == b"#!"
    except OSError:
        return False


def _shebang(file: str, path: str | None) -> str | None:
    """The interpreter of a script; None where that is no Python, or the file is no script."""
    try:
        lines = read_start(file, _HEAD).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    words = lines[0][2:].split() if lines and lines[0].startswith("#!") else []
    if words and Path(words[0]).name == "sh" and len(lines) > 1:
        # what pip and uv write where the path of the interpreter is too long for a kernel's first line
        match = re.match(r"'''exec' (?:\"([^\"]+)\"|(\S+)) ", lines[1])
        words = [match[1] or match[2]] if match else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if not words or not _PYTHON.fullmatch(Path(words[0]).name):
        return None
    return shutil.which(words[0], path=path)


def _virtual(prefix: Path) -> dict[str, str] | None:
    """The settings of a virtual environment; None where it is none."""
    try:
        text = read_start(str(prefix / "pyvenv.cfg"), _HEAD).decode("utf-8", "replace")
    except OSError:
        return None
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _version(package: str, folders: list[str]) -> str | None:
    for found in distributions(name=package, path=folders):
        try:
            metadata = found.metadata
            # looked for before it is taken: where there is none, that warns, and is to fail one day
            if "Version" in metadata and (version := metadata["Version"]):
                return clean(version, 60)
        except (KeyError, OSError, ValueError):
            continue  # a broken remainder of an installation
    return None


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _OUTPUT_MAX))
    return file.read(_OUTPUT_MAX).decode("utf-8", "replace")
