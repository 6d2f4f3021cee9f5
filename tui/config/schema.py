"""Every key of the config file: its type, range and one line of explanation. The defaults are the model's."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tui.model.settings import (
    ActionSettings,
    Config,
    DiscoverySettings,
    EngineTarget,
    NotifySettings,
    ProbeSettings,
    ProbeSpec,
    ScreenSettings,
    Slo,
    Thresholds,
)
from tui.model.text import sendable
from tui.model.urls import parse_metrics_url, parse_proxy, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_PAIRS = (
    ("kv_usage_warn", "kv_usage_full"),
    ("sm_low_pct", "sm_high_pct"),
    ("power_low_ratio", "power_high_ratio"),
    ("clock_low_ratio", "clock_high_ratio"),
)


class RefusedError(Exception):
    """A value that does not fit; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key: ``check`` returns the value as the model wants it, or raises ``RefusedError``."""

    name: str
    check: Callable[[object], Any]
    comment: str


def number(low: float, high: float = math.inf) -> Callable[[object], float]:
    """A finite number in a closed range."""
    span = f"a number from {low:g} to {high:g}" if math.isfinite(high) else f"a number of at least {low:g}"

    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise RefusedError(span)
        if not low <= value <= min(high, sys.float_info.max):
            raise RefusedError(span)
        return float(value)

    return check


def integer(low: int, high: int) -> Callable[[object], int]:
    """A whole number in a closed range."""

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise RefusedError(f"a whole number from {low} to {high}")
        return value

    return check


def boolean(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise RefusedError("true or false")
    return value


def string(value: object) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise RefusedError("a string")
    return value


def token(value: object) -> str:
    """What a header can carry after ``Bearer``."""
    if not isinstance(value, str):
        raise RefusedError("a string")
    if not sendable(value):
        raise RefusedError("a string without control characters, or white space at its ends")
    return value


def headers(value: object) -> dict[str, str]:
    """A table of request headers that can be sent, none of which says where a request ends."""
    table = string_table(value)
    for name, text in table.items():
        if not _HEADER_NAME.fullmatch(name):
            raise RefusedError("header names of letters, digits and -")
        if name.lower() in ("content-length", "transfer-encoding"):
            raise RefusedError("headers other than content-length and transfer-encoding")
        if not sendable(text):
            raise RefusedError("header values without control characters, or white space at their ends")
    return table


def path(value: object) -> str:
    """A route on the engine: empty for the default, else from the slash on."""
    if not isinstance(value, str) or (value and not value.startswith("/")):
        raise RefusedError('a path that starts with "/", or ""')
    return value


def url(value: object) -> str:
    """An http or https address without credentials."""
    if not isinstance(value, str):
        raise RefusedError("an http:// or https:// URL")
    try:
        return parse_url(value)
    except ValueError as error:
        raise RefusedError(f"an http:// or https:// URL ({error})") from None


def metrics_url(value: object) -> str:
    """As ``url``, or a Unix socket; empty for the default."""
    if value == "":
        return ""
    expected = "an http:// or https:// URL, or unix:///path/of/a/socket"
    if not isinstance(value, str):
        raise RefusedError(expected)
    try:
        return parse_metrics_url(value)
    except ValueError as error:
        raise RefusedError(f"{expected} ({error})") from None


def proxy(value: object) -> str:
    """An HTTP proxy, ``env``, or empty for none."""
    expected = '"", "env", or the URL of a proxy: http://HOST:PORT'
    if not isinstance(value, str):
        raise RefusedError(expected)
    if value in ("", "env"):
        return value
    try:
        return parse_proxy(value)
    except ValueError as error:
        raise RefusedError(f"{expected} ({error})") from None


def one_of(*names: str) -> Callable[[object], str]:
    """One of a few words."""

    def check(value: object) -> str:
        if value not in names:
            raise RefusedError("one of " + ", ".join(f'"{name}"' for name in names))
        return str(value)

    return check


def strings(value: object) -> tuple[str, ...]:
    """A list of strings: a command and its arguments, run without a shell."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RefusedError('a list of strings, e.g. ["systemctl", "start", "vllm"]')
    return tuple(value)


