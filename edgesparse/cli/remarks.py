"""What there is to say about layers, for people: short names, and once what several share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgesparse.cli.names import short_names
from edgesparse.errors import EdgeSparseError, Unsupported
from edgesparse.wording import counted

QUOTED = re.compile(r"^'[^']*'")
"""A tensor at the start of a reason."""
OPERATORS = 3
"""Of a group that are named."""


@dataclass(frozen=True)
class Remark:
    """where: short name of a layer, "" for none; operator: its kind, "" where that is no matter."""

    where: str
    operator: str
    text: str


def refusals(issues: Sequence[EdgeSparseError]) -> list[str]:
    """A line for each, or for all that are refused for the same reason."""
    names = short_names([i.where for i in issues if isinstance(i, Unsupported)], numbered=False)
    short = iter(names)
    return grouped([
        Remark(next(short), issue.operator, _reason(issue)) if isinstance(issue, Unsupported)
        else Remark("", "", str(issue)) for issue in issues])


def refused(model: str, issues: Sequence[EdgeSparseError]) -> str:
    """The message about a model that is refused, in lines."""
    lines = "\n".join(f"  {line}" for line in refusals(issues))
    return f"{model}: {counted(len(issues), 'unsupported part')}:\n{lines}"


def _reason(issue: Unsupported) -> str:
    return f"{issue.reason}.{f' Try: {issue.suggestion}' if issue.suggestion else ''}"


def notes(lines: Iterable[str], names: Iterable[str]) -> list[str]:
    """Notes, of which those about a layer start with its name."""
    known = sorted(names, key=len, reverse=True)  # no name is taken for a longer one's start
    short = dict(zip(known, short_names(known, numbered=False)))
    remarks = []
    for line in lines:
        where = next((name for name in known if line.startswith(f"{name}: ")), "")
        text = line[len(where) + 2 :] if where else line
        for name in known:
            if "/" in name or ";" in name:  # others are short, and words may look like them
                text = text.replace(name, short[name])
        remarks.append(Remark(short.get(where, ""), "", text))
    return grouped(remarks)


def grouped(remarks: Sequence[Remark]) -> list[str]:
    """One line for all remarks of one text, at the place of the first of them."""
    groups: dict[str, list[int]] = {}
    for number, remark in enumerate(remarks):
        same = QUOTED.sub("a tensor", remark.text) if remark.where else f"{number} {remark.text}"
        groups.setdefault(same, []).append(number)
    lines = []
    for same, numbers in groups.items():
        first = remarks[numbers[0]]
        if len(numbers) == 1:
            place, text = first.where, first.text
        else:
            place, text = _places([remarks[number].where for number in numbers]), same
        kinds = list(dict.fromkeys(remarks[number].operator for number in numbers))
        operators = ", ".join(kinds[:OPERATORS]) + (", ..." if len(kinds) > OPERATORS else "")
        operators = f" ({operators})" if operators else ""
        lines.append(f"{place}{operators}: {text}" if first.where else first.text)
    return lines


def _places(names: Sequence[str]) -> str:
    if len(set(names)) <= 2:
        return " and ".join(dict.fromkeys(names))
    return f"{len(names)} layers, from {names[0]} to {names[-1]}"
