"""Whether a test passed, and why: from the facts alone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tui.actions.traffic import GOOD_REASONS

if TYPE_CHECKING:
    from tui.actions.result import Result
    from tui.actions.traffic import OwnRequest

_FATES = {
    "cut": "cut off: the connection was closed before the end",
    "silent": "silent: no byte, no error and no end until we hung up",
    "aborted": "aborted by the engine",
    "refused": "refused",
    "error": "answered with an error",
    "timeout": "still running when the test could wait no longer",
}


def judge(result: Result) -> tuple[bool | None, list[str]]:
    """Passed or not, and the reasons; None: the user cancelled it."""
    if result.cancelled:
        return None, ["cancelled by the user", result.target_state]
    failures = [*_requests(result), *_stop(result), *_leftovers(result)]
    if result.plan.test == "restart":
        failures += _return(result)
    if failures:
        return False, [*failures, *([result.target_state] if result.gave_up else [])]
    return True, [_success(result)]


def kept(request: OwnRequest) -> bool:
    """It finished as it should: a plain request gives no reason."""
    return request.outcome == "finished" and request.finish_reason in (*GOOD_REASONS, None)


def _in_flight(result: Result) -> list[OwnRequest]:
    return [request for request in result.requests if request.kind == "in_flight"]


def _requests(result: Result) -> list[str]:
    requests = _in_flight(result)
    lost = Counter(str(request.outcome) for request in requests if not kept(request))
    return [
        f"{number} of {len(requests)} requests in flight {_FATES.get(outcome, outcome)}"
        for outcome, number in lost.most_common()
    ]


def _stop(result: Result) -> list[str]:
    plan, after = result.plan, result.exit_after_s
    if plan.stop.way in ("kill_tree", "kill_api_server"):
        return ["it did not end upon SIGKILL"] if after is None and result.gave_up else []
    found = []
    if result.killed_at is not None:
        found.append(f"it did not exit within the grace period of {plan.grace_s:g} s and was killed")
    elif after is None and plan.target.main is not None:
        found.append(f"it did not exit within the grace period of {plan.grace_s:g} s")
    elif after is None and result.gave_up:
        found.append(f"its port was still open at the end of the grace period of {plan.grace_s:g} s")
    elif after is not None and after > plan.grace_s:
        found.append(f"it exited {after:.1f} s after the signal; the grace period is {plan.grace_s:g} s")
    if result.closed_at is not None and after is not None and after >= result.closed_at - result.action_at:
        waited = after - (result.closed_at - result.action_at)
        found.append(f"it exited only after we had hung up: {waited:.1f} s later")
    return found


def _leftovers(result: Result) -> list[str]:
    if not result.leftovers:
        return []
    held = sum(left.gpu_mem_mib or 0.0 for left in result.leftovers)
    names = ", ".join(f"{left.process.name} (pid {left.process.pid})" for left in result.leftovers[:4])
    gpu = f", holding {held:.0f} MiB of GPU memory" if held else ""
    count = len(result.leftovers)
    return [f"{count} of its processes {'was' if count == 1 else 'were'} left over{gpu}: {names}"]


def _return(result: Result) -> list[str]:
    if result.at("main_exit") is None and result.gave_up:
        return []
    if result.at("first_token") is None:
        what = "it was ready, but served no request" if result.at("ready") else "it did not come back"
        return [f"{what} within {result.plan.restart_deadline_s:g} s"]
    return []


def _success(result: Result) -> str:
    requests, after = _in_flight(result), result.exit_after_s
    exited = "" if after is None else f"exit after {after:.1f} s of {result.plan.grace_s:g} s"
    if result.plan.test == "restart":
        down = "" if result.downtime_s is None else f"served again after {result.downtime_s:.1f} s"
        return down or "it came back"
    finished = f"{len(requests)}/{len(requests)} requests finished"
    return f"{finished}, {exited}" if exited else finished
