"""The int8 models every plan is judged by, and the table of what came out.

    python tests/int8_models.py --data-root ../shared > docs/MODELS.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgesparse.convert import convert_model
from edgesparse.verify import Report, VerifyOptions, verify

MODELS = tuple(
    """
    cases/tflite/b16 cases/tflite/b16d cases/tflite/cr cases/tflite/mu cases/tflite/s2b
    cases/tflite/sfc_b4 cases/tflite/sfc_csr cases/tflite/sfc_dense cases/tflite/sfcb_dense
    models/arm/arm_kws_dscnn_s models/arm/arm_kws_dnn_s models/arm/arm_kws_cnn_s
    models/arm/arm_kws_lstm_s
    models/ecg/ecg_classifyheartbeats_quant models/har/har_ashwinbyte_int8
    models/pcg/pcg_mfcc_int8 models/pcg/pcg_oldmodels_lmfe_int8
    models/mlperf/mlperf_ad01_int8 models/mlperf/mlperf_kws_dscnn_int8
    models/mlperf/mlperf_vww_int8 models/mlperf/mlperf_strm_ww_old_int8
    models/mlperf/mlperf_ic_resnet8_int8 models/mlperf/mlperf_ic_resnet_6blk_int8
    models/tflm/tflm_hello_int8 models/tflm/tflm_micro_speech models/tflm/tflm_person_detect
    models/generated/conv1d_uns80_int8 models/generated/conv1d_uns80_int8_SP
    models/generated/conv2d_uns0_int8 models/generated/conv2d_uns50_int8
    models/generated/conv2d_uns80_int8 models/generated/conv2d_uns80_int8_SP
    models/generated/conv2d_uns90_int8 models/generated/conv2d_uns90_int8_SP
    models/generated/conv2d_2450_int8 models/generated/conv2d_b1480_int8
    models/generated/conv2d_b1480_int8_SP
    models/generated/dw_uns80_int8 models/generated/gru_unroll_uns0_int8
    models/generated/mlp_b11680_int8 models/generated/mlp_b11680_int8_SP
    models/generated/mlpPT_b11680_int8_SP models/generated/mlp_uns80_int8_SP
    """.split()
)
"""The 43 int8 models; paths below the data root, without .tflite."""

FEW_INPUTS = {"models/mlperf/mlperf_ic_resnet_6blk_int8": 2}
"""766 MMAC a run: the reference kernels take seconds for one."""

STAND_INS = {
    # The oracle refuses a CSR or 1x4 int8 FULLY_CONNECTED: its dense twin has the same weights.
    "cases/tflite/sfc_csr": "cases/tflite/sfc_dense",
    "cases/tflite/sfc_b4": "cases/tflite/sfcb_dense",
    # Its block-sparse kernel is wrong with per-channel weights.
    "models/generated/mlp_b11680_int8_SP": "models/generated/mlp_b11680_int8",
}
"""Models whose twin the oracle judges in their place."""


@dataclass(frozen=True)
class Row:
    """One line of the table. Bytes, and MACs of one run: dense-equivalent and stored."""

    model: str
    report: Report
    zeros: float
    macs: int
    stored_macs: int
    plan_bytes: int
    tflite_bytes: int
    ram_bytes: int
    ratio: float


def judge(root: Path, name: str, inputs: int = 32) -> Row:
    """Convert one model and compare it with the oracle in every tensor its plan has."""
    path = root / f"{name}.tflite"
    done = convert_model(path)
    against = root / f"{STAND_INS.get(name, name)}.tflite"
    options = VerifyOptions(inputs=FEW_INPUTS.get(name, inputs))
    layers = [layer for layer in done.plan.layers if layer.macs]
    weights = sum(layer.dense_bytes for layer in layers)
    stored = sum(layer.dense_bytes * (1 - layer.zeros) for layer in layers)
    return Row(
        model=name, report=verify(done.plan, against, options),
        zeros=1 - stored / max(1, weights), macs=sum(layer.macs for layer in layers),
        stored_macs=sum(layer.macs_stored for layer in layers),
        plan_bytes=done.plan.flash_bytes, tflite_bytes=path.stat().st_size,
        ram_bytes=done.plan.ram_bytes, ratio=done.memory.ratio,
    )


def table(rows: list[Row]) -> Iterator[str]:
    yield "# The int8 models, judged"
    yield ""
    yield "Made by `python tests/int8_models.py --data-root ../shared`. Each model is converted, run by"
    yield "the portable C core and compared with the oracle byte for byte: the outputs and every"
    yield "intermediate tensor that the plan still has. MACs are those of one run."
    yield ""
    yield ("| model | judge | inputs | tensors | bytes compared | differing | zero weights "
           "| MACs | MACs stored | plan | .tflite | RAM |")
    yield "| --- " * 12 + "|"
    for row in rows:
        report = row.report
        yield (
            f"| {row.model.split('/', 1)[1]} | {report.judge} | {report.inputs} "
            f"| {len(report.tensors)} | {sum(t.elements for t in report.tensors):,} "
            f"| {report.differing} | {row.zeros:.1%} | {row.macs:,} | {row.stored_macs:,} "
            f"| {row.plan_bytes:,} | {row.tflite_bytes:,} | {row.ram_bytes:,} |")
    yield ""
    yield f"{len(rows)} models, {sum(row.report.differing for row in rows)} differing bytes."
    twins = ", ".join(f"{a.rsplit('/', 1)[1]} by {b.rsplit('/', 1)[1]}"
                      for a, b in STAND_INS.items())
    yield f"Judged by a twin with the same weights, because the oracle is wrong or refuses: {twins}."


if __name__ == "__main__":
    data_root = Path(sys.argv[sys.argv.index("--data-root") + 1])
    sys.stdout.write("\n".join(table([judge(data_root, name) for name in MODELS])) + "\n")
