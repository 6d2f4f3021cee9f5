"""A plan for a person: the same lines in the dialog, in a dry run and in the log."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from tui.model.text import clean
from tui.model.units import number, seconds

if TYPE_CHECKING:
    from tui.actions.plan import HeldProcess, Plan

LABEL = 18
_CMDLINE_CHARS = 400
_TITLES = {"drain": "drain test", "restart": "restart test"}
_ONCE = frozenset(("kill_api_server", "kill_tree"))


def title(plan: Plan) -> str:
    """Which test of what."""
    return f"{_TITLES[plan.test]} of {plan.target.name}"


def lines(plan: Plan) -> list[str]:
    """What would be done to whom, by whom it is started again, what is at stake, what has to be typed."""
    return [title(plan), *(f"  {label:<{LABEL}}{text}" for label, text in rows(plan))]


def rows(plan: Plan) -> list[tuple[str, str]]:
    """The same without the title, each line with its label; an empty label goes on with the last."""
    target, traffic = plan.target, plan.traffic
    model = f", model {clean(target.model, 80)}" if target.model else ""
    version = f" {clean(target.version, 40)}" if target.version else ""
    shown = [("engine", f"{target.engine}{version}{model}"), ("address", target.url)]
    if target.main is None:
        shown.append(("process", "not seen here"))
    else:
        shown += _process(target.main)
        shown += [("", f"{held.name}, pid {held.pid}") for held in target.tree[1:]]
    if target.unit is not None:
        shown.append(("unit", f"{target.unit}{' of the user manager' if target.user_unit else ''}"))
    others = f"{_count(plan.others_running)} running, {_count(plan.others_waiting)} waiting"
    kind = "streams" if traffic.streaming else "requests"
    own = f"{traffic.requests} {kind} to {traffic.path} in flight at the stop"
    if plan.test == "restart":  # in flight there is nothing of ours: it may end at once
        own = f"a short one to {traffic.path} each second, from before the stop until it serves again"
    return [
        *shown,
        ("stopped by", plan.stop.text),
        ("started again by", plan.start.text),
        ("grace", _grace(plan)),
        ("others' requests", others),
        ("own requests", own),
        *(("warning", warning) for warning in plan.warnings),
        ("to confirm", f"type {target.name}"),
    ]


def _process(held: HeldProcess) -> list[tuple[str, str]]:
    began = ""
    if held.started_at is not None:
        instant = dt.datetime.fromtimestamp(held.started_at, dt.timezone.utc)
        began = f", started {instant:%Y-%m-%d %H:%M:%S} UTC"
    command = clean(" ".join(held.cmdline), _CMDLINE_CHARS)
    return [("process", f"{held.name}, pid {held.pid}{began}"), *([("", command)] if command else [])]


def _grace(plan: Plan) -> str:
    if plan.stop.way in _ONCE:
        return "none: SIGKILL ends it at once"
    then = "then SIGKILL" if plan.kill_after_grace else "then it is left as it is"
    return f"{seconds(plan.grace_s)} ({plan.grace_from}), {then}"


def _count(value: float | None) -> str:
    return "an unknown number" if value is None else number(value)