def string_table(value: object) -> dict[str, str]:
    """A table whose values are strings."""
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise RefusedError('a table of strings, e.g. { X-Team = "a" }')
    return dict(value)


def contradictions(thresholds: Thresholds) -> list[str]:
    """Pairs of thresholds of which the lower one is above the higher one."""
    return [
        f"thresholds.{low}: expected at most {high} ({limit:g}), got {value:g}"
        for low, high in _PAIRS
        if (value := getattr(thresholds, low)) > (limit := getattr(thresholds, high))
    ]


def _threshold(name: str) -> Callable[[object], float]:
    ratio = name.endswith("_ratio") or name.startswith("kv_usage") or name == "slo_well_inside"
    percent = name.endswith("_pct") or name.startswith("psi_")
    return number(0.0, 1.0 if ratio else 100.0 if percent else math.inf)


_THRESHOLD_COMMENTS = {
    "kv_usage_warn": "KV cache usage of the worst rank that counts as pressure (with preemptions: kv_cache)",
    "kv_usage_full": "usage that counts as full (with requests waiting and seats free: kv_cache)",
    "kv_usage_early": "usage from which running falling while waiting rises counts as preemption",
    "sm_high_pct": "a GPU this busy is saturated",
    "sm_low_pct": "a GPU below this waits for something else",
    "mem_ctrl_low_pct": "memory controller below this: kernels run but move nothing",
    "power_high_ratio": "power draw over its limit that counts as full load",
    "power_low_ratio": "below this share of the limit a busy GPU does no real work",
    "clock_high_ratio": "SM clock over its maximum that counts as unthrottled",
    "clock_low_ratio": "below this share of the maximum a throttle reason bites",
    "temp_high_c": "GPU temperature worth naming, degrees Celsius",
    "gpu_mem_free_mib": "free GPU memory below this is short, MiB",
    "thread_busy_pct": "one thread this busy is full",
    "cpu_total_pct": "all cores together this busy are full",
    "psi_cpu": "CPU pressure (10 s, some)",
    "psi_io": "I/O pressure (10 s, some)",
    "iowait_pct": "CPU time waiting for disks",
    "disk_util_pct": "time with a request in flight at the busiest disk",
    "disk_read_mb_s": "a busy disk that loads weights slower than this is slow, MB/s",
    "ctx_switches_per_core_s": "context switches a second and core that point at a lock",
    "net_mb_s": "network traffic that is more than prompts and tokens, MB/s",
    "throttled_ratio": "CPU periods in which the engine's cgroup ran out of its quota",
    "run_wait_pct": "time in which an engine's threads want a core and have none",
    "futex_ratio": "sleeps of an engine's restless threads that are on a futex (a lock)",
    "net_util_pct": "a network interface or adapter this near to its speed is full",
    "backlog": "connections that wait to be accepted by the server",
    "prefix_hit_ratio": "a prefix cache that works hits at least this often",
    "stalled_s": "work present and no engine step for this long: hung, seconds",
    "stalled_scrapes": "... seen at this many scrapes at least",
    "generate_timeout_s": "an unanswered one-token request this old is evidence of a hang, seconds",
    "loading_stuck_s": "a start without any progress for this long hangs, seconds",
    "waiting_hold_s": "requests waiting for this long stand in for missing latencies, seconds",
    "error_ratio": "share of requests that fail",
    "http_503_ratio": "share of requests answered 503",
    "slo_well_inside": 'a latency below this share of its target is "well inside"',
    "hold_s": "a bottleneck must hold this long before it is the verdict, seconds",
    "clear_s": "... and be gone this long before it is not, seconds",
}

