"""The supervisor's end of the leash."""

from __future__ import annotations

import asyncio
import os
import subprocess

from tui.demo.process import Inherited, module_command
from tui.sources.deadline import within

_START_S = 10.0


class LeashHolder:
    """Starts the process that leads the engine's group, and lets it take the group down.

    Attributes:
        inherited: what every process of the group is started with.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self.process = subprocess.Popen(
            module_command("leash", str(self._reader)),
            env=Inherited().environment(),
            pass_fds=(self._reader,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        self.inherited = Inherited(leash=self._reader, group=self.process.pid)

    async def ready(self) -> bool:
        """Wait until there is a group to join; False if none came to be."""
        pipe = self.process.stdout
        assert pipe is not None
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(pipe.fileno(), told.set)
        try:
            await within(_START_S, told.wait())
        except asyncio.TimeoutError:
            return False
        finally:
            loop.remove_reader(pipe.fileno())
            pipe.close()
        return True

    @property
    def cut(self) -> bool:
        """Whether the group has been let go."""
        return self._writer < 0

    def let_go(self) -> None:
        """End every process of the group, as the end of this one would."""
        if self._writer >= 0:
            os.close(self._writer)
            os.close(self._reader)
            self._writer = -1
