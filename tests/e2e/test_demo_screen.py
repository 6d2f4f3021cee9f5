"""``infertop demo`` and the one key that offers it, in a pseudo-terminal; what they leave behind."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import psutil

from tests.support.program import command, environment, run
from tests.support.terminal import Terminal
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

QUICK = ("--load-seconds", "0.5", "--time-scale", "0.2")


def start(home: Path, *words: str) -> Terminal:
    return Terminal(command(*words), env=environment(home), columns=160, rows=45)


def below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def test_a_steady_busy_healthy_host_marked_simulated(tmp_path: Path) -> None:
    with start(tmp_path, "demo", *QUICK) as terminal:
        terminal.wait_for("SIMULATED")
        terminal.wait_for(r"HEALTHY +vllm :\d+ demo-8b", 40)
        url = "http://127.0.0.1" + (terminal.wait_for(r"vllm (:\d+) demo-8b"))[1]
        once = run("once", "--json", "--interval", "0.3", url, home=tmp_path)
        assert once.json()["simulated"] is True
        assert once.json()["engines"][0]["simulated"] is True
        engine = below(terminal.process.pid)
        assert engine
        terminal.send("v")
        terminal.wait_for(r"healthy +fires, ")
        terminal.wait_for(r"would be quiet with [\w ]+ >= ")
        terminal.send("q")
        assert terminal.wait(10) == 0
        assert terminal.modes_left() == set()
        wait_for(lambda: not alive(engine), 8, "the end of the simulator's processes")


def test_killing_the_screen_leaves_no_simulator_process(tmp_path: Path) -> None:
    with start(tmp_path, "demo", *QUICK) as terminal:
        terminal.wait_for(r"vllm :\d+ demo-8b", 40)
        engine = below(terminal.process.pid)
        assert len(engine) >= 4
        terminal.signal(signal.SIGKILL)
        wait_for(lambda: not alive(engine), 8, "the end of the simulator's processes")  # 2 s, with 4x slack


def test_orders_reach_the_engine_on_the_screen(tmp_path: Path) -> None:
    control = tmp_path / "orders.jsonl"
    with start(tmp_path, "demo", *QUICK, "--control", str(control)) as terminal:
        terminal.wait_for(r"HEALTHY +vllm", 40)
        assert control.stat().st_mode & 0o777 == 0o600
        with control.open("a") as orders:
            orders.write(json.dumps({"do": "hang"}) + "\n")
        terminal.wait_for("ENGINE HUNG", 40)
        with control.open("a") as orders:
            orders.write(json.dumps({"do": "resume"}) + "\n")
        wait_for(lambda: "HUNG" not in terminal.text(), 40, "the hang's end")
        terminal.send("q")
        assert terminal.wait(10) == 0


def test_a_screen_without_engine_and_gpu_offers_the_demo_in_one_key(tmp_path: Path) -> None:
    (tmp_path / "config" / "infertop").mkdir(parents=True)
    (tmp_path / "config" / "infertop" / "config.toml").write_text("[discovery]\nenabled = false\n")
    with start(tmp_path) as terminal:
        terminal.wait_for("x  a demo")
        terminal.send("x")
        terminal.wait_for("SIMULATED", 40)
        terminal.wait_for(r"vllm :\d+ demo-8b", 40)
        terminal.send("q")
        assert terminal.wait(10) == 0
        assert not terminal.tty_changed()


def test_serve_needs_no_terminal_and_says_where_it_is(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("demo", "--serve", *QUICK),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as served:
        try:
            assert served.stdout is not None
            said = re.fullmatch(r"http://127\.0\.0\.1:(\d+) pid=(\d+)\n", served.stdout.readline())
            assert said
            assert psutil.pid_exists(int(said[2]))
            engine = below(served.pid)
        finally:
            served.terminate()
        assert served.wait(10) == 0
        wait_for(lambda: not alive(engine), 8, "the end of the simulator's processes")


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    for words in (("--set", "nope=1"), ("--port", "99999"), ("--traffic", "-1")):
        ended = run("demo", "--serve", *words, home=tmp_path)
        assert ended.status == 2
        assert ended.err.startswith("infertop demo: ")
        assert "Traceback" not in ended.err
    assert run("demo", home=tmp_path).status == 2  # no terminal
