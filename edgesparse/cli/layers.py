"""The tables and the JSON about the layers of a plan that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from edgesparse.cli.console import Cell, amount, percent, shape, table
from edgesparse.cli.names import short_names
from edgesparse.plan.plan import IoInfo, LayerInfo, Plan

KINDS = {"fully_connected": "fc", "depthwise": "dwconv", "add_single_requant": "add"}
"""Kinds whose name is too long for a column."""


def layer_table(layers: Sequence[LayerInfo], title: str = "") -> None:
    """One line per step, and the sums of those that have weights."""
    rows: list[list[Cell]] = []
    for name, layer in zip(short_names([layer.name for layer in layers]), layers):
        row: list[Cell] = [name, KINDS.get(layer.kind, layer.kind), shape(layer.outputs[0][1:])]
        if layer.macs:
            row += [amount(layer.macs), amount(layer.macs_stored), percent(layer.zeros),
                    _encodings(layer), layer.weight_bytes, layer.dense_bytes]
        rows.append(row + [""] * (9 - len(row)))
    sums = totals(layers)
    rows.append(["in all", "", "", amount(sums["macs"]), amount(sums["macs_stored"]),
                 percent(sums["zeros"]), "", sums["weight_bytes"], sums["dense_bytes"]])
    table(("layer", "kind", "output", "MACs>", "stored>", "zero>", "encoding", "bytes>",
           "dense>"), rows, title)


def totals(layers: Sequence[LayerInfo]) -> dict[str, Any]:
    """Sums over all layers; `zeros` is the share of all weights that are zero."""
    weights = sum(layer.dense_bytes for layer in layers)
    zeros = sum(layer.zeros * layer.dense_bytes for layer in layers)
    return {
        "macs": sum(layer.macs for layer in layers),
        "macs_stored": sum(layer.macs_stored for layer in layers),
        "zeros": zeros / weights if weights else 0.0,
        "weight_bytes": sum(layer.weight_bytes for layer in layers),
        "dense_bytes": weights,
    }


def _encodings(layer: LayerInfo) -> str:
    names = list(dict.fromkeys(group.encoding for group in layer.encodings))
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"


def layer_json(layers: Sequence[LayerInfo], reasons: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The layers with every field, and the reason for the encoding where it is known."""
    rows = [asdict(layer) for layer in layers]
    for row, reason in zip(rows, reasons):
        row["reason"] = reason
    return rows


def io_json(ios: Sequence[IoInfo]) -> list[dict[str, Any]]:
    return [asdict(io) for io in ios]


def io_text(io: IoInfo) -> str:
    """name [1, 1440, 1] int8 (scale 0.02475, zero point -16)"""
    kind = ("float32, quantized with" if io.float_io else
            "uint8 (stored + 128)," if io.uint8_io else "int8,")
    return f"{io.name} {list(io.shape)} {kind} scale {io.scale:.6g}, zero point {io.zero_point}"


def plan_json(plan: Plan) -> dict[str, Any]:
    """What every command that shows a plan says of it."""
    return {
        "target": plan.model.target,
        "producer": plan.model.producer,
        "digest": plan.digest,
        "ram_bytes": plan.ram_bytes,
        "state_bytes": plan.model.state_bytes,
        "flash_bytes": plan.flash_bytes,
        "inputs": io_json(plan.inputs),
        "outputs": io_json(plan.outputs),
        "totals": totals(plan.layers),
    }
