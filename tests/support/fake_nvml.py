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
        "mig_max": 7,
        "pci": f"00000000:{0x10 + card:02X}:00.0",
        "persistence": 1,
        "compute_mode": 0,
        "energy_mj": 5_000_000 + 1_000 * card + 400 * tick,
        "fi_82": 60 + card + tick % 10,
        "fi_29": card % 2,
        "fi_30": 1,
        "fi_31": 0,
        "pcie_tx_kb": 1_000_000 + 1_000 * card,
        "pcie_rx_kb": 2_000_000 + 1_000 * card,
        "fi_91": 18,
        "nvlinks_up": (1 << 18) - 1,
        "fi_38": 1,
        "fi_45": 2,
        "fi_52": 3,
        "fi_59": 4,
        "fi_138": 1_000_000 * (card + 1) * tick,
        "fi_139": 2_000_000 * (card + 1) * tick,
        "events": 0x1B,
        "gpm": 1,
        "gpm_2": 80 + card,
        "gpm_3": 40 + card,
        "gpm_5": 30 + card,
        "gpm_10": 60 + card,
    }


def instance_values(card: int, place: int) -> dict[str, int | str]:
    """Fields of one MIG instance, a seventh of a card."""
    return {
        "uuid": f"MIG-0000000{card:x}-aaaa-bbbb-000{place}-0123456789ab",
        "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "gpu_instance": 7 + place,
        "mem_total": 9984 * MIB,
        "mem_reserved": 64 * MIB,
        "mem_free": (9000 - 100 * card - 10 * place) * MIB,
        "gpm_2": 70 + place,
        "gpm_3": 20 + place,
        "gpm_5": 10 + place,
        "gpm_10": 50 + place,
    }


class FakeNvml:
    """What the fake library answers. Each change is in force at once, also in a process that is running.

    Cards are numbers, MIG instances texts such as ``3.0``: the first place of card 3.

    Args:
        state: the state file, which this object owns; there is room for other files beside it.
        library: the built library, for ``environment``.
    """

    def __init__(self, state: Path, library: Path) -> None:
        self._state = state
        self._library = library
        self._driver = "550.54.15"
        self._order: list[int] = []
        self._fields: dict[int | str, dict[str, int | str]] = {}
        self._processes: dict[int | str, list[tuple[int, int | None]]] = {}
        self._usage: dict[int, list[tuple[int, int, int, int]]] = {}
        self._xids: list[tuple[int, int]] = []
        self._failures: dict[tuple[int | str | None, str], int] = {}
        self._delays: dict[tuple[int | str | None, str], int] = {}
        self._scenario: list[str] = []
        self._together = False
        self._stamp_ns = 0
        self._write()

    def environment(self) -> dict[str, str]:
        """Variables that make a process read this fake, and nothing of this machine's cards."""
        home = self._state.parent
        return {
            "FAKE_NVML_STATE": str(self._state),
            "INFERTOP_NVML_LIBRARY": str(self._library),
            "INFERTOP_PCI_DEVICES": str(home / "pci-devices"),
            "XDG_STATE_HOME": str(home / "state-home"),
        }

    def count(self, number: int) -> None:
        """Cards 0 to number - 1 are there, new ones with the values of ``gpu_values``."""
        self.cards(range(number))

    def cards(self, numbers: Sequence[int]) -> None:
        """Which cards NVML counts, by index; handles of the others are lost."""
        for card in numbers:
            self._of(card)
        self._order = list(numbers)
        self._write()

    def instances(self, card: int, places: Sequence[int]) -> None:
        """Put a card in MIG mode with instances at these places; none: take it out."""
        for old in [key for key in self._fields if str(key).startswith(f"{card}.")]:
            del self._fields[old]
        self._fields[card]["mig"] = int(bool(places))
        for place in places:
            self._fields[f"{card}.{place}"] = instance_values(card, place)
        self._write()

    def set(self, card: int | str, field: str, value: int | str | None) -> None:
        """Set one field in NVML's units; None: the card does not support it.

        A text such as ``100+5/s`` is a counter that moves by itself. A surrogate such as ``\\udcff`` in a text becomes the byte 0xFF.
        """
        fields = self._fields[card] if isinstance(card, str) else self._of(card)
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

    def processes(self, card: int | str, held: Sequence[tuple[int, int | None]]) -> None:
        """Processes on a card: pid and bytes, None where the driver does not know."""
        self._processes[card] = list(held)
        self._write()

    def usage(self, card: int, samples: Sequence[tuple[int, int, int, int]]) -> None:
        """Samples of processes' shares: pid, time in microseconds, SM and memory percentages."""
        self._usage[card] = list(samples)
        self._write()

    def xid(self, card: int, number: int) -> None:
        """The driver reports an Xid to those that have registered before."""
        self._xids.append((card, number))
        self._write()

    def driver(self, version: str) -> None:
        """The driver's version."""
        self._driver = version
        self._write()

    def fail(self, card: int | str | None, function: str, code: int) -> None:
        """Make an exported function (``*``: all) return a code for one card, or everywhere; 0 heals it."""
        _put(self._failures, (card, function), code)
        self._write()

    def delay(self, card: int | str | None, function: str, milliseconds: int) -> None:
        """Make a function wait before it answers; 0 also ends a wait that goes on."""
        _put(self._delays, (card, function), milliseconds)
        self._write()

    def hang(self, card: int | str | None, function: str) -> None:
        """Make a function wait until ``delay`` with 0 ends it."""
        self.delay(card, function, 2**31 - 1)

    def heal(self) -> None:
        """No failures, delays or hangs any more."""
        self._failures.clear()
        self._delays.clear()
        self._scenario.clear()
        self._write()

    def scenario(self, text: str) -> None:
        """Statements that come into force by themselves, ``at SECONDS STATEMENT`` a line, from now on."""
        self._scenario = [f"start {time.time()}", *text.splitlines()]
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

    def _of(self, card: int) -> dict[str, int | str]:
        return self._fields.setdefault(card, gpu_values(card))

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
        for number, samples in self._usage.items():
            lines += [f"usage {number} " + " ".join(map(str, sample)) for sample in samples]
        lines += [f"xid {number} {card} {xid}" for number, (card, xid) in enumerate(self._xids, 1)]
        lines += self._scenario
        fresh = self._state.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n", errors="surrogateescape")
        # File times move in ticks of some milliseconds: two changes within one must still differ.
        self._stamp_ns = max(self._stamp_ns + 1000, time.time_ns())
        os.utime(fresh, ns=(self._stamp_ns, self._stamp_ns))
        fresh.replace(self._state)


def _put(
    rules: dict[tuple[int | str | None, str], int], key: tuple[int | str | None, str], value: int
) -> None:
    rules.pop(key, None)  # the newest comes last, where it wins
    if value:
        rules[key] = value
