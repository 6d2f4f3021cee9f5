"""YAML as a tree with line numbers, built from parser events: no object is ever made from a tag.

PyYAML is an extra: it is imported when a YAML file is there, so that units can be linted without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DEPTH = 64
MAX_NODES = 100_000
"""Nodes of a whole file, each alias counted as all that it stands for."""

_CORE = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(_CORE + name for name in ("int", "float", "bool", "null", "merge"))
_TAGS = _PLAIN_TAGS | frozenset(_CORE + name for name in ("str", "map", "seq"))
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class MissingYamlError(Exception):
    """PyYAML is not installed."""


class YamlError(Exception):
    """The text is not YAML, or more of it than is good.

    Args:
        line: from 1.
        text: what is wrong.
    """

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(slots=True)
class Scalar:
    """Text; ``plain`` when it is not quoted, so that it may mean a number, a truth value or null."""

    line: int
    text: str
    plain: bool
    size: int = 1
    depth: int = 1


@dataclass(slots=True)
class Sequence:
    """A list."""

    line: int
    items: list[Node] = field(default_factory=list)
    size: int = 1
    depth: int = 1


@dataclass(slots=True)
class Mapping:
    """Keys (text) with their lines; merge keys are resolved."""

    line: int
    items: dict[str, tuple[int, Node]] = field(default_factory=dict)
    duplicates: list[tuple[int, str]] = field(default_factory=list)
    size: int = 1
    depth: int = 1


Node: TypeAlias = "Scalar | Sequence | Mapping"


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    line: int
    anchor: str | None
    mapping: bool
    children: list[Node] = field(default_factory=list)


def documents(text: str) -> Iterator[Node]:
    """The documents of a file, in order; what stands before a fault is yielded before it is raised.

    Raises:
        MissingYamlError: PyYAML is not installed.
        YamlError: not YAML, a tag, an alias without an anchor or to itself, or too deep or too large.
    """
    bad = _NOT_YAML.search(text)
    if bad is not None:
        line = text.count("\n", 0, bad.start()) + 1
        raise YamlError(line, f"character U+{ord(bad.group()):04X} is not allowed in YAML")
    total = 0
    for root in _roots(text):
        total += root.size
        if total > MAX_NODES:
            raise YamlError(root.line, f"more than {MAX_NODES} values in one file")
        yield root


def _roots(text: str) -> Iterator[Node]:
    try:
        import yaml
    except ImportError:
        raise MissingYamlError from None
    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=loader):
            root = builder.take(type(event).__name__, event)
            if root is not None:
                yield root
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else int(mark.line) + 1
        raise YamlError(line, clean(str(error.problem or error.context))) from None
    except yaml.YAMLError as error:
        raise YamlError(1, clean(str(error))) from None


class _Builder:
    """Events in, finished documents out; nothing here recurses."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._anchors: dict[str, Node | None] = {}

    def take(self, name: str, event: Any) -> Node | None:
        """One parser event; the document's root when it was its last."""
        if name == "DocumentStartEvent":
            self._anchors.clear()
            return None
        if name not in _HANDLED:
            return None
        line = int(event.start_mark.line) + 1
        if name in ("SequenceStartEvent", "MappingStartEvent"):
            self._begin(line, event, mapping=name == "MappingStartEvent")
            return None
        if name == "AliasEvent":
            node = self._alias(line, event.anchor)
        elif name == "ScalarEvent":
            node = self._scalar(line, event)
        else:
            node = self._end()
        if not self._open:
            return node
        self._open[-1].children.append(node)
        return None

    def _begin(self, line: int, event: Any, *, mapping: bool) -> None:
        _check_tag(line, event.tag)
        if len(self._open) >= MAX_DEPTH:
            raise YamlError(line, f"nested deeper than {MAX_DEPTH} levels")
        self._open.append(_Open(line, event.anchor, mapping))
        if event.anchor is not None:
            self._anchors[event.anchor] = None

    def _alias(self, line: int, anchor: str) -> Node:
        if anchor not in self._anchors:
            raise YamlError(line, f"alias *{clean(anchor, 40)} has no anchor")
        node = self._anchors[anchor]
        if node is None:
            raise YamlError(line, f"alias *{clean(anchor, 40)} contains itself")
        return node

    def _scalar(self, line: int, event: Any) -> Node:
        _check_tag(line, event.tag)
        plain = event.tag in _PLAIN_TAGS or (not event.style and event.tag is None)
        node = Scalar(line, event.value, plain)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _end(self) -> Node:
        done = self._open.pop()
        size = 1 + sum(child.size for child in done.children)
        depth = 1 + max((child.depth for child in done.children), default=0)
        # before merge keys are resolved: 100,000 of them, each of 40,000 keys, took minutes
        if size > MAX_NODES:
            raise YamlError(done.line, f"aliases stand for more than {MAX_NODES} values")
        if depth > MAX_DEPTH:
            raise YamlError(done.line, f"nested deeper than {MAX_DEPTH} levels")
        node = _mapping(done) if done.mapping else Sequence(done.line, done.children)
        node.size, node.depth = size, depth
        if done.anchor is not None:
            self._anchors[done.anchor] = node
        return node


_HANDLED = frozenset(
    (
        "SequenceStartEvent",
        "MappingStartEvent",
        "SequenceEndEvent",
        "MappingEndEvent",
        "AliasEvent",
        "ScalarEvent",
    )
)


def _check_tag(line: int, tag: str | None) -> None:
    if tag not in (None, "!") and tag not in _TAGS:
        raise YamlError(line, f"tag {clean(str(tag), 60)} is not allowed")


def _mapping(done: _Open) -> Mapping:
    found = Mapping(done.line)
    merged: list[Mapping] = []
    for key, value in zip(done.children[::2], done.children[1::2], strict=True):
        if not isinstance(key, Scalar):
            raise YamlError(key.line, "a key that is not plain text")
        if key.plain and key.text == "<<":
            merged += _merge_sources(key.line, value)
            continue
        if key.text in found.items:
            found.duplicates.append((key.line, key.text))
        found.items[key.text] = (key.line, value)
    for source in merged:
        for name, item in source.items.items():
            found.items.setdefault(name, item)
    return found


def _merge_sources(line: int, value: Node) -> list[Mapping]:
    sources = value.items if isinstance(value, Sequence) else [value]
    maps = [source for source in sources if isinstance(source, Mapping)]
    if len(maps) != len(sources):
        raise YamlError(line, "a merge key whose value is no mapping")
    return maps
