"""The table of beats, reference class by test class, and every rate that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from edgesparse.scoring.classes import CLASSES, N, S, V

ROWS = (*CLASSES, "O")
"""Class of the reference; O: there is no beat, the test invented one."""
COLUMNS = (*(name.lower() for name in CLASSES), "o")
"""Class that the test gave; o: the test missed the beat."""
O = len(CLASSES)  # noqa: E741  (the name EC57 gives it)


def ratio(part: int, whole: int) -> float | None:
    """None where there is nothing to take a part of: such a rate is undefined, not 0."""
    return part / whole if whole else None


@dataclass(frozen=True)
class Detection:
    """One kind of beat against all others.

    tn  None where there are no negatives to count (QRS: a place without a beat is no event)
    """

    tp: int
    fn: int
    fp: int
    tn: int | None

    @property
    def sensitivity(self) -> float | None:
        """Se = TP / (TP + FN)."""
        return ratio(self.tp, self.tp + self.fn)

    @property
    def positive_predictivity(self) -> float | None:
        """+P = TP / (TP + FP)."""
        return ratio(self.tp, self.tp + self.fp)

    @property
    def false_positive_rate(self) -> float | None:
        """FPR = FP / (TN + FP)."""
        return None if self.tn is None else ratio(self.fp, self.tn + self.fp)

    @property
    def f1(self) -> float | None:
        """2 TP / (2 TP + FN + FP)."""
        return ratio(2 * self.tp, 2 * self.tp + self.fn + self.fp)


@dataclass(frozen=True)
class Counts:
    """Beats by class, letters as in EC57: Vn is a ventricular beat that the test called normal.

    cells  6 rows (ROWS) of 6 columns (COLUMNS), each >= 0; Oo is 0
    """

    cells: tuple[tuple[int, ...], ...]

    def __add__(self, other: Counts) -> Counts:
        return Counts(tuple(
            tuple(map(add, mine, theirs)) for mine, theirs in zip(self.cells, other.cells)))

    def of(self, rows: Sequence[int], columns: Sequence[int]) -> int:
        """Sum of some rows and columns."""
        return sum(self.cells[row][column] for row in rows for column in columns)

    @property
    def reference(self) -> int:
        """Beats of the reference."""
        return self.of(range(O), range(O + 1))

    @property
    def test(self) -> int:
        """Beats of the test."""
        return self.of(range(O + 1), range(O))

    @property
    def missed(self) -> int:
        return self.of(range(O), (O,))

    @property
    def extra(self) -> int:
        return self.of((O,), range(O))

    @property
    def agreement(self) -> float | None:
        """Matched beats that got their own class, of all matched ones: how alike two tests are."""
        return ratio(sum(self.cells[kind][kind] for kind in range(O)), self.qrs.tp)

    @property
    def qrs(self) -> Detection:
        """Any beat, whatever its class."""
        return Detection(self.of(range(O), range(O)), self.missed, self.extra, None)

    @property
    def normal(self) -> Detection:
        """N. A fusion (half normal) or unknown beat called n is no error, as for V."""
        return self._class(N, forgiven=(CLASSES.index("F"), CLASSES.index("Q")))

    @property
    def sveb(self) -> Detection:
        """S. FP = Ns + Vs + Fs + Os; an unknown beat called s is no error."""
        return self._class(S, forgiven=(CLASSES.index("Q"),))

    @property
    def veb(self) -> Detection:
        """V. FP = Nv + Sv + Ov; a fusion (half ventricular) or unknown beat called v is none."""
        return self._class(V, forgiven=(CLASSES.index("F"), CLASSES.index("Q")))

    def _class(self, kind: int, forgiven: tuple[int, ...]) -> Detection:
        rows = [row for row in range(O + 1) if row != kind]
        columns = [column for column in range(O + 1) if column != kind]
        return Detection(
            tp=self.cells[kind][kind],
            fn=self.of((kind,), columns),
            fp=self.of([row for row in rows if row not in forgiven], (kind,)),
            # A missed beat of another class was not called this one, but not called at all.
            tn=self.of(rows, [column for column in columns if column != O]))

    @property
    def accuracy(self) -> float | None:
        """(Nn + Ss + Vv) / all N, S and V of the reference, missed ones too."""
        right = sum(self.cells[kind][kind] for kind in (N, S, V))
        return ratio(right, self.of((N, S, V), range(O + 1)))

    @property
    def macro_f1(self) -> float | None:
        """Mean F1 of N, S, V; None when one of them is neither in the reference nor called."""
        found = [one.f1 for one in (self.normal, self.sveb, self.veb)]
        known = [f1 for f1 in found if f1 is not None]
        return sum(known) / len(found) if len(known) == len(found) else None


NONE = Counts(((0,) * len(COLUMNS),) * len(ROWS))


def total(counts: Sequence[Counts]) -> Counts:
    return reduce(add, counts, NONE)
