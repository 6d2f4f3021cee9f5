"""Who starts an engine again once it has ended, and whether SIGTERM reaches it at all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.actions.ancestry import ancestors
from tui.actions.plan import Start
from tui.model.text import clean
from tui.sources.command_line import split
from tui.sources.kernel.procfs import read_file
from tui.sources.kernel.visibility import is_reaper

if TYPE_CHECKING:
    from tui.actions.ancestry import Kin
    from tui.actions.plan import StopWay
    from tui.model.places import ContainerReading, Place, UnitReading

SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox"))
_WATCHERS: Final = frozenset(
    ("supervisord", "runsv", "s6-supervise", "circusd", "monit", "pm2", "daemontools", "supervise", "god")
)
"""Programs whose work is to start another one again."""
_LOOP = re.compile(r"(?:^|[;&|\n({]|\bdo\b|\bthen\b)\s*(?:while|until)\b")
_SCRIPT_BYTES = 1 << 18
_SIGTERM_BIT = 1 << 14
_RESTARTS_AFTER: Final[dict[str, frozenset[StopWay]]] = {
    "always": frozenset(("sigterm", "kill_api_server", "kill_tree", "command")),
    "on-success": frozenset(("sigterm",)),
    "on-failure": frozenset(("kill_api_server", "kill_tree")),
    "on-abnormal": frozenset(("kill_api_server", "kill_tree")),
    "on-abort": frozenset(("kill_api_server", "kill_tree")),
}
"""systemd.service(5): SIGTERM and exit status 0 are a clean end, SIGKILL is none."""

NOBODY = Start("nobody", "nobody: it stays down")


def of_command(command: tuple[str, ...], shown: str) -> Start:
    """What the operator gave: run by us after the end."""
    return Start("command", f"this tool, by: {shown}", command)


def of_unit(unit: UnitReading, way: StopWay) -> Start:
    """What systemd does after the end of a unit's main process.

    Args:
        unit: as systemctl tells of it.
        way: how it is ended.
    """
    setting = f"Restart={unit.restart}" if unit.restart else "Restart= not known"
    if way == "systemctl_restart":
        return Start("systemd", "systemd: systemctl restart starts it again")
    if way == "systemctl_stop":
        text = f"nobody: systemd never starts a unit after systemctl stop ({setting})"
        return Start("nobody", text)
    if unit.restart is None:
        return Start("unknown", f"not known: systemd ({setting})")
    if way in _RESTARTS_AFTER.get(unit.restart, frozenset()):
        return Start("systemd", f"systemd ({setting})")
    ended = "SIGTERM is a clean end" if way == "sigterm" else "that is an end by SIGKILL"
    return Start("nobody", f"nobody: systemd does not react ({setting}, {ended})")


def of_container(place: Place, container: ContainerReading | None) -> Start:
    """What a container's runtime does after its end, where a command of the operator's stops it."""
    if place.pod_uid is not None:
        return Start("kubelet", f"the kubelet (pod {place.pod_uid}), by the pod's restartPolicy")
    policy = None if container is None else container.restart_policy
    if policy is None:
        return Start("unknown", "not known: the container's restart policy cannot be read")
    if policy == "no":
        return Start("nobody", "nobody: the container's restart policy is no")
    return Start("docker", f"Docker (restart policy {policy}), unless the command is docker stop")


def of_parents(pid: int, proc: str = "/proc") -> Start:
    """What the processes above an engine do after its end, by what they are; only a guess.

    A shell whose script has a loop perhaps starts it again, one without a loop goes on to its end and
    leaves the question to the process above.
    """
    for kin in ancestors(pid, proc):
        shown = f"{kin.comm}, pid {kin.pid}"
        if kin.comm in _WATCHERS:
            return Start("parent", f"perhaps {shown}: that is its work")
        if kin.comm in SHELLS:
            script = _script(kin, proc)
            if script is None:
                return Start("unknown", f"not known: the script of its parent ({shown}) cannot be read")
            if _LOOP.search(script):
                return Start("parent", f"perhaps its parent ({shown}): its script has a loop")
            if not script:  # a shell that somebody types into
                return NOBODY
            continue
        if is_reaper(proc, kin.pid, kin.comm):
            return NOBODY
        line = clean(" ".join(kin.arguments), 80) or kin.comm
        return Start("unknown", f"not known: its parent is pid {kin.pid} ({line})")
    return NOBODY


def signal_warnings(pid: int, proc: str = "/proc") -> list[str]:
    """What keeps SIGTERM from an engine, or makes it an abrupt end (D07)."""
    warnings = []
    above = ancestors(pid, proc)
    if above and above[0].comm in SHELLS and _script(above[0], proc) != "":
        warnings.append(
            f"D07: its parent is a shell ({above[0].comm}, pid {above[0].pid}), which as a rule passes no "
            "SIGTERM on: this test signals the engine itself, but docker stop, a kubelet or a unit with "
            "KillMode=mixed would not reach it; start it with exec"
        )
    status = _status(pid, proc)
    if status.get("SigIgn", 0) & _SIGTERM_BIT:
        warnings.append("D07: it ignores SIGTERM")
    elif "SigCgt" in status and not status["SigCgt"] & _SIGTERM_BIT:
        warnings.append("D07: it does not catch SIGTERM: that ends it at once, without a drain")
    return warnings


def _script(kin: Kin, proc: str) -> str | None:
    """The text that a shell runs; empty where it runs none, None where it cannot be read."""
    try:  # as it stands, not as it is shown: that is cut, and one line
        words = list(split(read_file(f"{proc}/{kin.pid}/cmdline", _SCRIPT_BYTES)))[1:]
    except OSError:
        return None
    while words and words[0][:1] in ("-", "+"):
        option = words.pop(0)
        if option.startswith("--"):
            continue
        if "c" in option[1:]:
            return words[0] if words else ""
        if option[1:] in ("o", "O") and words:
            words.pop(0)
    if not words:
        return ""
    folder = Path(proc, str(kin.pid))
    root = folder / "root" / words[0].lstrip("/") if words[0].startswith("/") else folder / "cwd" / words[0]
    try:
        return read_file(str(root), _SCRIPT_BYTES).decode("utf-8", "replace") if root.is_file() else None
    except OSError:
        return None


def _status(pid: int, proc: str) -> dict[str, int]:
    """The signal masks of a process; empty where they cannot be read."""
    try:
        lines = read_file(f"{proc}/{pid}/status", 16384).decode("ascii", "replace").splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, _, mask = line.partition(":")
        if name in ("SigIgn", "SigCgt"):
            found[name] = int(mask, 16)
    return found
