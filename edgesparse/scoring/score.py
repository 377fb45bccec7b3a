"""Beat-by-beat comparison of test annotations with a reference. docs/SCORING.md says each rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.scoring.classes import N, S, V, beats_of, vf_segments
from edgesparse.scoring.counts import COLUMNS, ROWS, Counts, O, total
from edgesparse.scoring.match import match
from edgesparse.scoring.ranking import Ranking, pooled
from edgesparse.signals.annotations import Annotations

LEARNING_PERIOD_S = 300.0
"""What EC57 leaves out at the start of a record."""


@dataclass(frozen=True)
class Rules:
    """How annotations are compared.

    window_s      largest difference of two beats that match
    skip_first_s  start of the record that is not counted; EC57: LEARNING_PERIOD_S
    leave_out_vf  nothing is counted in ventricular flutter and fibrillation of the reference
    """

    window_s: float = 0.15
    skip_first_s: float = 0.0
    leave_out_vf: bool = True

    def __post_init__(self) -> None:
        for name, value in (("window", self.window_s), ("start to skip", self.skip_first_s)):
            if not (math.isfinite(value) and value >= 0):
                raise BadInput(f"{name} {value} s; a finite number of seconds >= 0 is needed")


EC57 = Rules(skip_first_s=LEARNING_PERIOD_S)


@dataclass(frozen=True, eq=False)
class RecordScore:
    """One record, or several together.

    ranking  of the counted matched N, S and V beats; None where the test gave no scores
    """

    name: str
    counts: Counts
    ranking: Ranking | None

    @property
    def statistics(self) -> dict[str, float | None]:
        """Every name of STATISTICS; None where it is undefined."""
        return {name: of(self) for name, of in STATISTICS.items()}

    def to_json(self) -> dict[str, Any]:
        counts = self.counts
        return {
            "record": self.name, "reference": counts.reference, "test": counts.test,
            "missed": counts.missed, "extra": counts.extra,
            "counts": {row: dict(zip(COLUMNS, cells)) for row, cells in zip(ROWS, counts.cells)},
            **self.statistics,
        }


def _ap(kind: int) -> Callable[[RecordScore], float | None]:
    return lambda one: None if one.ranking is None else one.ranking.average_precision(kind)


STATISTICS: Mapping[str, Callable[[RecordScore], float | None]] = MappingProxyType({
    "qrs_se": lambda one: one.counts.qrs.sensitivity,
    "qrs_ppv": lambda one: one.counts.qrs.positive_predictivity,
    "v_se": lambda one: one.counts.veb.sensitivity,
    "v_ppv": lambda one: one.counts.veb.positive_predictivity,
    "v_fpr": lambda one: one.counts.veb.false_positive_rate,
    "v_f1": lambda one: one.counts.veb.f1,
    "v_ap": _ap(V),
    "s_se": lambda one: one.counts.sveb.sensitivity,
    "s_ppv": lambda one: one.counts.sveb.positive_predictivity,
    "s_fpr": lambda one: one.counts.sveb.false_positive_rate,
    "s_f1": lambda one: one.counts.sveb.f1,
    "s_ap": _ap(S),
    "n_se": lambda one: one.counts.normal.sensitivity,
    "n_ppv": lambda one: one.counts.normal.positive_predictivity,
    "n_f1": lambda one: one.counts.normal.f1,
    "accuracy": lambda one: one.counts.accuracy,
    "macro_f1": lambda one: one.counts.macro_f1,
})
"""Name -> how it is found. All are parts of 1, not percent."""


@dataclass(frozen=True, eq=False)
class Score:
    """Several records by the same rules; at least one, each name once."""

    records: tuple[RecordScore, ...]
    rules: Rules

    def __post_init__(self) -> None:
        names = [one.name for one in self.records]
        if not names:
            raise BadInput("no records to score; at least one is needed")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise BadInput(f"scored more than once: {', '.join(twice)}; give each record once")

    @property
    def gross(self) -> RecordScore:
        """All beats in one table: long records and frequent beats weigh most."""
        rankings = [one.ranking for one in self.records if one.ranking is not None]
        return RecordScore(
            "gross", total([one.counts for one in self.records]),
            pooled(rankings) if len(rankings) == len(self.records) else None)

    @property
    def average(self) -> dict[str, float | None]:
        """Mean over the records in which a statistic is defined: each record weighs the same."""
        return {name: sum(found) / len(found) if found else None
                for name, found in self._defined().items()}

    @property
    def averaged_over(self) -> dict[str, int]:
        """How many records each statistic of `average` is defined in."""
        return {name: len(found) for name, found in self._defined().items()}

    def _defined(self) -> dict[str, list[float]]:
        values = [one.statistics for one in self.records]
        return {name: [value for row in values if (value := row[name]) is not None]
                for name in STATISTICS}

    def without(self, *names: str) -> Score:
        """The same without some records. Raises BadInput for one that is not there."""
        if unknown := set(names) - {one.name for one in self.records}:
            raise BadInput(f"not among the records scored: {', '.join(sorted(unknown))}")
        return Score(tuple(one for one in self.records if one.name not in names), self.rules)

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and None."""
        return {
            "rules": asdict(self.rules), "records": [one.to_json() for one in self.records],
            "gross": self.gross.to_json(),
            "average": {"statistics": self.average, "records": self.averaged_over},
        }


