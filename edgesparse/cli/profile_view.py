"""The tables of edgesparse profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Any

from edgesparse.cli.console import Cell, amount, percent, say, table
from edgesparse.cli.names import short_names
from edgesparse.profiling.energy import FLASH_SETTINGS
from edgesparse.profiling.profile import (
    CPU,
    MERGED,
    NPU,
    SHARES,
    HostProfile,
    LayerProfile,
    Profile,
)
from edgesparse.profiling.report import MODEL, Row, unit_of

HEADS = {"requant": "req", "vector": "vec", "control": "ctrl", "stall_dma": "DMA",
         "stall_fetch": "fetch", "mac": "MAC"}
"""Heads of columns for names of SHARES that are too long for one, or abbreviations."""


def show_profile(found: Profile, names: Sequence[str], title: str) -> None:
    run, runs = ("hop", "hops") if found.stream else ("run", "runs")
    launch, fetch = found.knobs.launch_cycles, "counted" if found.knobs.fetch else "not counted"
    say(f"{title} on {found.on}: emulated cycles a {run}, mean of {found.runs:,} {runs}", "bold")
    say(f"launch {launch:,} cycles, instruction fetch {fetch}, "
        f"scan width {found.knobs.scan_width or found.config.scan_width}")
    say()
    _show_cycles(found, names)
    say()
    _show_work(found, names)
    say()
    _show_traffic(found, names)
    say()
    _show_sums(found, names, run)


def _show_cycles(found: Profile, names: Sequence[str]) -> None:
    rows: list[Sequence[Cell]] = []
    for name, layer in zip(names, found.layers):
        if layer.where != NPU:
            rows.append([name, "on the CPU" if layer.where == CPU else "above"])
        if layer.where == NPU or layer.cycles:
            rows.append(_cycle_row(name if layer.where == NPU else "  NPU waits", layer))
    if found.knobs.launch_cycles:
        rows.append(["launch", round(found.launch_cycles)])
    if found.rest_cycles:
        rows.append(["at the end", round(found.rest_cycles)])
    rows.append(_cycle_row("in all", found.total))
    width = 4 + len(SHARES)
    table(("layer", "cycles>", "most>", "bound>", *(f"{HEADS.get(n, n)}>" for n in SHARES)),
          [[*row, *[""] * (width - len(row))] for row in rows],
          "emulated cycles; where they go: DMA and fetch are waiting")
    if any(layer.where == MERGED for layer in found.layers):
        say("above: the kernel of the layer above it stores its result")


def _cycle_row(name: str, layer: LayerProfile) -> list[Cell]:
    parts = [percent(share) for share in layer.shares.values()]
    return [name, round(layer.cycles), layer.most_cycles, layer.bound_cycles, *parts]


def _show_work(found: Profile, names: Sequence[str]) -> None:
    rows = [_work_row(name, layer, found) for name, layer in zip(names, found.layers)
            if layer.dense_macs]
    rows.append(_work_row("in all", found.total, found))
    table(("layer", "MACs>", "issued>", "w = 0>", "x = 0>", "lanes>", "efficiency>"), rows,
          "MACs: dense, issued, skipped for a weight or an activation; use of lanes")


def _work_row(name: str, layer: LayerProfile, found: Profile) -> list[Cell]:
    use, efficiency = layer.lane_use(found.config.lanes), layer.sparse_efficiency
    dense = max(1.0, layer.dense_macs)
    return [
        name, _amount(layer.dense_macs), _amount(layer.mean("mac_issued")),
        percent(layer.mean("mac_skip_w") / dense), percent(layer.mean("mac_skip_a") / dense),
        "" if use is None else percent(use), "" if efficiency is None else f"{efficiency:.2f}"]


def _show_traffic(found: Profile, names: Sequence[str]) -> None:
    rows = [_traffic_row(name, layer) for name, layer in zip(names, found.layers)
            if layer.where == NPU]
    rows.append(_traffic_row("in all", found.total))
    table(("layer", "flash in>", "DRAM in>", "DRAM out>", "fetched>", "stores skipped>", "nJ>"),
          rows, "bytes of DMA, many for the layers that follow, and of instructions; energy")


def _traffic_row(name: str, layer: LayerProfile) -> list[Cell]:
    traffic = (_amount(layer.mean(counter)) for counter in (
        "dma_flash_rd_bytes", "dma_dram_rd_bytes", "dma_dram_wr_bytes", "cmd_fetch_bytes",
        "vec_store_skipped"))
    return [name, *traffic, _amount(layer.energy(MODEL).total / 1000)]


def _amount(value: float) -> str:
    return amount(round(value))


def _show_sums(found: Profile, names: Sequence[str], run: str) -> None:
    total = found.total
    say(f"bound   {total.bound_cycles:,} emulated cycles a {run} whatever the input, "
        f"{total.most_cycles:,} were the most")
    if total.dense_cycles:
        say(f"dense   {total.dense_cycles:,} with every weight stored and nothing skipped: "
            f"{total.dense_cycles / total.cycles:.2f} x")
    else:
        say("dense   with every weight stored a layer would not fit the NPU")
    on_cpu = [name for name, layer in zip(names, found.layers) if layer.where == CPU]
    if on_cpu:
        say(f"CPU     on the CPU, and in none of these cycles: {', '.join(on_cpu)}")
    if found.reset["cycles"]:
        say(f"reset   {found.reset['cycles']:,} emulated cycles once, "
            f"{found.reset['dma_flash_rd_bytes']:,} bytes from flash")
    energy = total.energy(MODEL)
    parts = ", ".join(f"{name} {getattr(energy, name) / 1000:.4g}"
                      for name in ("mac", "sram", "dram", "flash"))
    say(f"energy  {energy.total / 1000:.4g} nJ a {run}, an estimate: {parts}")
    say(f"        pJ: {MODEL.mac_pj} a MAC; a byte {MODEL.sram_pj_per_byte} SRAM, "
        f"{MODEL.dram_pj_per_byte} DRAM, {MODEL.flash_pj_per_byte} flash (assumed)")
    if not isnan(found.energy_ratio(MODEL)):
        low, _, high = (_ratio(found, flash) for flash in FLASH_SETTINGS)
        now = _ratio(found, MODEL.flash_pj_per_byte)
        say(f"        {now} of dense; {low} to {high} with flash at {FLASH_SETTINGS[0]:g} to "
            f"{FLASH_SETTINGS[-1]:g} pJ")


def _ratio(found: Profile, flash: float) -> str:
    return f"{found.energy_ratio(replace(MODEL, flash_pj_per_byte=flash)):.2f}"


def show_host(found: HostProfile, names: Sequence[str], title: str) -> None:
    what = "hops" if found.stream else "runs"
    say(f"{title} on the portable core of this computer: share of the time of all layers, "
        f"median of {found.rounds} times {found.runs:,} {what}", "bold")
    table(("layer", "times run>", "share>"),
          [(name, layer.runs, f"{100 * layer.share:.1f}%")
           for name, layer in zip(names, found.layers)])


def show_comparison(rows: Sequence[Row], now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Ratios below 1: less than before."""
    unit = unit_of(now) + (" a run" if "total" in now else "")
    say(f"{unit}: on {now['on']} against {before['on']} before", "bold")
    for what in dict.fromkeys([*_settings(now), *_settings(before)]):
        ours, theirs = _settings(now).get(what), _settings(before).get(what)
        if ours != theirs:
            say(f"note: {what} {ours} against {theirs} before", "yellow")
    names = short_names([row.name for row in rows])
    table(("layer", "now>", "before>", "ratio>", "energy>"),
          [(name, _number(row.now), _number(row.before), _times(row.ratio),
            _times(row.energy_ratio)) for name, row in zip(names, rows)])


def _settings(profile: Mapping[str, Any]) -> dict[str, Any]:
    return {"stream": profile.get("stream"), "runs": profile.get("runs"),
            **profile.get("knobs", {})}


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.3f}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
