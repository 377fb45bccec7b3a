"""Training data: records of DS1 through the integer front end, and random augmented chunks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import wfdb
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from demos.ecg import reference_decoder as rd
from demos.ecg import reference_integer as ri
from demos.ecg.split import DS1

SYMBOLS = {
    **dict.fromkeys("NLRej", 0),
    **dict.fromkeys("AaJS", 1),
    **dict.fromkeys("VE", 2),
    "F": 3,
    **dict.fromkeys("/fQ", 4),
}
"""Annotation symbol -> N, S, V, F, Q (AAMI EC57). F and Q are beats, but not in the class loss."""

RATE_HZ = rd.SAMPLE_RATE_HZ / rd.DECIMATION
CHUNK_INPUTS = 5400
CHUNK_STEPS = CHUNK_INPUTS // rd.INPUTS_PER_STEP
WARM_UP_STEPS = 90
"""First 4 s of a chunk: too little history, outside the loss."""
IGNORE = -1


@dataclass(frozen=True)
class Record:
    """One recording.

    samples  [samples, 2] int16, ADC units without offset at 360 Hz; MLII first
    inputs   [2, time] int32, 1/16 ADC unit at 180 Hz, after the integer front end
    spline   [2, time] float32, cubic spline coefficients of `inputs` in mV (for time stretch)
    peaks    [beats] int64, annotated position in samples at 360 Hz
    kinds    [beats] int64, 0 .. 4 = N S V F Q
    wide     [beats] bool, bundle branch block (L, R): normal for the patient, wide like a V
    """

    name: str
    samples: NDArray[np.int16]
    inputs: NDArray[np.int32]
    spline: NDArray[np.float32]
    peaks: NDArray[np.int64]
    kinds: NDArray[np.int64]
    wide: NDArray[np.bool_]


def load_record(folder: Path, name: str) -> Record:
    """Read one record of DS1.

    Raises ValueError for any other record, so that DS2 cannot leak in by mistake.
    """
    if name not in DS1:
        raise ValueError(f"record {name}: only records of DS1 are allowed here: {' '.join(DS1)}")
    signal = wfdb.rdrecord(str(folder / name), physical=False)
    if signal.adc_gain != [ri.ADU_PER_MV] * 2 or signal.fs != rd.SAMPLE_RATE_HZ:
        raise ValueError(f"record {name}: {signal.adc_gain} per mV at {signal.fs} Hz")
    lead = signal.sig_name.index("MLII")
    adu = signal.d_signal[:, [lead, 1 - lead]] - np.array(signal.baseline)[[lead, 1 - lead]]
    samples = np.ascontiguousarray(adu, np.int16)
    inputs = np.stack([ri.front_end(samples[:, i]) for i in range(2)]).astype(np.int32)
    spline = [ndimage.spline_filter1d(ri.millivolts(row), order=3) for row in inputs]
    notes = wfdb.rdann(str(folder / name), "atr")
    beats = [
        (at, SYMBOLS[s], s in "LR")
        for at, s in zip(notes.sample, notes.symbol, strict=True)
        if s in SYMBOLS
    ]
    peaks, kinds, wide = np.array(beats, np.int64).T
    return Record(
        name, samples, inputs, np.stack(spline).astype(np.float32), peaks, kinds, wide.astype(bool)
    )


@dataclass(frozen=True)
class Variety:
    """How chunks are drawn and changed; the defaults are the shipped recipe.

    swap     probability that the second lead is the main one (then its sign is random)
    mix      largest share of the other lead that is added
    smear    probability of adding two delayed copies (6 .. 78 ms, up to 0.6): another QRS shape
    gain     largest |ln gain|
    wide     part of the chunks around a random wide normal beat (L, R)
    uniform  draw records of the S and V chunks evenly, not by the root of their S or V beats
    """

    swap: float = 0.5
    mix: float = 0.8
    smear: float = 0.5
    gain: float = 0.45
    wide: float = 0.15
    uniform: bool = False


def _augment(
    lead: NDArray[np.float64], variety: Variety, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Delayed copies, gain, baseline wander, white noise, mains hum, muscle noise.

    lead  [CHUNK_INPUTS] mV at 180 Hz
    """
    t = np.arange(len(lead)) / RATE_HZ
    if rng.random() < variety.smear:
        source = lead
        for delay in rng.integers(1, 15, 2):
            copy = np.concatenate([np.full(delay, source[0]), source[:-delay]])
            lead = lead + rng.uniform(-0.6, 0.6) * copy
    lead = lead * np.exp(rng.uniform(-variety.gain, variety.gain))
    if rng.random() < 0.5:
        lead = lead + rng.uniform(0, 0.25) * np.sin(
            2 * np.pi * (rng.uniform(0.15, 0.6) * t + rng.random())
        )
    if rng.random() < 0.5:
        lead = lead + abs(rng.normal(0, 0.03)) * rng.standard_normal(len(lead))
    if rng.random() < 0.15:
        hum = 50.0 if rng.random() < 0.5 else 60.0
        lead = lead + rng.uniform(0, 0.06) * np.sin(2 * np.pi * (hum * t + rng.random()))
    if rng.random() < 0.15:
        length = int(rng.uniform(0.5, 4.0) * RATE_HZ)
        at = int(rng.integers(0, len(lead) - length))
        burst = np.hanning(length) * rng.uniform(0.02, 0.15) * rng.standard_normal(length)
        lead[at : at + length] += burst
    return lead


