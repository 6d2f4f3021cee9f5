"""A border around lines, with a title in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.ui.lines import Line, Role, Span, fit, width

if TYPE_CHECKING:
    from collections.abc import Sequence


def framed(title: Line, lines: Sequence[Line], size: int, height: int, *, focused: bool) -> list[Line]:
    """Exactly ``height`` lines of exactly ``size`` cells; the focused frame is marked, not only coloured."""
    role: Role = "focus" if focused else "border"
    inner = size - 4
    if inner < 1 or height < 3:
        return [fit(line, size) for line in [title, *lines][:height]]
    shown = title if width(title) <= inner - 2 else fit(title, inner - 2)
    corner = Span("╭▸ " if focused else "╭─ ", role)
    top = (corner, *shown, Span(f" {'─' * (size - 5 - width(shown))}╮", role))
    edge = Span("│ ", role)
    end = Span(" │", role)
    body = [(edge, *fit(line, inner), end) for line in lines[: height - 2]]
    blank = (edge, Span(" " * inner), end)
    body += [blank] * (height - 2 - len(body))
    return [top, *body, (Span(f"╰{'─' * (size - 2)}╯", role),)]
