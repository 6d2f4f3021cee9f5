"""Cards that are lost, hang or come back under the live screen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.test_terminal import healthy, start
from tests.support.servers import serve_in_thread, vllm
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.support.fake_nvml import FakeNvml
    from tests.support.terminal import Terminal

pytest_plugins = ("tests.support.nvml_plugin",)


def test_device_3_of_8_is_lost_in_mid_run_and_comes_back(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    env = fake_nvml.environment()
    with serve_in_thread(vllm(healthy)) as server, start(tmp_path, server.url, env=env) as terminal:
        terminal.wait_for("8x H100")
        terminal.send("2z")
        terminal.wait_for(r"(?m) 3 +1\.0k +2\.0k +18/18 ")  # the slow lane has come round: it hears of Xids
        terminal.send("z")
        terminal.wait_for("PROBES")
        with fake_nvml.together():
            fake_nvml.fail(3, "nvmlDeviceGetTemperature", 15)
            fake_nvml.xid(3, 79)
        terminal.wait_for("GPU FAULT .*since [0-9:]{8}")
        terminal.wait_for("because +GPU 3 Xid 79")
        terminal.wait_for("7x H100 1 lost")
        terminal.wait_for(r"(?m)^│ +3 H100 .*49/700 +53 lost, |^│ +3 H100 .* lost, \S+ old")
        terminal.wait_for("nvmlDeviceGetTemperature")
        for card in (0, 1, 2, 4, 5, 6, 7):
            assert re.search(rf"(?m)^│ +{card} H100 +\d+ ", terminal.text())
        fake_nvml.heal()
        terminal.wait_for("8x H100 ")
        terminal.wait_for("answers again since")
        wait_for(lambda: "GPU FAULT" not in terminal.text(), 30, "the end of the fault")
        terminal.send("q")
        assert terminal.wait(10) == 0


def threads(terminal: Terminal) -> int:
    return len(list(Path(f"/proc/{terminal.process.pid}/task").iterdir()))


def test_no_threads_pile_up_while_nvml_hangs(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    env = fake_nvml.environment()
    with serve_in_thread(vllm(healthy)) as server, start(tmp_path, server.url, env=env) as terminal:
        terminal.wait_for("8x H100")
        terminal.wait_for("serving")
        before = threads(terminal)
        fake_nvml.hang(None, "*")
        terminal.wait_for(r"stuck in nvml\w+ for \d")
        terminal.wait_for(r"stuck in nvml\w+ for ([2-9]|\d\d) s")  # of five reads
        assert threads(terminal) <= before + 1  # the second lane of the same source
        begun = server.count("/metrics")
        wait_for(lambda: server.count("/metrics") >= begun + 3, 20, "the engine's figures all the while")
        terminal.send("?")
        terminal.wait_for("HELP")
        terminal.send("q")
        assert terminal.wait(10) == 0


def test_a_driver_that_is_not_loaded_is_explained(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    fake_nvml.fail(None, "nvmlInitWithFlags", 9)
    with start(tmp_path, "http://127.0.0.1:9", env=fake_nvml.environment()) as terminal:
        terminal.wait_for("the NVIDIA kernel driver is not loaded")
        terminal.wait_for(r"(?m)^ infertop +\S+ +no GPU ")
        fake_nvml.heal()
        terminal.wait_for("8x H100", 40)
        terminal.send("q")
        assert terminal.wait(10) == 0
