"""What a run may take on a device: a time, or a number of what the device counts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from edgesparse.errors import BadInput
from edgesparse.profiling.budget import NUMBER, SECONDS, parse_clock
from edgesparse.profiling.device import INSTRUCTIONS, TICKS, DeviceProfile

TIME = re.compile(rf"{NUMBER} ?(us|ms|s)(?:@(\S+))?", re.IGNORECASE)
COUNT = re.compile(r"(\d[\d_,]{0,24}) ?(instructions|ticks)", re.IGNORECASE)


@dataclass(frozen=True)
class DeviceBudget:
    """text: as the user said it; either seconds, with clock_hz of the core or None, or a count of
    `unit`."""

    text: str
    seconds: Fraction | None = None
    clock_hz: int | None = None
    count: int = 0
    unit: str = ""

    def cost(self, found: DeviceProfile) -> float:
        """In the unit of a profile. Raises BadInput where that cannot be said."""
        if self.seconds is None:
            if self.unit != found.unit:
                raise BadInput(f"budget {self.text}: {found.on} counts {found.unit}")
            return self.count
        if found.unit == TICKS:
            if self.clock_hz is not None:
                raise BadInput(f"budget {self.text}: {found.on} is a device with a clock of its "
                               "own; give the time alone")
            return float(self.seconds * found.hz)
        if found.cycles_per_instruction is None:
            raise BadInput(f"budget {self.text}: nobody has assumed how many cycles an instruction "
                           f"takes on {found.on}; give the budget as N instructions")
        return float(self.seconds) * found.hz / found.cycles_per_instruction


def parse_device_budget(text: str) -> DeviceBudget:
    """44ms, 44ms@64MHz, 300000 instructions, 1500000 ticks. Raises BadInput for anything else."""
    if found := TIME.fullmatch(text):
        seconds = Fraction(found[1]) * SECONDS[found[2].lower()]
        return DeviceBudget(text, seconds, parse_clock(found[3]) if found[3] else None)
    if found := COUNT.fullmatch(text):
        unit = TICKS if found[2].lower() == TICKS else INSTRUCTIONS
        return DeviceBudget(text, count=int(re.sub("[_,]", "", found[1])), unit=unit)
    raise BadInput(f"budget {text!r}: allowed are a time, such as 44ms or 44ms@64MHz, and a count, "
                   "such as 300000 instructions or 1500000 ticks")
