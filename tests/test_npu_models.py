"""Real models through convert() on the NPU: every byte that survives, and the oracle's outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from npu_models import path_of

from edgesparse.comparison import StreamReport
from edgesparse.convert import Conversion, Options, convert_model
from edgesparse.graph.ir import Array
from edgesparse.npu.options import NpuOptions
from edgesparse.plan.interpret import Interpreter
from edgesparse.runtime.session import Session, as_user_gets
from edgesparse.streaming.plan import StreamOptions
from edgesparse.target import load_target
from edgesparse.verify import VerifyOptions, verify
from int8_models import ECG as JUDGED_ECG
from int8_models import JUDGED, model_path
from needs import require
from npu_run import check_identities, lower_and_check, machine_of

MODELS = (
    "mlperf/mlperf_ad01_int8", "mlperf/mlperf_kws_dscnn_int8", "mlperf/mlperf_ic_resnet8_int8",
    "mlperf/mlperf_vww_int8", "mlperf/mlperf_strm_ww_old_int8", "tflm/tflm_micro_speech")
ECG = ("ecg_c48_dense", "ecg_c48_4x1_75", "ecg_c48_16x1_75")
STREAM = StreamOptions(hop=8, mode="continuous", frontend="ecg360", beats=True)
TARGETS = ("esn-s", "esn-m")
ON_CPU = {"Softmax has no code"}
EVERY = tuple(name for name in JUDGED if name != JUDGED_ECG)
TOO_LARGE = {"models/mlperf/mlperf_ic_resnet_6blk_int8": 1}
"""Steps that do not fit esn-s even in tiles."""


def converted(path: Path, target: str, options: Options | None = None) -> Conversion:
    done = convert_model(path, target, options)
    assert done.npu is not None
    assert {reason for _, reason in done.npu.host} <= ON_CPU
    return done


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [*MODELS, *ECG])
def test_every_surviving_byte_is_the_interpreters(
    name: str, target: str, data_root: Path
) -> None:
    """No tensor of these is spilled; steps on the CPU are the softmaxes alone."""
    done = converted(path_of(data_root, name), target)
    npu = load_target(target).npu
    assert npu is not None
    checked = lower_and_check(done.plan.model, npu)
    assert checked.lowered.spilled == ()
    assert checked.tensors >= 4
    # Session runs the program that convert() wrote.
    assert Session(done.plan, backend=target).self_test()


@pytest.mark.parametrize("name", [*MODELS, *ECG])
def test_every_result_of_every_step_is_the_interpreters(name: str, data_root: Path) -> None:
    """On the lab's scratchpad, where nothing is written over."""
    done = converted(path_of(data_root, name), "esn-lab")
    npu = load_target("esn-lab").npu
    assert npu is not None
    for options in (NpuOptions(keep=True), NpuOptions(keep=True, resident=True, skip=False)):
        checked = lower_and_check(done.plan.model, npu, options)
        steps = len(done.plan.model.steps) - len(checked.lowered.host)
        assert checked.tensors == 2 * steps


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_the_oracles(name: str, target: str, data_root: Path) -> None:
    require("oracle")
    path = path_of(data_root, name)
    report = verify(converted(path, target).plan, path, VerifyOptions(inputs=8, backend=target))
    assert report.differing == 0
    assert any(t.elements for t in report.tensors)


def test_resident_weights_push_no_tensor_out(data_root: Path) -> None:
    """ResNet8 fills esn-s with tensors: some weights stay there, and nothing is spilled."""
    path = path_of(data_root, "mlperf/mlperf_ic_resnet8_int8")
    streamed = converted(path, "esn-s").npu
    resident = converted(path, "esn-s", Options(npu=NpuOptions(resident=True))).npu
    assert streamed is not None
    assert resident is not None
    assert not streamed.resident
    assert 0 < len(resident.resident) < 10
    assert resident.spilled == streamed.spilled == ()


