"""The table of edgesparse profile on a device."""

from __future__ import annotations

from collections.abc import Sequence

from edgesparse.cli.console import Cell, percent, say, table
from edgesparse.profiling.device import QEMU, TICKS, DeviceLayer, DeviceProfile


def show_device(found: DeviceProfile, names: Sequence[str], title: str) -> None:
    run, runs = ("hop", "hops") if found.stream else ("run", "runs")
    say(f"{title} on {found.on}: {found.unit} a {run}, mean of {found.runs:,} {runs}", "bold")
    say(milliseconds_text(found))
    say()
    rows = [_row(name, layer, found) for name, layer in zip(names, found.layers)]
    front = "front end, rest" if found.stream else "between layers"
    rows.append(_row(front, DeviceLayer(-1, front, found.runs, found.rest, None), found))
    rows.append(_row("in all", found.total, found))
    heads = ("layer", "runs>", f"{found.unit}>", "most>", "share>", "ms>")
    empty = [k for k in range(len(heads)) if all(row[k] is None for row in rows)]
    table([head for k, head in enumerate(heads) if k not in empty],
          [[cell for k, cell in enumerate(row) if k not in empty] for row in rows])


def milliseconds_text(found: DeviceProfile) -> str:
    """What milliseconds are, or why there are none."""
    if found.unit == TICKS:
        return f"measured: a tick is {1e9 / found.hz:.4g} ns of the device's clock"
    if found.cycles_per_instruction is None:
        return "no milliseconds: nobody has assumed how many cycles an instruction takes there"
    return (f"milliseconds assume {found.cycles_per_instruction:g} cycles per instruction "
            f"(targets/{found.on.removeprefix(QEMU)}.toml), at {found.hz / 1e6:g} MHz (--clock)")


def _row(name: str, layer: DeviceLayer, found: DeviceProfile) -> list[Cell]:
    ms = found.milliseconds(layer.cost)
    return [name, layer.runs, round(layer.cost), layer.most, percent(found.share(layer)),
            None if ms is None else f"{ms:.3f}"]
