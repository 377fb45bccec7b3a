"""LSTM and SVDF variants that are refused, by layer and reason, and files that are damaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgesparse.convert import convert_model
from edgesparse.errors import ImportFailed, UnsupportedModel
from edgesparse.graph.ir import Quant, Tensor
from edgesparse.importers.tflite import import_tflite
from op_cases import CASES, Case
from tflite_builder import Call, build


def case_of(name: str) -> Case:
    return CASES[name](np.random.default_rng(4))


def changed(case: Case, name: str, **new: object) -> Case:
    """With new fields of a tensor, wherever it stands."""
    return replace(case, **{
        part: tuple(replace(t, **new) if t.name == name else t for t in getattr(case, part))
        for part in ("ins", "extra", "outs", "inside")})


def with_input(case: Case, i: int, name: str) -> Case:
    """Input i of the model's operator is another tensor of it."""
    order = (*case.order, *("",) * (24 - len(case.order)))
    return replace(case, order=(*order[:i], name, *order[i + 1 :]))


def option(case: Case, **new: object) -> Case:
    assert case.options is not None
    return replace(case, options=replace(case.options, fields={**case.options.fields, **new}))


REFUSED: dict[str, tuple[str, Callable[[Case], Case], str]] = {
    "CIFG": ("Lstm", lambda c: with_input(c, 1, ""), "coupled input and forget gates"),
    "peephole": ("Lstm", lambda c: with_input(c, 9, "bi"), "peephole connections"),
    "projection": ("Lstm", lambda c: with_input(c, 16, "wi"), "a projection"),
    "layer norm": ("Lstm", lambda c: with_input(c, 20, "bi"), "layer normalization"),
    "time-major": ("Lstm", lambda c: option(c, TimeMajor=True), "time-major"),
    "activation": ("Lstm", lambda c: option(c, FusedActivationFunction=1), "TANH is allowed"),
    "cell scale": ("Lstm", lambda c: changed(c, "c", quant=Quant((0.003,), (0,))),
                   "a power of two from"),
    "cell type": ("Lstm", lambda c: changed(c, "c", dtype="int8"), "'c' is int8"),
    "hidden scale": ("Lstm", lambda c: changed(c, "h", quant=Quant((0.5,), (0,))),
                     "different scales or zero points"),
    "inner scale": ("Lstm", lambda c: changed(c, "inside4", quant=Quant((0.5,), (0,))),
                    "different scales or zero points"),
    "constant state": ("Lstm", lambda c: changed(c, "h", data=np.zeros(
        next(t for t in c.extra if t.name == "h").shape, np.int8)), "is no variable tensor"),
    "weights type": ("Lstm", lambda c: changed(c, "wf", dtype="float32", quant=None, data=np.zeros(
        next(t for t in c.extra if t.name == "wf").shape, np.float32)), "int8 is allowed"),
    "SVDF activation": ("Svdf", lambda c: option(c, FusedActivationFunction=0), "not RELU"),
    "SVDF time": ("Svdf", lambda c: changed(c, "t", dtype="int8", data=np.zeros(
        c.ins[2].shape, np.int8)), "int16 is allowed"),
    "SVDF state": ("Svdf", lambda c: changed(c, "s", dtype="int8"), "'s' is int8"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_variant_is_refused_by_layer_and_reason(what: str) -> None:
    name, change, reason = REFUSED[what]
    case = change(case_of(name))
    with pytest.raises(UnsupportedModel) as refusal:
        import_tflite(case.tflite(), what)
    (issue,) = refusal.value.issues
    assert issue.where == "y"
    assert issue.operator == case.code
    assert reason in issue.reason


@pytest.mark.parametrize(("name", "change"), [
    ("Lstm", lambda c: replace(c, inside=())),
    ("Lstm", lambda c: changed(c, "c", shape=(1, 99))),
    ("Lstm", lambda c: with_input(c, 13, "bz")),
    ("Svdf", lambda c: option(c, Rank=0)),
    ("Svdf", lambda c: option(c, Rank=1000)),
    ("Svdf", lambda c: changed(c, "s", shape=(1, 7))),
    ("Svdf", lambda c: replace(c, state=())),
])
def test_a_file_that_contradicts_itself_is_damaged(
    name: str, change: Callable[[Case], Case]
) -> None:
    case = case_of(name)
    longer = Tensor("bz", (99,), "int32", None, np.zeros(99, np.int32))
    with pytest.raises(ImportFailed):
        import_tflite(change(replace(case, extra=(*case.extra, longer))).tflite(), "damaged")


def scaled(case: Case, scales: dict[str, float]) -> Case:
    """With other scales of some tensors."""
    for name, scale in scales.items():
        case = changed(case, name, quant=Quant((scale,), (0,)))
    return case


@pytest.mark.parametrize(("name", "scales", "reason"), [
    ("Lstm", {"x": 1e30, "wi": 1e30}, "leaves float32"),
    ("Lstm", {"wg": 1e6}, "leaves int32"),
    ("Lstm", {"ro": 1e6}, "leaves int32"),
    ("Lstm", {"y": 1e-10, "h": 1e-10, "inside4": 1e-10}, "output scale is 2\\*\\*-30 or less"),
    ("Svdf", {"x": 1e30, "w": 1e30}, "leaves float32"),
    ("Svdf", {"w": 1e9}, "leaves int32"),
    ("Svdf", {"y": 1e-12}, "not less than half"),
])
def test_scales_that_integers_do_not_serve_are_refused(
    name: str, scales: dict[str, float], reason: str
) -> None:
    """By the name of the layer, when it is lowered; a plan could not state them."""
    with pytest.raises(UnsupportedModel, match=rf"y \(.*{reason}"):
        convert_model(scaled(case_of(name), scales).tflite())


def test_float_lstms_are_refused_by_layer(models_dir: Path) -> None:
    for name in ("tflm/tflm_mnist_lstm_fp32", "generated/legacy_lstm_fp32"):
        with pytest.raises(UnsupportedModel, match="it computes in float32") as refusal:
            convert_model(models_dir / f"{name}.tflite")
        assert all("int8" in issue.suggestion for issue in refusal.value.issues)


def test_a_state_that_something_else_reads_is_refused() -> None:
    case = case_of("Lstm")
    inside = tuple(t.name for t in case.inside)
    calls = [Call(case.code, case.order, (name,), case.options, intermediates=inside)
             for name in ("y", "z")]
    tensors = [t for t in (*case.ins, *case.extra) if t.name in case.order]
    twice = build([*tensors, *case.outs, replace(case.outs[0], name="z"), *case.inside], calls,
                  ["x"], ["y", "z"], variables=case.state)
    with pytest.raises(UnsupportedModel, match="'h' is used elsewhere too"):
        import_tflite(twice, "twice")
