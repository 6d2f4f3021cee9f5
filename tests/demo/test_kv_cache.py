"""The block pool: shared blocks are counted once, kept when free, evicted tail first."""

from __future__ import annotations

from tui.demo.kv_cache import BlockPool


def test_usage_moves_in_steps_of_one_less_than_the_blocks() -> None:
    pool = BlockPool(24)
    assert pool.grow(6) == []
    assert pool.usage == 6 / 23


def test_a_freed_block_stays_for_reuse_and_counts_as_free() -> None:
    pool = BlockPool(11)
    assert pool.grow(3, [1, 2]) == [1, 2]
    pool.release([1, 2], 1)
    assert pool.usage == 0.0 and pool.evictable == 2
    assert pool.match([1, 2, 3]) == 2
    pool.reference([1, 2])
    assert pool.used == 2 and pool.evictable == 0


def test_shared_blocks_are_one() -> None:
    pool = BlockPool(11)
    pool.grow(2, [1, 2])
    pool.reference([1, 2])
    assert pool.used == 2
    pool.release([1, 2], 0)
    assert pool.used == 2
    pool.release([1, 2], 0)
    assert pool.used == 0


def test_a_block_computed_twice_at_once_stays_private() -> None:
    pool = BlockPool(11)
    assert pool.grow(1, [1]) == [1]
    assert pool.grow(1, [1]) == []
    assert pool.used == 2


def test_a_full_pool_gives_nothing_and_takes_nothing() -> None:
    pool = BlockPool(5)
    assert pool.grow(3) == []
    assert pool.grow(2) is None
    assert (
        pool.used == 3 and not pool.admits([], 2) and pool.admits([], 1) and not pool.admits([], 1, spare=1)
    )


def test_the_tail_of_a_prompt_is_evicted_before_its_head() -> None:
    pool = BlockPool(5)
    pool.grow(4, [1, 2, 3, 4])
    pool.release([1, 2, 3, 4], 0)
    pool.grow(2)
    assert pool.evicted == 2 and pool.match([1, 2, 3, 4]) == 2


def test_nothing_is_kept_without_caching() -> None:
    pool = BlockPool(5, caching=False)
    assert pool.grow(2, [1, 2]) == []
    pool.release([], 2)
    assert pool.match([1]) == 0 and pool.evictable == 0


def test_a_smaller_pool_evicts_what_no_longer_fits() -> None:
    pool = BlockPool(11)
    pool.grow(8, list(range(8)))
    pool.release(list(range(4)), 0)
    pool.resize(7)
    assert pool.used + pool.evictable <= pool.capacity and pool.usage == 4 / 6
