"""Pictures of an ECG strip with its beats: braille for a terminal, PNG for a file."""

from __future__ import annotations

import math
from importlib.util import find_spec
from itertools import pairwise
from typing import BinaryIO

import numpy as np
from rich.text import Text

from edgesparse.demo.ecg import SAMPLE_RATE_HZ, Beats
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.streaming.beats import ECG360_CLASSES as CLASSES

STYLES = ("green", "bold yellow", "bold red")
COLOURS = ("#1a7f37", "#bf8700", "#cf222e")
"""N, S, V."""
AROUND_S = (0.25, 0.35)
"""Seconds before and after an R peak that take the colour of its beat."""
ROW_S = 30
MAX_ROWS = 60
BRAILLE = 0x2800
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bit of each dot of a braille character: 4 rows, 2 columns."""
ASCII = " '.|"
"""Nothing, the upper half, the lower half, both."""


def liveliest(beats: Beats, samples: int, length: int) -> int:
    """Where a stretch of `length` samples sees the most changes of class; the first of equals."""
    turns = beats.position[1:][np.diff(beats.kind) != 0]
    starts = np.arange(0, max(samples - length, 0) + 1, SAMPLE_RATE_HZ)
    counts = np.searchsorted(turns, starts + length) - np.searchsorted(turns, starts)
    return int(starts[counts.argmax()])


def terminal_strip(lead_mv: Array, beats: Beats, start: int, length: int, width: int = 76) -> Text:
    """A line of class letters, the trace in braille, a line of times.

    lead_mv        [samples] mV at 360 Hz
    start, length  the stretch to draw, samples
    width          characters
    """
    return draw_strip(lead_mv[start : start + length], beats, start, SAMPLE_RATE_HZ, width)


def draw_strip(part: Array, beats: Beats, start: int, rate_hz: float, width: int) -> Text:
    """The same of a stretch [length >= 1] in any unit, whose first sample is number `start`."""
    columns, rows, length = 2 * width, 28, len(part)
    edges = np.linspace(0, len(part), columns + 1).astype(int)
    spans = [part[max(a - 1, 0) : max(b, a + 1)] for a, b in pairwise(edges)]
    low, high = np.min(part), np.max(part)
    unit = (rows - 1) / max(high - low, 1e-9)
    dots = np.zeros((rows, columns), bool)
    for column, span in enumerate(spans):  # each starts with the last sample before: no gaps
        top, bottom = (round(float(high - v) * unit) for v in (span.max(), span.min()))
        dots[top : bottom + 1, column] = True
    cells = (dots.reshape(rows // 4, 4, width, 2) * DOTS[None, :, None, :]).sum(axis=(1, 3))

    letters, styles = [" "] * width, [""] * width
    scale = width / length
    for position, kind in zip(beats.position - start, beats.kind):
        if not 0 <= position < length:
            continue
        letters[int(position * scale)] = CLASSES[kind]
        first = int((position - AROUND_S[0] * rate_hz) * scale)
        last = int((position + AROUND_S[1] * rate_hz) * scale)
        for column in range(max(first, 0), min(last + 1, width)):
            styles[column] = STYLES[kind]

    out = Text()
    for letter, style in zip(letters, styles):
        out.append(letter, style)
    for row in cells:
        out.append("\n")
        for cell, style in zip(row, styles):
            out.append(chr(BRAILLE + int(cell)), style)
    return out.append("\n" + _times(start, length, width, rate_hz), "dim")


def in_ascii(strip: Text) -> Text:
    """A strip for a terminal without braille: of each character, whether its halves have dots."""
    upper, lower = int(DOTS[:2].sum()), int(DOTS[2:].sum())
    shown = {BRAILLE + cell: ASCII[bool(cell & upper) + 2 * bool(cell & lower)]
             for cell in range(256)}
    out = strip.copy()
    out.plain = strip.plain.translate(shown)
    return out


def _times(start: int, length: int, width: int, rate_hz: float) -> str:
    """minutes:seconds under every second second of the strip."""
    line = [" "] * (width + 5)
    first, last = math.ceil(start / rate_hz), int((start + length) / rate_hz)
    for second in range(first, last + 1, 2):
        at = int((second * rate_hz - start) * width / length)
        if at < width - 4:
            line[at : at + 5] = f"{second // 60}:{second % 60:02d} "
    return "".join(line).rstrip()


def draw_picture(file: BinaryIO, lead_mv: Array, beats: Beats, title: str) -> None:
    """Write a PNG of a recording, or its first half hour, in rows of 30 s.

    Raises BadInput without matplotlib.
    """
    if find_spec("matplotlib") is None:
        raise BadInput("--picture needs matplotlib: pip install 'edgesparse[ecg]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    row = ROW_S * SAMPLE_RATE_HZ
    rows = min(-(-len(lead_mv) // row), MAX_ROWS)
    figure = Figure(figsize=(16, 1.2 * rows + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title)
    low, high = np.percentile(lead_mv, (0.05, 99.95))
    for number, axes in enumerate(figure.subplots(rows, 1, squeeze=False)[:, 0]):
        start = number * row
        time = np.arange(start, min(start + row, len(lead_mv))) / SAMPLE_RATE_HZ
        axes.plot(time, lead_mv[start : start + row], color="#8c959f", linewidth=0.6)
        for position, kind in zip(beats.position, beats.kind):
            if not start <= position < start + row:
                continue
            first = max(int(position - AROUND_S[0] * SAMPLE_RATE_HZ), 0)
            last = min(int(position + AROUND_S[1] * SAMPLE_RATE_HZ), len(lead_mv))
            axes.plot(np.arange(first, last) / SAMPLE_RATE_HZ, lead_mv[first:last],
                      color=COLOURS[kind], linewidth=0.9)
            axes.text(position / SAMPLE_RATE_HZ, high + 0.7, CLASSES[kind], color=COLOURS[kind],
                      ha="center", va="top", fontsize=7)
        axes.set_xlim(start / SAMPLE_RATE_HZ, (start + row) / SAMPLE_RATE_HZ)
        axes.set_ylim(low - 0.2, high + 0.8)
        axes.set_ylabel("mV")
        axes.margins(x=0)
    axes.set_xlabel("seconds")
    figure.savefig(file, dpi=100, format="png")
