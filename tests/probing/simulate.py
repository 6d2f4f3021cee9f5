"""A kubelet on a manual clock: the machine's probes against a server that is a function of time."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from tui.probing.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from tui.probing.loop import Kind
    from tui.probing.machine import ContainerProbes, Decision

    Server: TypeAlias = Callable[[Kind, float], tuple[float, Outcome]]


def refused(_: Kind, __: float) -> tuple[float, Outcome]:
    return 0.0, Outcome.FAILURE


def healthy(_: Kind, __: float) -> tuple[float, Outcome]:
    return 0.003, Outcome.SUCCESS


def hangs(timeout_s: float) -> Server:
    return lambda _, __: (timeout_s, Outcome.FAILURE)


class Kubelet:
    """Runs every probe when it is due; what began when is in ``starts``."""

    def __init__(self, probes: ContainerProbes) -> None:
        self.probes = probes
        self.starts: list[tuple[Kind, float]] = []
        self._ending: list[tuple[float, Kind, Outcome]] = []

    def run(self, server: Server, until: float) -> list[Decision]:
        """Go on until an instant; the decisions on the way."""
        decisions: list[Decision] = []
        while True:
            due = self.probes.due()
            ends = self._ending[0][0] if self._ending else None
            if ends is not None and ends <= until and (due is None or ends <= due[1]):
                at, kind, outcome = heapq.heappop(self._ending)
                decision = self.probes.finish(kind, at, outcome)
                if decision is not None:
                    decisions.append(decision)
            elif due is not None and due[1] <= until:
                kind, at = due
                self.starts.append(due)
                took, outcome = server(kind, at)
                self.probes.begin(kind, at)
                heapq.heappush(self._ending, (at + took, kind, outcome))
            else:
                return decisions
