"""Proofs that the sums of a plan fit int32: what PLAN_FORMAT.md asks of one (I-40 to I-45).

Sound models are far inside. A damaged file can carry a scale that is off by ten powers of ten;
it is refused here by the name of its layer and not later by the number of an invariant.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Array
from edgesparse.plan import model as pm
from edgesparse.sparsity.formats import decode_weights

LIMIT = 2**31 - 256
"""A zero point is added after scaling."""
GATE_LIMIT = 2**31 - 2**16
"""An int16 is."""
SCALES = "check the scales of this layer's input, weights and output"


def check_sums(where: str, operator: str, mac: pm.Mac, sums: Array, requant: pm.Requant) -> None:
    """sums [rows] int64: sum of |w| per output channel. Raises Unsupported."""
    most = 128 if mac.bias_form is pm.BiasForm.FOLDED else 255
    worst = np.abs(mac.bias.astype(np.int64)) + most * sums
    row = int(worst.argmax())
    if worst[row] >= 2**31:
        raise Unsupported(
            where, operator,
            f"the sum of output channel {row} may reach {int(worst[row]):,}, past int32", SCALES)
    _check(where, operator, worst, requant.shift.astype(np.int64))


def check_gates(where: str, operator: str, mac: pm.Mac, shifts: Sequence[int]) -> None:
    """The sums of an LSTM or SVDF, which an int16 is added to; one shift for each block of rows.

    Raises Unsupported.
    """
    sums = np.abs(decode_weights(mac.weights).astype(np.int64)).sum(axis=1)
    worst = np.abs(mac.bias.astype(np.int64)) + 128 * sums
    shift = np.repeat(np.array(shifts), len(worst) // len(shifts))
    _check(where, operator, worst, shift, GATE_LIMIT)


def check_hidden(where: str, operator: str, shift: int) -> None:
    """|output gate * tanh(cell)| < 2**30 is scaled. Raises Unsupported."""
    if shift > 0:
        raise Unsupported(where, operator, "its output scale is 2**-30 or less", SCALES)


def check_past(where: str, operator: str, shift: int) -> None:
    """Any int32 is scaled, and a zero point added. Raises Unsupported."""
    if shift > -1:
        raise Unsupported(
            where, operator, "the scale of its sums over the past is not less than half of the "
            "output's", SCALES)


def check_stage(where: str, operator: str, stage: pm.StageBody, columns: int) -> None:
    """`columns` come into the stage. Raises Unsupported."""
    if isinstance(stage, pm.Mean):
        _check(where, operator, 255 * columns, stage.scaled.shift)
    elif isinstance(stage, pm.Mul):
        _check(where, operator, 255 * 255, stage.out.shift)
    elif isinstance(stage, pm.Add) and stage.out.shift > 0:
        raise Unsupported(
            where, operator, "the output scale is more than a million times finer than the inputs'",
            SCALES)
    elif isinstance(stage, pm.Softmax) and stage.shift > 30:
        raise Unsupported(
            where, operator, "beta times the input scale is 16 or more; its fixed-point exponent "
            "holds less", "smaller logits, or leave the softmax away")


def _check(
    where: str, operator: str, worst: Array | int, shift: Array | int, limit: int = LIMIT
) -> None:
    """worst * 2**max(shift, 0) must stay below the limit, and the shift fit its field."""
    worst, shift = np.broadcast_arrays(np.asarray(worst, np.float64), np.asarray(shift))
    reach = worst * 2.0 ** np.maximum(shift, 0)
    if shift.max() > 30 or reach.max() >= limit:
        channel = int(np.argmax(np.where(shift > 30, np.inf, reach)))
        raise Unsupported(
            where, operator,
            f"scaling a sum of output channel {channel} by 2**{int(shift.flat[channel])} leaves "
            "int32", SCALES)
