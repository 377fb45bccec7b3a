"""Profiles as JSON objects, and two of them side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from edgesparse.errors import BadInput
from edgesparse.npu.isa import COUNTERS
from edgesparse.plan.plan import Plan
from edgesparse.profiling.device import DeviceLayer, DeviceProfile
from edgesparse.profiling.energy import FLASH_SETTINGS, EnergyModel
from edgesparse.profiling.profile import CPU, HostProfile, LayerProfile, Profile

KIND = "edgesparse profile"
VERSION = 1
"""Of the object; another one is not compared."""
MODEL = EnergyModel()
MOST = 10**18
"""No cost is above it, in cycles or pJ."""


def profile_json(found: Profile | HostProfile | DeviceProfile, plan: Plan) -> dict[str, Any]:
    """Everything about a profile; cycles and counters are means of the runs."""
    sha = plan.model.source_sha256
    head = {
        "kind": KIND, "version": VERSION, "on": found.on,
        "model": plan.model.names.model if plan.model.names else "",
        "model_sha256": sha.hex() if sha else None, "plan_digest": plan.digest,
        "stream": found.stream, "runs": found.runs,
    }
    if isinstance(found, HostProfile):
        return head | {"rounds": found.rounds, "layers": [asdict(layer) for layer in found.layers]}
    if isinstance(found, DeviceProfile):
        return head | _of_device(found)
    return head | {
        "knobs": {"launch_cycles": found.knobs.launch_cycles, "fetch": found.knobs.fetch,
                  "scan_width": found.knobs.scan_width or found.config.scan_width},
        "launch_cycles": found.launch_cycles,
        "rest_cycles": found.rest_cycles,
        "on_cpu": [layer.name for layer in found.layers if layer.where == CPU],
        "total": _layer(found.total, found.config.lanes),
        "layers": [_layer(layer, found.config.lanes) for layer in found.layers],
        "reset": found.reset,
        "energy": _energy(found),
    }


def _of_device(found: DeviceProfile) -> dict[str, Any]:
    """cost: in `unit`, mean of the runs; ms by the clock and, of instructions, the assumption."""
    def told(layer: DeviceLayer) -> dict[str, Any]:
        return asdict(layer) | {"ms": found.milliseconds(layer.cost)}

    return {
        "unit": found.unit, "hz": found.hz,
        "assumed_cycles_per_instruction": found.cycles_per_instruction,
        "rest": found.rest, "total": told(found.total),
        "layers": [told(layer) for layer in found.layers]}


def _layer(layer: LayerProfile, lanes: int) -> dict[str, Any]:
    energy = layer.energy(MODEL)
    return {
        "step": layer.step, "name": layer.name, "where": layer.where,
        "emulated_cycles": layer.cycles, "most_emulated_cycles": layer.most_cycles,
        "bound_emulated_cycles": layer.bound_cycles, "dense_emulated_cycles": layer.dense_cycles,
        "shares": layer.shares, "dense_macs": layer.dense_macs,
        "lane_use": layer.lane_use(lanes), "sparse_efficiency": layer.sparse_efficiency,
        "energy_pj": asdict(energy) | {"total": energy.total},
        "counters": {name: layer.mean(name) for name in COUNTERS},
    }


def _energy(found: Profile) -> dict[str, Any]:
    """The constants of the estimate, and how far the one that is assumed decides the result."""
    return {
        "estimate_with": asdict(MODEL), "assumed": ["flash_pj_per_byte"],
        "ratio_to_dense": [
            {"flash_pj_per_byte": flash,
             "ratio": found.energy_ratio(replace(MODEL, flash_pj_per_byte=flash))}
            for flash in FLASH_SETTINGS],
    }


@dataclass(frozen=True)
class Row:
    """A layer in two profiles: emulated cycles (on the host: share of time) and estimated pJ of a
    run; None where one of them has no such layer, or no estimate."""

    name: str
    now: float | None
    before: float | None
    now_pj: float | None
    before_pj: float | None

    @property
    def ratio(self) -> float | None:
        return self.now / self.before if self.now is not None and self.before else None

    @property
    def energy_ratio(self) -> float | None:
        return self.now_pj / self.before_pj if self.now_pj is not None and self.before_pj else None


def compare(now: Mapping[str, Any], before: Any) -> tuple[Row, ...]:
    """Rows of all layers, in the order of `now`, then those of `before` alone, then the sum.

    Both as profile_json() made them. Raises BadInput when `before` is no profile, of another model,
    or one cannot be set against the other.
    """
    _check(now, before)
    return _rows(now, before)


def _check(now: Mapping[str, Any], before: Any) -> None:
    if not isinstance(before, dict) or before.get("kind") != KIND:
        raise BadInput("--compare: not what `edgesparse profile --json` prints")
    if before.get("version") != VERSION:
        raise BadInput(
            f"--compare: version {before.get('version')}, {VERSION} is read here; make it anew")
    if not _is_whole(before):
        raise BadInput("--compare: the profile is damaged; make it anew with --json")
    if _identity(now) != _identity(before):
        raise BadInput(
            f"--compare: a profile of {before.get('model') or 'another model'}, this is "
            f"{now['model'] or 'another one'}; profiles of the same model file can be compared")
    if unit_of(now) != unit_of(before):
        raise BadInput(
            f"--compare: made on {before.get('on')}, this is on {now['on']}; {unit_of(before)} and "
            f"{unit_of(now)} do not compare")


def unit_of(profile: Mapping[str, Any]) -> str:
    """What the costs of a profile are."""
    return str(profile.get("unit", "emulated cycles" if "total" in profile else "shares of time"))


def _is_whole(profile: dict[str, Any]) -> bool:
    """Whether all that is read below is there."""
    layers, knobs = profile.get("layers"), profile.get("knobs", {})
    if not (isinstance(layers, list) and isinstance(knobs, dict)
            and isinstance(profile.get("on"), str)):
        return False
    parts = [*layers, profile["total"]] if "total" in profile else layers
    return all(isinstance(part, dict) and isinstance(part.get("name"), str)
               and _is_cost(part, unit_of(profile)) for part in parts)


def _is_cost(layer: Mapping[str, Any], unit: str) -> bool:
    energy = layer.get("energy_pj", {})
    wanted = (
        [layer.get("emulated_cycles"), energy.get("total") if isinstance(energy, dict) else None]
        if unit == "emulated cycles" else [layer.get("share", layer.get("cost"))])
    return all(isinstance(number, (int, float)) and 0 <= number <= MOST for number in wanted)


def _identity(profile: Mapping[str, Any]) -> tuple[Any, ...]:
    """The model file; where a plan does not say it, names of model and layers."""
    if profile.get("model_sha256"):
        return (profile["model_sha256"],)
    return (profile.get("model"), *(layer["name"] for layer in profile["layers"]))


def _rows(now: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[Row, ...]:
    ours, theirs = _by_name(now["layers"]), _by_name(before["layers"])
    rows = [_row(key[0], ours.get(key), theirs.get(key))
            for key in dict.fromkeys([*ours, *theirs])]
    if "total" in now:
        rows.append(_row("in all", now["total"], before["total"]))
    return tuple(rows)


def _by_name(layers: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], Mapping[str, Any]]:
    """Steps of one layer share its name: the first, the second ..."""
    found: dict[tuple[str, int], Mapping[str, Any]] = {}
    seen = Counter[str]()
    for layer in layers:
        found[layer["name"], seen[layer["name"]]] = layer
        seen[layer["name"]] += 1
    return found


def _row(name: str, now: Mapping[str, Any] | None, before: Mapping[str, Any] | None) -> Row:
    return Row(name, _cost(now), _cost(before), _picojoules(now), _picojoules(before))


def _cost(layer: Mapping[str, Any] | None) -> float | None:
    if layer is None:
        return None
    return float(next(layer[key] for key in ("share", "cost", "emulated_cycles") if key in layer))


def _picojoules(layer: Mapping[str, Any] | None) -> float | None:
    return float(layer["energy_pj"]["total"]) if layer and "energy_pj" in layer else None
