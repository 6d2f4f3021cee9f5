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
    stop_timeout_s: float | None = None


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


@dataclass(frozen=True, slots=True)
class PublishedPort:
    """A port of this host that Docker's proxy carries into a container's network."""

    host: str
    port: int
    container_host: str
    container_port: int
