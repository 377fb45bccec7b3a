"""CSC, for import and interchange: columns of (row, weight)."""

from __future__ import annotations

from dataclasses import dataclass

from edgesparse.graph.ir import Array
from edgesparse.sparsity.formats.csr import Csr


@dataclass(frozen=True, eq=False)
class Csc:
    """Compressed sparse columns, as scipy.sparse.csc_matrix holds them.

    values  [nnz] int8, column by column
    rows    [nnz] int64, ascending inside a column
    starts  [K + 1] int64: where each column starts, and the end
    """

    values: Array
    rows: Array
    starts: Array
    shape: tuple[int, int]

    @classmethod
    def encode(cls, w: Array) -> Csc:
        """w [rows, K] int8."""
        flipped = Csr.encode(w.T)
        return cls(flipped.values, flipped.columns, flipped.starts, flipped.shape[::-1])

    def decode(self) -> Array:
        """Return [rows, K] int8. Raises BadInput when the arrays do not fit together."""
        return Csr(self.values, self.rows, self.starts, self.shape[::-1]).decode().T

    @property
    def size(self) -> int:
        """Bytes with 16-bit rows and 32-bit starts, the usual widths on a device."""
        return Csr(self.values, self.rows, self.starts, self.shape[::-1]).size
