"""The fake NVML from Python: builds the library, writes the state file that it answers from.

The library (``tests/fixtures/fake_nvml.c``) is put in place of the driver's by the environment of the
process that reads it (``FakeNvml.environment``), which may be this one or another. Its statements are
explained at the top of the C file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SOURCE = Path(__file__).parent.parent / "fixtures" / "fake_nvml.c"
MIB = 1024 * 1024
MAX_CARDS = 16


class NoCompilerError(Exception):
    """There is no C compiler here."""


def build_library(directory: Path, without: Sequence[str] = ()) -> Path:
    """Compile the fake into a directory, unless it is there already; safe with several processes at once.

    Args:
        directory: where the library goes; it must live as long as the processes that use it.
        without: exported functions to leave out, as a driver older than them does.

    Raises:
        NoCompilerError: ``$CC`` or ``cc`` is not to be found.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise NoCompilerError
    version_script = (
        "{ global: nvml*; fake_nvml*; local: " + " ".join(f"{f};" for f in (*without, "*")) + " };\n"
    )
    content = hashlib.sha256(SOURCE.read_bytes() + version_script.encode()).hexdigest()[:16]
    home = directory / f"fake-nvml-{content}"
    library = home / "libnvidia-ml.so.1"
    if library.exists():
        return library
    home.mkdir(exist_ok=True)
    fresh = home / f"{os.getpid()}.so"
    script = home / f"{os.getpid()}.map"
    script.write_text(version_script)
    subprocess.run(
        [
            compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-pthread",
            "-Wl,-soname,libnvidia-ml.so.1", f"-Wl,--version-script={script}",
            "-o", str(fresh), str(SOURCE),
        ],
        check=True,
    )  # fmt: skip
    fresh.replace(library)
    return library


def gpu_values(card: int, tick: int = 0) -> dict[str, int | str]:
    """Fields of one healthy card in NVML's units; no two cards and no two ticks are alike."""
    total = 81559 * MIB
    reserved = 551 * MIB
    used = (40000 + 1000 * card + 10 * (tick % 100)) * MIB
    return {
        "uuid": f"GPU-0000000{card:x}-aaaa-bbbb-cccc-0123456789ab",
        "name": "NVIDIA H100 80GB HBM3",
        "util_gpu": (50 + 3 * card + 7 * tick) % 101,
        "util_mem": (20 + 2 * card + 5 * tick) % 101,
        "mem_total": total,
        "mem_reserved": reserved,
        "mem_free": total - reserved - used,
        "power_mw": 400_000 + 10_000 * card + 1_000 * (tick % 50),
        "power_limit_mw": 700_000,
        "temp_c": 50 + card + tick % 10,
        "clock_sm": 1700 + 15 * card + 5 * (tick % 10),
        "clock_sm_max": 1980,
        "clock_mem": 2619,
        "reasons": 0x4 if (card + tick) % 4 == 1 else 0,
        "ecc_volatile_corrected": 0,
        "ecc_volatile_uncorrected": 0,
        "ecc_aggregate_corrected": 0,
        "ecc_aggregate_uncorrected": 0,
        "remap_corrected": 0,
        "remap_uncorrected": 0,
        "remap_pending": 0,
        "remap_failed": 0,
        "pcie_gen": 5,
        "pcie_gen_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "mig": 0,
    }


class FakeNvml:
    """What the fake library answers. Each change is in force at once, also in a process that is running.

    Args:
        state: the state file, which this object owns.
        library: the built library, for ``environment``.
    """

    def __init__(self, state: Path, library: Path) -> None:
        self._state = state
        self._library = library
        self._driver = "550.54.15"
        self._order: list[int] = []
        self._fields: dict[int, dict[str, int | str]] = {}
        self._processes: dict[int, list[tuple[int, int | None]]] = {}
        self._failures: dict[tuple[int | None, str], int] = {}
        self._delays: dict[tuple[int | None, str], int] = {}
        self._together = False
        self._stamp_ns = 0
        self._write()

    def environment(self) -> dict[str, str]:
        """Variables that make a process read this fake."""
        return {"FAKE_NVML_STATE": str(self._state), "INFERTOP_NVML_LIBRARY": str(self._library)}

    def count(self, number: int) -> None:
        """Cards 0 to number - 1 are there, new ones with the values of ``gpu_values``."""
        self.cards(range(number))

    def cards(self, numbers: Sequence[int]) -> None:
        """Which cards NVML counts, by index; handles of the others are lost."""
        for card in numbers:
            self._fields.setdefault(card, gpu_values(card))
        self._order = list(numbers)
        self._write()

    def set(self, card: int, field: str, value: int | str | None) -> None:
        """Set one field in NVML's units; None: the card does not support it.

        A surrogate such as ``\\udcff`` in a text becomes the byte 0xFF.
        """
        fields = self._fields.setdefault(card, gpu_values(card))
        if value is None:
            fields.pop(field, None)
        else:
            fields[field] = value
        self._write()

    def move(self, tick: int) -> list[dict[str, int | str]]:
        """Give every card the values of a tick; what they are, by index."""
        for card in self._order:
            self._fields[card].update(gpu_values(card, tick))
        self._write()
        return [dict(self._fields[card]) for card in self._order]

    def processes(self, card: int, held: Sequence[tuple[int, int | None]]) -> None:
        """Processes on a card: pid and bytes, None where the driver does not know."""
        self._processes[card] = list(held)
        self._write()

    def driver(self, version: str) -> None:
        """The driver's version."""
        self._driver = version
        self._write()

    def fail(self, card: int | None, function: str, code: int) -> None:
        """Make an exported function (``*``: all) return a code for one card, or everywhere; 0 heals it."""
        _put(self._failures, (card, function), code)
        self._write()

    def delay(self, card: int | None, function: str, milliseconds: int) -> None:
        """Make a function wait before it answers; 0 also ends a wait that goes on."""
        _put(self._delays, (card, function), milliseconds)
        self._write()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Changes inside are put in force at once at the end."""
        self._together = True
        try:
            yield
        finally:
            self._together = False
            self._write()

    def _write(self) -> None:
        if self._together:
            return
        lines = [f"driver {self._driver}", f"cards {' '.join(map(str, self._order))}"]
        for rules, word in ((self._failures, "fail"), (self._delays, "delay")):
            for (card, function), value in rules.items():
                lines.append(f"{word} {'*' if card is None else card} {function} {value}")
        for card, fields in self._fields.items():
            lines += [f"set {card} {field} {value}" for field, value in fields.items()]
        for card, held in self._processes.items():
            lines += [f"process {card} {pid} {'na' if size is None else size}" for pid, size in held]
        fresh = self._state.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n", errors="surrogateescape")
        # File times move in ticks of some milliseconds: two changes within one must still differ.
        self._stamp_ns = max(self._stamp_ns + 1000, time.time_ns())
        os.utime(fresh, ns=(self._stamp_ns, self._stamp_ns))
        fresh.replace(self._state)


def _put(rules: dict[tuple[int | None, str], int], key: tuple[int | None, str], value: int) -> None:
    if value:
        rules[key] = value
    else:
        rules.pop(key, None)
