"""Scoring of beats against a reference, as ANSI/AAMI EC57 defines it."""

from edgesparse.scoring.classes import CLASSES, SYMBOLS
from edgesparse.scoring.counts import COLUMNS, ROWS, Counts, Detection
from edgesparse.scoring.match import Matching, match
from edgesparse.scoring.ranking import Ranking, average_precision
from edgesparse.scoring.score import (
    EC57,
    STATISTICS,
    RecordScore,
    Rules,
    Score,
    score_record,
    score_records,
)

__all__ = [
    "CLASSES",
    "COLUMNS",
    "EC57",
    "ROWS",
    "STATISTICS",
    "SYMBOLS",
    "Counts",
    "Detection",
    "Matching",
    "Ranking",
    "RecordScore",
    "Rules",
    "Score",
    "average_precision",
    "match",
    "score_record",
    "score_records",
]
