"""How the command line looks: tables, numbers, errors, progress. The only printing there is."""

from __future__ import annotations

import errno
import json
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

Cell = str | int | float | Text | None
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended: 128 + 2, as a shell says it."""
GAP = 2
"""Spaces between columns."""
HANG = 4
"""Further lines of a broken one are indented by so much more."""
ERROR = "error: "
NARROWEST = 12
"""Characters the first column keeps, whatever the others need."""


class _Output(Console):
    """A closed pipe is the same error here as where JSON is written."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def stdout() -> Console:
    """Made anew each time: the streams may have been redirected meanwhile."""
    return _Output(highlight=False, emoji=False, markup=False)


def shows_braille(console: Console) -> bool:
    """Whether its encoding has the characters of a picture."""
    try:
        "\N{BRAILLE PATTERN DOTS-1}".encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def stderr() -> Console:
    return Console(stderr=True, highlight=False, emoji=False, markup=False)


def printable(text: str) -> str:
    """`text` without what a terminal would obey: names come from files of others."""
    return "".join(c if c == "\n" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def say(line: str = "", style: str = "") -> None:
    """One line of the user's, never cut and never taken for markup."""
    stdout().print(Text(printable(line), style), soft_wrap=True)


def note(line: str, style: str = "") -> None:
    """As say(), broken between words where it is longer than the terminal is wide."""
    console = stdout()
    say(wrapped(line, console.width) if console.is_terminal else line, style)


def wrapped(text: str, width: int) -> str:
    """Each line of `text` in lines of at most `width`, but for longer words; all but the first
    are indented by what the first is, and more."""
    return "\n".join(
        textwrap.fill(
            line, max(width, NARROWEST), subsequent_indent=" " * (_indent(line) + HANG),
            break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n"))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def fail(message: str) -> None:
    """An error; its first word is red where there is colour."""
    console = stderr()
    text = f"{ERROR}{printable(message)}"
    if console.is_terminal:
        text = wrapped(text, console.width)
    console.print(Text.assemble((ERROR, "bold red"), text[len(ERROR) :]), soft_wrap=True)


def emit(data: Any) -> None:
    """One JSON object. Numbers JSON does not have become null."""
    stdout().file.write(json.dumps(_finite(data), indent=2, allow_nan=False) + "\n")


def emit_line(data: Any) -> None:
    """One JSON object on one line, at once: who reads a pipe sees it when it happens."""
    file = stdout().file
    file.write(json.dumps(_finite(data), allow_nan=False) + "\n")
    file.flush()


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], title: str = "") -> None:
    """Print a table; a column whose name ends in ">" is aligned to the right.

    The first column is cut in the middle where the others leave it too little room.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    names = [name.rstrip(">") for name in columns]
    console = stdout()
    widths = [max([cell_len(name), *(row[i].cell_len for row in cells)])
              for i, name in enumerate(names)]
    wanted, others, gaps = widths[0], sum(widths[1:]), len(names) - 1
    gap = GAP if wanted + others + GAP * gaps <= console.width else 1
    room = min(wanted, max(console.width - others - gap * gaps, NARROWEST))
    if title:
        say(title, "bold")
    out = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for column in columns:
        out.add_column(column.rstrip(">"), justify="right" if column.endswith(">") else "left",
                       no_wrap=True, overflow="crop")
    for first, *rest in cells:
        out.add_row(shortened(first, room), *rest)
    console.print(out, crop=False, width=room + others + gap * len(names))


def shortened(text: Text, room: int) -> Text:
    """`text` in `room` characters: the middle goes, names differ at their ends."""
    if text.cell_len <= room:
        return text
    head = (room - 1) // 2
    return Text.assemble(text[:head], "…", text[len(text) - (room - 1 - head) :])


def _cell(value: Cell) -> Text:
    return value if isinstance(value, Text) else Text(printable(_text(value)))


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def amount(number: int) -> str:
    """1,234 or 12.3 k or 4.56 M: at most six characters."""
    if number < 10_000:
        return f"{number:,}"
    value, unit = (number / 1e3, "k") if number < 999_500 else (number / 1e6, "M")
    return f"{value:.3g} {unit}" if value < 999.5 else f"{value:,.0f} {unit}"


def percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def shape(dims: Iterable[int]) -> str:
    return "x".join(map(str, dims))


@contextmanager
def bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr while something takes time, nothing where no one watches; gives what to
    call with how much of `total` is done."""
    console = stderr()
    shown = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal)
    with shown:
        task = shown.add_task(title, total=total)
        yield lambda done: shown.update(task, completed=done)


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar(); gives what to call after each of `total` parts."""
    done = count(1)
    with bar(title, total) as show:
        yield lambda: show(next(done))
