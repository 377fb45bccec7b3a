"""Beat-by-beat comparison on annotation pairs made by hand, each cell of each definition."""

from __future__ import annotations

import json

import numpy as np
import pytest

import edgesparse as es
from edgesparse.scoring import (
    COLUMNS,
    EC57,
    ROWS,
    STATISTICS,
    SYMBOLS,
    Counts,
    RecordScore,
    Rules,
    Score,
    average_precision,
    score_record,
    score_records,
)
from edgesparse.signals import Annotations

RATE = 360.0


def marks(*marked: tuple[int, str], rate: float | None = RATE, length: int | None = None,
          scores: list[list[float]] | None = None) -> Annotations:
    """Annotations of (sample, symbol)."""
    return Annotations(
        "hand", np.array([at for at, _ in marked], np.int64), tuple(s for _, s in marked),
        rate, length, None if scores is None else np.array(scores, np.float32))


def beats(*samples: int) -> Annotations:
    return marks(*((at, "N") for at in samples))


def compared(reference: Annotations, test: Annotations, rules: Rules | None = None) -> Counts:
    return score_record("hand", reference, test, rules).counts


def counted(counts: Counts) -> dict[str, int]:
    """Non-empty cells by their EC57 name, such as {"Vn": 1}."""
    return {f"{row}{column}": cell for row, cells in zip(ROWS, counts.cells)
            for column, cell in zip(COLUMNS, cells) if cell}


# ---- classes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("symbols", "row"), [
    ("NLRejBn", "N"), ("AaJS", "S"), ("VEr", "V"), ("F", "F"), ("/fQ?", "Q")])
def test_symbols_have_their_class(symbols: str, row: str) -> None:
    for symbol in symbols:
        assert counted(compared(marks((500, symbol)), beats(500))) == {f"{row}n": 1}


def test_other_symbols_are_no_beats() -> None:
    for symbol in '+~|!"x[]s=^()ptuT*D@':
        assert symbol not in SYMBOLS
        assert counted(compared(marks((500, symbol)), beats())) == {}
        assert counted(compared(beats(), marks((500, symbol)))) == {}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("column", COLUMNS)
def test_every_cell_is_counted(row: str, column: str) -> None:
    reference = marks() if row == "O" else marks((500, row))
    test = marks() if column == "o" else marks((500, column.upper()))
    expected = {} if (row, column) == ("O", "o") else {f"{row}{column}": 1}
    assert counted(compared(reference, test)) == expected


# ---- rates --------------------------------------------------------------------------------------

# Different powers of two: every sum says which cells it took.
CELLS = Counts(tuple(
    tuple(0 if (row, column) == (5, 5) else 2 ** (6 * row + column) for column in range(6))
    for row in range(6)))


def cells(*names: str) -> int:
    """Sum of named cells, such as "Vn"; "*" stands for each row or column."""
    total = 0
    for name in names:
        for row in ROWS if name[0] == "*" else name[0]:
            for column in COLUMNS if name[1] == "*" else name[1]:
                total += CELLS.cells[ROWS.index(row)][COLUMNS.index(column)]
    return total


def test_qrs_counts_any_beat_as_found() -> None:
    found = CELLS.qrs
    assert found.tp == cells(*(f"{row}{column}" for row in "NSVFQ" for column in "nsvfq"))
    assert found.fn == cells("No", "So", "Vo", "Fo", "Qo") == CELLS.missed
    assert found.fp == cells("On", "Os", "Ov", "Of", "Oq") == CELLS.extra
    assert found.tn is None
    assert found.false_positive_rate is None


def test_veb_forgives_fusion_and_unknown_beats_called_ventricular() -> None:
    found = CELLS.veb
    assert found.tp == cells("Vv")
    assert found.fn == cells("Vn", "Vs", "Vf", "Vq", "Vo")
    assert found.fp == cells("Nv", "Sv", "Ov")
    assert found.tn == cells(*(f"{row}{column}" for row in "NSFQO" for column in "nsfq"))


def test_sveb_forgives_unknown_beats_only() -> None:
    found = CELLS.sveb
    assert found.tp == cells("Ss")
    assert found.fn == cells("Sn", "Sv", "Sf", "Sq", "So")
    assert found.fp == cells("Ns", "Vs", "Fs", "Os")
    assert found.tn == cells(*(f"{row}{column}" for row in "NVFQO" for column in "nvfq"))


