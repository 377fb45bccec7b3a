"""Damage to a file's bytes, the way flash, cables and attackers do it; seeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

INTERESTING = (
    0, 1, 2, 3, 4, 7, 8, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**16 - 1, 2**16, 2**31 - 1, 2**31,
    2**32 - 1, 2**32 - 2, 2**32 - 4, 0x7F800000, 0x7FC00000, 0xFF800000, 0x3F800000, 0x00000001,
)
"""Borders of counts and offsets, and the floats that break arithmetic: infinities, NaN, tiny."""


def mutants(data: bytes, rng: np.random.Generator, count: int) -> Iterator[bytes]:
    """`count` damaged copies of `data` (some bytes long), each by one to three kinds of damage.

    Offsets, lengths and indices are small numbers, and they are what a reader trips over: half
    of the hits go to 32-bit words that hold less than the file's size.
    """
    words = np.frombuffer(data[: len(data) // 4 * 4], "<u4")
    small = np.flatnonzero(words < len(data)) * 4
    for _ in range(count):
        damaged = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            kind = KINDS[int(rng.integers(len(KINDS)))]
            kind(damaged, rng, small)
            if len(damaged) < 8:
                break
        yield bytes(damaged)


def _place(damaged: bytearray, rng: np.random.Generator, small: np.ndarray) -> int:
    """A word to hit, as a byte position that leaves room for it."""
    last = len(damaged) - 4
    if small.size and rng.random() < 0.5:
        return min(int(rng.choice(small)), last)
    return int(rng.integers(0, last + 1))


def _flip_bits(damaged: bytearray, rng: np.random.Generator, small: np.ndarray) -> None:
    for _ in range(int(rng.integers(1, 5))):
        damaged[_place(damaged, rng, small)] ^= 1 << int(rng.integers(8))


def _set_byte(damaged: bytearray, rng: np.random.Generator, small: np.ndarray) -> None:
    damaged[_place(damaged, rng, small)] = int(rng.integers(256))


def _set_word(damaged: bytearray, rng: np.random.Generator, small: np.ndarray) -> None:
    at = _place(damaged, rng, small)
    damaged[at : at + 4] = INTERESTING[int(rng.integers(len(INTERESTING)))].to_bytes(4, "little")


def _nudge_word(damaged: bytearray, rng: np.random.Generator, small: np.ndarray) -> None:
    """A neighbouring index, length or offset: what still looks right."""
    at = _place(damaged, rng, small)
    word = int.from_bytes(damaged[at : at + 4], "little") + int(rng.choice([-4, -1, 1, 4]))
    damaged[at : at + 4] = (word % 2**32).to_bytes(4, "little")


def _copy_word(damaged: bytearray, rng: np.random.Generator, small: np.ndarray) -> None:
    """A right value in a wrong place."""
    source, at = _place(damaged, rng, small), _place(damaged, rng, small)
    damaged[at : at + 4] = damaged[source : source + 4]


def _swap_blocks(damaged: bytearray, rng: np.random.Generator, small: np.ndarray) -> None:
    size = int(rng.integers(4, 65))
    if len(damaged) < 2 * size:
        return
    a, b = (int(at) for at in rng.integers(0, len(damaged) - size + 1, 2))
    first, second = damaged[a : a + size], damaged[b : b + size]
    damaged[a : a + size] = second
    damaged[b : b + size] = first


def _zero_block(damaged: bytearray, rng: np.random.Generator, small: np.ndarray) -> None:
    at, size = _place(damaged, rng, small), int(rng.integers(1, 65))
    end = min(at + size, len(damaged))
    damaged[at:end] = bytes(end - at)


def _truncate(damaged: bytearray, rng: np.random.Generator, small: np.ndarray) -> None:
    del damaged[int(rng.integers(0, len(damaged))) :]


Kind = Callable[[bytearray, np.random.Generator, np.ndarray], None]
KINDS: tuple[Kind, ...] = (
    _flip_bits, _flip_bits, _set_byte, _set_byte, _set_word, _set_word, _set_word, _nudge_word,
    _nudge_word, _copy_word, _copy_word, _swap_blocks, _zero_block, _truncate,
)
"""Every kind, those that keep most of the file whole more often."""
