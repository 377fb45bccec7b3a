"""What a plan costs on an emulated NPU, by layer of the user's model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from edgesparse.graph.ir import Array
from edgesparse.npu.isa import COUNTERS
from edgesparse.profiling.bound import step_cycles
from edgesparse.profiling.energy import Energy, EnergyModel, energy_of
from edgesparse.runtime.npu import Counters, NpuKnobs
from edgesparse.target import NpuConfig

NPU, CPU, MERGED = "npu", "cpu", "with the layer before"
"""Who runs a step; MERGED: the kernel of the step before stores its result."""
INDEX = ("index_cyc", "scan_extra", "gather_conflict_cyc")
"""Parts of mac_cyc that multiply nothing: finding columns, looking for zeros, banks in conflict."""
SHARES = ("mac", "index", "requant", "vector", "control", "stall_dma", "stall_fetch")
"""Where cycles go; together they are all of a layer's."""


@dataclass(frozen=True)
class LayerProfile:
    """One step of a plan over some runs.

    name          of the user's layers in it
    counters      docs/NPU.md section 7, sums over all runs; cycles without the launch
    runs          how many
    most_cycles   in one run
    bound_cycles  in the run of the bound
    dense_cycles  in the dense twin: every weight stored, nothing skipped, no data; 0: dense, it
                  would be the CPU's
    """

    step: int
    name: str
    where: str
    counters: Counters
    runs: int
    most_cycles: int
    bound_cycles: int
    dense_cycles: int

    def mean(self, counter: str) -> float:
        """Of a counter, a run."""
        return self.counters[counter] / self.runs

    @property
    def cycles(self) -> float:
        """Emulated, mean of the runs."""
        return self.mean("cycles")

    @property
    def shares(self) -> dict[str, float]:
        """SHARES -> of the layer's cycles; zeros where it takes none."""
        c, index = self.counters, sum(self.counters[name] for name in INDEX)
        parts = (c["mac_cyc"] - index, index, c["req_cyc"] + c["lut_cyc"], c["vec_cyc"],
                 c["issue"], c["stall_dma"], c["stall_fetch"])
        return {name: part / max(1, c["cycles"]) for name, part in zip(SHARES, parts)}

    @property
    def dense_macs(self) -> float:
        """Products of the geometry, a run: issued, and skipped for a weight or an activation."""
        return self.mean("mac_issued") + self.mean("mac_skip_w") + self.mean("mac_skip_a")

    def lane_use(self, lanes: int) -> float | None:
        """Share of lanes that multiply while the MAC array is busy; None: it never is."""
        busy = self.counters["mac_cyc"]
        return self.counters["mac_issued"] / (lanes * busy) if busy else None

    @property
    def sparse_efficiency(self) -> float | None:
        """How much of the products left out comes back as cycles: 1 is all.

        (dense cycles / cycles) / (dense products / issued ones), with everything counted on both
        sides; None: nothing was issued, or there is no dense twin.
        """
        issued, cycles = self.counters["mac_issued"], self.counters["cycles"]
        if not issued or not cycles or not self.dense_cycles:
            return None
        return self.dense_cycles / self.cycles / (self.dense_macs * self.runs / issued)

    def energy(self, model: EnergyModel) -> Energy:
        """Estimate for one run."""
        return energy_of({name: self.mean(name) for name in COUNTERS}, model)


@dataclass(frozen=True, eq=False)
class Profile:
    """A plan on an emulated NPU.

    on        the target
    knobs     how it was counted
    layers    one entry a step, in order
    total     of everything: its counters have the launch, and what no layer has
    stream    whether a run is a hop
    reset     counters of the prologue, once before the first run
    dense     counters of the dense twin, one run
    trace     [events] of the last run (runtime.npu.EVENT); empty unless asked for
    marks     of the last run, a step's counters each
    """

    on: str
    config: NpuConfig
    knobs: NpuKnobs
    layers: tuple[LayerProfile, ...]
    total: LayerProfile
    stream: bool
    reset: Counters
    dense: Counters
    trace: Array
    marks: tuple[Counters, ...]

    @property
    def runs(self) -> int:
        return self.total.runs

    @property
    def launch_cycles(self) -> float:
        """A run."""
        return self.total.mean("launch_cyc")

    @cached_property
    def rest_cycles(self) -> float:
        """A run: after the last layer, such as the wait for its last store."""
        return self.total.cycles - self.launch_cycles - sum(layer.cycles for layer in self.layers)

    def energy_ratio(self, model: EnergyModel) -> float:
        """Of a run against the dense twin; NaN where there is none, or all of it is the CPU's."""
        dense = energy_of(self.dense, model).total
        if not self.total.dense_cycles or not dense:
            return float("nan")
        return self.total.energy(model).total / dense


@dataclass(frozen=True)
class HostLayer:
    """A step on the portable core: how often it ran in a round, its share of the time of all."""

    step: int
    name: str
    runs: int
    share: float


@dataclass(frozen=True)
class HostProfile:
    """A plan on the portable core of this computer; times are shares, nothing else carries over.

    runs    of the plan in a round; hops of a stream
    rounds  of which the median is taken, step by step
    """

    layers: tuple[HostLayer, ...]
    stream: bool
    runs: int
    rounds: int
    on: str = "host"


class Tally:
    """Adds up runs of a machine."""

    def __init__(self, steps: int) -> None:
        self.total: Counters = dict.fromkeys(COUNTERS, 0)
        self.steps: list[Counters] = [dict.fromkeys(COUNTERS, 0) for _ in range(steps)]
        self.most = [0] * steps
        self.most_in_all = self.runs = 0

    def add(self, counters: Mapping[str, int], marks: tuple[Counters, ...]) -> None:
        self.runs += 1
        self.most_in_all = max(self.most_in_all, counters["cycles"])
        _sum_up(self.total, counters)
        for step, mark in enumerate(marks):
            # The launch is counted before the first step and belongs to none.
            own = mark | {"cycles": step_cycles(mark), "launch_cyc": 0}
            self.most[step] = max(self.most[step], own["cycles"])
            _sum_up(self.steps[step], own)


def _sum_up(sums: Counters, counters: Mapping[str, int]) -> None:
    for name, value in counters.items():
        sums[name] += value
