"""Beats in noise: the same records of DS1 clean, with samples missing, with noise; then no beats.

python benchmarks/ecg_noise.py --data-root ../shared

All 22 records take two to three minutes of a free core.
The nets were trained on these records: read each row against the clean one, never by itself.
`not good` is the share of time in which the signal was said to be bad, so that beats were held
back (they count as missed); `changes` are of that state, an hour. The second table streams a minute
without a heart beat: every beat found there is invented. On a line that is flat, or that no signal
state believes, there must be none (then the exit code is 1); in noise that is taken for a signal
there may be some, and they are told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from noise import (
    MUSCLE,
    RATE_HZ,
    WANDER,
    Band,
    band_noise,
    noise_power,
    qrs_power,
    with_gaps,
    with_noise,
)
from records import Ecg, converted, markdown, options, percent, records, streamed, told

from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.scoring import RecordScore, Rules, Score
from edgesparse.scoring.classes import N, beats_of
from edgesparse.signals import MISSING
from edgesparse.streaming.events import Beat, Event, SignalState, StateChange

Change = Callable[[Ecg, np.random.Generator], Array]
FIGURES = ("qrs_se", "qrs_ppv", "v_se", "v_ppv", "s_se", "s_ppv", "accuracy", "macro_f1")
HEADS = ("QRS Se", "QRS +P", "V Se", "V +P", "S Se", "S +P", "acc", "mF1")


def noisy(band: Band, snr_db: float) -> Change:
    def change(ecg: Ecg, rng: np.random.Generator) -> Array:
        beats = beats_of(ecg.reference)
        normal = beats.samples[beats.kinds == N] if (beats.kinds == N).any() else beats.samples
        power = noise_power(qrs_power(ecg.samples, normal), snr_db)
        return with_noise(ecg.samples, band_noise(band, len(ecg.samples), rng), power)

    return change


CONDITIONS: dict[str, Change] = {
    "clean": lambda ecg, _: ecg.samples,
    "1 % of samples missing": lambda ecg, rng: with_gaps(ecg.samples, 0.01, rng),
    "baseline wander, 12 dB": noisy(WANDER, 12),
    "baseline wander, 6 dB": noisy(WANDER, 6),
    "muscle noise, 12 dB": noisy(MUSCLE, 12),
    "muscle noise, 6 dB": noisy(MUSCLE, 6),
}


def states(events: list[Event], length: int) -> tuple[int, int]:
    """Samples that were not GOOD, and how often the state changed."""
    changes = [event for event in events if isinstance(event, StateChange)]
    ends = [*(change.sample for change in changes[1:]), length]
    bad = sum(end - change.sample for change, end in zip(changes, ends)
              if change.state is not SignalState.GOOD)
    return bad, len(changes)


def condition(plan: Plan, ecgs: list[Ecg], number: int) -> list[str]:
    """A row: every record under one condition, its noise by record and condition."""
    name, change = list(CONDITIONS.items())[number]
    scores: list[RecordScore] = []
    bad = changes = samples = 0
    for ecg in ecgs:
        signal = change(ecg, np.random.default_rng((int(ecg.name), number)))
        events = streamed(plan, signal)
        scores.append(ecg.score(events))
        lost, changed = states(events, len(signal))
        bad, changes, samples = bad + lost, changes + changed, samples + len(signal)
    found = Score(tuple(scores), Rules()).gross.statistics
    hours = samples / RATE_HZ / 3600
    return [name, *(percent(found[figure]) for figure in FIGURES),
            percent(bad / samples), f"{changes / hours:.1f}"]


# ---- no heart beat ----------------------------------------------------------------------------

MINUTE = 60 * RATE_HZ
ONE_MV = 200.0**2 / 8
"""S of a QRS of 1 mV, squared ADC units."""


def silent_lines() -> Iterator[tuple[str, Array]]:
    """Names and [n] int16 in which nothing may be found: every state of a signal."""
    rng = np.random.default_rng(0)
    flat = np.zeros(MINUTE, np.int16)
    yield "flat at 0", flat
    yield "flat at 2 mV", flat + np.int16(400)
    yield "flat at 5 mV (the end of the range)", flat + np.int16(1000)
    yield "flat at -5.12 mV (the end of the range)", flat + np.int16(-1024)
    yield "nothing but missing samples", np.full(MINUTE, MISSING, np.int16)
    yield "flat, every fifth sample missing", with_gaps(flat, 0.2, rng)
    yield "flat, half of the samples missing", with_gaps(flat, 0.5, rng)
    yield "flat, +-1 unit of ADC noise", rng.integers(-1, 2, MINUTE).astype(np.int16)
    yield "flat, +-3 units of ADC noise", rng.integers(-3, 4, MINUTE).astype(np.int16)
    yield "white noise of 1 mV", np.rint(rng.normal(0, 200, MINUTE)).astype(np.int16)


def other_lines() -> Iterator[tuple[str, Array]]:
    """Names and [n] int16 without a heart beat that look like a signal."""
    rng = np.random.default_rng(1)
    flat = np.zeros(MINUTE, np.int16)
    for band, what in ((WANDER, "wander"), (MUSCLE, "muscle noise")):
        for snr in (12, 6):
            noise = band_noise(band, MINUTE, rng)
            power = noise_power(ONE_MV, snr)
            yield f"{what}, {snr} dB under a QRS of 1 mV", with_noise(flat, noise, power)
    steps = np.repeat(rng.integers(-900, 900, 30), MINUTE // 30)
    yield "a step every 2 s", steps.astype(np.int16)


def lifeless(plan: Plan, lines: Iterable[tuple[str, Array]]) -> list[list[object]]:
    """Rows; the second cell is the number of beats found."""
    rows: list[list[object]] = []
    for name, line in lines:
        events = streamed(plan, line)
        changes = [event for event in events if isinstance(event, StateChange)]
        seen = {SignalState.GOOD, *(change.state for change in changes)}
        bad, _ = states(events, len(line))
        beats = sum(isinstance(event, Beat) for event in events)
        names = ", ".join(state.name for state in sorted(seen, reverse=True))
        rows.append([name, beats, names, percent(bad / len(line))])
    return rows


def main() -> int:
    arguments = options(__doc__).parse_args()
    plan, ecgs = converted(arguments.model), records(arguments)
    hours = sum(len(ecg.samples) for ecg in ecgs) / RATE_HZ / 3600
    print(f"{arguments.model}, {len(ecgs)} records of DS1, {hours:.1f} hours; gross, in %\n")
    names = list(CONDITIONS)
    rows = [condition(plan, ecgs, names.index(name)) for name in told(names, "condition")]
    print(markdown(("", *HEADS, "not good", "changes"), rows), "\n")
    silent, other = lifeless(plan, silent_lines()), lifeless(plan, other_lines())
    print(markdown(
        ("a minute without a heart beat", "beats", "states", "not good, %"), [*silent, *other]))
    return int(any(row[1] for row in silent))


if __name__ == "__main__":
    sys.exit(main())
