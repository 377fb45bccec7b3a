"""The work of whole steps with Helium: native/src/exec/regular_mve.c, counted."""

from __future__ import annotations

from collections import Counter

from edgesparse.cortex.regular import Whole
from edgesparse.cortex.rows import TILE, VECTOR, Work, calls_of, columns_of

MOST_TAPS, MOST_ADDED, MOST_PADDED = 64, 256, 1024
BYTE_INDEX = 256
"""Columns of blocks that an index of 8 bits reaches."""
BLOCKS = ("bsr 4x1", "bsr 1x4", "bsr 2x4", "bsr 4x4")


def mve_work(step: Whole) -> Work | None:
    """None: no kernel takes it whole."""
    rows, g = step.rows, step.geometry
    if not step.right or not step.each or (step.adds and rows.rows > MOST_ADDED):
        return None
    if g.groups != 1:
        return _depthwise(step)
    if rows.name != "dense" and rows.name not in BLOCKS:
        return None
    most = min(TILE, MOST_ADDED // rows.rows) if step.adds else TILE
    padded = rows.block_cols == 4 and step.patch % 4 != 0
    if padded:
        most = min(most, MOST_PADDED // (step.patch + -step.patch % 4))
    if most == 0:
        return None
    sweep = Counter({most: step.columns // most})
    sweep[step.columns % most] += 1
    del sweep[0]
    work: Work = Counter({"mve steps": 1, "mve calls": calls_of(sweep),
                          "mve columns": step.columns, "mve padded steps": int(padded)})
    work += _patches(step, padded)
    work += _dense(step, sweep) if rows.name == "dense" else _blocks(step, sweep)
    return work + _ends(step, sweep)


def _ends(step: Whole, sweep: Counter[int]) -> Work:
    """What follows the sums, besides scaling by fours."""
    rows = step.rows.rows
    work: Work = Counter()
    if not step.rectified:
        work["mve signed fours"] += step.columns * -(-rows // 4)
    for size, times in sweep.items() if step.adds else ():
        work["mve added pieces"] += times
        work["mve added columns"] += size * times
        work["mve added vectors"] += times * (size * rows // VECTOR)
        work["mve added fours"] += times * -(-(size * rows % VECTOR) // 4)
    return work


def _patches(step: Whole, padded: bool) -> Work:
    """What is copied where a patch does not stand in the input, or not at a multiple of 4."""
    columns, g = step.columns, step.geometry
    copied = float(g.kernel_h) if padded else step.copied_rows
    work: Work = Counter()
    if step.scattered or step.ring:
        taps = columns * copied * g.kernel_w
        work["mve copied taps"] += round(taps)
        work["mve copied vectors"] += round(taps * -(-g.in_c // VECTOR))
        work["mve gathered columns"] += round(columns * copied / g.kernel_h)
        return work
    work["mve copied rows"] += round(columns * copied)
    work["mve copied vectors"] += round(columns * copied * -(-g.kernel_w * g.in_c // VECTOR))
    work["mve gathered columns"] += round(columns * copied / g.kernel_h)
    work["mve columns at edges"] += round(columns * (1 - step.inside[0] * step.inside[1]))
    return work


def _dense(step: Whole, sweep: Counter[int]) -> Work:
    fours, cols = step.rows.rows // 4, step.rows.cols
    pairs = sum(size // 2 * times for size, times in sweep.items())
    singles = columns_of(sweep) - 2 * pairs
    loop, turns = ("doubles", cols // 32) if cols % 32 == 0 else ("vectors", -(-cols // VECTOR))
    work: Work = Counter({
        "mve pair fours": pairs * fours, f"mve pair {loop}": 2 * pairs * fours * turns,
        "mve single fours": singles * fours, f"mve single {loop}": singles * fours * turns})
    if step.rows.rows % 4:
        work["mve rests"] += step.columns
        work["mve single vectors"] += step.columns * -(-cols // VECTOR)
    return work


def _blocks(step: Whole, sweep: Counter[int]) -> Work:
    rows, columns, calls = step.rows, step.columns, calls_of(sweep)
    kind, blocks, scaled = rows.name.split()[1], len(rows.counts), -(-rows.rows // 4)
    fours = sweep[TILE] if kind == "1x4" else 0  # a loop of their own
    calls, left = calls - fours, columns - TILE * fours
    work: Work = Counter({
        "mve 1x4 x4 rows": fours * rows.rows, "mve 1x4 x4 turns": fours * rows.rounds(4),
        "mve 1x4 x4 calls": fours,
        "mve scaled fours": left * scaled, "mve row fours": calls * scaled,
        f"mve {kind} row blocks": calls * blocks})
    if kind == "2x4":
        pairs = sum((size + 1) // 2 * times for size, times in sweep.items())
        work["mve 2x4 pairs"] += pairs * blocks
        work["mve 2x4 turns"] += pairs * rows.rounds(4)
        return work
    if kind == "4x1":
        short = sum(-(-(count % VECTOR) // 4) for count in rows.counts)
        work["mve 4x1 sixteens"] += left * rows.whole_rounds(VECTOR)
        if rows.cols > BYTE_INDEX:
            work["mve 4x1 sixteens, 16 bits"] += left * rows.whole_rounds(VECTOR)
        work["mve 4x1 fours"] += left * short
        work["mve 4x1 last rows"] += left * (rows.rows % 4 > 0)
    else:
        work[f"mve {kind} x1 turns"] += left * rows.rounds(4)
    work[f"mve {kind} x1 rows"] += left * blocks
    return work


def _depthwise(step: Whole) -> Work | None:
    channels, taps, columns = step.geometry.in_c, step.taps, step.columns
    rows, inside, _ = step.inside
    alone = columns == 1 and rows == inside == 1
    room = step.scratch >= step.patch + (0 if alone else channels)
    if not step.depthwise or taps > MOST_TAPS or not room:
        return None
    sixteens, rest = divmod(channels, VECTOR)
    if step.least:
        sixteens, rest = 0, channels
    found = columns * taps
    return _ends(step, Counter({1: columns})) + Counter({
        "mve steps": 1, "mve depthwise columns": columns, "mve depthwise taps": found,
        "mve taps at edges": round(found * (1 - rows * inside)),
        "mve taps in rings": found if step.ring else 0,
        "mve sixteens": columns * sixteens, "mve sixteens pairs": columns * sixteens * (taps // 2),
        "mve sixteens odd": columns * sixteens * (taps % 2),
        "mve few fours": columns * -(-rest // 4), "mve few taps": columns * -(-rest // 4) * taps,
        "mve turned words": taps * -(-channels // 4)})