def _labels(
    peaks: NDArray[np.float64], kinds: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Mark the step of each R peak and its two neighbours, LABEL_DELAY_STEPS later.

    peaks    [beats] position in the chunk, inputs at 180 Hz
    kinds    [beats] 0 .. 4
    returns  beat [CHUNK_STEPS] 0.0 or 1.0, and kind [CHUNK_STEPS] 0 .. 2 or IGNORE
    """
    beat = np.zeros(CHUNK_STEPS, np.float32)
    kind = np.full(CHUNK_STEPS, IGNORE, np.int64)
    steps = np.floor(peaks / rd.INPUTS_PER_STEP).astype(np.int64) + rd.LABEL_DELAY_STEPS
    for offset in (-1, 1, 0):
        inside = (steps + offset >= 0) & (steps + offset < CHUNK_STEPS)
        beat[steps[inside] + offset] = 1.0
        kind[steps[inside] + offset] = np.where(kinds[inside] < 3, kinds[inside], IGNORE)
    return beat, kind


class Chunks:
    """Draws batches: half from random places, a quarter each around a random S and V beat."""

    def __init__(self, records: list[Record], variety: Variety, rng: np.random.Generator) -> None:
        self._records = records
        self._variety = variety
        self._rng = rng
        self._s = [np.flatnonzero(r.kinds == 1) for r in records]
        self._v = [np.flatnonzero(r.kinds == 2) for r in records]
        self._wide = [np.flatnonzero(r.wide) for r in records]

    def _place(self, stretch: float) -> tuple[Record, float]:
        """A record and the start of a chunk in it, in inputs at 180 Hz."""
        rng, variety = self._rng, self._variety
        room = len(self._records[0].inputs[0]) - 1 - stretch * CHUNK_INPUTS
        draw = rng.random()
        if draw < 0.5 - variety.wide:
            return self._records[int(rng.integers(len(self._records)))], rng.uniform(0, room)
        beats = self._wide if draw < 0.5 else self._s if draw < 0.75 else self._v
        counts = np.array([len(b) for b in beats])
        weight = (counts > 4).astype(float) if variety.uniform else np.sqrt(counts)
        which = int(rng.choice(len(beats), p=weight / weight.sum()))
        record = self._records[which]
        peak = (record.peaks[rng.choice(beats[which])] + rd.FIR_DELAY_SAMPLES) / rd.DECIMATION
        first = WARM_UP_STEPS - rd.LABEL_DELAY_STEPS
        last = CHUNK_STEPS - rd.LABEL_DELAY_STEPS - 1
        start = peak - stretch * rd.INPUTS_PER_STEP * rng.uniform(first, last)
        return record, float(np.clip(start, 0, room))

    def _chunk(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
        rng, variety = self._rng, self._variety
        stretch = float(np.exp(rng.uniform(-0.12, 0.12)))
        record, start = self._place(stretch)
        first, length = int(start), int(stretch * CHUNK_INPUTS) + 8
        at = start - first + stretch * np.arange(CHUNK_INPUTS)
        leads = [
            ndimage.map_coordinates(
                row[first : first + length], [at], order=3, prefilter=False, mode="nearest"
            )
            for row in record.spline
        ]
        if rng.random() < variety.swap:
            sign = 1.0 if rng.random() < 0.5 else -1.0
            leads = [sign * leads[1], leads[0]]
        lead = leads[0].astype(np.float64)
        if rng.random() < 0.5:
            lead = lead + rng.uniform(-variety.mix, variety.mix) * leads[1]
        lead = _augment(lead, variety, rng)
        peaks = ((record.peaks + rd.FIR_DELAY_SAMPLES) / rd.DECIMATION - start) / stretch
        near = (peaks > -CHUNK_INPUTS) & (peaks < 2 * CHUNK_INPUTS)
        return lead.astype(np.float32), *_labels(peaks[near], record.kinds[near])

    def batch(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """One batch.

        returns  x [size, 1, CHUNK_INPUTS] float32, mV at 180 Hz; beat [size, CHUNK_STEPS] float32,
                 0.0 or 1.0; kind [size, CHUNK_STEPS] int64, 0 .. 2 or IGNORE
        """
        parts = [self._chunk() for _ in range(size)]
        x, beat, kind = (torch.from_numpy(np.stack(p)) for p in zip(*parts, strict=True))
        return x[:, None], beat, kind


def windows(
    records: list[Record], length: int, per_record: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Random windows of unchanged recordings, for calibration.

    returns  [records * per_record, length, 1] float32, mV at 180 Hz
    """
    out = []
    for record in records:
        for start in rng.integers(0, record.inputs.shape[1] - length, per_record):
            out.append(ri.millivolts(record.inputs[0, start : start + length, None]))
    return np.stack(out)
