"""NVML's return codes: what each means for one figure, for one device, and for the whole source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.model.status import SourceError

if TYPE_CHECKING:
    from tui.model.status import Reason

# nvmlReturn_t of nvml.h: part of the library's ABI, the same in every driver.
SUCCESS = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_POWER = 8
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
VGPU_ECC_NOT_SUPPORTED = 22
ARGUMENT_VERSION_MISMATCH = 25
DEPRECATED = 26
UNKNOWN = 999

_REASONS: dict[int, Reason] = {
    NOT_SUPPORTED: "not_supported",
    VGPU_ECC_NOT_SUPPORTED: "not_supported",
    DEPRECATED: "not_supported",
    NO_PERMISSION: "no_permission",
    INSUFFICIENT_POWER: "insufficient_power",
    DRIVER_NOT_LOADED: "no_driver",
    TIMEOUT: "timeout",
    LIBRARY_NOT_FOUND: "no_driver",
    FUNCTION_NOT_FOUND: "old_driver",
    ARGUMENT_VERSION_MISMATCH: "old_driver",
    GPU_IS_LOST: "lost",
    LIB_RM_VERSION_MISMATCH: "driver_mismatch",
}

ABSENT = frozenset((NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH, DEPRECATED))
"""This function does not answer here; an older one for the same figure may."""
LASTING = ABSENT | {NO_PERMISSION, VGPU_ECC_NOT_SUPPORTED}
"""The next second's answer will be the same."""
DEVICE_FATAL = frozenset((GPU_IS_LOST, RESET_REQUIRED))
"""No other call on the device can succeed; asking on would only cost time."""
LIBRARY_FATAL = frozenset((UNINITIALIZED, DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH))
"""No other call on any device can succeed before NVML is initialised again."""


class NvmlCallError(Exception):
    """One NVML call that failed.

    Args:
        code: NVML's return code.
        function: the function by the binding's name.
        words: NVML's own words for the code.
    """

    def __init__(self, code: int, function: str, words: str) -> None:
        super().__init__(f"{function}: {words}")
        self.code = code
        self.function = function
        self.reason: Reason = _REASONS.get(code, "driver_error")


def source_error(error: NvmlCallError) -> SourceError:
    """What a failure of NVML as a whole means for a person."""
    reason = error.reason
    if error.code == ARGUMENT_VERSION_MISMATCH:  # of one figure: an old driver; of all: two that do not fit
        reason = "driver_mismatch"
    words = {
        LIBRARY_NOT_FOUND: "no NVIDIA driver here: libnvidia-ml.so.1 cannot be loaded",
        DRIVER_NOT_LOADED: "the NVIDIA kernel driver is not loaded",
        NO_PERMISSION: "no right to talk to the NVIDIA driver: check /dev/nvidiactl and the user's groups",
        INSUFFICIENT_POWER: "a GPU is short of power: check its external power cables",
        FUNCTION_NOT_FOUND: f"the NVIDIA driver is too old: it has no {error.function}",
        LIB_RM_VERSION_MISMATCH: (
            "the NVIDIA library and the kernel driver are of different versions: reload the driver or "
            "reboot; if that was done, start infertop again"
        ),
        ARGUMENT_VERSION_MISMATCH: f"nvidia-ml-py does not fit the driver's library ({error})",
        UNKNOWN: f"{error}; in a container: it may have lost its rights to the devices, start it again",
    }.get(error.code, str(error))
    return SourceError(reason, words, unsupported=error.code == LIBRARY_NOT_FOUND)


def device_words(error: NvmlCallError) -> str:
    """What the failure of one whole device means for a person."""
    advice = {
        GPU_IS_LOST: "it fell off the bus or hangs: reset it or reboot",
        RESET_REQUIRED: "nvidia-smi --gpu-reset, or reboot",
        INSUFFICIENT_POWER: "check its external power cables",
        NO_PERMISSION: "this user or container may not use it",
    }.get(error.code)
    return f"{error} ({advice})" if advice else str(error)
