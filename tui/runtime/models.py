"""The models of the engines of this host: each read once, off the loop, when its server is new."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tui.memory.breakdown import breakdown
from tui.memory.model_files import ModelFiles, model_option
from tui.model.text import clean
from tui.sources import offloop
from tui.sources.deadline import within

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from tui.model.memory import EngineMemory
    from tui.model.readings import GpuReading
    from tui.model.snapshot import EngineView

READING_S: Final = 10.0
"""A model lies on network storage as often as not, and that may hang: then its arithmetic is missing."""


class ModelWatch:
    """What is known of each engine's model.

    Args:
        read: reads the files of a model, given the options of its engine and a process of it; it may block.
        spawn: starts a coroutine that the caller owns and ends.
    """

    def __init__(
        self,
        read: Callable[[Mapping[str, str], int], ModelFiles] | None,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._read, self._spawn = read, spawn
        self._asked: dict[str, tuple[str, int]] = {}
        self._known: dict[str, ModelFiles] = {}

    def update(self, url: str, args: Mapping[str, str], pid: int) -> None:
        """Look at the model of an engine, if it or its process is another than before."""
        key = (model_option(args), pid)
        if self._read is None or not key[0] or self._asked.get(url) == key:
            return
        self._asked[url] = key
        self._known.pop(url, None)
        self._spawn(self._look(url, key, dict(args)))

    def memory(self, view: EngineView, gpus: tuple[GpuReading, ...]) -> EngineMemory | None:
        """Where the memory of an engine went, by what is known by now; None without its processes."""
        if not view.processes:
            return None
        files = self._known.get(view.url, ModelFiles())
        options = {**view.defaults, **view.args}
        pids = {process.pid for process in view.processes}
        found = breakdown(view.engine.reading, options, pids, gpus, files.shape, files.weights)
        return replace(found, why=found.why or files.why)

    def files(self, url: str) -> ModelFiles | None:
        """What was read of an engine's model; None before that."""
        return self._known.get(url)

    @property
    def settled(self) -> bool:
        """Every model that was asked for was read, or could not be."""
        return self._asked.keys() == self._known.keys()

    async def _look(self, url: str, key: tuple[str, int], args: Mapping[str, str]) -> None:
        read = self._read
        assert read is not None  # or nothing was asked
        try:
            work = offloop.start(lambda: read(args, key[1]), f"model of {url}")
            found = await within(READING_S, work)
        except asyncio.TimeoutError:
            found = ModelFiles(why=f"the model's files were not read within {READING_S:g} s")
        except OSError as error:
            found = ModelFiles(why=clean(f"the model's files: {error.strerror or type(error).__name__}", 100))
        except Exception as error:  # noqa: BLE001  # files of anybody's making, whatever breaks their reader
            found = ModelFiles(why=f"the model's files could not be understood ({type(error).__name__})")
        if self._asked.get(url) == key:
            self._known[url] = found
