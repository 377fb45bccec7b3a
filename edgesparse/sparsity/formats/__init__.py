"""Weight encodings, one file each. Those of a plan are in FORMATS; CSR, CSC and COO are for import
and interchange."""

from __future__ import annotations

import numpy as np

from edgesparse.errors import PlanInvalid
from edgesparse.graph.ir import Array
from edgesparse.plan.model import Weights
from edgesparse.sparsity.formats.base import FORMATS, Format, decode_group, format_of
from edgesparse.sparsity.formats.bitmask import Bitmask
from edgesparse.sparsity.formats.bsr import Bsr, block_occupancy
from edgesparse.sparsity.formats.coo import Coo
from edgesparse.sparsity.formats.csc import Csc
from edgesparse.sparsity.formats.csr import Csr
from edgesparse.sparsity.formats.delta_csr import DeltaCsr
from edgesparse.sparsity.formats.dense import Dense
from edgesparse.sparsity.formats.lanes import EvenLanes, Lanes, Packing
from edgesparse.sparsity.formats.nm import Nm

__all__ = [
    "FORMATS", "Bitmask", "Bsr", "Coo", "Csc", "Csr", "DeltaCsr", "Dense", "EvenLanes", "Format",
    "Lanes", "Nm", "Packing", "block_occupancy", "decode_group", "decode_weights", "format_of",
]


def decode_weights(weights: Weights) -> Array:
    """[rows, cols] int8 with rows in the order of output channels. Raises PlanInvalid."""
    groups, row = [], 0
    for group in weights.groups:
        if group.first_row != row or group.row_count < 1:
            raise PlanInvalid(f"I-51: a row group starts at row {group.first_row} instead of {row}")
        row += group.row_count
        groups.append(decode_group(group, weights.cols))
    if row != weights.rows:
        raise PlanInvalid(f"I-51: the row groups hold {row} rows of {weights.rows}")
    stored = np.concatenate(groups)
    if weights.row_order is None:
        return stored
    if not np.array_equal(np.sort(weights.row_order), np.arange(row)):
        raise PlanInvalid("I-51: row_order is no permutation of the rows")
    w = np.empty_like(stored)
    w[weights.row_order] = stored
    return w
