"""Which records of the MIT-BIH Arrhythmia Database train, which test, and the folds."""

from __future__ import annotations

DS1 = (
    *("101", "106", "108", "109", "112", "114", "115", "116", "118", "119", "122", "124"),
    *("201", "203", "205", "207", "208", "209", "215", "220", "223", "230"),
)
"""Training half of the split of de Chazal et al. 2004."""
DS2 = (
    *("100", "103", "105", "111", "113", "117", "121", "123", "200", "202", "210", "212", "213"),
    *("214", "219", "221", "222", "228", "231", "232", "233", "234"),
)
"""The other half, which only score_ds2.py reads; 202 is the person of 201 in DS1."""

FOLDS = (
    ("106", "109", "112", "203", "209", "230"),
    ("101", "118", "122", "201", "208"),
    ("108", "115", "207", "215", "223"),
    ("114", "116", "119", "124", "205", "220"),
)
"""DS1 by patient (each record is one), so that S and V beats spread evenly over the folds."""