def test_normal_forgives_as_ventricular_does() -> None:
    found = CELLS.normal
    assert found.tp == cells("Nn")
    assert found.fn == cells("Ns", "Nv", "Nf", "Nq", "No")
    assert found.fp == cells("Sn", "Vn", "On")


def test_totals_and_accuracy_take_their_cells() -> None:
    assert CELLS.reference == cells("N*", "S*", "V*", "F*", "Q*")
    assert CELLS.test == cells("*n", "*s", "*v", "*f", "*q")
    assert CELLS.accuracy == cells("Nn", "Ss", "Vv") / cells("N*", "S*", "V*")
    assert CELLS.agreement == cells("Nn", "Ss", "Vv", "Ff", "Qq") / CELLS.qrs.tp


def test_rates_by_hand() -> None:
    # 8 V: 6 called v, 1 n, 1 missed; 2 N and 1 F called v, 1 v invented; 17 other N; 2 S, 1 right
    counts = Counts((
        (17, 0, 2, 0, 0, 0), (1, 1, 0, 0, 0, 0), (1, 0, 6, 0, 0, 1), (0, 0, 1, 0, 0, 0),
        (0, 0, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)))
    assert counts.veb.sensitivity == 6 / 8
    assert counts.veb.positive_predictivity == 6 / 9
    assert counts.veb.false_positive_rate == 3 / (19 + 3)
    assert counts.qrs.sensitivity == 29 / 30
    assert counts.qrs.positive_predictivity == 29 / 30
    assert counts.accuracy == 24 / 29
    f1 = (2 * 17 / (2 * 17 + 2 + 2), 2 * 1 / (2 * 1 + 1 + 0), 2 * 6 / (2 * 6 + 2 + 3))
    assert counts.macro_f1 == pytest.approx(sum(f1) / 3, rel=1e-15)


def test_what_cannot_be_computed_is_none_and_not_zero() -> None:
    nothing = compared(marks(), marks())
    assert nothing.reference == nothing.test == 0
    assert set(RecordScore("x", nothing, None).statistics.values()) == {None}
    only_missed = compared(beats(500), marks())
    assert only_missed.qrs.sensitivity == 0
    assert only_missed.qrs.positive_predictivity is None
    only_normal = compared(beats(500), beats(500))
    assert only_normal.accuracy == 1
    assert only_normal.veb.sensitivity is None
    assert only_normal.veb.false_positive_rate == 0
    assert only_normal.macro_f1 is None


# ---- parts of the record ------------------------------------------------------------------------


def test_flutter_of_the_reference_is_left_out_unless_asked_for() -> None:
    reference = marks((500, "N"), (1000, "["), (1100, "!"), (1300, "N"), (2000, "]"), (2500, "N"))
    test = beats(500, 1000, 1400, 2000, 2001, 2500)
    assert counted(compared(reference, test)) == {"Nn": 2, "On": 1}  # the beat at 2001
    asked = compared(reference, test, Rules(leave_out_vf=False))
    assert counted(asked) == {"Nn": 2, "No": 1, "On": 4}


def test_a_beat_in_flutter_may_still_match_a_reference_beat_beside_it() -> None:
    assert counted(compared(marks((990, "V"), (1000, "["), (2000, "]")), marks((1005, "V")))) == {
        "Vv": 1}


def test_flutter_without_an_end_lasts_to_the_end() -> None:
    assert counted(compared(marks((500, "N"), (1000, "[")), beats(500, 9000))) == {"Nn": 1}


def test_a_second_start_and_a_stray_end_mean_nothing() -> None:
    reference = marks((100, "]"), (500, "N"), (1000, "["), (1200, "["), (2000, "]"))
    assert counted(compared(reference, beats(50, 500, 1100, 1900, 2500))) == {"Nn": 1, "On": 2}


def test_beats_that_the_test_puts_into_its_own_flutter_are_not_its_calls() -> None:
    test = marks((900, "["), (1000, "N"), (1100, "]"))
    assert counted(compared(beats(1000), test)) == {"No": 1}


