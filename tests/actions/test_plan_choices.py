"""How it is stopped, who starts it again, how long it gets: by flag, unit, engine and config, in that order."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from tests.actions.plans import PLAN
from tui.actions import stops
from tui.actions.plan import HeldProcess, RefusedError, Requester, from_document
from tui.actions.plan_text import rows
from tui.actions.stops import Wish
from tui.actions.units import OwnUnit
from tui.model.places import UnitReading
from tui.model.settings import ActionSettings

if TYPE_CHECKING:
    from tui.actions.plan import StopWay
    from tui.model.readings import EngineKind

TREE = (HeldProcess(4711, 1, "vllm", "api_server"), HeldProcess(4712, 2, "VLLM::EngineCore", "engine_core"))
NO_UNIT = OwnUnit()
UNIT = OwnUnit(UnitReading("vllm.service", "active", "running", 4711, "on-failure", stop_timeout_s=90.0))
USER_UNIT = OwnUnit(UnitReading("vllm.service", restart="always"), user=True)
SETTINGS = ActionSettings()


@pytest.mark.parametrize(
    ("wish", "unit", "way", "text"),
    [
        (Wish("drain"), NO_UNIT, "sigterm", "SIGTERM to pid 4711 (vllm)"),
        (Wish("drain"), UNIT, "systemctl_stop", "systemctl stop vllm.service"),
        (Wish("drain"), USER_UNIT, "systemctl_stop", "systemctl --user stop vllm.service"),
        (Wish("restart"), UNIT, "kill_tree", "SIGKILL to the whole engine: pids 4711, 4712"),
        (Wish("restart", "api-server"), NO_UNIT, "kill_api_server", "SIGKILL to pid 4711 (vllm) alone"),
        (Wish("restart", "graceful"), NO_UNIT, "sigterm", "SIGTERM to pid 4711 (vllm)"),
        (Wish("restart", "graceful"), UNIT, "systemctl_restart", "systemctl restart vllm.service"),
        (Wish("restart", "supervisor"), UNIT, "systemctl_restart", "systemctl restart vllm.service"),
        (
            Wish("restart", "graceful", start_command=("systemctl", "start", "vllm")),
            UNIT,
            "systemctl_stop",
            "systemctl stop vllm.service",
        ),
    ],
)
def test_how_it_is_stopped(wish: Wish, unit: OwnUnit, way: StopWay, text: str) -> None:
    stop = stops.stop(wish, TREE, unit, ())
    assert (stop.way, stop.text) == (way, text)
    if way.startswith("systemctl"):
        manager = ("systemctl", "--user") if unit.user else ("systemctl",)
        assert stop.command == (*manager, "--no-ask-password", way[10:], "--", "vllm.service")
    else:
        assert stop.command == ()


def test_the_supervisors_restart_needs_a_unit() -> None:
    with pytest.raises(RefusedError, match="restarts a systemd unit: pid 4711 is in none"):
        stops.stop(Wish("restart", "supervisor"), TREE, NO_UNIT, ())


def test_a_command_takes_the_place_of_a_signal_but_not_of_a_kill() -> None:
    command = ("docker", "stop", "vllm")
    asked = ActionSettings(stop_command=command)
    assert Wish("drain").stops_by_command(SETTINGS) == ()
    assert Wish("drain").stops_by_command(asked) == command
    assert Wish("restart", "graceful", stop_command=("x",)).stops_by_command(asked) == ("x",)
    assert Wish("restart", "tree").stops_by_command(asked) == ()
    with pytest.raises(RefusedError, match="--mode graceful"):
        Wish("restart", "tree", stop_command=command).stops_by_command(SETTINGS)
    assert stops.stop(Wish("drain"), (), NO_UNIT, command).command == command


@pytest.mark.parametrize(
    "command", [("serve", "--api-key", "S3cret"), ("env", "HF_TOKEN=hf_abc", "run"), ("a\x1b[2J",)]
)
def test_a_command_with_a_secret_is_refused(command: tuple[str, ...]) -> None:
    """It would stand in the plan, on the screen and in the log."""
    with pytest.raises(RefusedError) as error:
        stops.stop(Wish("drain"), TREE, NO_UNIT, command)
    assert (
        "secret" in str(error.value) and "S3cret" not in str(error.value) and "hf_abc" not in str(error.value)
    )


def chosen(wish: Wish, unit: OwnUnit, way: StopWay, **settings: Any) -> tuple[str, list[str]]:
    start, warnings = asyncio.run(stops.start(wish, ActionSettings(**settings), None, unit, way))
    return start.by, warnings


def test_who_starts_it_again() -> None:
    command = ("start-vllm",)
    restart = Wish("restart")
    assert chosen(restart, USER_UNIT, "kill_tree") == ("systemd", [])
    # systemd starts it surely: a command of the config would make two
    assert chosen(restart, USER_UNIT, "kill_tree", start_command=command) == ("systemd", [])
    assert chosen(restart, UNIT, "sigterm", start_command=command) == ("command", [])
    by, (warning,) = chosen(Wish("restart", start_command=command), USER_UNIT, "kill_tree")
    assert by == "command" and warning.startswith("two may start it again")
    by, (warning,) = chosen(Wish("drain"), UNIT, "systemctl_stop")
    assert by == "nobody" and warning.startswith("nobody will start it again")
    assert chosen(restart, UNIT, "systemctl_stop") == ("nobody", [])  # safety refuses that one
    by, (warning,) = chosen(Wish("drain"), NO_UNIT, "command")
    assert by == "unknown" and "not certain" in warning


@pytest.mark.parametrize(
    ("grace_s", "unit_s", "engine", "cmdline", "expected"),
    [
        (12.0, 90.0, "vllm", ("--shutdown-timeout", "20"), (12.0, "--grace")),
        (None, 90.0, "vllm", ("--shutdown-timeout", "20"), (90.0, "TimeoutStopSec of vllm.service")),
        (None, math.inf, "vllm", (), (30.0, "[actions] grace_s")),
        (
            None,
            None,
            "vllm",
            ("--shutdown-timeout", "20"),
            (26.0, "--shutdown-timeout 20 + 6 s to tear down"),
        ),
        (
            None,
            None,
            "vllm",
            ("--shutdown-timeout=7.5",),
            (13.5, "--shutdown-timeout 7.5 + 6 s to tear down"),
        ),
        (None, None, "vllm", ("--shutdown-timeout", "0"), (30.0, "[actions] grace_s")),
        (None, None, "vllm", ("--shutdown-timeout", "x"), (30.0, "[actions] grace_s")),
        (None, None, "triton", (), (36.0, "the default of --exit-timeout-secs + 6 s to tear down")),
        (None, None, "sglang", ("--shutdown-timeout", "9"), (30.0, "[actions] grace_s")),
    ],
)
def test_the_grace_period_and_where_it_is_from(
    grace_s: float | None,
    unit_s: float | None,
    engine: EngineKind,
    cmdline: tuple[str, ...],
    expected: tuple[float, str],
) -> None:
    unit = NO_UNIT if unit_s is None else OwnUnit(UnitReading("vllm.service", stop_timeout_s=unit_s))
    words = ("vllm", "serve", "m", *cmdline) if engine != "triton" else ("tritonserver", *cmdline)
    assert stops.grace(Wish("drain", grace_s=grace_s), SETTINGS, unit, engine, words) == expected


def test_only_a_drain_test_promises_requests_in_flight() -> None:
    own = dict(rows(PLAN))["own requests"]
    assert own == f"{PLAN.traffic.requests} streams to /v1/completions in flight at the stop"
    own = dict(rows(dataclasses.replace(PLAN, test="restart")))["own requests"]
    assert own == "a short one to /v1/completions each second, from before the stop until it serves again"


def test_a_plan_survives_json() -> None:
    target = dataclasses.replace(PLAN.target, main=TREE[0], tree=TREE, unit="x.service")
    plan = dataclasses.replace(
        PLAN, target=target, by=Requester(1000, "anna", "/dev/pts/1"), warnings=("a", "b")
    )
    for one in (plan, PLAN):
        assert from_document(json.loads(json.dumps(one.document()))) == one
    for broken in (
        {},
        {"schema": 2},
        {**plan.document(), "target": None},
        {**plan.document(), "by": {"x": 1}},
        {**plan.document(), "grace_s": "30"},
        {**plan.document(), "warnings": [5]},
        {**plan.document(), "stop": {"way": "sigterm", "text": 6, "command": []}},
    ):
        with pytest.raises(ValueError, match="plan"):
            from_document(broken)
