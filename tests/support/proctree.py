"""A made-up /proc and /sys: the kernel's own formats, written to ordinary files."""

from __future__ import annotations

import ipaddress
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_TCP_HEAD = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
)
_NET_HEAD = (
    "Inter-|   Receive |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n"
)


class ProcTree:
    """Writes what the kernel would show; a pid 1 and a network are there from the start."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        for folder in (
            "proc/net",
            "proc/self/ns",
            "proc/pressure",
            "proc/sys/net/ipv4",
            "sys/block",
            "sys/class/net",
        ):
            (root / folder).mkdir(parents=True)
        (self.proc / "self/ns/net").symlink_to("net:[1]")
        (self.proc / "self/ns/pid").symlink_to("pid:[4026531836]")
        self.write("sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
        self.cpu({"cpu": (0, 0, 0, 0, 0, 0, 0, 0), "cpu0": (0, 0, 0, 0, 0, 0, 0, 0)})
        self.write("meminfo", "MemTotal: 4096000 kB\nMemFree: 10 kB\nMemAvailable: 1024000 kB\n")
        self.swap()
        self.write("loadavg", "0.50 0.60 0.70 1/200 4321\n")
        for resource in ("cpu", "io", "memory"):
            self.write(f"pressure/{resource}", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
        self.disks({})
        self.interfaces({})
        self._tcp: dict[str, list[str]] = {"tcp": [], "tcp6": []}
        self._write_tcp()
        self.process(1, ppid=0, comm="systemd", argv=["/sbin/init"], start=1)

    def write(self, name: str, text: str | bytes) -> None:
        path = self.proc / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def cpu(self, lines: Mapping[str, tuple[int, ...]], ctxt: int = 0, btime: int = 1_700_000_000) -> None:
        text = "".join(f"{name} {' '.join(map(str, times))} 0 0\n" for name, times in lines.items())
        self.write("stat", f"{text}intr 5 0 0\nctxt {ctxt}\nbtime {btime}\nprocesses 9\n")

    def swap(self, paged_in: int = 0, paged_out: int = 0, oom_kills: int = 0) -> None:
        """Counters of pages since the start, and kills for memory."""
        lines = {"nr_free_pages": 5, "pswpin": paged_in, "pswpout": paged_out, "oom_kill": oom_kills}
        self.write("vmstat", "".join(f"{name} {value}\n" for name, value in lines.items()))

    def disks(self, rows: Mapping[str, tuple[int, int, int, int, int, int, int]]) -> None:
        """Each (reads, sectors, ms, writes, sectors, ms, io_ticks)."""
        lines = (
            f"   8       0 {name} {r} 0 {rs} {rms} {w} 0 {ws} {wms} 0 {ticks} 0 0 0 0 0\n"
            for name, (r, rs, rms, w, ws, wms, ticks) in rows.items()
        )
        self.write("diskstats", "".join(lines))

    def block(self, name: str, *, size: int = 1000, hidden: int = 0) -> None:
        folder = self.sys / "block" / name
        folder.mkdir()
        (folder / "size").write_text(f"{size}\n")
        (folder / "hidden").write_text(f"{hidden}\n")

    def interfaces(self, rows: Mapping[str, tuple[int, int]]) -> None:
        """Each (received bytes, sent bytes)."""
        lines = (f"{name:>6}: {rx} 1 0 0 0 0 0 0 {tx} 1 0 0 0 0 0 0\n" for name, (rx, tx) in rows.items())
        self.write("net/dev", _NET_HEAD + "".join(lines))

    def interface(self, name: str, *, hardware: bool) -> None:
        folder = self.sys / "class/net" / name
        folder.mkdir()
        if hardware:
            (folder / "device").symlink_to("../../devices/pci")

    def process(
        self,
        pid: int,
        *,
        ppid: int = 1,
        comm: str = "python3",
        argv: Iterable[str] = (),
        title: str = "",
        state: str = "S",
        start: int = 1000,
        ticks: int = 0,
        threads: Mapping[int, tuple[str, int]] | None = None,
        inodes: Iterable[int] = (),
        network: str = "net:[1]",
        pids: str = "pid:[4026531836]",
        uid: int = 0,
    ) -> None:
        """Write or rewrite one process; a title takes the place of its arguments, NUL padded."""
        folder = self.proc / str(pid)
        if not folder.exists():
            (folder / "ns").mkdir(parents=True)
            (folder / "ns/net").symlink_to(network)
            (folder / "ns/pid").symlink_to(pids)
            (folder / "fd").mkdir()
            (folder / "status").write_text(f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        count = len(threads) if threads else 1
        (folder / "stat").write_bytes(_stat(pid, comm, state, ppid, ticks, count, start))
        words = title.encode() + b"\0" * 20 if title else b"".join(word.encode() + b"\0" for word in argv)
        (folder / "cmdline").write_bytes(b"" if state == "Z" else words)
        for tid, (name, used) in (threads or {}).items():
            (folder / "task" / str(tid)).mkdir(parents=True, exist_ok=True)
            (folder / "task" / str(tid) / "stat").write_bytes(_stat(tid, name, "S", ppid, used, count, start))
        for fd, inode in enumerate(inodes, 3):
            link = folder / "fd" / str(fd)
            link.unlink(missing_ok=True)
            link.symlink_to(f"socket:[{inode}]")

    def remove(self, pid: int) -> None:
        shutil.rmtree(self.proc / str(pid))

    def listen(self, port: int, inode: int, address: str = "127.0.0.1", *, uid: int = 0) -> None:
        self._tcp_row(address, port, "0A", inode, uid)
        self._write_tcp()

    def close(self, inode: int) -> None:
        for rows in self._tcp.values():
            rows[:] = [row for row in rows if f" {inode} 1 " not in row]
        self._write_tcp()

    def connections(self, count: int) -> None:
        for number in range(count):
            self._tcp_row("10.0.0.1", 8000, "01", 1_000_000 + number, 0)
        self._write_tcp()

    def _tcp_row(self, address: str, port: int, state: str, inode: int, uid: int) -> None:
        packed = ipaddress.ip_address(address).packed
        if sys.byteorder == "little":
            packed = b"".join(packed[at : at + 4][::-1] for at in range(0, len(packed), 4))
        zero = "0" * 2 * len(packed)
        self._tcp["tcp" if len(packed) == 4 else "tcp6"].append(
            f"   0: {packed.hex().upper()}:{port:04X} {zero}:0000 {state} 00000000:00000000 00:00000000"
            f" 00000000 {uid:5}        0 {inode} 1 0000000000000000 100 0 0 10 0\n"
        )

    def _write_tcp(self) -> None:
        for name, rows in self._tcp.items():
            self.write(f"net/{name}", _TCP_HEAD + "".join(rows))


def _stat(pid: int, comm: str, state: str, ppid: int, ticks: int, threads: int, start: int) -> bytes:
    name = comm.encode()[:15]
    rest = f" {state} {ppid} 1 1 0 -1 4194304 0 0 0 0 {ticks} 0 0 0 20 0 {threads} 0 {start} 1000 10 0\n"
    return f"{pid} (".encode() + name + b")" + rest.encode()
