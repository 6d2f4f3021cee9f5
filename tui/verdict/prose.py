"""The form of what a verdict says to a person."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.model.readings import EngineKind
    from tui.verdict.signals import Signals


@dataclass(frozen=True, slots=True)
class If:
    """A line that is right for some pictures only, and what is right for the others."""

    holds: Callable[[Signals], bool]
    text: str
    otherwise: str = ""


Line: TypeAlias = str | If


@dataclass(frozen=True, slots=True)
class Texts:
    """One verdict in words. ``{seats}`` and the like become " (now ...)" where the value in force is known.

    ``first`` and ``advice`` are for every engine; ``flags`` stand between and speak one engine's own options.
    A line says what to do and in which direction, then what that costs; where a restart would be a mistake,
    that it would.
    """

    title: str
    explanation: str
    advice: tuple[Line, ...] = ()
    flags: Mapping[EngineKind, tuple[Line, ...]] = field(default_factory=dict)
    first: tuple[Line, ...] = ()
