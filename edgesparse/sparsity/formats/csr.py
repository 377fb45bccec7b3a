"""CSR, for import and interchange: rows of (column, weight)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array


@dataclass(frozen=True, eq=False)
class Csr:
    """Compressed sparse rows, as scipy.sparse.csr_matrix holds them.

    values   [nnz] int8, row by row
    columns  [nnz] int64, ascending inside a row
    starts   [rows + 1] int64: where each row starts, and the end
    """

    values: Array
    columns: Array
    starts: Array
    shape: tuple[int, int]

    @classmethod
    def encode(cls, w: Array) -> Csr:
        """w [rows, K] int8."""
        rows, columns = np.nonzero(w)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=w.shape[0]))])
        return cls(w[rows, columns], columns, starts.astype(np.int64), (w.shape[0], w.shape[1]))

    def decode(self) -> Array:
        """Return [rows, K] int8. Raises BadInput when the arrays do not fit together."""
        rows, cols = self.shape
        counts = np.diff(self.starts)
        if (len(self.starts) != rows + 1 or self.starts[0] != 0 or (counts < 0).any()
                or not self.starts[-1] == len(self.values) == len(self.columns)):
            raise BadInput(
                f"CSR of {rows} rows with {len(self.starts)} starts, {len(self.columns)} columns "
                f"and {len(self.values)} values: starts must rise from 0 to the number of values")
        if len(self.columns) and not 0 <= self.columns.min() <= self.columns.max() < cols:
            raise BadInput(f"CSR: a column outside 0 to {cols - 1}")
        w = np.zeros(self.shape, np.int8)
        w[np.repeat(np.arange(rows), counts), self.columns] = self.values
        return w

    @property
    def size(self) -> int:
        """Bytes with 16-bit columns and 32-bit starts, the usual widths on a device."""
        return len(self.values) + 2 * len(self.columns) + 4 * len(self.starts)
