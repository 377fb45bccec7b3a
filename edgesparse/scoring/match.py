"""Which beat of a test belongs to which beat of a reference."""

from __future__ import annotations

from dataclasses import dataclass

from edgesparse.graph.ir import Array


@dataclass(frozen=True)
class Matching:
    """One-to-one.

    pairs   (index in reference, index in test), both rising
    missed  indices in reference without a partner
    extra   indices in test without a partner
    """

    pairs: tuple[tuple[int, int], ...]
    missed: tuple[int, ...]
    extra: tuple[int, ...]


def match(reference: Array, test: Array, window: int) -> Matching:
    """Pair events at most `window` apart, in one walk along both lists.

    reference, test  [events] int, not falling
    window           >= 0, the largest difference that still matches

    Of the two events the walk stands at, the earlier one is decided: it is paired with the other
    when that lies within the window and is strictly closer to it than to the event that follows
    the earlier one in its own list. Otherwise it stays alone. So an event goes to the nearest and
    a tie goes to the later one. Where two events of one list stand within two windows of each
    other, this need not be the pairing with the most pairs.

    Source: bxb.c of the WFDB software (G. Moody), the reference implementation of EC57.
    """
    pairs, missed, extra = [], [], []
    ref, own = reference.tolist(), test.tolist()
    i = j = 0
    while i < len(ref) and j < len(own):
        gap = abs(ref[i] - own[j])
        if own[j] < ref[i]:
            rival = abs(ref[i] - own[j + 1]) if j + 1 < len(own) else None
        else:
            rival = abs(own[j] - ref[i + 1]) if i + 1 < len(ref) else None
        if gap <= window and (rival is None or gap < rival):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif own[j] < ref[i]:
            extra.append(j)
            j += 1
        else:
            missed.append(i)
            i += 1
    missed += range(i, len(ref))
    extra += range(j, len(own))
    return Matching(tuple(pairs), tuple(missed), tuple(extra))
