"""How long after an R peak its beat is reported, in the time of the signal.

python benchmarks/ecg_latency.py --data-root ../shared

All 22 records take about two minutes of a free core; --records 208 is one of them.

Samples are pushed one by one. Where sample r made the stream report a beat at position p, the beat
came r - p samples late; `declared` is what the plan promises for that. The second row counts from
the R peak that the experts marked, for beats within 150 ms of one. Beats that come only when the
record ends are left out.
"""

from __future__ import annotations

import sys

import numpy as np
from records import Ecg, converted, markdown, options, records, told

from edgesparse.graph.ir import Array
from edgesparse.runtime.stream import Stream
from edgesparse.scoring import match
from edgesparse.scoring.classes import beats_of
from edgesparse.streaming.events import Beat
from edgesparse.wording import counted

WINDOW = 54
"""150 ms at 360 Hz."""


def reported(stream: Stream, samples: Array) -> Array:
    """[beats, 2] int64: position of each beat, and the sample that made the stream report it."""
    stream.reset()
    found = [(event.position, r) for r in range(len(samples))
             for event in stream.push(samples[r : r + 1]) if isinstance(event, Beat)]
    return np.array(found, np.int64).reshape(-1, 2)


def waits(ecg: Ecg, beats: Array) -> tuple[Array, Array]:
    """Samples from the beats' positions, and from marked R peaks, to the report."""
    peaks = beats_of(ecg.reference).samples
    pairs = np.array(match(peaks, beats[:, 0], WINDOW).pairs, np.int64).reshape(-1, 2)
    return beats[:, 1] - beats[:, 0], beats[pairs[:, 1], 1] - peaks[pairs[:, 0]]


def row(what: str, samples: Array, rate_hz: float, declared: int | None) -> list[str]:
    quantiles = np.percentile(samples, (50, 99, 100), method="inverted_cdf")
    cells = [f"{int(n)} ({1000 * n / rate_hz:.0f})" for n in quantiles]
    promise = "" if declared is None else f"{declared} ({1000 * declared / rate_hz:.0f})"
    return [what, f"{len(samples):,}", *cells, promise]


def main() -> int:
    arguments = options(__doc__).parse_args()
    stream = Stream(converted(arguments.model))
    both = [waits(ecg, reported(stream, ecg.samples))
            for ecg in told(records(arguments), "record")]
    own, marked = (np.concatenate(parts) for parts in zip(*both))
    print(f"{arguments.model}, {counted(len(both), 'record')} of DS1; samples (ms)\n")
    print(markdown(
        ("from", "beats", "p50", "p99", "max", "declared"),
        [row("position of the beat to its report", own, stream.rate, stream.delay),
         row("marked R peak to the report", marked, stream.rate, None)]))
    return int(own.max() > stream.delay)


if __name__ == "__main__":
    sys.exit(main())
