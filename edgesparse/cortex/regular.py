"""Mac steps that a kernel of a core takes whole: who is one (native/src/exec/regular.c)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from edgesparse.cortex.rows import Rows, rows_of
from edgesparse.plan import model as pm
from edgesparse.quantize.fixedpoint import Rounding

INT8 = (-128, 127)
FAST_SHIFTS = range(-20, 0)
"""Of a Requant, with a multiplier of 2**30 or more: what DSP kernels scale by SMMULR."""


@dataclass(frozen=True)
class Whole:
    """A convolution or fully connected layer with scaling and perhaps an addition.

    in_place   patches stand in the input: they need not be gathered
    ring       columns of the ring that the input stands in; 0: in none
    scattered  taps of a row of a patch do not stand side by side
    adds       an addition follows
    clamps     its values are clamped to less than int8
    each       every channel has a scale of its own
    slow       rows that DSP kernels scale the long way
    right      all scales are shifts to the right, all that Helium does
    rectified  nothing below the zero point is stored
    least      a weight is -128
    scratch    bytes
    """

    geometry: pm.Geometry
    rows: Rows
    in_place: bool = False
    ring: int = 0
    scattered: bool = False
    adds: bool = False
    clamps: bool = True
    each: bool = True
    slow: int = 0
    right: bool = True
    rectified: bool = True
    least: bool = False
    scratch: int = 1 << 30

    @property
    def columns(self) -> int:
        """Of the output."""
        return self.geometry.out_h * self.geometry.out_w

    @property
    def taps(self) -> int:
        return self.geometry.kernel_h * self.geometry.kernel_w

    @property
    def patch(self) -> int:
        """Bytes of the inputs of a column."""
        return self.taps * self.geometry.in_c

    @property
    def depthwise(self) -> bool:
        g = self.geometry
        return self.rows.name == "dense" and g.groups == g.in_c == g.rows

    @cached_property
    def inside(self) -> tuple[float, float, float]:
        return inside(self.geometry)

    @property
    def pieces(self) -> float:
        """Copies that make a patch."""
        return self.taps if self.scattered or self.ring else whole_pieces(self.geometry)

    @property
    def copied_rows(self) -> float:
        """Rows of taps that are copied for a patch, where Helium does it: none if the patch stands
        in the input."""
        g, (_, inside, _) = self.geometry, self.inside
        if self.in_place:
            return 0.0
        if g.kernel_h > 1 or self.scattered:
            return g.kernel_h
        wrapped = (g.kernel_w - 1) / self.ring if self.ring else 0.0
        return 1 - inside * (1 - wrapped)


def inside(g: pm.Geometry) -> tuple[float, float, float]:
    """Shares: of the rows of taps those in the image; of the columns of a row of outputs those
    whose taps are all in the image; and taps in the image along a row, on average."""
    y = np.arange(g.out_h)[:, None] * g.stride_h + np.arange(g.kernel_h) * g.dilation_h
    x = np.arange(g.out_w)[:, None] * g.stride_w + np.arange(g.kernel_w) * g.dilation_w
    rows = (y >= g.pad_top) & (y < g.pad_top + g.in_h)
    taps = (x >= g.pad_left) & (x < g.pad_left + g.in_w)
    return float(rows.mean()), float(taps.all(axis=1).mean()), float(taps.sum(axis=1).mean())


def whole_pieces(g: pm.Geometry) -> float:
    """Copies that make a patch, on average: taps in the padding one by one, the others of a row at
    once."""
    rows, _, taps = inside(g)
    per_row = g.kernel_w - taps + (taps > 0)
    return g.kernel_h * (rows * per_row + (1 - rows) * g.kernel_w)


def pieces(g: pm.Geometry, given: pm.Place) -> float:
    """The same of an input wherever it stands."""
    if g.dilation_w > 1 or given.ring >= 0 or given.pitch != g.in_c:
        return g.kernel_h * g.kernel_w
    return whole_pieces(g)


def whole_of(plan: pm.PlanModel, step: pm.Step) -> Whole | None:
    """None: kernels do not take the step whole."""
    mac = step.source
    if not isinstance(mac, pm.Mac) or len(step.branches) != 1 or len(mac.weights.groups) != 1:
        return None
    (branch,), given = step.branches, plan.tensors[step.input].place
    if (mac.bias_form is not pm.BiasForm.FOLDED or mac.weights.row_order is not None
            or not branch.stages or len(branch.stages) > 2):
        return None
    out, requant = plan.tensors[branch.output].place, branch.stages[0]
    add = branch.stages[1] if len(branch.stages) == 2 else None
    if ({given.layout, out.layout} != {pm.Layout.NWC} or not isinstance(requant, pm.Requant)
            or requant.rounding is not Rounding.DOUBLE or not _adds_all(plan, add, out)):
        return None
    last = add if isinstance(add, pm.Add) else requant
    g, (group,) = mac.geometry, mac.weights.groups
    return Whole(
        g, rows_of(group, mac.weights.cols), in_place=stands(given, g),
        ring=plan.rings[given.ring].columns if given.ring >= 0 else 0,
        scattered=g.kernel_w > 1 and (g.dilation_w > 1 or given.pitch != g.in_c),
        adds=add is not None, clamps=(last.qmin, last.qmax) != INT8,
        each=len(requant.multiplier) == len(requant.shift) == g.rows,
        slow=_slow_rows(requant, g.rows),
        right=bool((requant.shift < 0).all()), rectified=requant.qmin >= requant.zero_point,
        least=bool((group.values == -128).any()), scratch=step.scratch_bytes)


def _slow_rows(requant: pm.Requant, rows: int) -> int:
    """DSP kernels scale four rows at a time, all of them the long way if one has to be."""
    if min(len(requant.shift), len(requant.multiplier)) < rows:
        return rows
    fast = np.isin(requant.shift, FAST_SHIFTS) & (requant.multiplier >= 1 << 30)
    fours = fast[: rows // 4 * 4].reshape(-1, 4).all(axis=1)
    return rows - 4 * int(np.count_nonzero(fours))


def _adds_all(plan: pm.PlanModel, add: pm.StageBody | None, out: pm.Place) -> bool:
    """Nothing, or a value for each."""
    if add is None:
        return True
    if not isinstance(add, pm.Add) or add.negate_value or add.negate_other:
        return False
    other = plan.tensors[add.operand].place
    return (other.layout, other.columns, other.channels) == (
        out.layout, out.columns, out.channels)


def stands(given: pm.Place, g: pm.Geometry) -> bool:
    """Whether all patches stand in the input side by side: es_mac_patch_bytes() == 0."""
    inside = (
        g.pad_top == g.pad_left == 0
        and (g.out_h - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h < g.in_h
        and (g.out_w - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w < g.in_w)
    one_tap = g.kernel_h == g.kernel_w == 1
    one_row = g.kernel_h == 1 and g.dilation_w == 1 and given.pitch == g.in_c and given.ring < 0
    return given.layout is pm.Layout.NWC and inside and (one_tap or one_row)
