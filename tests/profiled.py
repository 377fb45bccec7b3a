"""Plans that the tests of profiles share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import edgesparse as es
from edgesparse.npu.options import NpuOptions

ECG = es.StreamOptions(
    hop=8, mode="continuous", frontend="ecg360", beats=True)
KWS, AD = "mlperf/mlperf_kws_dscnn_int8", "mlperf/mlperf_ad01_int8"
STREAM = "ecg_c48_16x1_75"


@cache
def plan_for(path: Path, target: str = "esn-s", resident: bool = False) -> es.Plan:
    """The shipped ECG models as streams, the others as they are."""
    stream = ECG if path.name.startswith("ecg_") else None
    return es.convert(path, target, es.Options(
        golden=False, stream=stream, npu=NpuOptions(resident=resident)))
