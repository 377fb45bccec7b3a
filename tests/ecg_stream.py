"""The shipped ECG model as a stream, records of DS1 and the definition of front end and decoder."""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np

from edgesparse.convert import Options, convert_model
from edgesparse.graph.ir import Array
from edgesparse.plan.plan import Plan
from edgesparse.streaming.plan import StreamOptions

ROOT = Path(__file__).resolve().parent.parent
MODEL = Path(str(files("edgesparse.demo") / "ecg_c48_4x1_75.tflite"))
DS1 = (101, 106, 108, 109, 112, 114, 115, 116, 118, 119, 122, 124, 201, 203, 205, 207, 208, 209,
       215, 220, 223, 230)
"""The training half of de Chazal et al. 2004: no test here reads another record."""


@cache
def ecg_plan(hop: int = 8, beats: bool = True) -> Plan:
    options = StreamOptions(hop=hop, frontend="ecg360", beats=beats)
    return convert_model(MODEL, options=Options(stream=options)).plan


def definition() -> ModuleType:
    """demos/ecg/reference_integer.py."""
    name = "ecg_reference_integer"
    if name not in sys.modules:
        path = ROOT / "demos" / "ecg" / "reference_integer.py"
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def record(data_root: Path, number: int, first: int, count: int) -> Array:
    """[count] int16, ADC units of lead MLII without its offset."""
    import wfdb

    assert number in DS1
    path = data_root / "data" / "mitdb" / str(number)
    found = wfdb.rdrecord(str(path), sampfrom=first, sampto=first + count, physical=False)
    lead = found.sig_name.index("MLII")
    assert found.fs == 360
    assert found.adc_gain[lead] == 200
    samples: Array = found.d_signal[:, lead] - found.adc_zero[lead]
    return samples.astype(np.int16)