_PROBE = (
    Key("path", path, "route; empty: the engine's default"),
    Key("port", integer(0, 65535), "0: the engine's own"),
    Key("scheme", one_of("http", "https"), "http or https"),
    Key("initial_delay_s", number(0), "seconds from container start"),
    Key("period_s", number(1), "seconds between probes"),
    Key("timeout_s", number(0.1), "seconds until a probe counts as failed"),
    Key("success_threshold", integer(1, 1000), "successes in a row that make it ready"),
    Key("failure_threshold", integer(1, 1000), "failures in a row that make the kubelet act"),
)

TOP = (Key("interval_s", number(0.2, 3600.0), "seconds between refreshes"),)

ENGINE = (
    Key("url", url, "where the engine answers"),
    Key("metrics_url", metrics_url, "where its metrics are, also unix:///socket; empty: from the engine"),
    Key("engine", one_of("auto", "vllm", "sglang", "trtllm", "triton"), "auto: ask the server"),
    Key("token", token, "bearer token; better: token_env"),
    Key("token_env", string, "name of the environment variable that holds the token"),
    Key(
        "headers",
        headers,
        "more request headers; as the token, not for a metrics_url on another host or a socket",
    ),
    Key("ca_file", string, "CA certificates for https"),
    Key("verify", boolean, "check the certificate"),
    Key("proxy", proxy, 'http://host:port; "env": HTTP_PROXY and its like; empty: never; probes use none'),
    Key("generate_path", path, "route of a one-token generation, for Triton models"),
    Key("generate_body", string, "its body"),
    Key("log", string, 'the engine\'s log: a file, "docker:NAME" or "unit:NAME"'),
)

SECTIONS: dict[str, tuple[type[Any], tuple[Key, ...]]] = {
    "discovery": (DiscoverySettings, (Key("enabled", boolean, "look for engines on this host"),)),
    "slo": (
        Slo,
        (
            Key("ttft_p95_s", number(0), "time to first token, 95th percentile, seconds"),
            Key("itl_p95_s", number(0), "inter-token latency, 95th percentile, seconds"),
            Key("queue_p95_s", number(0), "time in the queue, 95th percentile, seconds"),
        ),
    ),
    "thresholds": (
        Thresholds,
        tuple(
            Key(
                f.name,
                integer(2, 1000) if f.name == "stalled_scrapes" else _threshold(f.name),
                _THRESHOLD_COMMENTS[f.name],
            )
            for f in dataclasses.fields(Thresholds)
        ),
    ),
    "probes": (
        ProbeSettings,
        (
            Key("generate", boolean, "send a real one-token request now and then"),
            Key("generate_period_s", number(1), "seconds between them"),
        ),
    ),
    "probes.liveness": (ProbeSpec, _PROBE),
    "probes.readiness": (ProbeSpec, _PROBE),
    "probes.startup": (ProbeSpec, _PROBE),
    "actions": (
        ActionSettings,
        (
            Key("enabled", boolean, "allow drain and restart tests"),
            Key("require_idle", boolean, "refuse them while others' requests are in flight"),
            Key("grace_s", number(1), "grace period where none is found, seconds"),
            Key("start_command", strings, "starts the engine again after a test"),
            Key("stop_command", strings, "stops it in a test, instead of SIGTERM or systemctl"),
        ),
    ),
    "notify": (
        NotifySettings,
        (
            Key(
                "command",
                strings,
                "gets each lasting change of a verdict as JSON on stdin; also with --read-only",
            ),
            Key("min_interval_s", number(0), "seconds between two about the same engine, or the host"),
        ),
    ),
    "screen": (
        ScreenSettings,
        (
            Key("theme", string, "by name; set here, it stands above the one that t chose last"),
            Key("slow", boolean, "fewer frames, for slow links"),
            Key("ascii", boolean, "no characters beyond ASCII"),
        ),
    ),
}

DEFAULTS: dict[str, object] = {
    "": Config(),
    "engines": EngineTarget(url="http://127.0.0.1:8000"),
}