def score_record(
    name: str, reference: Annotations, test: Annotations, rules: Rules | None = None
) -> RecordScore:
    """Compare the test annotations of one record with its reference.

    A pair counts by the time of its reference beat; an extra beat by its own.

    Raises BadInput when the rate is unknown, the two differ in it, or a beat of the test lies past
    the end of the record.
    """
    rules = rules or Rules()
    rate = _common_rate(name, reference, test)
    if reference.length is not None:
        test.check_end(reference.length)
    vf = vf_segments(reference) if rules.leave_out_vf else ()
    # The test's own [ ... ] says "no beats called here": its beats inside are taken as such.
    mine = beats_of(test, vf_segments(test) if rules.leave_out_vf else ())
    theirs = beats_of(reference, vf)
    # A millionth of a sample: 0.15 s times a rate may come out just below a whole number.
    found = match(theirs.samples, mine.samples, math.floor(rules.window_s * rate + 1e-6))
    start = rules.skip_first_s * rate
    cells = [[0] * len(COLUMNS) for _ in ROWS]
    ranked = []
    for i, j in found.pairs:
        if theirs.samples[i] >= start:
            cells[theirs.kinds[i]][mine.kinds[j]] += 1
            if theirs.kinds[i] in (N, S, V):
                ranked.append((i, j))
    for i in found.missed:
        if theirs.samples[i] >= start:
            cells[theirs.kinds[i]][O] += 1
    for j in found.extra:
        at = int(mine.samples[j])
        if at >= start and not any(first <= at <= last for first, last in vf):
            cells[O][mine.kinds[j]] += 1
    ranking = None
    if mine.scores is not None:
        pairs = np.array(ranked, np.int64).reshape(-1, 2)
        ranking = Ranking(theirs.kinds[pairs[:, 0]], mine.scores[pairs[:, 1]])
    return RecordScore(name, Counts(tuple(map(tuple, cells))), ranking)


def score_records(
    pairs: Mapping[str, tuple[Annotations, Annotations]], rules: Rules | None = None
) -> Score:
    """Several records: name -> (reference, test)."""
    rules = rules or Rules()
    return Score(
        tuple(score_record(name, *pair, rules) for name, pair in pairs.items()), rules)


def _common_rate(name: str, reference: Annotations, test: Annotations) -> float:
    """Samples per second that both count in; a test that does not say takes the reference's."""
    rate = reference.rate_hz or test.rate_hz
    if rate is None:
        raise BadInput(f"record {name}: the sampling rate is unknown; put the header (.hea) beside "
                       "the reference")
    if test.rate_hz not in (None, rate):
        raise BadInput(f"record {name}: the reference counts in {rate:g} Hz, the test in "
                       f"{test.rate_hz:g} Hz; convert the positions of the test")
    return rate
