"""The guard of the suite itself: it stops a signal to a stranger, in this process and in those it starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.support import signal_guard
from tests.support.guard_hook.sitecustomize import StraySignalError, is_ours
from tests.support.waiting import wait_for
from tui.sources.kernel.visibility import is_gone

STRANGER = os.getppid()
"""Whatever started this test process."""
SENDERS = {
    "kill": "import os; os.kill({pid}, 18)",
    "killpg": "import os; os.killpg(os.getpgid({pid}), 18)",
    "pidfd": "import os, signal; signal.pidfd_send_signal(os.pidfd_open({pid}), 18)",
}
"""By SIGCONT, which does nothing to a process that runs: a guard that fails does no harm."""


@pytest.mark.parametrize("way", SENDERS)
def test_a_stranger_is_spared_by_this_process(way: str) -> None:
    with pytest.raises(StraySignalError):
        exec(SENDERS[way].format(pid=STRANGER), {})
    told = re.search(r"would send signal 18 to \[([0-9, ]+)\]", signal_guard.take_notes())
    assert told and str(STRANGER) in told[1].split(", ")  # a group has more members, of any age


@pytest.mark.parametrize("way", SENDERS)
def test_a_stranger_is_spared_by_what_this_process_starts(way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SENDERS[way].format(pid=STRANGER)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "StraySignalError" in done.stderr
    assert signal_guard.take_notes()


def test_a_child_and_what_outlives_it_are_ours() -> None:
    """A grandchild that init has taken over is known by its environment."""
    start = "import subprocess as s; print(s.Popen(['sleep', '60'], stdout=-3, stderr=-3).pid)"
    words = [sys.executable, "-c", start]
    left = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    child = subprocess.Popen(["sleep", "60"], env={})
    try:
        assert is_ours(left) and is_ours(child.pid) and is_ours(os.getpid())
        assert not is_ours(STRANGER) and not is_ours(1)
        os.kill(STRANGER, 0)  # asks, and sends nothing
    finally:
        child.kill()
        os.kill(left, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    wait_for(lambda: is_gone(left), 10, "the end of the grandchild")
    assert not signal_guard.take_notes()
