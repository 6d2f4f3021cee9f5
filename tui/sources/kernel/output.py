"""Which file a process writes its output to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tui.sources.kernel.procfs import link

if TYPE_CHECKING:
    from collections.abc import Sequence

_GONE: Final = " (deleted)"
_NO_FILES: Final = ("/dev/", "/proc/", "/memfd:")


def output_file(proc: str, pid: int, descriptors: Sequence[int]) -> str:
    """The path behind the first of some descriptors that is a file of this host; nothing is opened.

    Empty where there is none: pipes, sockets and terminals are none, and what stands in another mount
    namespace is another file here; so, too, where the links may not be read.

    Args:
        proc: where procfs is mounted.
        pid: the process.
        descriptors: in order of preference.
    """
    try:
        if link(f"{proc}/{pid}/ns/mnt") != link(f"{proc}/self/ns/mnt"):
            return ""
        for descriptor in descriptors:
            path = link(f"{proc}/{pid}/fd/{descriptor}")
            if path.startswith("/") and not path.startswith(_NO_FILES) and not path.endswith(_GONE):
                return path
    except OSError:  # another user's, or it has ended
        pass
    return ""
