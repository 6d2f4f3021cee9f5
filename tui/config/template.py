"""The commented template: every key with its default and what it means."""

from __future__ import annotations

import json
from typing import Any

from tui.config import schema
from tui.model.settings import ProbeSpec


def render() -> str:
    """TOML text in which every key is commented out and stands at its default."""
    lines = [
        "# infertop: every key with its default. Uncomment what you change.",
        "# Checked by: infertop config --check FILE",
        "",
        *_keys(schema.TOP, schema.DEFAULTS[""]),
        "",
        "# Engines to watch; none: those found on this host. Repeat the section for each.",
        "# [[engines]]",
        *_keys(schema.ENGINE, schema.DEFAULTS["engines"]),
    ]
    for section, (made, keys) in schema.SECTIONS.items():
        note = "  # the section absent: the engine's own defaults" if made is ProbeSpec else ""
        lines += ["", f"# [{section}]{note}", *_keys(keys, made())]
    return "\n".join(lines) + "\n"


def _keys(keys: tuple[schema.Key, ...], defaults: object) -> list[str]:
    settings = [f"# {key.name} = {_toml(getattr(defaults, key.name))}" for key in keys]
    width = max(map(len, settings))
    return [f"{setting:<{width}}  # {key.comment}" for setting, key in zip(settings, keys, strict=True)]


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(json.dumps(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {json.dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, bool | str):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) and value != int(value) else str(value)
