"""The report's contract, its verdicts and its texts, from facts of our own."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tui.actions import plan as plans
from tui.actions import report, sound
from tui.actions.exits import Exit
from tui.actions.judgement import judge
from tui.actions.plan import HeldProcess, Plan, ReadinessProbe, Start, Stop
from tui.actions.reference import reference
from tui.actions.report import document, previous, reports, save
from tui.actions.report_text import render
from tui.actions.result import Event, Leftover, Phase, Result
from tui.actions.runs import reports_dir
from tui.actions.traffic import OwnRequest
from tui.config.state import write_json
from tui.lint import measured

if TYPE_CHECKING:
    from pathlib import Path

MAIN = HeldProcess(4711, 1000, "vllm", "api_server", cmdline=("vllm", "serve", "llama"))
CORE = HeldProcess(4712, 1001, "VLLM::EngineCore", "engine_core")
DRAIN = Plan(
    test="drain",
    target=plans.TestTarget(
        "process", "vllm:8000", "http://127.0.0.1:8000", "vllm", "0.32.0", "llama", MAIN, (MAIN, CORE),
        parameters_b=8.0,
    ),
    stop=Stop("sigterm", "SIGTERM to pid 4711 (vllm serve)"),
    start=Start("nobody", "nobody: it stays down"),
    grace_s=30.0,
    grace_from="[actions] grace_s",
    readiness=ReadinessProbe("/health", 10.0, 1.0, 3),
)  # fmt: skip
RESTART = replace(DRAIN, test="restart", stop=Stop("kill_tree", "SIGKILL to 4711, 4712"))
KEYS = [
    "schema", "test", "target", "action", "grace_s", "grace_from", "started_at", "passed", "reasons", "events",
    "requests", "phases", "outcomes", "downtime_s", "detect_s", "detect_span_s", "exit", "leftovers", "clients_closed",
    "reference", "previous", "notes", "findings",
]  # fmt: skip


def request(number: int = 1, **changes: Any) -> OwnRequest:
    values: dict[str, Any] = {
        "id": number, "kind": "in_flight", "started": 99.0, "tokens_wanted": 100, "ended": 104.0, "tokens": 100,
        "outcome": "finished", "http_status": 200, "finish_reason": "length",
    }  # fmt: skip
    return OwnRequest(**{**values, **changes})


def result(plan: Plan = DRAIN, **changes: Any) -> Result:
    """A drain that went well, unless something is changed."""
    values: dict[str, Any] = {
        "plan": plan,
        "started_at": 1_800_000_000.0,
        "action_at": 100.0,
        "events": [Event(100.0, "signal_sent", "SIGTERM"), Event(106.2, "main_exit", "pid 4711")],
        "requests": [request(1), request(2)],
        "leftovers": [],
        "exit": Exit(code=0),
    }
    return Result(**{**values, **changes})


def test_every_field_is_there() -> None:
    told = json.loads(json.dumps(document(result(), [])))
    assert list(told) == KEYS
    assert told["passed"] is True and told["reasons"] == ["2/2 requests finished, exit after 6.2 s of 30 s"]
    assert told["started_at"] == "2027-01-15T08:00:00+00:00"
    assert told["exit"] == {"code": 0, "signal": None, "after_s": 6.2}
    assert told["events"][1] == {"t_s": 6.2, "event": "main_exit", "detail": "pid 4711"}
    assert told["target"] == {
        "kind": "process", "name": "vllm:8000", "pid": 4711, "url": "http://127.0.0.1:8000", "engine": "vllm",
        "version": "0.32.0", "model": "llama",
    }  # fmt: skip
    assert told["requests"][0]["started_s"] == -1.0


def test_what_is_not_known_is_null() -> None:
    unknown = replace(DRAIN.target, main=None, tree=(), version=None, model=None, parameters_b=None)
    bare = result(
        replace(DRAIN, target=unknown), events=[Event(100.0, "signal_sent")], leftovers=None, exit=Exit()
    )
    told = document(bare, [])
    assert list(told) == KEYS
    assert told["exit"] == {"code": None, "signal": None, "after_s": None}
    assert [told[k] for k in ("downtime_s", "detect_s", "leftovers", "reference")] == [None] * 4
    assert [told["target"][k] for k in ("pid", "version", "model")] == [None] * 3
    assert "| exit after | – |" in render(told)


FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "cut": ({"requests": [request(), request(outcome="cut", finish_reason=None)]}, "1 of 2 requests in flight cut"),
    "silent": ({"requests": [request(outcome="silent", finish_reason=None)]}, "1 of 1 requests in flight silent"),
    "aborted": ({"requests": [request(outcome="aborted")]}, "1 of 1 requests in flight aborted"),
    "error": ({"requests": [request(outcome="error", http_status=500)]}, "answered with an error"),
    "late": ({"events": [Event(131.0, "main_exit")]}, "it exited 31.0 s after the signal; the grace period is 30 s"),
    "never": ({"events": [], "gave_up": True}, "it did not exit within the grace period of 30 s"),
    "killed": ({"killed_at": 130.0}, "was killed"),
    "hung up": (
        {"events": [Event(131.0, "main_exit")], "closed_at": 130.0}, "it exited only after we had hung up: 1.0 s later",
    ),
    "left over": (
        {"leftovers": [Leftover(CORE, 71_000.0)]},
        "1 of its processes was left over, holding 71000 MiB of GPU memory: VLLM::EngineCore (pid 4712)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_each_failure_is_one(name: str) -> None:
    changes, words = FAILURES[name]
    passed, reasons = judge(result(**changes))
    assert passed is False
    assert any(words in reason for reason in reasons), reasons


def test_a_port_that_stays_open_is_no_exit() -> None:
    plan = replace(DRAIN, target=replace(DRAIN.target, kind="command", main=None, tree=()))
    passed, reasons = judge(
        result(plan, events=[], leftovers=None, gave_up=True, target_state="its port is open")
    )
    assert not passed
    assert reasons == [
        "its port was still open at the end of the grace period of 30 s", "its port is open",
    ]  # fmt: skip


def test_an_exit_code_or_signal_decides_nothing() -> None:
    # Triton ends a drain that ran out of time by signal 11: what counts is what became of the requests
    assert judge(result(exit=Exit(signal=11)))[0] is True


def test_a_plain_request_has_no_reason_and_is_kept() -> None:
    assert judge(result(requests=[request(finish_reason=None, tokens=None, tokens_wanted=None)]))[0] is True


def test_a_cancelled_test_says_what_the_engine_does() -> None:
    cut = result(cancelled=True, target_state="the engine still runs (pid 4711)", events=[])
    assert judge(cut) == (None, ["cancelled by the user", "the engine still runs (pid 4711)"])


def test_a_restart_passes_when_it_serves_again() -> None:
    back = [
        Event(100.1, "main_exit"),
        Event(101.0, "spawned"),
        Event(112.0, "ready"),
        Event(113.0, "first_token"),
    ]
    served = result(RESTART, events=back, requests=[], downtime_s=12.9, exit=Exit(signal=9))
    assert judge(served) == (True, ["served again after 12.9 s"])
    down = replace(served, events=back[:1], gave_up=True, target_state="pid 4711 has ended")
    assert judge(down) == (False, ["it did not come back within 900 s", "pid 4711 has ended"])
    deaf = replace(served, events=back[:3], gave_up=True)
    assert judge(deaf)[1][0] == "it was ready, but served no request within 900 s"


def test_a_restart_is_what_lint_reads() -> None:
    events = [
        Event(100.0, "signal_sent"),
        Event(100.1, "main_exit"),
        Event(101.0, "spawned"),
        Event(112.5, "ready"),
    ]
    phases = [Phase("starting", 1.0, 8.0), Phase("weights", 8.0, 12.5)]
    new = [request(1, kind="new", started=113.0, ended=115.0, tokens=2)]
    new += [request(n, kind="new", started=115.0 + n, ended=115.5 + n, tokens=2) for n in range(2, 6)]
    figures = measured.parse(
        json.dumps(document(result(RESTART, events=events, phases=phases, requests=new), []))
    )[0]
    assert (figures.load_s, figures.first_request_s, figures.steady_request_s) == (11.5, 2.0, 0.5)


def test_findings_say_what_to_set_in_the_engines_own_flags() -> None:
    lost = [request(outcome="silent", finish_reason=None)]
    found = {f["id"]: f for f in document(result(requests=lost), [])["findings"]}
    assert "--shutdown-timeout N" in found["D03"]["instead"]
    assert found["D03"]["arithmetic"] == "measured: 1 of 1 requests lost"
    assert found["D03"]["scope"] == DRAIN.target.url
    assert not document(result(), [])["findings"]


@pytest.mark.parametrize(
    ("engine", "billions", "row"),
    [
        ("vllm", 8.0, (13, 15, None)), ("vllm", 70.6, (70, 45, None)), ("sglang", 7.0, (13, 15, [120, 300])),
        ("sglang", 405.0, (70, 45, [300, 600])), ("trtllm", 13.0, (13, 30, None)),
    ],
)  # fmt: skip
def test_the_reference_is_the_nearest_size(engine: Any, billions: float, row: tuple[Any, ...]) -> None:
    found = reference(engine, billions)
    assert found is not None
    assert (found["model_b"], found["hot_s"], found["cache_s"]) == row


def test_no_reference_without_size_or_row() -> None:
    assert (
        reference("vllm", None) is None and reference("triton", 13.0) is None and reference("vllm", 0) is None
    )


def test_reports_are_kept_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(report, "REPORTS_KEPT", 7)
    assert previous(DRAIN) == [] == reports()
    events = [Event(100.1, "main_exit")]
    phases = [Phase("starting", 1.0, 8.0), Phase("ready", 8.0, 12.5)]
    for number in range(9):
        save(f"20270115T0800{number:03}Z-drain", document(result(), []))
    save(
        "20270116T080000Z-restart",
        document(result(RESTART, events=events, phases=phases, downtime_s=13.0), []),
    )
    home = reports_dir()
    assert home is not None
    (home / "damaged.json").write_text("{")
    names = sorted(path.name for path in home.glob("2*"))
    assert len(names) == 14 and names[0] == "20270115T0800003Z-drain.json"
    assert [row["exit_s"] for row in previous(DRAIN)] == [6.2] * 5
    (row,) = previous(RESTART)
    assert (row["load_s"], row["downtime_s"], row["passed"]) == (11.5, 13.0, False)
    assert len(reports("http://127.0.0.1:8000")) == 7 and reports("http://127.0.0.1:9") == []


def test_damaged_reports_cost_a_test_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    home = reports_dir()
    assert home is not None
    good = document(result(), [])
    damage: list[dict[str, Any]] = [
        {"requests": [1], "phases": [2]}, {"requests": 3, "exit": [4]}, {"downtime_s": "5", "passed": {}},
        {"phases": [{"name": "ready"}, {"name": "ready", "start_s": "6", "end_s": None}]},
    ]  # fmt: skip
    for number, change in enumerate(damage):
        write_json(home / f"20270115T080{number}00Z-drain-001.json", {**good, **change})
    rows = previous(DRAIN)
    assert [row["load_s"] for row in rows] == [None] * 4
    assert (rows[1]["passed"], rows[1]["downtime_s"], rows[2]["exit_s"]) == (None, None, None)  # newest first
    assert all(sound.report({**good, "previous": [row]}) for row in rows)


@pytest.mark.parametrize(
    "change",
    [
        {"requests": [1]}, {"events": {}}, {"exit": []}, {"findings": [{"id": []}]}, {"notes": 8}, {"previous": 1},
        {"detect_span_s": [1]}, {"grace_s": "x"}, {"downtime_s": float("inf")}, {"outcomes": {"200": {}}},
        {"reference": 1}, {"leftovers": 2},
    ],
)  # fmt: skip
def test_what_is_no_report_is_not_shown(change: dict[str, Any]) -> None:
    good = json.loads(json.dumps(document(result(), [])))
    assert sound.report(good)
    assert not sound.report({**good, **change})


def test_a_text_is_written_through_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    home = reports_dir()
    assert home is not None
    home.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("keep")
    (home / "one.md").symlink_to(victim)
    os.mkfifo(home / "two.md")
    for name in ("one", "two"):
        with pytest.raises(OSError, match=r"symbolic|No such device"):
            save(name, document(result(), []))
    assert victim.read_text() == "keep"


def test_the_text_is_safe_markdown() -> None:
    hostile = replace(DRAIN, target=replace(DRAIN.target, model="a|b`<script>\x1b[2J[x](y)"))
    text = render(document(result(hostile, notes=["# no heading"]), [{
        "test": "drain", "started_at": "2027-01-14T08:00:00+00:00", "passed": False, "in_flight": 8, "finished": 2,
        "exit_s": 31.0, "downtime_s": None, "load_s": None,
    }]))  # fmt: skip
    assert text.startswith("# Drain test of vllm:8000: passed\n")
    assert "model a\\|b\\`\\<script\\>\\[x\\](y)," in text
    assert "\x1b" not in text and "\n# no" not in text
    assert "| 1 | -1.00 s | 4.00 s | finished | length | 200 | 100 of 100 |" in text
    assert "| 2027-01-14T08:00:00+00:00 | failed | 2/8 | 31.00 s | – |" in text


@pytest.mark.parametrize(
    ("detail", "span"), [("refused", [20.0, 30.0]), ("503", [20.0, 30.0]), ("timeout", [21.0, 31.0])]
)
def test_the_span_in_which_the_probe_should_notice(detail: str, span: list[float]) -> None:
    down = result(events=[Event(100.0, "signal_sent"), Event(100.1, "readiness_down", detail)], detect_s=28.5)
    told = document(down, [])
    assert told["detect_span_s"] == span
    assert f"| 28.50 s (by its settings {span[0]:g} to {span[1]:g} s) |" in render(told)
    assert document(result(), [])["detect_span_s"] is None
