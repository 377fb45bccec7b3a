"""verify(): what it compares, and that it finds what is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from command_line import ECG, dense_layer, two_outputs
from edgesparse.convert import convert_model
from edgesparse.plan import model as pm
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.stimuli import stimuli
from edgesparse.verify import INT8_REFERENCE, INTERPRETER, VerifyOptions, verify
from needs import require

FEW = VerifyOptions(inputs=6)


def with_step(plan: Plan, number: int, step: pm.Step) -> Plan:
    """The plan with another step, sealed again."""
    steps = list(plan.model.steps)
    steps[number] = step
    return Plan.from_bytes(write_plan(replace(plan.model, steps=tuple(steps), golden=None)))


def with_bias(plan: Plan, number: int, channel: int, change: int) -> Plan:
    step = plan.model.steps[number]
    assert isinstance(step.source, pm.Mac)
    bias = step.source.bias.copy()
    bias[channel] += change
    return with_step(plan, number, replace(step, source=replace(step.source, bias=bias)))


def test_every_tensor_of_the_packaged_model_equals_the_oracle() -> None:
    require("oracle")
    calls: list[int] = []
    report = verify(es.convert(ECG), ECG, replace(FEW, progress=lambda: calls.append(1)))
    assert report.passed
    assert report.first is None
    assert report.notes == ()
    assert len(report.tensors) == 11
    assert not report.not_compared
    assert report.tensors[0].elements == 6 * 720 * 16
    assert report.tensors[-1].elements == 6 * 180 * 4
    assert len(calls) == 6


def test_the_first_differing_layer_is_named() -> None:
    require("oracle")
    plan = es.convert(ECG)
    report = verify(with_bias(plan, 4, channel=7, change=900), ECG, FEW)
    assert not report.passed
    assert report.first is not None
    assert "block2" in report.first.layer
    assert report.first.first is not None
    assert report.first.first.index[1] == 7
    assert report.first.first.ours != report.first.first.theirs
    clean = [c for c in report.tensors if not c.differing]
    assert len(clean) == 4
    assert report.differing == sum(c.differing for c in report.tensors)


def test_a_fault_that_a_saturating_output_hides_is_found_before_it() -> None:
    require("oracle")
    plan = es.convert(ECG)
    last = plan.model.steps[-1]
    (branch,) = last.branches
    flat = replace(branch.stages[0], qmin=5, qmax=5)
    hidden = with_step(plan, 9, replace(last, branches=(replace(branch, stages=(flat,)),)))
    report = verify(with_bias(hidden, 2, channel=0, change=500), ECG, FEW)
    assert report.first is not None
    assert "stem3" in report.first.layer


def test_several_inputs_and_outputs_are_compared_in_order() -> None:
    require("oracle")
    report = verify(es.convert(two_outputs()), two_outputs(), FEW)
    assert report.passed
    assert [c.elements for c in report.tensors[-2:]] == [6 * 4, 6 * 6]


def test_another_model_of_the_same_shape_is_noted_and_differs() -> None:
    require("oracle")
    report = verify(es.convert(dense_layer(seed=0)), dense_layer(seed=1), FEW)
    assert "another file" in report.notes[0]
    assert not report.passed


def test_a_model_of_another_shape_is_refused() -> None:
    with pytest.raises(es.BadInput, match="no plan of this model"):
        verify(es.convert(dense_layer()), ECG)


def test_no_inputs_are_refused() -> None:
    with pytest.raises(es.BadInput, match="at least 1"):
        verify(es.convert(dense_layer()), dense_layer(), VerifyOptions(inputs=0))


def test_folded_channels_are_compared_with_those_that_stayed(models_dir: Path) -> None:
    require("oracle")
    path = models_dir / "mlperf" / "mlperf_vww_int8.tflite"
    plan, report = es.convert(path), None
    report = verify(plan, path, VerifyOptions(inputs=3))
    assert report.passed
    assert not report.not_compared
    assert len(report.tensors) >= 29


def test_float_inputs_and_outputs_are_compared_as_floats(models_dir: Path) -> None:
    require("oracle")
    path = models_dir / "ecg" / "ecg_classifyheartbeats_quant.tflite"
    plan = es.convert(path)
    assert plan.inputs[0].float_io
    assert verify(plan, path, FEW).passed


def test_a_stand_in_is_never_silent(cases_dir: Path) -> None:
    require("oracle")
    path = cases_dir / "tflite" / "sfc_b4.tflite"
    report = verify(es.convert(path), path, FEW)
    assert report.passed
    assert "cannot judge" in report.notes[0]


# ---- models that edgesparse quantized


@pytest.fixture
def samples() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 1, 8)).astype(np.float32)


def test_a_quantized_model_is_rebuilt_from_its_data(samples: np.ndarray) -> None:
    model = dense_layer("float32")
    options = es.Options(calibration={"x": samples}, method="percentile:99.5")
    plan = convert_model(model, options=options).plan
    report = verify(plan, model, replace(FEW, calibration={"x": samples}))
    assert report.passed
    assert report.judge == INT8_REFERENCE
    assert min(report.sqnr_db.values()) > 20
    assert len(report.tensors) == 2
    other = verify(plan, model, replace(FEW, calibration={"x": 3 * samples}))
    assert not other.passed


def test_without_the_data_only_executors_are_compared_and_that_is_said(
    samples: np.ndarray,
) -> None:
    model = dense_layer("float32")
    plan = convert_model(model, options=es.Options(calibration={"x": samples})).plan
    report = verify(plan, model, FEW)
    assert report.passed
    assert report.judge == INTERPRETER
    assert "calibration" in report.notes[0]


# ---- inputs


def test_stimuli_reach_both_ends_and_repeat_with_their_seed() -> None:
    ios = es.convert(dense_layer()).inputs
    feeds = [feed[0] for feed in stimuli(ios, 8, np.random.default_rng(5))]
    assert (feeds[0] == -128).all()
    assert (feeds[1] == 127).all()
    assert all(feed.dtype == np.int8 and feed.shape == (1, 8) for feed in feeds)
    again = [feed[0] for feed in stimuli(ios, 8, np.random.default_rng(5))]
    assert all(np.array_equal(a, b) for a, b in zip(feeds, again))
    other = [feed[0] for feed in stimuli(ios, 8, np.random.default_rng(6))]
    assert not all(np.array_equal(a, b) for a, b in zip(feeds, other))


def test_float_stimuli_lie_between_the_grid_points(samples: np.ndarray) -> None:
    plan = convert_model(
        dense_layer("float32"), options=es.Options(calibration={"x": samples})).plan
    (io,) = plan.inputs
    for (x,) in stimuli(plan.inputs, 6, np.random.default_rng(0)):
        assert x.dtype == np.float32
        steps = x / io.scale
        assert np.abs(steps - np.rint(steps)).max() > 0.1
        assert np.abs(steps + io.zero_point).max() <= 128.5
