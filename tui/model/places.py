"""Where engines run: containers, pods, units, and ports that lead into them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process runs, by its cgroup."""

    container_id: str | None = None
    """64 hexadecimal digits."""
    runtime: str | None = None
    """``docker``, ``containerd``, ``crio`` or ``podman``, where the path names it."""
    pod_uid: str | None = None
    unit: str | None = None
    """The systemd service or scope that it belongs to."""
    user_unit: bool = False
    """The unit is one of a user's own manager."""
    manager_uid: int | None = None
    """That user, where the path tells."""


@dataclass(frozen=True, slots=True)
class Healthcheck:
    """A container's own health check, with Docker's defaults where it does not say."""

    test: tuple[str, ...]
    """``CMD`` and its words, or ``CMD-SHELL`` and one line; secrets hidden."""
    interval_s: float = 30.0
    timeout_s: float = 30.0
    retries: int = 3
    """Failures in a row that make it unhealthy."""
    start_period_s: float = 0.0
    """Failures within it after the start do not count."""


@dataclass(frozen=True, slots=True)
class ContainerReading:
    """A container as the Docker Engine API tells of it; its environment is never read."""

    container_id: str
    name: str | None = None
    image: str | None = None
    state: str | None = None
    """``running``, ``paused``, ``restarting``, ``exited`` ..."""
    restart_policy: str | None = None
    """``no``, ``always``, ``unless-stopped`` or ``on-failure``."""
    restarts: int | None = None
    mem_limit_mib: float | None = None
    """None without a limit, and where it is not told."""
    cpus: float | None = None
    """As for ``mem_limit_mib``."""
    oom_killed: bool | None = None
    """Its last end was the kernel's, for memory."""
    stop_timeout_s: float | None = None
    healthcheck: Healthcheck | None = None
    """None without one, where it is switched off, and where it is not told."""
    health: str | None = None
    """``starting``, ``healthy`` or ``unhealthy``; None without a health check."""
    started_at: float | None = None
    """Of its last start, in seconds since 1970; None where it never started."""
    finished_at: float | None = None
    """Of its last end, as ``started_at``; before that where it runs again."""
    exit_code: int | None = None
    """Of its last end, 0-255; None while it runs and before it ever ended."""
    error: str | None = None
    """Why Docker could not start it, in Docker's words."""
    published: tuple[PublishedPort, ...] = ()
    """TCP ports of this host that lead into it."""


@dataclass(frozen=True, slots=True)
class UnitReading:
    """A systemd unit as ``systemctl show`` tells of it."""

    unit: str
    active: str | None = None
    sub: str | None = None
    main_pid: int | None = None
    restart: str | None = None
    """``no``, ``always``, ``on-failure`` ..."""
    restarts: int | None = None
    stop_timeout_s: float | None = None
    """Infinite where systemd waits for ever."""
    kill_mode: str | None = None
    mem_limit_mib: float | None = None
    """None without a limit, and where it is not told."""
    result: str | None = None
    """Of its last run: ``success``, ``exit-code``, ``signal``, ``oom-kill``, ``timeout`` ...; ``success``
    also while it runs."""
    exit_code: int | None = None
    """Of its main process, 0-255, 128 + signal where one ended it; None while it runs."""
    started_at: float | None = None
    """Epoch seconds at which its main process was last started."""
    ended_at: float | None = None
    """Epoch seconds at which its main process ended; None while it runs."""


@dataclass(frozen=True, slots=True)
class PublishedPort:
    """A port of this host that leads into a container's network, by a proxy process or by the kernel."""

    host: str
    """Empty: every address of this host."""
    port: int
    container_host: str
    """Empty where it is not told; then ``container_id`` is."""
    container_port: int
    container_id: str | None = None
