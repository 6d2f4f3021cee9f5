"""What a test must never do, each rule by itself. Whether the target is the right one is for ``targets``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tui.actions.ancestry import ancestors
from tui.actions.audit import AuditLog
from tui.actions.lock import check_free
from tui.actions.plan import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.actions.plan import HeldProcess, Plan
    from tui.model.settings import Config


def check_enabled(config: Config, *, allow_actions: bool) -> None:
    """Tests are off unless they were asked for, and read-only wins over everything."""
    if config.read_only:
        raise RefusedError("this is read-only (--read-only): nothing is acted on, whatever is configured")
    if not (config.actions.enabled or allow_actions):
        raise RefusedError("tests are off: --allow-actions, or enabled = true in [actions] of the config")


def check_not_ours(tree: Sequence[HeldProcess], proc: str = "/proc") -> None:
    """Never init, this tool, or what the tool runs below (a terminal, a job's supervisor)."""
    me = os.getpid()
    above = {kin.pid for kin in ancestors(me, proc)}
    for process in tree:
        if process.pid == 1:
            raise RefusedError("pid 1 is the host's (or container's) init: its end would end everything")
        if process.pid == me:
            raise RefusedError(f"pid {me} is this tool itself")
        if process.pid in above:
            raise RefusedError(
                f"this tool runs below pid {process.pid} ({process.name}) and would end with it"
            )


def check_rights(tree: Sequence[HeldProcess]) -> None:
    """This user may signal every process that may have to be signalled."""
    for process in tree:
        try:
            os.kill(process.pid, 0)
        except PermissionError:
            raise RefusedError(
                f"pid {process.pid} ({process.name}) is another user's: run as root, or as its user"
            ) from None
        except ProcessLookupError:
            continue  # ended: who holds it finds out


def check_traffic(running: float | None, waiting: float | None, *, with_traffic: bool = False) -> None:
    """No request of others is in flight; unknown is not none.

    Args:
        running: requests that run, before the tool has sent any.
        waiting: those that wait.
        with_traffic: the user knows of them and goes on.
    """
    if with_traffic:
        return
    if running is None or waiting is None:
        which = "running" if running is None else "waiting"
        raise RefusedError(
            f"whether requests of others are in flight is not known (no figure of those {which}): "
            "--with-traffic goes on all the same"
        )
    others = running + waiting
    if others > 0:
        word = "request" if others == 1 else "requests"
        raise RefusedError(f"{others:.0f} {word} of others in flight: --with-traffic goes on all the same")


def check_starts_again(plan: Plan) -> None:
    """A restart test without anybody who restarts would only be an outage."""
    if plan.test == "restart" and plan.start.by == "nobody":
        raise RefusedError(
            f"it would stay down ({plan.start.text}): give --start-command, or start_command in [actions]"
        )


def check_confirmed(plan: Plan, typed: str) -> None:
    """What was typed is the name of the target, to the letter."""
    if typed != plan.target.name:
        raise RefusedError(f"not confirmed: the string to give is {plan.target.name}")


def check_log() -> None:
    """A test that cannot be logged is not run."""
    AuditLog().close()


def refusals(plan: Plan, config: Config, *, allow_actions: bool) -> list[str]:
    """Why this plan may not be carried out now, confirmed or not; empty where it may."""
    found = []
    signals = plan.stop.way in ("sigterm", "kill_api_server", "kill_tree") or plan.kill_after_grace
    checks: tuple[Callable[[], None], ...] = (
        lambda: check_enabled(config, allow_actions=allow_actions),
        lambda: check_not_ours(plan.target.tree),
        lambda: check_rights(plan.target.tree if signals else ()),
        lambda: check_traffic(plan.others_running, plan.others_waiting, with_traffic=plan.with_traffic),
        lambda: check_starts_again(plan),
        lambda: check_free(plan.target),
        check_log,
    )
    for check in checks:
        try:
            check()
        except RefusedError as error:
            found.append(str(error))
    return found
