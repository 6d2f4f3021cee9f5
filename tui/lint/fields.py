"""Typed access to a YAML tree: a value of the wrong type is an error with its line, never a traceback."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tui.lint.nodes import Mapping, Node, Scalar, Sequence
from tui.lint.shape import LintError
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"))
_FALSE = frozenset(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"))
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::?-(?P<default>[^{}]*)|[^{}]*)\}|\$[A-Za-z_]\w*")
INT32 = 2**31 - 1


class Fields:
    """One mapping, read by name. Absent and null are the same: None.

    Args:
        file: for errors.
        errors: gets what does not fit.
        node: the mapping; anything else that is not null is an error, and reads as empty.
        line: the line of its key.
    """

    def __init__(self, file: str, errors: list[LintError], node: Node | None, line: int, what: str) -> None:
        self._file = file
        self._errors = errors
        self.line = line
        self._items: dict[str, tuple[int, Node]] = {}
        if isinstance(node, Mapping):
            self.line = node.line if line <= 0 else line
            self._items = node.items
            for at, name in node.duplicates:
                self.error(at, f"{clean(name, 60)!r} is there twice")
        elif node is not None and not is_null(node):
            self.error(node.line, f"{what}: expected a mapping")

    def error(self, line: int, text: str) -> None:
        """Note a fault of the file."""
        self._errors.append(LintError(self._file, line, text))

    def __contains__(self, name: str) -> bool:
        return name in self._items and not is_null(self._items[name][1])

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def lines(self) -> dict[str, int]:
        """The line of every field that is written."""
        return {name: line for name, (line, _) in self._items.items()}

    def node(self, name: str) -> Node | None:
        """The value as it stands; None for null."""
        found = self._items.get(name)
        return None if found is None or is_null(found[1]) else found[1]

    def at(self, name: str) -> int:
        """The line of a field, or of the mapping."""
        return self._items[name][0] if name in self._items else self.line

    def map(self, name: str) -> Fields:
        """A mapping; an empty one where there is none."""
        return Fields(self._file, self._errors, self.node(name), self.at(name), name)

    def maps(self, name: str) -> list[Fields]:
        """A list of mappings; null entries are errors and left out."""
        found = []
        for item in self.items(name):
            if isinstance(item, Mapping):
                found.append(Fields(self._file, self._errors, item, item.line, name))
            else:
                self.error(item.line, f"{name}: expected a list of mappings")
        return found

    def items(self, name: str) -> list[Node]:
        """A list; empty where there is none."""
        node = self.node(name)
        if node is None:
            return []
        if not isinstance(node, Sequence):
            self.error(node.line, f"{name}: expected a list")
            return []
        return node.items

    def text(self, name: str) -> str:
        """Any scalar as text; empty where there is none."""
        node = self.node(name)
        if node is None:
            return ""
        if not isinstance(node, Scalar):
            self.error(node.line, f"{name}: expected text")
            return ""
        return node.text

    def words(self, name: str) -> tuple[str, ...] | None:
        """A list of scalars; None where there is none."""
        if name not in self:
            return None
        words = []
        for item in self.items(name):
            if isinstance(item, Scalar):
                words.append(item.text)
            else:
                self.error(item.line, f"{name}: expected a list of texts")
        return tuple(words)

    def pairs(self, name: str) -> dict[str, str]:
        """A mapping of texts, or a list of ``NAME=VALUE``, as Compose writes both."""
        if isinstance(self.node(name), Sequence):
            parted = (word.partition("=") for word in self.words(name) or ())
            return {key: value for key, _, value in parted}
        inner = self.map(name)
        return {key: inner.text(key) for key in inner}

    def integer(self, name: str, default: int) -> int:
        """A whole number within 32 bits; a number in quotes is an error, but read as one all the same."""
        node = self.node(name)
        if node is None:
            return default
        if isinstance(node, Scalar) and _INTEGER.fullmatch(node.text) and abs(int(node.text)) <= INT32:
            if not node.plain:
                self.error(node.line, f"{name}: expected a whole number, found text in quotes")
            return int(node.text)
        self.error(node.line, f"{name}: expected a whole number, found {shown(node)}")
        return default

    def boolean(self, name: str) -> bool | None:
        """True or false; None where there is none."""
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node, Scalar) and node.text in _TRUE | _FALSE:
            return node.text in _TRUE
        self.error(node.line, f"{name}: expected true or false, found {shown(node)}")
        return None


def is_null(node: Node) -> bool:
    """Nothing, ``~`` or ``null``."""
    return isinstance(node, Scalar) and node.plain and node.text in _NULL


def shown(node: Node) -> str:
    """A value for an error's text."""
    if isinstance(node, Scalar):
        return repr(clean(node.text, 40))
    return "a list" if isinstance(node, Sequence) else "a mapping"


def expand(text: str) -> str | None:
    """Compose variables replaced by the defaults that stand with them; None when one has none."""
    unknown = False

    def default(found: re.Match[str]) -> str:
        nonlocal unknown
        if found["default"] is None:
            unknown = True
            return ""
        return found["default"]

    expanded = _VARIABLE.sub(default, text[:10_000].replace("$$", "\0")).replace("\0", "$")
    return None if unknown else expanded
