"""Tests of engines as their pages show them: a plan, one that runs, one that has failed, made of what is on disk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.actions.plans import PLAN
from tui.actions.picture import News, Picture
from tui.actions.plan import HeldProcess, Plan
from tui.actions.plan_text import rows
from tui.ui.panes.drill_plan import PlanSheet
from tui.ui.panes.drill_result import ResultSheet
from tui.ui.panes.drill_run import RunSheet

BEGAN = 1_800_000_000.0
ACTION = BEGAN + 6.0
HOSTILE = "\x1b[31m[red]模型\u202e 🚀/" + "x" * 300


def plan(**changes: Any) -> Plan:
    """Of a drain test of an engine of three processes."""
    main = HeldProcess(
        4711,
        99,
        "vllm",
        "api_server",
        BEGAN - 86400,
        ("vllm", "serve", "meta-llama/Llama-3.3-70B-Instruct", "--api-key", "***", "--port", "8000"),
    )
    tree = (main, HeldProcess(4720, 99, "VLLM::EngineCore", "engine_core"))
    target = replace(PLAN.target, version="0.19.1", model="llama-70b", main=main, tree=tree)
    return replace(
        PLAN, target=target, warnings=("nobody will start it again: it stays down after the test",), **changes
    )


def request(number: int, **changes: Any) -> dict[str, Any]:
    """One of ours in flight, as the event file has it."""
    return {
        "kind": "request", "at": ACTION, "id": number, "request": "in_flight", "started_s": -4.0, "ended_s": None,
        "outcome": None, "http_status": 200, "finish_reason": None, "tokens": 43, "tokens_wanted": 512, **changes,
    }  # fmt: skip


def events() -> list[dict[str, Any]]:
    """Eight requests at the signal; then two finish, one is cut, the rest get nothing any more."""
    ended = [
        request(1, outcome="finished", finish_reason="stop", tokens=512, ended_s=3.21),
        request(2, outcome="finished", finish_reason="length", tokens=512, ended_s=3.5),
        request(3, outcome="cut", ended_s=0.4),
        {**request(9, outcome="refused", ended_s=0.52, http_status=None), "request": "new"},
    ]
    gauge = {"running": 5.0, "waiting": 0.0, "readiness": "refused", "established": 6}
    return [
        {"kind": "process", "at": BEGAN, "pid": 1, "start_ticks": 1},
        {"kind": "state", "at": BEGAN, "name": "filling"},
        request(77),
        {"kind": "event", "at": ACTION, "t_s": 0.0, "event": "signal_sent", "detail": "SIGTERM to pid 4711"},
        *(request(number) for number in range(1, 9)),
        {"kind": "state", "at": ACTION, "name": "draining"},
        {"kind": "event", "at": ACTION, "t_s": 0.26, "event": "port_closed", "detail": ""},
        {"kind": "event", "at": ACTION, "t_s": 0.52, "event": "first_refused", "detail": "refused"},
        *ended,
        {"kind": "gauge", "at": ACTION + 8, **gauge, "tokens": {"4": 44}, "silent": [4, 5, 6, 7, 8]},
        {
            "kind": "note",
            "at": ACTION - 2,
            "text": "the model's limit of 576 tokens ends our requests within 60 s: one that finishes so early shows little",
        },
    ]


def good_report() -> dict[str, Any]:
    """Of a test in which all eight finished, as the JSON contract has it."""
    finished = [
        {
            **request(n, outcome="finished", finish_reason="stop", tokens=512, ended_s=3.0 + 0.3 * n),
            "kind": "in_flight",
        }
        for n in range(1, 9)
    ]
    return {
        **report(),
        "requests": finished,
        "exit": {"code": 0, "signal": None, "after_s": 6.24},
        "leftovers": [],
        "clients_closed": False,
        "findings": [],
    }


def report() -> dict[str, Any]:
    """The report of the events above, as the JSON contract has it."""
    lost = [
        {**request(number, outcome="silent", ended_s=30.0), "kind": "in_flight"} for number in range(4, 9)
    ]
    return {
        "test": "drain",
        "grace_s": 30.0,
        "events": [
            {"t_s": e["t_s"], "event": e["event"], "detail": e["detail"]}
            for e in events()
            if e["kind"] == "event"
        ],
        "requests": [
            *({**e, "kind": "in_flight"} for e in events() if e.get("outcome") and e["request"] != "new"),
            *lost,
        ],
        "phases": [],
        "outcomes": {"refused": 9},
        "detect_s": 28.9,
        "detect_span_s": [20.0, 31.0],
        "exit": {"code": 0, "signal": None, "after_s": 30.85},
        "leftovers": [{"pid": 4720, "name": "VLLM::EngineCore", "gpu_mem_mib": 70000}],
        "clients_closed": True,
        "reference": None,
        "previous": [
            {"started_at": "2027-01-14T08:00:00+00:00", "passed": True, "in_flight": 8, "finished": 8, "exit_s": 6.2}
        ],
        "notes": [],
        "findings": [
            {
                "id": "D03",
                "text": "on SIGTERM running requests are lost",
                "instead": "--shutdown-timeout N, N + preStop + 10 within the grace period",
            }
        ],
    }  # fmt: skip


def running(**changes: Any) -> RunSheet:
    """Eight seconds after the signal."""
    picture = Picture()
    picture.take(News(events(), changes.pop("plan", None) or plan()))
    return RunSheet(picture, changes.pop("now", ACTION + 8.2), **changes)


def ended(passed: bool | None = False, **changes: Any) -> ResultSheet:
    """After its end; one that has passed lost no request."""
    picture = Picture()
    picture.take(News([] if passed else events(), plan()))
    reasons = ["5 of 8 requests in flight silent: no byte, no error and no end until we hung up"]
    done = {
        "kind": "done",
        "passed": passed,
        "reasons": [] if passed else reasons,
        "report": "/state/tests/20270115T-drain-001.json",
    }
    picture.take(News([{**done, **changes}], report=good_report() if passed else report()))
    return ResultSheet(picture)


def dialog(**changes: Any) -> PlanSheet:
    """The plan, typed in part."""
    values: dict[str, Any] = {
        "test": "drain",
        "engine": "vllm :8000",
        "controls": ("kill", "traffic", "type", "cancel", "start"),
        "focus": "type",
        "plan": tuple(rows(plan())),
        "wanted": "vllm:8000",
        "typed": "vllm:8",
    }
    return PlanSheet(**{**values, **changes})
