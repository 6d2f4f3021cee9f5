"""The audit log: who had which test done when, and how it ended. A test that cannot be logged is not run.

``audit.log`` below the state directory, for its owner alone, only ever appended to: a JSON object a line
with ``at`` (RFC 3339 UTC), ``id`` (of the run), ``what`` (``started``, ``signal``, ``ended``), ``by``,
``test``, ``target``, ``action`` and ``outcome``.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import pwd
import stat
from typing import TYPE_CHECKING, Any, Literal

from tui.actions.plan import RefusedError, Requester
from tui.config.state import open_regular, parse_json, state_dir
from tui.model.text import clean

if TYPE_CHECKING:
    from pathlib import Path

    from tui.actions.plan import Plan

What = Literal["started", "signal", "ended"]
_TAIL_BYTES = 1 << 16
"""The newest lines: some hundred."""


def log_path() -> Path | None:
    """Where the log is; None without a home."""
    home = state_dir()
    return None if home is None else home / "audit.log"


def requester() -> Requester:
    """Who runs this process, as far as it can tell."""
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container without an entry in passwd
        user = ""
    client = os.environ.get("SSH_CONNECTION", "").split(" ")[0]
    sudo = os.environ.get("SUDO_USER", "")
    return Requester(uid, clean(user, 64), _tty(), clean(client, 64), clean(sudo, 64))


class AuditLog:
    """The log, open for appending.

    Args:
        path: of the file; by default the one of this user's state directory.

    Raises:
        RefusedError: it cannot be written.
    """

    def __init__(self, path: Path | None = None) -> None:
        path = path or log_path()
        if path is None:
            raise RefusedError("no audit log can be kept without a home: set XDG_STATE_HOME")
        self._path = path
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise self._refusal(error) from None
        try:
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise RefusedError(f"{path}: not a regular file")
            os.fchmod(self._file, 0o600)
        except OSError as error:
            self.close()
            raise self._refusal(error) from None
        except RefusedError:
            self.close()
            raise

    def write(self, what: What, run: str, plan: Plan, outcome: str = "") -> None:
        """Append one line, whole, and have it on disk when this returns.

        Args:
            what: ``started`` before anything is sent, ``signal`` right before each, ``ended`` at the end.
            run: the id of the run.
            plan: the test.
            outcome: for a person, e.g. ``passed`` or the reasons why not.

        Raises:
            RefusedError: it could not be written.
        """
        line = json.dumps(_entry(what, run, plan, outcome), ensure_ascii=True).encode() + b"\n"
        try:
            written = os.write(self._file, line)  # one call: lines of two users never mix
            os.fsync(self._file)
        except OSError as error:
            raise self._refusal(error) from None
        if written != len(line):
            raise RefusedError(f"the audit log {self._path} cannot be written: no space left")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> AuditLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refusal(self, error: OSError) -> RefusedError:
        return RefusedError(f"the audit log {self._path} cannot be written: {error.strerror}")


def cut_off() -> str:
    """For a person: where the newest test stopped, if it never ended; else empty.

    Its process was killed, or runs still. Empty as well where there is no log, or none that can be read.
    """
    entry = unfinished()
    if entry is None:
        return ""
    target = entry.get("target")
    name = target.get("name") if isinstance(target, dict) else None
    sent = f"after: {entry.get('outcome')}" if entry.get("what") == "signal" else "before anything was sent"
    return clean(f"the last test ({entry.get('test')} of {name}, {entry.get('at')}) was cut off {sent}", 400)


def unfinished() -> dict[str, Any] | None:
    """The newest line of the log, if it is not the end of a test; None as well where no log can be read."""
    path = log_path()
    if path is None:
        return None
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        try:
            entry = parse_json(line)
        except ValueError:
            continue  # the first one may be cut
        if isinstance(entry, dict):
            return None if entry.get("what") == "ended" else entry
    return None


def _entry(what: What, run: str, plan: Plan, outcome: str) -> dict[str, Any]:
    target, by = plan.target, plan.by or requester()
    main = target.main
    return {
        "at": dt.datetime.now(dt.timezone.utc).isoformat(timespec="milliseconds"),
        "id": run,
        "what": what,
        "by": {
            "uid": by.uid,
            "user": by.user,
            "tty": by.tty,
            "ssh_client": by.ssh_client,
            "sudo_user": by.sudo_user,
        },
        "test": plan.test,
        "target": {
            "kind": target.kind,
            "name": target.name,
            "url": target.url,
            "pid": None if main is None else main.pid,
            "start_ticks": None if main is None else main.start_ticks,
            "cmdline": [] if main is None else list(main.cmdline),
        },
        "action": plan.stop.text,
        "start": plan.start.text,
        "grace_s": plan.grace_s,
        "kill_after_grace": plan.kill_after_grace,
        "with_traffic": plan.with_traffic,
        "outcome": clean(outcome, 1000),
    }


def _tty() -> str:
    for descriptor in (0, 1, 2):
        try:
            return clean(os.ttyname(descriptor), 64)
        except OSError:
            continue  # no terminal, or closed
    return ""
