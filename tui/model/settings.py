"""Every setting with its default: frozen, filled from TOML and the command line by ``tui.config``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.model.readings import EngineKind, ProbeKind

ProbeHandler = Literal["httpGet", "tcpSocket", "exec", "grpc"]


@dataclass(frozen=True, slots=True)
class EngineTarget:
    """One engine endpoint that was asked for by name."""

    url: str
    metrics_url: str = ""
    engine: EngineKind | Literal["auto"] = "auto"
    token: str = field(default="", repr=False)
    token_env: str = ""
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    ca_file: str = ""
    verify: bool = True
    proxy: str = field(default="", repr=False)
    """URL of an HTTP proxy, which may hold a password; ``env``: the environment's; empty: none."""
    generate_path: str = ""
    generate_body: str = ""
    log: str = ""
    discovered: bool = False
    """Found by us: it never gets a token."""


@dataclass(frozen=True, slots=True)
class Slo:
    """What "latency in target" means."""

    ttft_p95_s: float = 2.0
    itl_p95_s: float = 0.1
    queue_p95_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every figure that the rules compare with, by the signal's name."""

    kv_usage_warn: float = 0.90
    kv_usage_full: float = 0.95
    kv_usage_early: float = 0.85
    sm_high_pct: float = 90.0
    sm_low_pct: float = 75.0
    mem_ctrl_low_pct: float = 5.0
    power_high_ratio: float = 0.9
    power_low_ratio: float = 0.4
    clock_high_ratio: float = 0.9
    clock_low_ratio: float = 0.8
    temp_high_c: float = 85.0
    gpu_mem_free_mib: float = 1024.0
    thread_busy_pct: float = 95.0
    cpu_total_pct: float = 80.0
    psi_cpu: float = 40.0
    psi_io: float = 40.0
    iowait_pct: float = 25.0
    disk_util_pct: float = 90.0
    disk_read_mb_s: float = 1000.0
    """A disk that is busy below this rate while weights load is a slow one."""
    ctx_switches_per_core_s: float = 2500.0
    throttled_ratio: float = 0.25
    """Periods in which the engine's control group ran out of its CPU quota, of those in which it ran."""
    run_wait_pct: float = 30.0
    """Of the time in which an engine's threads want a core, the share in which they have none."""
    futex_ratio: float = 0.5
    """Of the looks that found an engine's restless threads asleep, those that did so on a futex."""
    net_mb_s: float = 100.0
    """Traffic from here up is more than prompts and tokens: tensors or weights are on the wire."""
    net_util_pct: float = 85.0
    """An interface or adapter this near to its speed is full."""
    backlog: float = 16.0
    """Connections that the kernel has made and the server does not accept."""
    prefix_hit_ratio: float = 0.3
    """A prefix cache that is meant to work hits at least this often."""
    stalled_s: float = 5.0
    stalled_scrapes: int = 3
    generate_timeout_s: float = 30.0
    loading_stuck_s: float = 600.0
    """A start that shows no sign of progress for this long hangs."""
    waiting_hold_s: float = 10.0
    error_ratio: float = 0.05
    http_503_ratio: float = 0.05
    slo_well_inside: float = 0.5
    """"Well inside the target" is below this share of it."""
    hold_s: float = 3.0
    """A bottleneck must have held this long before it is the verdict."""
    clear_s: float = 5.0
    """A bottleneck that no longer fires stays the verdict this long."""


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """One probe as the kubelet would run it; empty path means the engine's default route."""

    path: str = ""
    port: int = 0
    scheme: Literal["http", "https"] = "http"
    initial_delay_s: float = 0.0
    period_s: float = 10.0
    timeout_s: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3
    handler: ProbeHandler = "httpGet"
    host: str = ""
    """Asked in place of the engine's own host; empty: that."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Name and value; may hold a token, so they are never shown."""


@dataclass(frozen=True, slots=True)
class ManifestProbes:
    """The probes of one container of a manifest that runs an engine."""

    origin: str
    """File and line, for a person."""
    engine: EngineKind
    specs: Mapping[ProbeKind, ProbeSpec]
    port: int | None = None
    """Where the engine serves in there; None: that cannot be told."""


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The probes section; None: the engine's own defaults."""

    generate: bool = False
    generate_period_s: float = 30.0
    liveness: ProbeSpec | None = None
    readiness: ProbeSpec | None = None
    startup: ProbeSpec | None = None
    manifest: tuple[ManifestProbes, ...] = ()
    """Of ``--manifest``; they stand above the sections of the file."""


@dataclass(frozen=True, slots=True)
class ActionSettings:
    """What the tool may do to a process; nothing unless it is enabled."""

    enabled: bool = False
    require_idle: bool = True
    grace_s: float = 30.0
    start_command: tuple[str, ...] = ()
    stop_command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """A command that gets each lasting change of the verdict."""

    command: tuple[str, ...] = ()
    min_interval_s: float = 60.0


@dataclass(frozen=True, slots=True)
class ScreenSettings:
    """How the live screen looks."""

    theme: str = "dark"
    theme_named: bool = False
    """The user named it, in the config or as an option: it stands above the one chosen last on the screen."""
    slow: bool = False
    ascii: bool = False


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """Whether to look for engines on this host when none is named."""

    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Config:
    """All settings in force."""

    interval_s: float = 1.0
    engines: tuple[EngineTarget, ...] = ()
    discovery: DiscoverySettings = DiscoverySettings()
    slo: Slo = Slo()
    thresholds: Thresholds = Thresholds()
    probes: ProbeSettings = ProbeSettings()
    actions: ActionSettings = ActionSettings()
    notify: NotifySettings = NotifySettings()
    screen: ScreenSettings = ScreenSettings()
    read_only: bool = False
