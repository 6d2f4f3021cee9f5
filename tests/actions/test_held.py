"""Processes held by pidfd: signals reach those and no later ones."""

from __future__ import annotations

import dataclasses
import signal

import pytest

from tests.actions.plans import child, held
from tests.demo.running import lives
from tests.support.waiting import wait_for
from tui.actions.held import Held, HeldTree
from tui.actions.plan import RefusedError

PARENT = "read line; sleep 60 & echo $!; wait"
"""Starts a child of its own when it is told to."""


def test_what_is_held_is_signalled() -> None:
    with child() as process:
        main = Held(held(process.pid))
        assert main.fileno() >= 0 and lives(process.pid)
        assert main.send(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
        assert main.ended and not main.send(signal.SIGTERM)
        main.close()


def test_a_recycled_pid_is_refused() -> None:
    """A later process with the pid of the one that was shown started at another tick."""
    with child() as process:
        shown = held(process.pid)
        with pytest.raises(RefusedError, match="another process now"):
            Held(dataclasses.replace(shown, start_ticks=shown.start_ticks - 1))
        assert process.poll() is None


def test_what_has_ended_is_refused() -> None:
    with child() as process:
        shown = held(process.pid)
        main = Held(shown)
        process.kill()
        wait_for(lambda: main.ended, 10, "the end")  # a zombie still: nobody has asked for its status
        with pytest.raises(RefusedError, match="has ended"):
            main.verify()
        with pytest.raises(RefusedError, match="has ended"):
            Held(shown)
        process.wait()
        with pytest.raises(RefusedError, match="has ended"):
            Held(shown)
        main.close()


def test_the_whole_tree_with_what_it_started_since() -> None:
    with child("sh", "-c", PARENT) as process:
        assert process.stdin is not None and process.stdout is not None
        with HeldTree([held(process.pid)]) as tree:
            process.stdin.write("\n")
            process.stdin.flush()
            newcomer = int(process.stdout.readline())
            assert tree.kill_tree() == (process.pid, newcomer)
            assert process.wait() == -signal.SIGKILL
            wait_for(lambda: not lives(newcomer), 10, "the end of the newcomer")
            assert tree.alive() == () and tree.kill_tree() == ()


def test_the_api_server_alone() -> None:
    with child() as main, child() as worker, HeldTree([held(main.pid), held(worker.pid)]) as tree:
        assert tree.kill_api_server()
        assert main.wait() == -signal.SIGKILL
        assert [process.pid for process in tree.alive()] == [worker.pid]
        assert not tree.terminate()
        with pytest.raises(RefusedError):
            tree.verify()


def test_parts_that_ended_meanwhile_are_left_out() -> None:
    with child() as main, child() as worker:
        tree = [held(main.pid), held(worker.pid)]
        worker.kill()
        worker.wait()
        with HeldTree(tree) as engine:
            assert [process.pid for process in engine.alive()] == [main.pid]
            assert engine.terminate()
        main.wait()
        with pytest.raises(RefusedError):
            HeldTree(tree)


def test_an_engine_without_a_process_is_never_signalled() -> None:
    with HeldTree(()) as engine:
        engine.verify()
        assert engine.alive() == () and engine.kill_tree() == ()
        assert not engine.terminate() and not engine.kill_api_server()
