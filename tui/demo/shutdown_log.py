"""The lines of vLLM's log that tell how it ends; SGLang's are few and stand where they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.demo.log import EngineLog


def begun(log: EngineLog, mode: str, timeout_s: float) -> None:
    """A signal came: what the server sets out to do."""
    timeout = f"{timeout_s:.0f}s"
    log.info("launcher.py:254", "[shutdown] API server: shutdown triggered")
    log.info(
        "launcher.py:270", f"[shutdown] API server: stopping engine client mode={mode} timeout={timeout}"
    )
    _stopping(log, timeout)
    log.info("utils.py:628", "[shutdown] Process manager: send sigterm to process EngineCore")


def crashed(log: EngineLog, message: str) -> None:
    """The core is gone without having been asked."""
    log.info("utils.py:628", "[shutdown] Process manager: send sigterm to process EngineCore")
    lost = "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup"
    log.info("core_client.py:817", lost, "WARNING")
    _stopping(log, "default")
    _stopped(log)
    log.info("async_llm.py:906", f"vllm.v1.engine.exceptions.EngineDeadError: {message}", "ERROR")


def killed(log: EngineLog, pids: dict[str, int]) -> None:
    """Core and workers were not given the time to end."""
    log.info(
        "utils.py:648", "[shutdown] Process manager: force killing remaining processes count=1", "WARNING"
    )
    for title, pid in pids.items():
        if title == "VLLM::EngineCore":
            text = f"[shutdown] Process manager: force killing remaining process EngineCore pid {pid}"
            log.info("utils.py:653", text, "WARNING")
        else:
            text = f"[shutdown] force killing sub process {title.partition('_')[0]} pid {pid}"
            log.info("system_utils.py:225", text, "WARNING")


def engine_stopped(log: EngineLog) -> None:
    """The engine is gone; HTTP is next."""
    _stopped(log)
    log.info("launcher.py:279", "[shutdown] API server: engine client stopped")
    log.info("launcher.py:282", "[shutdown] API server: signalling HTTP server shutdown")
    log.info("launcher.py:304", "[shutdown] API server: shutting down FastAPI HTTP server")


def waiting_for_clients(log: EngineLog) -> None:
    """The port is closed, connections are not."""
    log.plain("INFO:     Waiting for connections to close. (CTRL+C to force quit)")


def _stopping(log: EngineLog, timeout: str) -> None:
    log.info("core_client.py:770", f"[shutdown] MPClient: start timeout={timeout}")
    log.info("core_client.py:772", "[shutdown] MPClient: stopping engine manager")


def _stopped(log: EngineLog) -> None:
    log.info("core_client.py:774", "[shutdown] MPClient: engine manager stopped")
    log.info("core_client.py:775", "[shutdown] MPClient: cleaning up background resources")
    log.info("core_client.py:777", "[shutdown] MPClient: complete")
