"""TOML text to ``Config``; every complaint names file, key and what was expected."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tui.config import schema
from tui.config._toml import TOMLDecodeError, loads
from tui.config.inputs import open_input
from tui.config.places import config_home
from tui.model.settings import Config, EngineTarget
from tui.model.text import clean
from tui.model.urls import may_hold_secret

if TYPE_CHECKING:
    from pathlib import Path


MAX_BYTES = 4 << 20


class ConfigError(Exception):
    """What is wrong with a config file, one line a fault."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def load(path: Path | None) -> Config:
    """The settings of a file; of the default one, if it exists, when none is named.

    Raises:
        ConfigError: unreadable, not TOML, or a key that does not fit.
    """
    if path is None:
        home = config_home()
        path = None if home is None else home / "config.toml"
        if path is None or not path.exists():
            return Config()
    name = clean(str(path), 1000)
    try:
        with open_input(path) as file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ConfigError([f"{name}: {getattr(error, 'strerror', None) or error}"]) from None
    if len(text) > MAX_BYTES:
        raise ConfigError([f"{name}: larger than {MAX_BYTES >> 20} MiB"])
    try:
        return parse(text.decode("utf-8-sig"), name)
    except UnicodeDecodeError:
        raise ConfigError([f"{name}: not UTF-8 text"]) from None


def parse(text: str, name: str) -> Config:
    """The settings of TOML text; ``name`` stands for it in complaints.

    Raises:
        ConfigError: with every fault that was found, not only the first.
    """
    try:
        document = loads(text)
    except TOMLDecodeError as error:
        raise ConfigError([f"{name}: {error}"]) from None
    except RecursionError:
        raise ConfigError([f"{name}: nested too deeply"]) from None
    except ValueError:  # Python reads no whole number of more than 4,300 digits
        raise ConfigError([f"{name}: a number with too many digits"]) from None
    faults: list[str] = []
    fields: dict[str, Any] = _table(document, schema.TOP, "", name, faults, set(_roots()) | {"engines"})
    for section, (made, keys) in schema.SECTIONS.items():
        if "." in section:
            continue
        nested = [s for s in schema.SECTIONS if s.startswith(f"{section}.")]
        table = _section(document, section, name, faults)
        values = _table(table, keys, section, name, faults, {s.partition(".")[2] for s in nested})
        for sub in nested:
            if (inner := sub.partition(".")[2]) in table:
                of, inner_keys = schema.SECTIONS[sub]
                inner_table = _section(table, inner, name, faults, sub)
                values[inner] = of(**_table(inner_table, inner_keys, sub, name, faults, set()))
        fields[section] = made(**values)
    named = "theme" in _section(document, "screen", name, [])
    fields["screen"] = replace(fields["screen"], theme_named=named)
    fields["engines"] = _engines(document.get("engines", []), name, faults)
    faults += [f"{name}: {fault}" for fault in schema.contradictions(fields["thresholds"])]
    if faults:
        raise ConfigError(faults)
    return Config(**fields)


def _roots() -> list[str]:
    return [section for section in schema.SECTIONS if "." not in section]


def _section(
    document: dict[str, Any], key: str, name: str, faults: list[str], shown: str = ""
) -> dict[str, Any]:
    table = document.get(key, {})
    if isinstance(table, dict):
        return table
    faults.append(f"{name}: [{shown or key}]: expected a section, got {_shown(table)}")
    return {}


def _table(
    table: dict[str, Any],
    keys: tuple[schema.Key, ...],
    section: str,
    name: str,
    faults: list[str],
    nested: set[str],
) -> dict[str, Any]:
    known = {key.name: key for key in keys}
    values: dict[str, Any] = {}
    for written, value in table.items():
        if written in nested:
            continue
        label = f"{section}.{written}" if section else written
        if written not in known:
            expected = ", ".join([*known, *sorted(nested)])
            faults.append(f"{name}: {clean(label)}: unknown key; expected one of {expected}")
            continue
        try:
            values[written] = known[written].check(value)
        except schema.RefusedError as error:
            secret = written in SECRETS or (isinstance(value, str) and may_hold_secret(value))
            got = "something else" if secret else _shown(value)
            faults.append(f"{name}: {clean(label)}: expected {error}, got {got}")
    return values


def _engines(entries: object, name: str, faults: list[str]) -> tuple[EngineTarget, ...]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        faults.append(f"{name}: engines: expected [[engines]] sections, got something else")
        return ()
    found: list[EngineTarget] = []
    numbers: dict[str, int] = {}
    for number, entry in enumerate(entries, 1):
        before = len(faults)
        values = _table(entry, schema.ENGINE, f"engines[{number}]", name, faults, set())
        if "url" not in entry:
            faults.append(f"{name}: engines[{number}].url: expected an http:// or https:// URL, got nothing")
        if "url" in values and (first := numbers.setdefault(values["url"], number)) != number:
            same = clean(values["url"])
            faults.append(f"{name}: engines[{number}].url: {same} is that of engines[{first}] already")
        if len(faults) == before:
            found.append(EngineTarget(**values))
    return tuple(found)


SECRETS = frozenset(("token", "headers", "proxy"))
"""Keys whose values no complaint may quote."""


def _shown(value: object) -> str:
    try:
        return clean(repr(value), 60)
    except ValueError:  # as above: Python prints no such number either
        return "a number with too many digits"
