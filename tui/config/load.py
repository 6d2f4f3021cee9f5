"""TOML text to ``Config``; every complaint names file, key and what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tui.config import schema
from tui.config._toml import TOMLDecodeError, loads
from tui.config.places import config_home
from tui.model.settings import Config, EngineTarget
from tui.model.text import clean

if TYPE_CHECKING:
    from pathlib import Path


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
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror or error}"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"{path}: not UTF-8 text"]) from None
    return parse(text, str(path))


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
    fields["engines"] = _engines(document.get("engines", []), name, faults)
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
            got = "something else" if written in SECRETS else _shown(value)
            faults.append(f"{name}: {clean(label)}: expected {error}, got {got}")
    return values


def _engines(entries: object, name: str, faults: list[str]) -> tuple[EngineTarget, ...]:
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        faults.append(f"{name}: engines: expected [[engines]] sections, got {_shown(entries)}")
        return ()
    found: list[EngineTarget] = []
    for number, entry in enumerate(entries, 1):
        before = len(faults)
        values = _table(entry, schema.ENGINE, f"engines[{number}]", name, faults, set())
        if "url" not in entry:
            faults.append(f"{name}: engines[{number}].url: expected an http:// or https:// URL, got nothing")
        if len(faults) == before:
            found.append(EngineTarget(**values))
    return tuple(found)


SECRETS = frozenset(("token", "headers"))
"""Keys whose values no complaint may quote."""


def _shown(value: object) -> str:
    return clean(repr(value), 60)
