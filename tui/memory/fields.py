"""Typed and bounded access to a JSON object that came from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.memory.errors import ModelError
from tui.model.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 2**40


class Fields:
    """A JSON object whose every fault names file and key. A key that is null counts as absent.

    Args:
        values: the object as parsed.
        source: how the object is called in errors, e.g. ``config.json``.
    """

    __slots__ = ("_source", "_values")

    def __init__(self, values: Mapping[str, object], source: str) -> None:
        self._values = values
        self._source = source

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def integer(self, *names: str, low: int = 1, high: int = LARGEST) -> int | None:
        """The first of several keys that is present; None without any.

        Raises:
            ModelError: it is no integer from ``low`` to ``high``.
        """
        for name in names:
            if (value := self._values.get(name)) is not None:
                return self._checked(name, value, low, high)
        return None

    def need(self, *names: str, low: int = 1, high: int = LARGEST) -> int:
        """As ``integer``, and it is an error if none of the keys is present."""
        value = self.integer(*names, low=low, high=high)
        if value is None:
            raise self.fault(names[0], "missing")
        return value

    def text(self, *names: str) -> str | None:
        """The first of several keys that is present, made safe to show."""
        for name in names:
            if (value := self._values.get(name)) is not None:
                if not isinstance(value, str):
                    raise self.fault(name, f"expected a string, found {_shown(value)}")
                return clean(value, 80)
        return None

    def flag(self, name: str) -> bool:
        """True only where the key is a true boolean; other values count as false."""
        return self._values.get(name) is True

    def items(self, name: str) -> list[object] | None:
        """A list of whatever it holds."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.fault(name, f"expected a list, found {_shown(value)}")
        return value

    def strings(self, name: str) -> list[str] | None:
        """A list of strings, each made safe to show."""
        items = self.items(name)
        if items is None:
            return None
        for item in items:
            if not isinstance(item, str):
                raise self.fault(name, f"expected a list of strings, found {_shown(item)} in it")
        return [clean(str(item), 80) for item in items]

    def integers(self, name: str, low: int = 0) -> list[int] | None:
        """A list of integers, none below ``low``."""
        items = self.items(name)
        return None if items is None else [self._checked(name, item, low, LARGEST) for item in items]

    def section(self, name: str) -> Fields | None:
        """A nested object; None where the key is absent or holds something else.

        Something else is no error: the same key means other things in models without such a section.
        """
        value = self._values.get(name)
        return Fields(value, f"{self._source}: {name}") if isinstance(value, dict) else None

    def texts(self) -> list[str]:
        """Every value, all of which must be strings; as they are, not made safe to show."""
        values = [value for value in self._values.values() if isinstance(value, str)]
        if len(values) < len(self._values):
            raise ModelError(f"{self._source}: expected strings only")
        return values

    def sections(self) -> list[Fields]:
        """Every nested object."""
        return [
            Fields(v, f"{self._source}: {clean(k, 40)}")
            for k, v in self._values.items()
            if isinstance(v, dict)
        ]

    def merged(self, over: Mapping[str, object]) -> Fields:
        """The same object with other values put over its own."""
        return Fields({**self._values, **over}, self._source)

    def fault(self, name: str, text: str) -> ModelError:
        """The error for one key."""
        return ModelError(f"{self._source}: {name}: {text}")

    def _checked(self, name: str, value: object, low: int, high: int) -> int:
        whole = isinstance(value, float) and value.is_integer()
        if isinstance(value, bool) or not (isinstance(value, int) or whole):
            raise self.fault(name, f"expected an integer, found {_shown(value)}")
        number = int(value)  # type: ignore[call-overload]
        if not low <= number <= high:
            raise self.fault(name, f"expected an integer from {low} to {high}, found {_shown(value)}")
        return int(number)


def _shown(value: object) -> str:
    if isinstance(value, str):
        return repr(clean(value, 40))
    if isinstance(value, bool | float):
        return str(value).lower()
    if isinstance(value, int):
        # an integer of a million digits takes minutes to print
        return str(value) if abs(value) < 10**20 else "a huge integer"
    return {list: "a list", dict: "an object", type(None): "null"}.get(type(value), type(value).__name__)
