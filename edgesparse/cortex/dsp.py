"""The work of whole steps with SMLAD and SMLAL: native/src/exec/regular_dsp.c, counted."""

from __future__ import annotations

from collections import Counter

from edgesparse.cortex.regular import Whole
from edgesparse.cortex.rows import Work

CHUNK = 16
"""Rows whose sums are kept at a time: ES_DSP_ROWS."""
MOST_TAPS = 32
WIDE = ("bsr 1x4", "bsr 2x4", "bsr 4x4")
MOST_BLOCK_COLUMNS = 256
"""What an index of 8 bits reaches."""


def dsp_work(step: Whole) -> Work | None:
    """None: no kernel takes it whole."""
    if step.geometry.groups != 1:
        return _depthwise(step)
    width = _width(step)
    if width is None:
        return None
    tiles = -(-step.columns // width)
    return _around(step, width, tiles) + _inputs(step, width, tiles) + _sums(step, width, tiles)


def _width(step: Whole) -> int | None:
    """Columns that are computed together; choose()."""
    rows, g = step.rows, step.geometry
    words = 4 * -(-step.patch // 4)
    room = 4 * (2 * words + (words // 4 if g.in_c % 4 else 0))
    fours = step.columns > 2 and step.scratch >= room
    if rows.name == "dense":
        return 4 if fours else 1
    if -(-rows.cols // rows.block_cols) > MOST_BLOCK_COLUMNS:
        return None
    whole = rows.rows % 4 == 0
    if rows.name in WIDE:
        if fours:
            return 4
        return 1 if rows.name == "bsr 4x4" and step.patch % 4 == 0 and whole else None
    if rows.name != "bsr 4x1" or not whole:
        return None
    twos = step.columns > 1 and step.patch < MOST_BLOCK_COLUMNS and step.scratch >= 4 * step.patch
    return 2 if twos else 1


def _around(step: Whole, width: int, tiles: int) -> Work:
    """Biases before the sums, scaling after them."""
    rows, chunks = step.rows.rows, -(-step.rows.rows // CHUNK)
    work: Work = Counter({
        "dsp steps": 1, f"dsp x{width} tiles": tiles, f"dsp x{width} chunks": tiles * chunks,
        f"dsp x{width} rows": tiles * rows, f"dsp x{width} slow rows": tiles * step.slow})
    if step.clamps:
        work["dsp clamped values"] += step.columns * rows
    if step.adds:
        work["dsp added values"] += step.columns * rows
        work["dsp added pieces"] += step.columns * chunks
    return work


def _inputs(step: Whole, width: int, tiles: int) -> Work:
    """Patches, as the loops want them."""
    work: Work = Counter()
    columns = width * tiles
    gathers = not step.in_place and (width == 1 or (width == 4 and step.geometry.in_c % 4 != 0))
    if gathers and width == 1 and step.geometry.dilation_w > 1:
        work["dsp copied taps"] += columns * step.taps
        work["dsp copied words"] += columns * step.taps * -(-step.geometry.in_c // 4)
    elif gathers:
        work["gathered columns"] += columns
        work["gathered bytes"] += columns * step.patch
        work["gathered pieces"] += round(columns * step.pieces)
    if width == 4:
        direct = not step.in_place and not gathers
        work["dsp widened words"] += columns * -(-step.patch // 4)
        work["dsp widened pieces"] += round(columns * step.pieces) if direct else columns
        work["dsp widened rests"] += columns if step.patch % 4 else 0
    if width == 2:
        rows, _, taps = step.inside
        inside = rows * taps / step.geometry.kernel_w
        work["dsp paired values"] += tiles * step.patch
        work["dsp paired taps"] += tiles * step.taps
        work["dsp paired padding"] += round(tiles * step.patch * (1 - inside))
    return work


def _sums(step: Whole, width: int, tiles: int) -> Work:
    rows = step.rows
    if rows.name == "dense":
        return _dense_four(step, tiles) if width == 4 else _dense_one(step, tiles)
    if width == 4:
        kind, each = f"dsp wide {rows.name}", rows.block_rows  # a row of a block at a time
    else:
        kind, each = f"dsp {rows.name} x{width}", 1
    turn = 8 if (rows.name, width) == ("bsr 4x1", 1) else 4
    counts = rows.counts
    starts = sum((count >= turn) + (count % turn > 0) for count in counts)
    return Counter({
        f"{kind} turns": tiles * each * rows.whole_rounds(turn),
        f"{kind} blocks": tiles * each * rows.left_over(turn),
        f"{kind} odd blocks": tiles * each * sum(count % 2 for count in counts),
        f"{kind} starts": tiles * each * starts, f"{kind} rows": tiles * each * len(counts),
        f"{kind} row blocks": tiles * len(counts)})


def _dense_four(step: Whole, tiles: int) -> Work:
    words = -(-step.patch // 4)
    per = tiles * step.rows.rows
    return Counter({
        "dsp dense x4 quads": per * (words // 4), "dsp dense x4 words": per * (words % 4),
        "dsp dense x4 starts": per * ((words >= 4) + (words % 4 > 0))})


def _dense_one(step: Whole, columns: int) -> Work:
    """Four rows at a time, then one by one."""
    fours, odd, words = step.rows.rows // 4, step.rows.rows % 4, step.patch // 4
    return Counter({
        "dsp dense x1 quads": columns * fours * (words // 4),
        "dsp dense x1 words": columns * fours * (words % 4),
        "dsp dense x1 starts": columns * fours * ((words >= 4) + (words % 4 > 0)),
        "dsp dense x1 rest": columns * step.rows.rows * (step.patch % 4),
        "dsp dense x1 fours": columns * fours, "dsp dense x1 odd rows": columns * odd,
        "dsp dense x1 odd words": columns * odd * words})


def _depthwise(step: Whole) -> Work | None:
    channels, taps = step.geometry.in_c, step.taps
    room = (2 * taps + 1) * channels
    if not step.depthwise or channels % 4 or taps > MOST_TAPS or step.scratch < room:
        return None
    columns = step.columns
    return _around(step, 1, columns) + Counter({
        "dsp depthwise fours": columns * channels // 4,
        "dsp depthwise words": columns * channels // 4 * taps,
        "dsp depthwise taps": columns * taps, "dsp transposed words": channels // 4 * taps})
