"""Lines of a log that tell of an error or of a stop: by their general form, from real captures and hostile ones."""

from __future__ import annotations

import time

import pytest

from tui.sources.death.lines import core_crashed, error_lines, last_run, stop_mark

CRASH = """(APIServer pid=3) INFO 11-30 11:40:00 [api_server.py:1] vLLM API server version 0.32.0
INFO:     Application startup complete.
INFO:     127.0.0.1:5000 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error
(EngineCore pid=7) ERROR 11-30 11:46:55 [core.py:1454] EngineCore encountered a fatal error.
(EngineCore pid=7) ERROR 11-30 11:46:55 [core.py:1454] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-30 11:46:55 [core.py:1454]   File "core.py", line 1, in run
(EngineCore pid=7) ERROR 11-30 11:46:55 [core.py:1454]     raise RuntimeError("CUDA error")
(EngineCore pid=7) ERROR 11-30 11:46:55 [core.py:1454]     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
(EngineCore pid=7) ERROR 11-30 11:46:55 [core.py:1454] RuntimeError: CUDA error: an illegal memory access
(APIServer pid=3) WARNING 11-30 11:46:56 [core_client.py:817] [shutdown] MPClient: engine core exited unexpectedly; starting cleanup
(APIServer pid=3) INFO 11-30 11:46:56 [launcher.py:254] [shutdown] API server: shutdown triggered
INFO:     Shutting down
"""
DRAIN = """INFO:     Application startup complete.
(APIServer pid=2) INFO 11-30 11:46:55 [launcher.py:254] [shutdown] API server: shutdown triggered
(APIServer pid=2) INFO 11-30 11:46:55 [launcher.py:270] [shutdown] API server: stopping engine client mode=drain timeout=60s
(EngineCore pid=5) INFO 11-30 11:46:55 [core.py:1655] [shutdown] EngineCore: draining in-flight requests count=6 timeout=60s
"""
SGLANG = (
    "[2026-11-30 12:02:46] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n"
)
TRITON = 'I1130 11:36:38.464908 12527 server.cc:338] "Timeout 30: Found 12 HTTP service connections"\n'


def test_the_causes_of_a_crash_without_frames_and_access_lines() -> None:
    assert error_lines(CRASH) == (
        "EngineCore encountered a fatal error.",
        "RuntimeError: CUDA error: an illegal memory access",
        "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
    )
    assert core_crashed(CRASH)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("all is well\nINFO: fine\n", ()),
        ("ValueError: no model\n", ("ValueError: no model",)),
        ("  torch.OutOfMemoryError: CUDA out of memory\n", ("torch.OutOfMemoryError: CUDA out of memory",)),
        ("Traceback (most recent call last):\n  File 'x'\nKeyboardInterrupt\n", ("KeyboardInterrupt",)),
        ("E1130 11:36:38.4 12 server.cc:1] failed\n", ("E1130 11:36:38.4 12 server.cc:1] failed",)),
        ("[2026-11-30 12:02:46 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
         "  File 'x'\nAssertionError\n", ("AssertionError",)),
        ("vllm.service: Main process exited, code=killed, status=9/KILL\n",
         ("vllm.service: Main process exited, code=killed, status=9/KILL",)),
        ("ERROR a\nERROR a\nERROR b\nERROR c\nERROR d\n", ("b", "c", "d")),
        ("KeyError: 1\n" + "ERROR noise\n" * 50, ("KeyError: 1", "noise")),
    ],
)  # fmt: skip
def test_lines_by_their_form(text: str, lines: tuple[str, ...]) -> None:
    assert error_lines(text) == lines


def test_secrets_escapes_and_length() -> None:
    text = (
        "\x1b[31mERROR\x1b[0m --api-key planted \x1b]0;owned\x07 token=planted 'api_key': ['planted'] "
        + "x" * 9000
    )
    (line,) = error_lines(text)
    assert "planted" not in line
    assert "\x1b" not in line
    assert len(line) <= 200
    (line,) = error_lines("ERROR authorization: Bearer planted, url http://user:planted@host/ failed\n")
    assert line == "authorization: ***, url http://***@host/ failed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DRAIN, "[shutdown] EngineCore: draining in-flight requests count=6 timeout=60s"),
        (SGLANG, "SIGTERM received. signum=None frame=None. Draining requests and shutting down..."),
        (TRITON, 'I1130 11:36:38.464908 12527 server.cc:338] "Timeout 30: Found 12 HTTP service connections"'),
        ("INFO:     Shutting down\n", "Shutting down"),
        ("vllm.service: State 'stop-sigterm' timed out. Killing.\n",
         "vllm.service: State 'stop-sigterm' timed out. Killing."),
        (DRAIN + "INFO:     Started server process [9]\n", ""),
        (SGLANG + "[2026-11-30 12:03:00] server_args=ServerArgs(model_path='m')\n", ""),
        (CRASH, ""),
        ("INFO prompt: '[shutdown] API server: shutdown triggered'\n", ""),
        ("prompt \"INFO:     Shutting down\"\n", ""),
        ("", ""),
        (CRASH + DRAIN, "[shutdown] EngineCore: draining in-flight requests count=6 timeout=60s"),
        (DRAIN + "vllm.v1.engine.exceptions.EngineDeadError: x\nINFO:     Shutting down\n", "Shutting down"),
    ],
)  # fmt: skip
def test_a_stop_counts_until_the_next_start(text: str, said: str) -> None:
    assert stop_mark(text).line == said


@pytest.mark.parametrize(
    ("text", "started"),
    [
        (DRAIN + "INFO:     Started server process [9]\n", True),
        ("INFO:     Started server process [9]\n" + DRAIN, False),
        ("RuntimeError: cannot schedule new futures after shutdown\n", False),  # tells of neither
        (CRASH, False),
    ],
)
def test_a_start_is_told_apart_from_no_word_of_either(text: str, started: bool) -> None:
    assert stop_mark(text).started is started


def test_only_the_newest_server_is_looked_at() -> None:
    assert error_lines(last_run(CRASH + "INFO:     Started server process [9]\nERROR x\n")) == ("x",)


@pytest.mark.parametrize(
    "hostile",
    [
        ("[2026-11-30 " + "(" * 500 + " pid=" * 40 + "A" * 300 + "\n") * 60,
        "\x1b[0;1m" * 60_000,  # a bar that is drawn in one line for ever
        "\x1b[0;1m" * 8 + "x" * 400_000,
    ],
    ids=["brackets", "escapes", "one-word"],
)
def test_a_hostile_log_takes_no_time(hostile: str) -> None:
    begun = time.process_time()
    error_lines(hostile)
    stop_mark(hostile)
    assert time.process_time() - begun < 0.5


def test_a_mark_behind_colours() -> None:
    assert stop_mark("\x1b[1;36m\x1b[0mINFO:     Shutting down\n").line == "INFO: Shutting down"
