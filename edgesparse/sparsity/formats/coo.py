"""COO, for import and interchange: (row, column, weight)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array


@dataclass(frozen=True, eq=False)
class Coo:
    """Coordinates of every weight, as scipy.sparse.coo_matrix holds them; no place twice.

    values  [nnz] int8
    rows    [nnz] int64
    columns [nnz] int64
    """

    values: Array
    rows: Array
    columns: Array
    shape: tuple[int, int]

    @classmethod
    def encode(cls, w: Array) -> Coo:
        """w [rows, K] int8; row by row."""
        rows, columns = np.nonzero(w)
        return cls(w[rows, columns], rows, columns, (w.shape[0], w.shape[1]))

    def decode(self) -> Array:
        """Return [rows, K] int8. Raises BadInput when the arrays do not fit together."""
        if not len(self.values) == len(self.rows) == len(self.columns):
            raise BadInput(
                f"COO with {len(self.values)} values, {len(self.rows)} rows and "
                f"{len(self.columns)} columns: all must be as many")
        for what, found, limit in zip(("row", "column"), (self.rows, self.columns), self.shape):
            if len(found) and not 0 <= found.min() <= found.max() < limit:
                raise BadInput(f"COO: a {what} outside 0 to {limit - 1}")
        places = self.rows * self.shape[1] + self.columns
        if len(np.unique(places)) != len(places):
            raise BadInput("COO: a place is given twice")
        w = np.zeros(self.shape, np.int8)
        w[self.rows, self.columns] = self.values
        return w

    @property
    def size(self) -> int:
        """Bytes with 16-bit coordinates."""
        return len(self.values) + 2 * len(self.rows) + 2 * len(self.columns)