def test_the_start_is_left_out_when_asked_and_a_pair_counts_by_its_reference() -> None:
    start = int(300 * RATE)
    reference = beats(start - 1, start + 400, start + 800)
    test = beats(start - 500, start + 10, start + 400, start + 1200)
    assert counted(compared(reference, test)) == {"Nn": 2, "No": 1, "On": 2}
    # The first pair belongs to the reference beat before the start; its test beat counts nowhere.
    assert counted(compared(reference, test, EC57)) == {"Nn": 1, "No": 1, "On": 1}


def test_a_reference_beat_at_the_start_matches_a_test_beat_just_before_it() -> None:
    start = int(300 * RATE)
    assert counted(compared(beats(start), beats(start - 20), EC57)) == {"Nn": 1}


def test_150_ms_is_inside_the_window_at_rates_where_it_is_no_whole_sample() -> None:
    # 128 Hz: 19.2 samples; 250 Hz: 37.5; 500 Hz: 75 exactly
    for rate, inside in ((128.0, 19), (250.0, 37), (360.0, 54), (500.0, 75), (1000.0, 150)):
        for apart in (inside, inside + 1):
            found = compared(marks((1000, "N"), rate=rate), marks((1000 + apart, "N"), rate=rate))
            assert found.qrs.tp == int(apart == inside), (rate, apart)


@pytest.mark.parametrize("rules", [{"window_s": -0.1}, {"skip_first_s": float("nan")}])
def test_rules_that_are_none_are_refused(rules: dict[str, float]) -> None:
    with pytest.raises(es.BadInput, match="finite number of seconds"):
        Rules(**rules)


# ---- what is refused ----------------------------------------------------------------------------


def test_events_before_sample_0_are_refused() -> None:
    with pytest.raises(es.BadInput, match=r"annotation 0 \('N'\) at sample -3 lies before"):
        beats(-3, 100)


def test_events_out_of_order_or_not_whole_are_refused() -> None:
    with pytest.raises(es.BadInput, match=r"annotation 1 .* at sample 99 comes after a later one"):
        beats(100, 99)
    with pytest.raises(es.BadInput, match="round positions first"):
        Annotations("hand", np.array([1.5]), ("N",))


def test_events_past_the_end_of_the_reference_are_refused() -> None:
    reference = marks((500, "N"), length=1000)
    assert counted(compared(reference, beats(999))) == {"No": 1, "On": 1}
    with pytest.raises(es.BadInput, match="sample 1000 lies past the end, the record has 1000"):
        compared(reference, beats(1000))


def test_rates_must_agree_and_be_known() -> None:
    with pytest.raises(es.BadInput, match="counts in 360 Hz, the test in 250 Hz"):
        compared(beats(500), marks((500, "N"), rate=250.0))
    with pytest.raises(es.BadInput, match="sampling rate is unknown"):
        compared(marks((500, "N"), rate=None), marks((500, "N"), rate=None))
    assert compared(beats(500), marks((500, "N"), rate=None)).qrs.tp == 1


def test_scores_of_another_shape_or_not_finite_are_refused() -> None:
    with pytest.raises(es.BadInput, match=r"scores have shape \[1, 2\]; needed is \[1, 3\]"):
        marks((500, "N"), scores=[[0.5, 0.5]])
    with pytest.raises(es.BadInput, match="finite"):
        marks((500, "N"), scores=[[0.5, 0.5, float("nan")]])


# ---- ranking ------------------------------------------------------------------------------------


def test_average_precision_by_hand() -> None:
    def ap(positive: str, scores: list[float]) -> float | None:
        return average_precision(np.array([c == "1" for c in positive]), np.array(scores))

    assert ap("1100", [4, 3, 2, 1]) == 1
    assert ap("0011", [4, 3, 2, 1]) == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert ap("1010", [4, 3, 2, 1]) == pytest.approx((1 + 2 / 3) / 2)
    # equal scores are one threshold: no order among them
    assert ap("10", [1, 1]) == ap("01", [1, 1]) == 0.5
    assert ap("1001", [2, 1, 1, 1]) == pytest.approx(0.5 * 1 + 0.5 * 2 / 4)
    assert ap("00", [1, 2]) is None
    assert ap("", []) is None


