"""The one module that touches ``pynvml`` (of nvidia-ml-py): loading, initialising, calling by name."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from typing import TYPE_CHECKING, Any, Protocol

from tui.model.status import SourceError
from tui.model.text import clean
from tui.sources.nvml.errors import (
    ARGUMENT_VERSION_MISMATCH,
    FUNCTION_NOT_FOUND,
    UNKNOWN,
    NvmlCallError,
    source_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    CallNvml = Callable[..., Any]
    """A function of the binding by name, then its arguments; raises ``NvmlCallError``."""

LIBRARY_VARIABLE = "INFERTOP_NVML_LIBRARY"
"""Environment variable: path of the libnvidia-ml.so.1 to use where the driver is not on the loader's path."""


class Caller(Protocol):
    """Who calls, as far as somebody else may have to tell what it hangs in."""

    doing: str
    since: float


class Binding:
    """NVML, called by the names of the binding's functions. One session of the process, for several threads.

    Args:
        monotonic: seconds that only grow.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._nvml: Any = None
        self._mismatch: Any = None
        self._functions: dict[str, Callable[..., Any]] = {}
        self.initialised = False

    def initialise(self, caller: Caller) -> None:
        """Load the library and start a session with the driver.

        Raises:
            SourceError: ``no_driver``, ``driver_mismatch``, ``no_permission``, ``insufficient_power``,
                ``old_driver`` or ``driver_error``, each in words for a person.
        """
        if self._nvml is None:
            _preload()
            import pynvml  # 30 ms that a host without GPUs and a command without them need not spend

            self._nvml = pynvml
            # A plain Exception, not an NVMLError; the old package "pynvml", which wins where both are
            # installed, does not have it.
            self._mismatch = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)
        try:
            self.calls(caller)("nvmlInit")
        except NvmlCallError as error:
            raise source_error(error) from error
        self.initialised = True

    def close(self, caller: Caller) -> None:
        """End the session; the next ``initialise`` starts a new one. Only while no thread is in a call."""
        if self.initialised:
            self.initialised = False
            with contextlib.suppress(NvmlCallError):  # a driver that is gone has no session left to end
                self.calls(caller)("nvmlShutdown")

    def calls(self, caller: Caller) -> CallNvml:
        """How ``caller`` calls NVML: ``doing`` and ``since`` tell what it is in.

        What is returned raises ``NvmlCallError`` for any failure, also of a function that this binding or
        this driver lacks.
        """
        functions = self._functions
        monotonic = self._monotonic

        def call(function: str, *arguments: object) -> Any:
            found = functions.get(function) or self._find(function)
            caller.since = monotonic()
            caller.doing = function
            try:
                return found(*arguments)
            except self._nvml.NVMLError as error:
                raise NvmlCallError(error.value, function, clean(str(error))) from error
            except self._mismatch as error:
                raise NvmlCallError(ARGUMENT_VERSION_MISMATCH, function, clean(str(error))) from error
            except UnicodeDecodeError as error:  # the binding decodes names and UUIDs as strict UTF-8
                raise NvmlCallError(UNKNOWN, function, "the driver's answer is not text") from error
            finally:
                caller.doing = ""

        return call

    def gpm_request(self, metrics: Sequence[int]) -> Any:
        """A request for metrics of GPM, to be given two samples and then to ``nvmlGpmMetricsGet``.

        Raises:
            NvmlCallError: this binding has none.
        """
        structure = getattr(self._nvml, "c_nvmlGpmMetricsGet_t", None)
        if structure is None:
            raise NvmlCallError(
                FUNCTION_NOT_FOUND, "nvmlGpmMetricsGet", "not in this version of nvidia-ml-py"
            )
        request = structure()
        request.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(metrics)
        for place, metric in enumerate(metrics):
            request.metrics[place].metricId = metric
        return request

    def _find(self, function: str) -> Callable[..., Any]:
        found: Callable[..., Any] | None = getattr(self._nvml, function, None)
        if found is None:
            raise NvmlCallError(FUNCTION_NOT_FOUND, function, "not in this version of nvidia-ml-py")
        self._functions[function] = found
        return found


def _preload() -> None:
    """Load the library that the environment names.

    The binding loads ``libnvidia-ml.so.1`` by that name; the loader then gives it the library that is
    there already under the same soname.
    """
    path = os.environ.get(LIBRARY_VARIABLE)
    if path:
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise SourceError("no_driver", clean(f"{LIBRARY_VARIABLE}: {error}")) from error
