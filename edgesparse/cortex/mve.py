"""The work of whole steps with Helium: native/src/exec/regular_mve.c, counted."""

from __future__ import annotations

from collections import Counter

from edgesparse.cortex.regular import Whole
from edgesparse.cortex.rows import TILE, VECTOR, Work, calls_of, columns_of

MOST_TAPS, MOST_ADDED = 64, 256
BLOCKS = ("bsr 4x1", "bsr 1x4", "bsr 2x4", "bsr 4x4")


def mve_work(step: Whole) -> Work | None:
    """None: no kernel takes it whole."""
    rows, g = step.rows, step.geometry
    if not step.right:
        return None
    if g.groups != 1:
        return _depthwise(step)
    blocks = rows.name in BLOCKS and rows.rows % 4 == 0 and step.patch % rows.block_cols == 0
    if (rows.name != "dense" and not blocks) or (step.adds and rows.rows > MOST_ADDED):
        return None
    most = min(TILE, MOST_ADDED // rows.rows) if step.adds else TILE
    sweep = Counter({most: step.columns // most})
    sweep[step.columns % most] += 1
    del sweep[0]
    work: Work = Counter({"mve steps": 1, "mve calls": calls_of(sweep),
                          "mve columns": step.columns})
    work += _patches(step) + (_blocks(step, sweep) if blocks else _dense(step, sweep))
    if step.adds:
        work["mve added columns"] += step.columns
        work["mve added vectors"] += step.columns * (rows.rows // VECTOR)
        work["mve added fours"] += step.columns * -(-(rows.rows % VECTOR) // 4)
    return work


def _patches(step: Whole) -> Work:
    """What is copied where a patch does not stand in the input."""
    copied, columns, g = step.copied_rows, step.columns, step.geometry
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
        work[f"mve single {loop}"] += step.columns * turns
    return work


def _blocks(step: Whole, sweep: Counter[int]) -> Work:
    rows, columns = step.rows, step.columns
    scaled: Work = Counter({"mve scaled fours": columns * rows.rows // 4})
    if rows.name == "bsr 1x4":
        fours = sweep[TILE] if step.each else 0
        singles = columns - TILE * fours
        scaled["mve scaled fours"] = singles * rows.rows // 4
        return scaled + Counter({
            "mve 1x4 x4 rows": fours * rows.rows, "mve 1x4 x4 turns": fours * rows.rounds(4),
            "mve 1x4 x1 rows": singles * rows.rows, "mve 1x4 x1 turns": singles * rows.rounds(4)})
    if rows.name == "bsr 2x4":
        pairs = sum(size // 2 * times for size, times in sweep.items())
        singles = columns - 2 * pairs
        return scaled + Counter({
            "mve 2x4 x2 rows": pairs * len(rows.counts), "mve 2x4 x2 turns": pairs * rows.rounds(4),
            "mve 2x4 x1 rows": singles * len(rows.counts),
            "mve 2x4 x1 turns": singles * rows.rounds(4)})
    if rows.name == "bsr 4x4":
        return scaled + Counter({
            "mve 4x4 rows": columns * len(rows.counts), "mve 4x4 turns": columns * rows.rounds(4)})
    short = sum(-(-(count % VECTOR) // 4) for count in rows.counts)
    return scaled + Counter({
        "mve 4x1 rows": columns * len(rows.counts),
        "mve 4x1 sixteens": columns * rows.whole_rounds(VECTOR), "mve 4x1 fours": columns * short})


def _depthwise(step: Whole) -> Work | None:
    channels, taps, columns = step.geometry.in_c, step.taps, step.columns
    if (not step.depthwise or step.in_place or columns < 2 or taps > MOST_TAPS or step.adds
            or step.ring):
        return None
    sixteens, rest = divmod(channels, VECTOR)
    if not step.each or step.least:
        sixteens, rest = 0, channels
    return Counter({
        "mve steps": 1, "mve depthwise columns": columns, "mve depthwise taps": columns * taps,
        "mve sixteens": columns * sixteens, "mve sixteens pairs": columns * sixteens * (taps // 2),
        "mve sixteens odd": columns * sixteens * (taps % 2),
        "mve few fours": columns * -(-rest // 4), "mve few taps": columns * -(-rest // 4) * taps,
        "mve turned words": taps * -(-channels // 4)})