def test_the_ranking_holds_matched_beats_of_n_s_v_in_the_part_that_counts() -> None:
    start = int(300 * RATE)
    at = [start - 500, start, start + 500, start + 1000, start + 1500, start + 2000]
    reference = marks(*zip(at, "VNVFSV"))  # the last V is missed
    test = marks(*zip([*at[:5], start + 3000], "NNVVNV"), scores=[
        [0.1, 0.1, 0.8], [0.5, 0.1, 0.4], [0.2, 0.2, 0.6], [0, 0, 1], [0.4, 0.6, 0.0], [0, 0, 1]])
    scored = score_record("hand", reference, test, EC57)
    assert scored.ranking is not None
    assert scored.ranking.kinds.tolist() == [0, 2, 1]
    assert scored.statistics["v_ap"] == 1
    assert scored.statistics["s_ap"] == 1
    whole = score_record("hand", reference, test)
    assert whole.ranking is not None
    assert whole.ranking.kinds.tolist() == [2, 0, 2, 1]
    assert score_record("hand", reference, beats(*at)).statistics["v_ap"] is None


# ---- several records ----------------------------------------------------------------------------


def two_records() -> Score:
    long = tuple((1000 * i, "N") for i in range(1, 9))
    return score_records({
        "long": (marks(*long), marks(*long[:6])),
        "short": (marks((500, "N"), (1500, "V")), marks((500, "N"), (1500, "V"), (2500, "V"))),
    })


def test_gross_adds_beats_and_average_adds_records() -> None:
    score = two_records()
    assert counted(score.gross.counts) == {"Nn": 7, "No": 2, "Vv": 1, "Ov": 1}
    assert score.gross.statistics["qrs_se"] == 8 / 10
    assert score.average["qrs_se"] == (6 / 8 + 2 / 2) / 2
    # V occurs in one record only: the other one does not enter the mean.
    assert score.average["v_se"] == 1
    assert score.averaged_over["v_se"] == 1
    assert score.averaged_over["qrs_se"] == 2
    assert score.average["s_se"] is None
    assert score.averaged_over["s_se"] == 0


def test_a_record_can_be_left_out_afterwards() -> None:
    score = two_records().without("long")
    assert [one.name for one in score.records] == ["short"]
    assert counted(score.gross.counts) == {"Nn": 1, "Vv": 1, "Ov": 1}
    with pytest.raises(es.BadInput, match="not among the records scored: 232"):
        two_records().without("232")
    with pytest.raises(es.BadInput, match="no records"):
        two_records().without("long", "short")


def test_a_record_counts_once() -> None:
    one = two_records().records[0]
    with pytest.raises(es.BadInput, match="scored more than once: long"):
        Score((one, one), Rules())


def test_rankings_are_pooled_only_when_every_record_has_one() -> None:
    reference = marks((500, "N"), (1500, "V"))
    low = marks((500, "N"), (1500, "N"), scores=[[0.9, 0, 0.1], [0.8, 0, 0.2]])
    high = marks((500, "V"), (1500, "V"), scores=[[0.5, 0, 0.5], [0.1, 0, 0.9]])
    both = score_records({"low": (reference, low), "high": (reference, high)})
    assert [one.statistics["v_ap"] for one in both.records] == [1, 1]
    # In one list of all beats the N of "high" (0.5) stands above the V of "low" (0.2).
    assert both.gross.statistics["v_ap"] == pytest.approx((1 + 2 / 3) / 2)
    some = score_records({"low": (reference, low), "none": (reference, beats(500))})
    assert some.gross.ranking is None


def test_json_has_every_number_and_none_for_undefined_ones() -> None:
    found = json.loads(json.dumps(two_records().to_json()))
    assert found["rules"] == {"window_s": 0.15, "skip_first_s": 0.0, "leave_out_vf": True}
    assert [one["record"] for one in found["records"]] == ["long", "short"]
    assert found["gross"]["counts"]["V"] == {"n": 0, "s": 0, "v": 1, "f": 0, "q": 0, "o": 0}
    assert found["gross"]["reference"] == 10
    assert found["gross"]["missed"] == 2
    assert found["gross"]["qrs_se"] == 0.8
    assert found["gross"]["s_se"] is None
    assert set(STATISTICS) <= set(found["gross"])
    assert found["average"]["records"]["v_se"] == 1
