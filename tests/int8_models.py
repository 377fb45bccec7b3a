"""The int8 models every plan is judged by, and the table of what came out.

    python tests/int8_models.py --data-root ../shared > docs/MODELS.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from edgesparse.convert import Conversion, convert_model
from edgesparse.verify import Report, VerifyOptions, verify

MODELS = (
    *(f"cases/tflite/{name}" for name in (
        "b16", "b16d", "cr", "mu", "s2b", "sfc_b4", "sfc_csr", "sfc_dense", "sfcb_dense")),
    *(f"models/arm/arm_kws_{name}" for name in ("dscnn_s", "dnn_s", "cnn_s", "lstm_s")),
    "models/ecg/ecg_classifyheartbeats_quant",
    "models/har/har_ashwinbyte_int8",
    "models/pcg/pcg_mfcc_int8",
    "models/pcg/pcg_oldmodels_lmfe_int8",
    *(f"models/mlperf/mlperf_{name}_int8" for name in (
        "ad01", "kws_dscnn", "vww", "strm_ww_old", "ic_resnet8", "ic_resnet_6blk")),
    *(f"models/tflm/tflm_{name}" for name in ("hello_int8", "micro_speech", "person_detect")),
    *(f"models/generated/{name}" for name in (
        "conv1d_uns80_int8", "conv1d_uns80_int8_SP",
        "conv2d_uns0_int8", "conv2d_uns50_int8", "conv2d_uns80_int8", "conv2d_uns80_int8_SP",
        "conv2d_uns90_int8", "conv2d_uns90_int8_SP", "conv2d_2450_int8", "conv2d_b1480_int8",
        "conv2d_b1480_int8_SP", "dw_uns80_int8", "gru_unroll_uns0_int8", "mlp_b11680_int8",
        "mlp_b11680_int8_SP", "mlpPT_b11680_int8_SP", "mlp_uns80_int8_SP")),
    "models/tflm/tflm_dtln_lstm", "models/tflm/tflm_mnist_lstm_int8",
    "models/generated/legacy_lstm_int8",
)
"""The 46 int8 models; paths below the data root, without .tflite."""

ECG = "demo/ecg_c48_4x1_75"
"""The model of this repository's own demo; a path in the package."""

JUDGED = (*MODELS, ECG)

FEW_INPUTS = {"models/mlperf/mlperf_ic_resnet_6blk_int8": 2}
"""766 MMAC a run: the reference kernels take seconds for one."""

STAND_INS = {
    # The oracle refuses a CSR or 1x4 int8 FULLY_CONNECTED: its dense twin has the same weights.
    "cases/tflite/sfc_csr": "cases/tflite/sfc_dense",
    "cases/tflite/sfc_b4": "cases/tflite/sfcb_dense",
    # Its block-sparse kernel is wrong with per-channel weights.
    "models/generated/mlp_b11680_int8_SP": "models/generated/mlp_b11680_int8",
}
"""Models the oracle cannot judge as they are -> files with the same weights, stored densely."""


@dataclass(frozen=True)
class Row:
    """One line of the table. Bytes, and MACs of one run: dense-equivalent and of nonzero weights.

    report  every tensor of the plan; where the oracle cannot judge the file, it runs a copy of it
            with dense weights (edgesparse/oracle.py)
    twin    the outputs against the stand-in, a file of its own; None where there is no need
    """

    model: str
    report: Report
    twin: Report | None
    zeros: float | None
    macs: int
    stored_macs: int
    plan_bytes: int
    tflite_bytes: int
    ram_bytes: int
    ratio: float

    @property
    def differing(self) -> int:
        return self.report.differing + (self.twin.differing if self.twin else 0)


def model_path(root: Path, name: str) -> Path:
    if name == ECG:
        return Path(str(files("edgesparse") / f"{name}.tflite"))
    return root / f"{name}.tflite"


@cache
def converted(path: Path) -> Conversion:
    """The plan of a model; each is made once per process."""
    return convert_model(path)


@cache
def judge(root: Path, name: str, inputs: int = 32) -> Row:
    """Convert one model and compare it with the oracle in every tensor its plan has."""
    path = model_path(root, name)
    done = converted(path)
    options = VerifyOptions(inputs=FEW_INPUTS.get(name, inputs))
    layers = [layer for layer in done.plan.layers if layer.macs]
    weights = sum(layer.dense_bytes for layer in layers)
    zeros = sum(layer.dense_bytes * layer.zeros for layer in layers)
    twin = None
    if name in STAND_INS:
        twin = verify(done.plan, model_path(root, STAND_INS[name]), options)
    return Row(
        model=name, report=verify(done.plan, path, options), twin=twin,
        zeros=zeros / weights if weights else None, macs=sum(layer.macs for layer in layers),
        stored_macs=sum(layer.macs_stored for layer in layers),
        plan_bytes=done.plan.flash_bytes, tflite_bytes=path.stat().st_size,
        ram_bytes=done.plan.ram_bytes, ratio=done.memory.ratio,
    )


def line(row: Row) -> str:
    """One row of the table in docs/MODELS.md."""
    report = row.report
    judged_by = report.judge + (", dense weights" if row.twin else "")
    zeros = "-" if row.zeros is None else f"{row.zeros:.1%}"
    macs = ("-", "-") if not row.macs else (f"{row.macs:,}", f"{row.stored_macs:,}")
    return (
        f"| {row.model.split('/', 1)[1]} | {judged_by} | {report.inputs} | {len(report.tensors)} "
        f"| {sum(t.elements for t in report.tensors):,} | {row.differing} | {zeros} "
        f"| {macs[0]} | {macs[1]} | {row.plan_bytes:,} | {row.tflite_bytes:,} "
        f"| {row.ram_bytes:,} | {row.ratio:.3f} |")


HEAD = """\
# The int8 models, judged

Made by `python tests/int8_models.py --data-root ../shared`, compared by
`pytest tests/test_models_exact.py`. Each model is converted, run by the portable C core and
compared with the oracle byte for byte: the outputs, and every intermediate tensor that the plan
still has. MACs are those of one run, once as if no weight were zero. Plan, .tflite and RAM are
bytes; "bound" is RAM over the most bytes alive at one time.

| model | judge | inputs | tensors | bytes compared | differing | zero weights | MACs \
| nonzero MACs | plan | .tflite | RAM | bound |
"""

FOOT = """
Dense weights: the oracle refuses or misreads the sparse weights of these files and runs a copy
that stores them densely; the outputs are also those of the dense twin that came with them:
TWINS.
"""


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of docs/MODELS.md."""
    yield from HEAD.splitlines()
    yield "| --- " * 13 + "|"
    yield from map(line, rows)
    yield ""
    yield f"{len(rows)} models, {sum(row.differing for row in rows)} differing bytes."
    twins = ", ".join(f"{a.rsplit('/', 1)[1]} ({b.rsplit('/', 1)[1]})"
                      for a, b in STAND_INS.items())
    yield from FOOT.replace("TWINS", twins).splitlines()


if __name__ == "__main__":
    data_root = Path(sys.argv[sys.argv.index("--data-root") + 1])
    sys.stdout.write("\n".join(table([judge(data_root, name) for name in JUDGED])) + "\n")
