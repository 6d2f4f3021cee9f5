"""The KV cache as a pool of blocks: referenced, kept for reuse, or empty."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class BlockPool:
    """Counts blocks the way both engines do: cached blocks that nobody references are free.

    A block of prompt tokens has a hash and may be shared and kept; blocks of generated tokens and the
    last, partial one are private to their request. One block of the pool is never handed out, as in
    vLLM, so that usage moves in steps of ``1 / (blocks - 1)``.
    """

    __slots__ = ("_idle", "_private", "_refs", "blocks", "caching", "evicted")

    def __init__(self, blocks: int, *, caching: bool = True) -> None:
        self.blocks = blocks
        self.caching = caching
        self.evicted = 0
        """Cached blocks that were given up for new ones, since start."""
        self._refs: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._private = 0

    @property
    def capacity(self) -> int:
        """Blocks that can be handed out."""
        return self.blocks - 1

    @property
    def used(self) -> int:
        """Blocks that some request references; above ``capacity`` only after the pool shrank."""
        return len(self._refs) + self._private

    @property
    def evictable(self) -> int:
        """Blocks nobody references whose contents may still be reused."""
        return len(self._idle)

    @property
    def usage(self) -> float:
        """Referenced share of the pool, 0-1."""
        return min(1.0, self.used / self.capacity)

    def match(self, hashes: Sequence[int]) -> int:
        """How many of the leading hashes are in the cache."""
        found = 0
        for block in hashes:
            if block not in self._refs and block not in self._idle:
                break
            found += 1
        return found

    def admits(self, hashes: Sequence[int], new: int, spare: int = 0) -> bool:
        """Whether the cached blocks ``hashes`` and ``new`` more fit, with ``spare`` blocks left over."""
        revived = sum(1 for block in hashes if block in self._idle)
        return self.used + revived + new + spare <= self.capacity

    def reference(self, hashes: Sequence[int]) -> None:
        """Take blocks that ``match`` found."""
        for block in hashes:
            self._idle.pop(block, None)
            self._refs[block] = self._refs.get(block, 0) + 1

    def grow(self, new: int, hashes: Sequence[int] = ()) -> list[int] | None:
        """Take ``new`` empty blocks, of which the first are to be known by ``hashes``.

        Returns:
            The hashes now held (one that another request computed at the same time stays private),
            or None if there is no room: then nothing was taken.
        """
        if self.used + new > self.capacity:
            return None
        spill = self.used + len(self._idle) + new - self.capacity
        for _ in range(spill):
            self._idle.popitem(last=False)
            self.evicted += 1
        held = []
        if self.caching:
            held = [block for block in hashes if block not in self._refs and block not in self._idle]
            for block in held:
                self._refs[block] = 1
        self._private += new - len(held)
        return held

    def release(self, hashes: Sequence[int], private: int) -> None:
        """Give blocks back; hashed ones stay cached, the tail of a prompt to be evicted before its head."""
        self._private -= private
        for block in reversed(hashes):
            left = self._refs[block] - 1
            if left:
                self._refs[block] = left
            else:
                del self._refs[block]
                self._idle[block] = None

    def resize(self, blocks: int) -> None:
        """Change the size of the pool; cached blocks that no longer fit are evicted."""
        self.blocks = blocks
        while self._idle and self.used + len(self._idle) > self.capacity:
            self._idle.popitem(last=False)
            self.evicted += 1
