"""Processes held by pidfd: no signal can reach a later process that got the same pid.

The only module of the program that signals a process that it did not start itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING

from tui.actions.ancestry import descendants, stat_of
from tui.actions.plan import HeldProcess, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Held:
    """One process, from the moment it is shown until the test has ended.

    Args:
        process: which; found out before, so that it is compared once it is held.

    Raises:
        RefusedError: it has ended, or another one has its pid; or the kernel has no pidfds (before 5.3).
    """

    def __init__(self, process: HeldProcess) -> None:
        self.process = process
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            raise RefusedError(f"pid {process.pid} ({process.name}) has ended") from None
        except OSError as error:
            raise RefusedError(f"pid {process.pid} cannot be held: {error.strerror}") from None
        try:
            self.verify()
        except RefusedError:
            self.close()
            raise

    def verify(self) -> None:
        """It runs still, and is the process that was shown.

        Raises:
            RefusedError: it is not.
        """
        pid, name = self.process.pid, self.process.name
        stat = stat_of(pid)
        if stat is None or self.ended:
            raise RefusedError(f"pid {pid} ({name}) has ended")
        if stat.start_ticks != self.process.start_ticks:
            raise RefusedError(f"pid {pid} is another process now: {name} has ended")

    @property
    def ended(self) -> bool:
        """It runs no more; its parent may not have asked for its exit status yet."""
        poller = select.poll()  # select() takes no descriptor from 1024 up
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(0))

    def fileno(self) -> int:
        """The pidfd: readable once the process has ended."""
        return self._pidfd

    def send(self, signum: signal.Signals) -> bool:
        """Signal it, after one more look at who it is.

        Returns:
            False where it has ended, by now or at this very moment.

        Raises:
            RefusedError: it is another process, or this user may not signal it.
        """
        if self.ended:
            return False
        self.verify()
        try:
            signal.pidfd_send_signal(self._pidfd, signum)
        except ProcessLookupError:
            return False
        except PermissionError:
            raise RefusedError(f"pid {self.process.pid}: this user may not signal it") from None
        return True

    def close(self) -> None:
        """Let go of it."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class HeldTree:
    """An engine whole: its main process and what belongs to it.

    Args:
        processes: the main one first; none for an engine that only a command can stop.

    Raises:
        RefusedError: the main process cannot be held. Others that have ended since are left out.
    """

    def __init__(self, processes: Iterable[HeldProcess]) -> None:
        whole = tuple(processes)
        self.main = Held(whole[0]) if whole else None
        self.others: list[Held] = []
        for process in whole[1:]:
            with contextlib.suppress(RefusedError):
                self.others.append(Held(process))

    def verify(self) -> None:
        """Raises RefusedError where the main process is no longer what was shown."""
        if self.main is not None:
            self.main.verify()

    def alive(self) -> tuple[HeldProcess, ...]:
        """Those that run still, the main one first."""
        return tuple(held.process for held in self._all() if not held.ended)

    def terminate(self) -> bool:
        """SIGTERM to the main process; as ``Held.send``."""
        return self.main is not None and self.main.send(signal.SIGTERM)

    def kill_api_server(self) -> bool:
        """SIGKILL to the main process alone; as ``Held.send``."""
        return self.main is not None and self.main.send(signal.SIGKILL)

    def kill_tree(self) -> tuple[int, ...]:
        """SIGKILL to every process of the engine, those that it started since it was shown included.

        Returns:
            The pids that were signalled, the main one first: it can start no more then.

        Raises:
            RefusedError: this user may not signal one of them.
        """
        newcomers = self._newcomers()
        try:
            return tuple(held.process.pid for held in [*self._all(), *newcomers] if held.send(signal.SIGKILL))
        finally:
            for held in newcomers:
                held.close()

    def close(self) -> None:
        """Let go of all."""
        for held in self._all():
            held.close()

    def __enter__(self) -> HeldTree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all(self) -> list[Held]:
        return self.others if self.main is None else [self.main, *self.others]

    def _newcomers(self) -> list[Held]:
        """What is below the main process now and was not when it was shown."""
        if self.main is None or self.main.ended:
            return []
        root = self.main.process.pid
        known = {held.process.pid for held in self._all()}
        found = []
        for pid in descendants(root):
            stat = stat_of(pid)
            if pid in known or stat is None or stat.zombie:
                continue
            process = HeldProcess(pid, stat.start_ticks, stat.comm, "other")
            with contextlib.suppress(RefusedError):  # it has ended meanwhile
                found.append(Held(process))
        # a pid that changed hands before it was held is no longer below the engine
        still = set(descendants(root)) if found else set()
        for held in found:
            if held.process.pid not in still:
                held.close()
        return [held for held in found if held.process.pid in still]
