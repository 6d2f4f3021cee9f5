"""A plan for a person: the same lines in the dialog, in a dry run and in the log."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from tui.model.text import clean
from tui.model.units import number, seconds

if TYPE_CHECKING:
    from tui.actions.plan import HeldProcess, Plan

_CMDLINE_CHARS = 400
_TITLES = {"drain": "drain test", "restart": "restart test"}
_ONCE = frozenset(("kill_api_server", "kill_tree"))


def lines(plan: Plan) -> list[str]:
    """What would be done to whom, by whom it is started again, what is at stake, what has to be typed."""
    target, traffic = plan.target, plan.traffic
    model = f", model {clean(target.model, 80)}" if target.model else ""
    version = f" {clean(target.version, 40)}" if target.version else ""
    shown = [f"{_TITLES[plan.test]} of {target.name}", _row("engine", f"{target.engine}{version}{model}")]
    shown.append(_row("address", target.url))
    if target.main is None:
        shown.append(_row("process", "not seen here"))
    else:
        shown += _process(target.main)
        shown += [_row("", f"{held.name}, pid {held.pid}") for held in target.tree[1:]]
    if target.unit is not None:
        shown.append(_row("unit", f"{target.unit}{' of the user manager' if target.user_unit else ''}"))
    shown.append(_row("stopped by", plan.stop.text))
    shown.append(_row("started again by", plan.start.text))
    shown.append(_row("grace", _grace(plan)))
    shown.append(
        _row(
            "others' requests",
            f"{_count(plan.others_running)} running, {_count(plan.others_waiting)} waiting",
        )
    )
    kind = "streams" if traffic.streaming else "requests"
    shown.append(_row("own requests", f"{traffic.requests} {kind} to {traffic.path} in flight at the stop"))
    shown += [_row("warning", warning) for warning in plan.warnings]
    shown.append(_row("to confirm", f"type {target.name}"))
    return shown


def _process(held: HeldProcess) -> list[str]:
    began = ""
    if held.started_at is not None:
        instant = dt.datetime.fromtimestamp(held.started_at, dt.timezone.utc)
        began = f", started {instant:%Y-%m-%d %H:%M:%S} UTC"
    command = clean(" ".join(held.cmdline), _CMDLINE_CHARS)
    return [_row("process", f"{held.name}, pid {held.pid}{began}"), *([_row("", command)] if command else [])]


def _grace(plan: Plan) -> str:
    if plan.stop.way in _ONCE:
        return "none: SIGKILL ends it at once"
    then = "then SIGKILL" if plan.kill_after_grace else "then it is left as it is"
    return f"{seconds(plan.grace_s)} ({plan.grace_from}), {then}"


def _count(value: float | None) -> str:
    return "an unknown number" if value is None else number(value)


def _row(label: str, text: str) -> str:
    return f"  {label:<18}{text}"
