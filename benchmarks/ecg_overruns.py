"""A budget that is too small: what is counted, and that it changes nothing.

python benchmarks/ecg_overruns.py --data-root ../shared --records 208

About ten seconds of a free core; all 22 records, without --records, take about two minutes.
Every row streams the same records; `differing` counts runs (all bytes of their outputs), beats and
changes of the signal that are not those of the stream without a budget.
"""

from __future__ import annotations

import sys
from itertools import zip_longest
from typing import Any

from records import Ecg, converted, markdown, options, records, told

from edgesparse.plan.plan import Plan
from edgesparse.runtime.stream import Stream
from edgesparse.streaming.events import Event, Run

BUDGETS_S = (0.0, 1e-9, 10e-6, 20e-6, 16 / 360)
"""None; less than any run takes; about what a computer takes; what a run has in real time."""


def plain(event: Event) -> Any:
    """An event as a value that compares."""
    if isinstance(event, Run):
        return event.sample, event.column, event.skip, *(y.tobytes() for y in event.outputs)
    return event


def measured(plan: Plan, ecgs: list[Ecg], budget_s: float) -> tuple[list[Any], list[int], float]:
    """Events of all records one after the other; runs, overruns and samples; the longest run."""
    events: list[Any] = []
    counts, longest = [0, 0, 0], 0.0
    stream = Stream(plan)
    stream.budget(budget_s)
    for ecg in ecgs:
        stream.reset()
        events += map(plain, [*stream.push(ecg.samples), *stream.flush()])
        for at, number in enumerate((stream.runs, stream.overruns, stream.samples)):
            counts[at] += number
        longest = max(longest, stream.worst_seconds)
    return events, counts, longest


def main() -> int:
    arguments = options(__doc__).parse_args()
    plan, ecgs = converted(arguments.model), records(arguments)
    expected = sum(len(ecg.samples) for ecg in ecgs)
    wrong, rows = 0, []
    free = measured(plan, ecgs, 0.0)[0]
    for budget in told(BUDGETS_S, "budget in s"):
        events, (runs, overruns, samples), longest = measured(plan, ecgs, budget)
        differing = sum(a != b for a, b in zip_longest(free, events))
        wrong += differing + abs(samples - expected)
        rows.append([f"{1e6 * budget:g}" if budget else "none", f"{runs:,}", f"{overruns:,}",
                     f"{1e6 * longest:.0f}" if budget else "-", f"{samples:,}", differing])
    print(f"{arguments.model}, records {arguments.records}: {expected:,} samples, "
          f"{len(free):,} results\n")
    print(markdown(("budget of a run, us", "runs", "overruns", "longest, us", "samples",
                    "differing"), rows))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
