"""Words that go with numbers."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """1 column, 2 columns."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
