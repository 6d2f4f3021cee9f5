"""What several commands share: settings, targets and the real sources."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tui.commands.usage import UsageError
from tui.config.load import ConfigError, load
from tui.config.state import state_dir
from tui.model.settings import EngineTarget
from tui.model.text import clean, sendable
from tui.model.urls import may_hold_secret, parse_metrics_url, parse_url

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from tui.model.settings import Config, ProbeSettings
    from tui.runtime.sources import Sources


def config_from(args: argparse.Namespace) -> Config:
    """The settings of ``--config`` (or the default file), with what the command line overrides.

    Raises:
        UsageError: the file does not fit.
    """
    try:
        config = load(args.config)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    if args.read_only:
        config = replace(config, read_only=True)
    if getattr(args, "interval", None) is not None:
        config = replace(config, interval_s=args.interval)
    return replace(config, probes=_probes(args, config))


def add_probe_arguments(parser: argparse.ArgumentParser) -> None:
    """What screen and ``once`` may be told about probes."""
    parser.add_argument(
        "--manifest",
        metavar="FILE",
        type=Path,
        help="the Kubernetes manifest it runs as: its probes, its grace",
    )
    parser.add_argument(
        "--generate", action="store_true", help="ask the engine for one token now and then (key g)"
    )


def _probes(args: argparse.Namespace, config: Config) -> ProbeSettings:
    probes = config.probes
    if getattr(args, "generate", False):
        if config.read_only:
            raise UsageError("--generate sends the engine a request, and --read-only sends none")
        probes = replace(probes, generate=True)
    if getattr(args, "manifest", None) is not None:
        from tui.runtime.probe_manifest import ManifestError, read_manifest

        try:
            probes = replace(probes, manifest=read_manifest(args.manifest))
        except ManifestError as error:
            raise UsageError(f"--manifest: {error}") from None
    return probes


def need_terminal() -> None:
    """What the live screen cannot do without.

    Raises:
        UsageError: no terminal, or one that cannot move its cursor.
    """
    # a stream that was closed before the start is None
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise UsageError("the live screen needs a terminal; for scripts: infertop once --json")
    if os.environ.get("TERM", "dumb") in ("", "dumb"):
        raise UsageError("this terminal (TERM=dumb) cannot show the live screen; use: infertop once")


def targets_from(
    config: Config, urls: Sequence[str], metrics_urls: Sequence[str]
) -> tuple[EngineTarget, ...]:
    """The endpoints named on the command line (the n-th metrics URL belongs to the n-th), else the config's.

    An endpoint that the config also names keeps the config's token, headers and certificates.

    Raises:
        UsageError: an address that is none, more metrics URLs than endpoints, or a token in the
            environment that cannot be sent.
    """
    if len(metrics_urls) > len(urls):
        raise UsageError("more --metrics-url than URLs: the n-th belongs to the n-th URL")
    known = {target.url: target for target in config.engines}
    targets = []
    for position, text in enumerate(urls):
        url = _url(text)
        target = known.get(url, EngineTarget(url=url))
        if position < len(metrics_urls):
            target = replace(target, metrics_url=_url(metrics_urls[position], parse_metrics_url))
        targets.append(_with_token(target))
    if not urls:
        targets = [_with_token(target) for target in config.engines]
    return tuple({target.url: target for target in targets}.values())


def real_sources() -> Sources:
    """NVML, /proc and HTTP of this machine."""
    from tui.actions.under_way import TestsUnderWay
    from tui.memory.model_files import read_model
    from tui.runtime.sources import Sources
    from tui.sources.addresses import is_local
    from tui.sources.death.logs import mark_source
    from tui.sources.death.look import DeathSource
    from tui.sources.docker import ContainerSource
    from tui.sources.engine_processes import EngineProcessSource
    from tui.sources.engines.source import EngineSource
    from tui.sources.generate import GenerateProber
    from tui.sources.host import HostSource
    from tui.sources.nvml.source import NvmlSource
    from tui.sources.probes import prober
    from tui.sources.processes import ProcessSource
    from tui.sources.systemd import UnitSource

    return Sources(
        gpus=NvmlSource,
        host=HostSource,
        processes=ProcessSource,
        engine=EngineSource,
        prober=prober,
        generator=GenerateProber,
        is_local=is_local,
        container=lambda place: ContainerSource(place.container_id or "", place.runtime),
        model=read_model,
        unit=lambda p: UnitSource(p.unit or "", user=p.user_unit, manager_uid=p.manager_uid),
        state=state_dir(),
        death=DeathSource,
        stop_mark=mark_source,
        tests=TestsUnderWay,
        own=EngineProcessSource,
    )


def _url(text: str, parse: Callable[[str], str] = parse_url) -> str:
    try:
        return parse(text)
    except ValueError as error:
        shown = "" if may_hold_secret(text) else f" {clean(text, 60)!r}"
        raise UsageError(f"not an engine's address:{shown} ({error}); e.g. http://127.0.0.1:8000") from None


def _with_token(target: EngineTarget) -> EngineTarget:
    """The token by its own variable, else the general one; never for an endpoint that was only found."""
    name = target.token_env or "INFERTOP_TOKEN"
    if not target.token and (token := os.environ.get(name, "").strip()):
        if not sendable(token):
            raise UsageError(f"{clean(name, 60)}: a token has no control characters")
        return replace(target, token=token)
    return target
