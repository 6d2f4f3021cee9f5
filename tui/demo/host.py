"""A whole simulated host for the live screen: the engine's processes are real, its machine is not."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.demo.sources import SimulatedGpus, SimulatedHost
from tui.demo.supervisor import Supervisor
from tui.demo.traffic import TrafficSpec
from tui.model.settings import DiscoverySettings, EngineTarget
from tui.runtime.clock import SystemClock
from tui.runtime.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.demo.control import ControlFile
    from tui.demo.spec import EngineSpec
    from tui.model.settings import Config
    from tui.runtime.sources import Sources

STEADY = TrafficSpec(rate=6.0)
"""Some forty requests in flight on the default engine: busy, with every latency well in target."""


class DemoMonitor(Monitor):
    """A monitor that starts the engine which it watches, and ends it with itself.

    Args:
        config: the settings in force; nothing else on this host is looked for.
        spec: the engine.
        traffic: what is sent to it.
        real: the real sources, of which processes, scrapes and probes are used as they are.
        control: orders to the engine.
    """

    def __init__(
        self,
        config: Config,
        spec: EngineSpec,
        traffic: TrafficSpec,
        real: Sources,
        *,
        control: ControlFile | None = None,
        on_event: Callable[[str], None] = lambda _line: None,
    ) -> None:
        supervisor = Supervisor(
            spec,
            traffic=traffic,
            control=control,
            restart="always",
            log=subprocess.DEVNULL,
            on_event=on_event,
        )
        sources = replace(
            real,
            gpus=lambda: SimulatedGpus(supervisor),
            host=lambda: SimulatedHost(supervisor),
            simulated=True,
            death=None,  # its end would be looked for among those of this host's units and containers
            stop_mark=None,
            own=None,  # its real threads would stand beside the simulated host's
        )
        config = replace(config, discovery=DiscoverySettings(enabled=False))
        super().__init__(config, (), sources, SystemClock())
        self._supervisor = supervisor

    async def start(self) -> None:
        """Start the engine, then read it.

        Raises:
            StartError: the engine could not be started.
        """
        await self._supervisor.start()
        self.watch(EngineTarget(self._supervisor.url))
        await super().start()

    async def stop(self) -> None:
        """End both; the engine's processes end in any case when this one does."""
        await super().stop()
        await self._supervisor.stop()
