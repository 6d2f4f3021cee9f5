"""Orders at run time: a private file, one JSON object a line, read as it grows."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from tui.demo.spec import EngineSpec

if TYPE_CHECKING:
    from pathlib import Path

Part = Literal["core", "worker", "api", "detokenizer"]
_FIXED = ("dialect", "host", "port", "model", "tensor_parallel_size", "block_size", "api_key")
_ACTIONS: dict[str, tuple[str, ...]] = {
    "hang": ("what",),
    "resume": (),
    "kill": ("what",),
    "terminate": (),
    "start": (),
    "stop": (),
    "set": tuple(
        field.name for field in fields(EngineSpec) if field.name not in _FIXED
    ),
    "machine": ("hot_c",),
    "traffic": ("rate", "prompt_tokens", "output_tokens", "shared_prefix", "stream", "hangup", "spread"),
}  # fmt: skip
_LONGEST_LINE = 65536

HELP = """\
control file, one JSON object a line (the file is made with mode 0600 if there is none):
  {"do":"hang"}                     SIGSTOP the engine core; "what":"worker", "api" or "detokenizer"
  {"do":"resume"}                   SIGCONT everything
  {"do":"kill","what":"core"}       SIGKILL; also "worker", "detokenizer", "api" (leaves orphans in vLLM)
  {"do":"terminate"}                SIGTERM to what a supervisor would signal
  {"do":"set","kv_tokens":8192}     change a setting: max_num_seqs, kv_tokens, decode_step_s, sigterm, ...
  {"do":"traffic","rate":5}         change the traffic: rate, prompt_tokens, output_tokens, shared_prefix,
                                    and as shares of 1: stream, hangup, spread (0: all alike)
  {"do":"machine","hot_c":40}       a hot room: the simulated GPUs throttle under load
  {"do":"start"}                    start the engine again after its end
  {"do":"stop"}                     end everything"""


class ControlError(ValueError):
    """The control file cannot be used, or a line of it is no order: the text says why."""


def parse_order(line: str) -> dict[str, Any]:
    """One order.

    Raises:
        ControlError: what is wrong with it.
    """
    try:
        order = json.loads(line)
    except ValueError:
        raise ControlError("not JSON") from None
    if not isinstance(order, dict):
        raise ControlError("not an object")
    action = order.get("do")
    if action not in _ACTIONS:
        raise ControlError(f"do: {action!r} is not one of {', '.join(_ACTIONS)}")
    for name in order:
        if name != "do" and name not in _ACTIONS[action]:
            raise ControlError(f"{action} has no {name!r}")
    what = order.get("what", "core")
    if action in ("hang", "kill") and what not in get_args(Part):
        raise ControlError(f"what: {what!r} is not one of {', '.join(get_args(Part))}")
    return order


class ControlFile:
    """Follows a file of orders from where it stands now.

    Args:
        path: made with mode 0600 if it does not exist.

    Raises:
        ControlError: it is no regular file, not ours, or open to others.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise ControlError(f"{path}: {error.strerror}") from None
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            os.close(self._fd)
            raise ControlError(f"{path}: must be a regular file of this user with mode 0600")
        self._offset = found.st_size

    def lines(self) -> list[str]:
        """Whole lines written since the last call; a file that was cut is read from its start."""
        size = os.fstat(self._fd).st_size
        if size < self._offset:
            self._offset = 0
        data = os.pread(self._fd, _LONGEST_LINE, self._offset)
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) == _LONGEST_LINE:
            end = len(data)  # no order is that long: skip it
        self._offset += end
        return [line for line in data[:end].decode(errors="replace").splitlines() if line.strip()]

    def close(self) -> None:
        """Stop following."""
        os.close(self._fd)
