"""On which kind of file system a directory lies."""

from __future__ import annotations

import os
import re
from typing import Final

from tui.model.text import clean
from tui.sources.kernel.procfs import read_file

_REMOTE: Final = frozenset(
    (
        "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs",
        "orangefs", "ocfs2", "gfs2", "wekafs", "panfs", "virtiofs", "davfs", "coda",
    )
)  # fmt: skip
_LOCAL_FUSE: Final = frozenset(
    ("fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.portal", "fuse.mergerfs", "fuseblk")
)


def filesystem(proc: str, pid: int, device: int) -> str | None:
    """The type of the mount with a device number, as a process sees mounts; None where there is none.

    Args:
        proc: where procfs is mounted.
        pid: the process.
        device: ``st_dev`` of a file on it.

    Raises:
        OSError: the process has gone, or its mounts may not be read.
    """
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found = None
    for line in read_file(f"{proc}/{pid}/mountinfo").decode("utf-8", "replace").splitlines():
        words = line.split(" ")
        # mount, parent, device, root, place, options, optional fields, then a dash and the type
        if len(words) > 8 and words[2] == wanted and "-" in words[6:]:
            kind = words[words.index("-", 6) + 1]
            found = clean(kind, 32)
    return found


def is_remote(kind: str) -> bool:
    """Whether files of such a file system come over a network; a FUSE one does unless it is known not to."""
    return kind in _REMOTE or (bool(re.match(r"fuse(\.|$)", kind)) and kind not in _LOCAL_FUSE)
