"""Whole models on the emulated NPU: bytes against the oracle, cycles, spills, the CPU's steps.

    python benchmarks/npu_models.py [--data-root ../shared] [--runs 4]

Each model is converted for esn-s and esn-m and run with everything counted (launch 500). Every
result that is left in the scratchpad after a run, and the outputs, are compared with the oracle;
the identities of docs/NPU.md section 7 and the bound of section 8 are asserted in each run. Cycles
are emulated, of the slowest run. Then the ECG nets as streams.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from npu_layers import ROOT, converted, npu_of
from records import markdown

from edgesparse.comparison import StreamReport, VerifyOptions
from edgesparse.convert import Options
from edgesparse.streaming.plan import StreamOptions
from edgesparse.verify import verify
from npu_oracle import against_oracle

MODELS = (
    "mlperf/mlperf_ad01_int8", "mlperf/mlperf_kws_dscnn_int8", "mlperf/mlperf_ic_resnet8_int8",
    "mlperf/mlperf_vww_int8", "mlperf/mlperf_strm_ww_old_int8", "tflm/tflm_micro_speech",
    "ecg_c48_dense", "ecg_c48_4x1_75", "ecg_c48_16x1_75")
"""The last ones, windows of the ECG nets, are edgesparse's own."""
STREAM = StreamOptions(hop=8, mode="continuous", frontend="ecg360", beats=True)
TARGETS = ("esn-s", "esn-m")


def path_of(root: Path, name: str) -> Path:
    if "/" in name:
        return root / "models" / f"{name}.tflite"
    return Path(str(files("edgesparse.demo") / f"{name}.tflite"))


def rows(root: Path, runs: int) -> Iterator[list[str]]:
    for name in MODELS:
        for target in TARGETS:
            path = path_of(root, name)
            done = converted(path, target)
            found = against_oracle(done, path, npu_of(target), runs)
            assert done.npu is not None
            c = found.counters
            macs = sum(c[part] for part in ("mac_issued", "mac_skip_w", "mac_skip_a"))
            spill = sum(size for _, size in done.npu.spilled)
            yield [
                Path(name).name, target, f"{macs:,}", f"{c['cycles']:,}", f"{found.bound:,}",
                *(f"{100 * c[part] / macs:.1f}" for part in ("mac_skip_w", "mac_skip_a")),
                f"{spill:,}", f"{c['host_steps']} of {len(done.plan.model.steps)}",
                f"{found.tensors}", f"{found.elements:,}", f"{found.differing}",
                f"{found.unknown}"]


def stream_rows() -> Iterator[list[str]]:
    """Streams of the ECG nets, pushed in chunks of any size, against windows of the oracle."""
    for name in (name for name in MODELS if "/" not in name):
        for target in TARGETS:
            path = path_of(Path(), name)
            done = converted(path, target, Options(stream=STREAM))
            report = verify(done.plan, path, VerifyOptions(inputs=2, backend=target))
            assert isinstance(report, StreamReport)
            yield [name, target, f"{report.runs:,}", f"{report.windows}",
                   f"{sum(part.elements for part in report.parts):,}", f"{report.differing}",
                   str(report.self_test)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data-root", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--runs", type=int, default=4, help="of each model")
    args = parser.parse_args()
    print(markdown(
        ("model", "target", "dense MACs", "cycles", "bound", "skipped by weight, %",
         "by activation, %", "spilled, bytes", "steps of the CPU", "tensors compared", "bytes",
         "differing", "not of the model"), rows(args.data_root, args.runs)), "\n")
    print(markdown(
        ("stream", "target", "runs", "windows", "compared", "differing", "self test"),
        stream_rows()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
