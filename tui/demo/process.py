"""How a simulated process looks and dies: its title, its leash, its signals."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_ARG_START, _ARG_END = 45, 46  # fields of /proc/PID/stat after the one in brackets
_SPEC, _LEASH, _ALIVE = "INFERTOP_DEMO_SPEC", "INFERTOP_DEMO_LEASH", "INFERTOP_DEMO_ALIVE"
_REPORT, _GROUP = "INFERTOP_DEMO_REPORT", "INFERTOP_DEMO_GROUP"


def set_comm(name: str) -> None:
    """Set this thread's name as ``ps`` shows it; the kernel keeps 15 characters."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]), 0, 0, 0)


def set_title(title: str) -> None:
    """Overwrite the command line with a title, NUL padded, as engines do; comm becomes its start.

    A title longer than the original command line is cut. Only comm changes where the kernel does not
    say where the command line lies.
    """
    set_comm(title)
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    room = end - start
    if start and room > 1:
        ctypes.memmove(start, title.encode()[: room - 1].ljust(room, b"\0"), room)


def die_with_parent() -> None:
    """SIGKILL this process when the thread that started it ends, as SGLang's children do."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Inherited:
    """Descriptors that go from the supervisor to every process below it; -1 where there is none."""

    leash: int = -1
    """Read end of a pipe that only the supervisor can write to: end of file means that it is gone."""
    alive: int = -1
    """Write end of a pipe that nobody writes to: its end of file tells the supervisor that all are gone."""
    report: int = -1
    """Write end of the API server's pipe to the supervisor; no child gets it."""
    group: int = -1
    """The process group that the leash takes down."""

    def join_group(self) -> None:
        """Put this process, and what it will start, into the leash's group; exits if that is gone."""
        if self.group > 0:
            # a background group that writes its log to a terminal must not be stopped for it
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            try:
                os.setpgid(0, self.group)
            except OSError:
                os._exit(0)

    @classmethod
    def from_environment(cls) -> Inherited:
        """What this process was given."""
        return cls(*(int(os.environ.get(name, "-1")) for name in (_LEASH, _ALIVE, _REPORT, _GROUP)))

    def environment(self, spec_json: str = "{}", report: int = -1) -> dict[str, str]:
        """The environment of a child that gets these descriptors and this spec."""
        package_root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (package_root, os.environ.get("PYTHONPATH", ""))))
        fds = {_LEASH: str(self.leash), _ALIVE: str(self.alive), _REPORT: str(report)}
        return {**os.environ, **fds, _SPEC: spec_json, _GROUP: str(self.group), "PYTHONPATH": path}

    @property
    def fds(self) -> tuple[int, ...]:
        """The descriptors a child has to be started with."""
        return tuple(fd for fd in (self.leash, self.alive) if fd >= 0)

    def let_go(self) -> None:
        """Become a process that neither the leash nor the supervisor has to do with."""
        os.setpgid(0, 0)
        os.close(self.alive)

    def leash_cut(self) -> bool:
        """Whether the supervisor is gone."""
        return self.leash >= 0 and bool(select.select([self.leash], [], [], 0)[0])


def inherited_spec_json() -> str:
    """The spec as the parent wrote it."""
    return os.environ.get(_SPEC, "{}")


def spawn_module(
    module: str, inherited: Inherited, spec_json: str, fds: Sequence[int], *arguments: str
) -> subprocess.Popen[bytes]:
    """Start ``tui.demo.MODULE`` as an anonymous python process, with ``fds`` open in it."""
    return subprocess.Popen(
        module_command(module, *arguments, "--multiprocessing-fork"),
        env=inherited.environment(spec_json),
        pass_fds=(*inherited.fds, *fds),
        stdin=subprocess.DEVNULL,
    )


def module_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs ``tui.demo.MODULE``."""
    # -S: nothing outside the standard library is needed, and site hooks cost a third of the start
    return [sys.executable, "-S", "-c", f"from tui.demo.{module} import main; main()", *arguments]
