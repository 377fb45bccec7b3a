"""How the command line looks: tables, numbers, errors, progress. The only printing there is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

Cell = str | int | float | Text | None


def stdout() -> Console:
    """Made anew each time: the streams may have been redirected meanwhile."""
    return Console(highlight=False, emoji=False, markup=False)


def stderr() -> Console:
    return Console(stderr=True, highlight=False, emoji=False, markup=False)


def say(line: str = "", style: str = "") -> None:
    """One line of the user's, never cut and never taken for markup."""
    stdout().print(Text(line, style), soft_wrap=True)


def fail(message: str) -> None:
    """An error; its first word is red where there is colour."""
    stderr().print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)


def emit(data: Any) -> None:
    """One JSON object. Numbers JSON does not have become null."""
    stdout().file.write(json.dumps(_finite(data), indent=2, allow_nan=False) + "\n")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], title: str = "", flexible: int = 0
) -> None:
    """Print a table. A name ending in ">" is right-aligned; `flexible` is cut where space lacks."""
    out = Table(
        box=None, pad_edge=False, padding=(0, 1), title=title or None, title_justify="left",
        title_style="bold", header_style="dim")
    for number, name in enumerate(columns):
        flexes = number == flexible
        out.add_column(
            name.rstrip(">"), justify="right" if name.endswith(">") else "left",
            no_wrap=True, overflow="ellipsis", min_width=8 if flexes else None,
            ratio=None)
    for row in rows:
        out.add_row(*(cell if isinstance(cell, Text) else Text(_text(cell)) for cell in row))
    stdout().print(out)


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
    return f"{100 * part:.0f}%"


def shape(dims: Iterable[int]) -> str:
    return "x".join(map(str, dims))


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Progress]:
    """A bar on stderr while something takes time; nothing where no one watches."""
    console = stderr()
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal)
    with bar:
        bar.add_task(title, total=total)
        yield bar
