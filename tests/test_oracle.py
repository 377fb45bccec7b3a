"""Who judges a model: the oracle, or a stand-in where the oracle is known to be wrong."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import edgesparse.oracle as oracle
from command_line import ECG, dense_layer
from edgesparse.errors import BadInput
from edgesparse.graph.ir import Array, Quant, Tensor
from edgesparse.importers.tflite_schema import RawModel, read_model
from edgesparse.oracle import (
    NumpyReference,
    OracleRefused,
    TfliteRuntime,
    dense_twin,
    judge_of,
    known_faults,
)
from needs import require
from tflite_builder import Call, Options, build

require("oracle")


def per_channel_rank_3() -> bytes:
    """y = FULLY_CONNECTED(x [1, 3, 8]), weights with a scale per output."""
    rng = np.random.default_rng(0)
    scales = (0.01, 0.02, 0.03, 0.04)
    tensors = [
        Tensor("x", (1, 3, 8), "int8", Quant((0.05,), (3,))),
        Tensor("w", (4, 8), "int8", Quant(scales, (0,) * 4, axis=0),
               rng.integers(-127, 128, (4, 8)).astype(np.int8)),
        Tensor("b", (4,), "int32", Quant(tuple(0.05 * s for s in scales), (0,) * 4, axis=0),
               rng.integers(-500, 500, 4).astype(np.int32)),
        Tensor("y", (1, 3, 4), "int8", Quant((0.1,), (-7,))),
    ]
    options = Options("FullyConnected", {"KeepNumDims": True})
    call = Call("FULLY_CONNECTED", ("x", "w", "b"), ("y",), options, version=5)
    return build(tensors, [call], ["x"], ["y"])


def noise(raw: RawModel, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {raw.tensors[i].name: rng.integers(-128, 128, raw.tensors[i].shape).astype(np.int8)
            for i in raw.inputs}


def differing(a: dict[str, Array], b: dict[str, Array]) -> int:
    assert a.keys() & b.keys()
    return sum(int((a[n].ravel() != b[n].ravel()).sum()) for n in a.keys() & b.keys())


def test_a_plain_model_is_judged_by_the_oracle_itself() -> None:
    data = ECG.read_bytes()
    judgement = judge_of(data, "ecg")
    assert judgement.judge.name == "tflite-runtime 2.14.0 BUILTIN_REF"
    assert judgement.notes == ()
    inputs = noise(read_model(data, "ecg"))
    values = judgement.judge.run(inputs)
    assert len(values) == 46
    assert differing(values, NumpyReference(data, "ecg").run(inputs)) == 0


def test_without_an_oracle_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "find_spec", lambda _: None)
    with pytest.raises(BadInput, match=r"edgesparse\[oracle\]"):
        judge_of(ECG.read_bytes(), "ecg")


# ---- each known fault still exists, and its stand-in is right


@pytest.mark.parametrize("case", [
    "cases/tflite/sfc_b4", "cases/tflite/sfc_csr", "models/generated/mlp_b11680_int8_SP"])
def test_sparse_fully_connected_is_judged_by_its_dense_twin(data_root: Path, case: str) -> None:
    data = (data_root / f"{case}.tflite").read_bytes()
    raw = read_model(data, case)
    assert known_faults(raw)
    assert all(fault.twin_heals for fault in known_faults(raw))
    inputs = noise(raw)
    right = NumpyReference(data, case).run(inputs)
    with suppress(OracleRefused):  # as good a reason for a stand-in as wrong bytes
        assert differing(TfliteRuntime(data, raw).run(inputs), right) > 0
    judgement = judge_of(data, case)
    assert "dense weights" in judgement.notes[0]
    assert differing(judgement.judge.run(inputs), right) == 0


@pytest.mark.parametrize(("sparse", "dense"), [("sfc_b4", "sfcb_dense"), ("sfc_csr", "sfc_dense")])
def test_the_dense_twin_is_the_one_made_by_hand(cases_dir: Path, sparse: str, dense: str) -> None:
    data = (cases_dir / "tflite" / f"{sparse}.tflite").read_bytes()
    by_hand = (cases_dir / "tflite" / f"{dense}.tflite").read_bytes()
    raw, other = read_model(data, sparse), read_model(by_hand, dense)
    twin = read_model(dense_twin(data, raw), sparse)
    assert all(tensor.sparsity is None for tensor in twin.tensors)
    x = noise(raw)
    ours = TfliteRuntime(dense_twin(data, raw), raw).run(x)
    theirs = TfliteRuntime(by_hand, other).run(dict(zip(noise(other), x.values())))
    assert [a.tobytes() for a in ours.values()] == [a.tobytes() for a in theirs.values()]


def test_blocks_of_16_with_one_scale_need_no_stand_in(cases_dir: Path) -> None:
    data = (cases_dir / "tflite" / "b16.tflite").read_bytes()
    raw = read_model(data, "b16")
    assert known_faults(raw) == ()
    inputs = noise(raw)
    right = NumpyReference(data, "b16").run(inputs)
    assert differing(TfliteRuntime(data, raw).run(inputs), right) == 0


def test_per_channel_fully_connected_of_rank_3_is_judged_by_tflite_micro() -> None:
    require("tflm")
    data = per_channel_rank_3()
    raw = read_model(data, "rank 3")
    (fault,) = known_faults(raw)
    assert (fault.layer, fault.twin_heals) == ("y", False)
    inputs = noise(raw)
    right = NumpyReference(data, "rank 3").run(inputs)
    assert differing(TfliteRuntime(data, raw).run(inputs), right) > 0
    judgement = judge_of(data, "rank 3")
    assert judgement.judge.name.startswith("tflite-micro")
    assert "(y); stand-in: tflite-micro" in judgement.notes[0]
    assert differing(judgement.judge.run(inputs), right) == 0


def test_without_tflite_micro_the_reference_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    there = oracle.find_spec
    monkeypatch.setattr(oracle, "find_spec", lambda n: None if n == "tflite_micro" else there(n))
    judgement = judge_of(per_channel_rank_3(), "rank 3")
    assert judgement.judge.name == oracle.REFERENCE
    assert judgement.notes


def test_a_file_the_oracle_refuses_is_judged_by_tflite_micro(models_dir: Path) -> None:
    require("tflm")
    data = (models_dir / "tflm" / "tflm_person_detect.tflite").read_bytes()
    raw = read_model(data, "person")
    with pytest.raises(OracleRefused):
        TfliteRuntime(data, raw)
    judgement = judge_of(data, "person")
    assert "it refuses the file" in judgement.notes[0]
    inputs = noise(raw)
    assert differing(judgement.judge.run(inputs), NumpyReference(data, "person").run(inputs)) == 0


def test_a_model_with_one_scale_and_rank_2_has_no_fault() -> None:
    assert known_faults(read_model(dense_layer(), "fc")) == ()