@pytest.mark.parametrize("name", EVERY)
def test_every_int8_model_gives_the_interpreters_outputs(name: str, data_root: Path) -> None:
    """All of docs/MODELS.md on esn-s; beside softmaxes and LSTMs one pool, too large, is the CPU's.
    """
    path = model_path(data_root, name)
    done = convert_model(path, "esn-s", Options(golden=False))
    assert done.npu is not None
    others = [reason for _, reason in done.npu.host
              if reason not in {*ON_CPU, "Lstm has no code"}]
    assert len(others) == TOO_LARGE.get(name, 0)
    assert all("bytes of scratchpad" in reason for reason in others)
    rng = np.random.default_rng(1)
    inputs = [rng.integers(-128, 128, x.shape).astype(np.int8) for x in done.plan.inputs]
    expected = Interpreter(done.plan.data).run(inputs)
    found = Session(done.plan, backend="esn-s").run(inputs if len(inputs) > 1 else inputs[0])
    for y, want, io in zip(found if isinstance(found, tuple) else (found,), expected,
                           done.plan.outputs, strict=True):
        np.testing.assert_array_equal(y, as_user_gets(want.reshape(io.shape), io))


def test_the_same_model_gives_the_same_program(data_root: Path) -> None:
    path = path_of(data_root, "mlperf/mlperf_kws_dscnn_int8")
    assert converted(path, "esn-s").plan.data == converted(path, "esn-s").plan.data


@pytest.mark.parametrize("name", ["mlperf/mlperf_kws_dscnn_int8", "mlperf/mlperf_ic_resnet8_int8"])
@pytest.mark.parametrize("size", [32768, 16384, 8192])
def test_models_run_in_less_than_they_want(name: str, size: int, data_root: Path) -> None:
    from npu_run import config

    plan = converted(path_of(data_root, name), "esn-s").plan.model
    checked = lower_and_check(plan, config(scratchpad_bytes=size), runs=1)
    counted = checked.counters["dma_dram_rd_bytes"] + checked.counters["dma_dram_wr_bytes"]
    assert counted > sum(n for _, n in checked.lowered.spilled)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("name", ECG)
def test_ecg_streams_over_many_hops(name: str, target: str, resident: bool) -> None:
    """Rings of up to 65 columns turn more than once."""
    options = Options(stream=STREAM, npu=NpuOptions(resident=resident))
    plan = converted(path_of(Path(), name), target, options).plan
    npu = load_target(target).npu
    assert npu is not None
    checked = lower_and_check(
        plan.model, npu, NpuOptions(resident=resident), runs=150)
    assert not checked.lowered.host


def test_a_stream_is_verified_on_the_npu() -> None:
    """Runs, beats and states, and windows of the oracle; the self test is the program's."""
    require("oracle")
    path = path_of(Path(), "ecg_c48_4x1_75")
    plan = converted(path, "esn-s", Options(stream=STREAM)).plan
    report = verify(plan, path, VerifyOptions(inputs=2, backend="esn-s"))
    assert isinstance(report, StreamReport)
    assert report.passed
    assert report.self_test
    assert report.runs > 500
    assert report.beats > 10


def test_without_fusion_every_operator_is_a_kernel_and_nothing_differs(data_root: Path) -> None:
    path = path_of(data_root, "mlperf/mlperf_ic_resnet8_int8")
    fused = converted(path, "esn-m")
    for where in ("sram", "dram"):
        options = Options(npu_fusion="none", npu=NpuOptions(intermediates=where))
        single = converted(path, "esn-m", options)
        assert len(single.plan.model.steps) == len(fused.plan.model.steps) + 3  # the residuals
        assert _outputs(single, "esn-m") == _outputs(fused, "esn-m")
        bytes_moved = _dram_bytes(single)
        assert (bytes_moved > 10 * _dram_bytes(fused)) == (where == "dram")


def _outputs(done: Conversion, target: str) -> list[bytes]:
    session = Session(done.plan, backend=target)
    x: Array = np.random.default_rng(1).integers(
        -128, 128, done.plan.inputs[0].shape).astype(np.int8)
    found = session.run(x)
    return [np.asarray(y).tobytes() for y in (found if isinstance(found, tuple) else (found,))]


def _dram_bytes(done: Conversion) -> int:
    assert done.npu is not None
    npu = load_target("esn-m").npu
    assert npu is not None
    machine = machine_of(done.plan.model, done.npu, npu)
    interpreter = Interpreter(done.plan.data)
    counters = machine.run(interpreter._arena, host=lambda step: None).counters
    check_identities(done.plan.model, done.npu, machine, counters)
    return counters["dma_dram_rd_bytes"] + counters["dma_dram_wr_bytes"]
