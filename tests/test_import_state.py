"""Resource variables of small models: which become a History, which are refused and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from edgesparse.convert import Options as ConvertOptions
from edgesparse.convert import convert
from edgesparse.errors import ImportFailed, Unsupported, UnsupportedModel
from edgesparse.graph.ir import Quant, Shape, Tensor
from edgesparse.graph.verify import verify
from edgesparse.importers.tflite import check_tflite, import_tflite
from edgesparse.ops import History
from edgesparse.runtime.session import Session
from edgesparse.streaming.simulate import Simulator
from one_operator import Q, act, ints, real
from oracle import tflite_oracle
from tflite_builder import Call, Options, build

ZERO_POINT = Q.zero_point[0]


@dataclass
class Ring:
    """A model whose output is a state and its new columns; tests change a part of it.

    before, axis, after   shapes are [*before, columns, *after]
    state, new            columns of the variable and of the input
    kept                  columns of the variable that stay; all: no STRIDED_SLICE of it
    """

    state: int = 4
    new: int = 2
    before: Shape = (1,)
    after: Shape = (1, 3)
    kept: int | None = None
    initial: np.ndarray | None = None
    extra: list[Tensor] = field(default_factory=list)
    calls: list[Call] | None = None
    start: list[Call] | None = None
    inputs: tuple[str, ...] = ("x",)
    outputs: tuple[str, ...] = ("h",)

    def shape(self, columns: int) -> Shape:
        return (*self.before, columns, *self.after)

    def tensors(self) -> list[Tensor]:
        kept = self.state if self.kept is None else self.kept
        whole = self.kept_and_new
        cut = self.state if whole > self.state else whole
        return [
            act("x", *self.shape(self.new)), Tensor("handle", (), "other"),
            act("v", *self.shape(self.state)), act("k", *self.shape(kept)),
            act("h", *self.shape(whole)), act("s", *self.shape(cut)),
            ints("b1", self.begin(self.state - kept)), ints("b2", self.begin(whole - self.state)),
            ints("e", [0] * self.rank), ints("d", [1] * self.rank), *self.extra,
        ]

    @property
    def rank(self) -> int:
        return len(self.before) + 1 + len(self.after)

    @property
    def kept_and_new(self) -> int:
        return (self.state if self.kept is None else self.kept) + self.new

    def begin(self, columns: int) -> list[int]:
        return [columns if d == len(self.before) else 0 for d in range(self.rank)]

    def standard(self) -> list[Call]:
        ends = Options("StridedSlice", {"EndMask": 2**self.rank - 1})
        past = "v" if self.kept is None else "k"
        last = "h" if self.kept_and_new == self.state else "s"
        calls = [
            Call("CALL_ONCE", (), (), Options("CallOnce", {"InitSubgraphIndex": 1})),
            Call("VAR_HANDLE", (), ("handle",), Options("VarHandle", {"SharedName": "ring"})),
            Call("READ_VARIABLE", ("handle",), ("v",)),
            Call("STRIDED_SLICE", ("v", "b1", "e", "d"), ("k",), ends),
            Call("CONCATENATION", (past, "x"), ("h",),
                 Options("Concatenation", {"Axis": len(self.before)})),
            Call("STRIDED_SLICE", ("h", "b2", "e", "d"), ("s",), ends),
            Call("ASSIGN_VARIABLE", ("handle", last), ()),
        ]
        unused = {"k" if past == "v" else "", "s" if last == "h" else ""}
        return [c for c in calls if unused.isdisjoint(c.outputs)]

    def model(self) -> bytes:
        initial = self.initial
        if initial is None:
            initial = np.full(self.shape(self.state), ZERO_POINT, np.int8)
        first = [Tensor("h0", (), "other"),
                 Tensor("c", initial.shape, initial.dtype.name, Q, initial)]  # type: ignore[arg-type]
        start = self.start or [
            Call("VAR_HANDLE", (), ("h0",), Options("VarHandle", {"SharedName": "ring"})),
            Call("ASSIGN_VARIABLE", ("h0", "c"), ()),
        ]
        calls = self.standard() if self.calls is None else self.calls
        return build(self.tensors(), calls, self.inputs, self.outputs, start=(first, start))


@pytest.mark.parametrize(
    ("ring", "columns"),
    [
        (Ring(), 6),
        (Ring(before=(1, 1), after=(3,)), 6),
        (Ring(after=(3,)), 6),
        (Ring(after=()), 6),
        (Ring(after=(2, 3)), 6),
        (Ring(state=2, new=5), 7),
        (Ring(state=1, new=1), 2),
        (Ring(kept=2), 4),
        (Ring(kept=3), 5),
        (Ring(state=9, new=2, kept=7), 9),
    ],
    ids=["NTWC", "NWTC", "NTC", "NT", "NT23", "more than the state", "one", "all of it", "both cut",
         "long"],
)
def test_a_ring_buffer_is_the_past_of_its_input(ring: Ring, columns: int) -> None:
    data = ring.model()
    graph, oracle = import_tflite(data, "ring"), tflite_oracle(data)
    verify(graph)
    assert [n.op for n in graph.nodes if isinstance(n.op, History)] == [History(columns)]
    model, session = Simulator(graph), Session(convert(data))
    rng = np.random.default_rng(1)
    for _ in range(3 * columns):
        x = rng.integers(-128, 128, ring.shape(ring.new)).astype(np.int8)
        expected = oracle.run({"x": x})["h"]
        np.testing.assert_array_equal(model.run({"x": x})["h"], expected)
        np.testing.assert_array_equal(session.run(x), expected)
    session.reset()
    np.testing.assert_array_equal(session.run(x), tflite_oracle(data).run({"x": x})["h"])


def changed(ring: Ring, *, drop: str = "", add: tuple[Call, ...] = (), **by_code: Call) -> Ring:
    """The standard calls with some left out, replaced by code, or added at the end."""
    calls = [by_code.get(c.code, c) for c in ring.standard() if c.code != drop]
    return replace(ring, calls=[*calls, *add])


def not_zero_points() -> Ring:
    initial = np.full((1, 4, 1, 3), ZERO_POINT, np.int8)
    initial[0, 1, 0, 2] = 5
    return Ring(initial=initial)


READ_AGAIN = Call("READ_VARIABLE", ("handle",), ("v2",))
CONCAT = Options("Concatenation", {"Axis": 1})
START = [Call("VAR_HANDLE", (), ("h0",), Options("VarHandle", {"SharedName": "ring"})),
         Call("ASSIGN_VARIABLE", ("h0", "c"), ())]
FIRST_COLUMNS = Call("STRIDED_SLICE", ("h", "e", "four", "d"), ("s",), Options("StridedSlice"))

REFUSALS: dict[str, tuple[Callable[[], Ring], str]] = {
    "another start": (not_zero_points, "1 of its 12 elements start as others than the zero point "
                                       "-3, the first as 5"),
    "another shape": (lambda: Ring(initial=np.full((1, 5, 1, 3), ZERO_POINT, np.int8)),
                      r"starts as int8 \[1, 5, 1, 3\] and is read as int8 \[1, 4, 1, 3\]"),
    "another type": (lambda: Ring(initial=np.zeros((1, 4, 1, 3), np.float32)), "as float32"),
    "no start": (lambda: changed(Ring(), drop="CALL_ONCE"), "nothing gives it a value before"),
    "a late start": (
        lambda: changed(Ring(), drop="CALL_ONCE", add=(Ring().standard()[0],)),
        "nothing gives it a value before"),
    "two starts": (lambda: Ring(start=[*START, START[1]]), "given two values at the start"),
    "a start that computes": (
        lambda: Ring(start=[Call("RELU", ("c",), ("h0",))]), "has a RELU"),
    "read twice": (
        lambda: changed(Ring(extra=[act("v2", 1, 4, 1, 3), act("y", 1, 4, 1, 3)],
                             outputs=("h", "y")),
                        add=(READ_AGAIN, Call("RELU", ("v2",), ("y",)))),
        "read 2 times and assigned 1 times"),
    "assigned twice": (
        lambda: changed(Ring(), add=(Ring().standard()[-1],)), "read 1 times and assigned 2 times"),
    "never assigned": (lambda: changed(Ring(), drop="ASSIGN_VARIABLE"), "assigned 0 times"),
    "never read": (
        lambda: changed(Ring(extra=[act("z", 1, 4, 1, 3)], inputs=("x", "z")),
                        READ_VARIABLE=Call("RELU", ("z",), ("v",))), "read 0 times"),
    "the other order": (
        lambda: changed(Ring(), CONCATENATION=Call("CONCATENATION", ("x", "v"), ("h",), CONCAT)),
        "a CONCATENATION of it and the new columns, in this order"),
    "with itself": (
        lambda: changed(Ring(new=4), CONCATENATION=Call(
            "CONCATENATION", ("v", "v"), ("h",), CONCAT)), "in this order"),
    "two readers": (
        lambda: changed(Ring(extra=[act("y", 1, 4, 1, 3)], outputs=("h", "y")),
                        add=(Call("RELU", ("v",), ("y",)),)), "'v' has 2 readers"),
    "seen by the user": (lambda: Ring(outputs=("h", "v")), "'v' has 2 readers"),
    "another reader": (
        lambda: changed(Ring(new=4, extra=[act("h2", 1, 4, 1, 3)], outputs=("h2",)),
                        CONCATENATION=Call("ADD", ("v", "x"), ("h2",), Options("Add")),
                        STRIDED_SLICE=Call("RELU", ("h2",), ("s",))), "layer 'h2' reads it"),
    "constant columns": (
        lambda: changed(Ring(extra=[Tensor("k2", (1, 2, 1, 3), "int8", Q,
                                           np.ones((1, 2, 1, 3), np.int8)),
                                    act("y", 1, 2, 1, 3)], outputs=("h", "y")),
                        CONCATENATION=Call("CONCATENATION", ("v", "k2"), ("h",), CONCAT),
                        add=(Call("RELU", ("x",), ("y",)),)), "are a constant"),
    "first columns": (
        lambda: changed(Ring(extra=[ints("four", [1, 4, 1, 3])]), STRIDED_SLICE=FIRST_COLUMNS),
        r"'s' of shape \[1, 4, 1, 3\] is assigned to it; the last 4 columns of 'h'"),
    "another tensor": (
        lambda: changed(Ring(new=4), ASSIGN_VARIABLE=Call("ASSIGN_VARIABLE", ("handle", "x"), ())),
        "'x' is assigned to it"),
    "all of a longer one": (
        lambda: changed(Ring(), ASSIGN_VARIABLE=Call("ASSIGN_VARIABLE", ("handle", "h"), ())),
        r"'h' of shape \[1, 6, 1, 3\] is assigned"),
    "several rows": (lambda: Ring(before=(1, 2), after=(3,)), "the dimensions before it must be 1"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_no_ring_buffer_is_refused(case: str) -> None:
    make, reason = REFUSALS[case]
    issues = check_tflite(make().model(), "model")
    assert [i for i in issues if i.operator in ("READ_VARIABLE", "CALL_ONCE")]
    with pytest.raises(UnsupportedModel, match=reason):
        import_tflite(make().model(), "model")
    assert all(i.where == "ring" and i.suggestion for i in issues if i.operator == "READ_VARIABLE")


def test_other_types_of_state_are_refused_once() -> None:
    wide = Quant((0.05,), (0,))
    tensors = [replace(t, dtype="int16", quant=wide) if t.name in "vhsx" else t
               for t in Ring().tensors()]
    data = build(tensors, Ring().standard(), ("x",), ("h",), start=(
        [Tensor("h0", (), "other"),
         Tensor("c", (1, 4, 1, 3), "int16", wide, np.zeros((1, 4, 1, 3), np.int16))], START))
    issues = check_tflite(data, "model")
    assert ["int16" in i.reason for i in issues] == [True] * len(issues)
    assert "ring" not in {i.where for i in issues}


def test_what_hangs_on_a_refused_operator_is_not_refused_again() -> None:
    ring = changed(Ring(extra=[act("z", 1, 2, 1, 3)]),
                   CONCATENATION=Call("CONCATENATION", ("v", "z"), ("h",), CONCAT))
    assert ring.calls is not None
    ring.calls.insert(0, Call("SIN", ("x",), ("z",)))
    assert [i.operator for i in check_tflite(ring.model(), "model")] == ["SIN"]


@pytest.mark.parametrize(
    ("ring", "message"),
    [
        (changed(Ring(), CALL_ONCE=Call("CALL_ONCE", (), (), Options(
            "CallOnce", {"InitSubgraphIndex": 2}))), "calls subgraph 2; the file holds 2"),
        (changed(Ring(), CALL_ONCE=Call("CALL_ONCE", (), (), Options(
            "CallOnce", {"InitSubgraphIndex": 0}))), "calls subgraph 0"),
        (Ring(start=[START[1]]), "assigns to no variable"),
        (changed(Ring(), READ_VARIABLE=Call("READ_VARIABLE", ("x",), ("v",))),
         "'x' is no variable"),
    ],
)
def test_damage_is_named(ring: Ring, message: str) -> None:
    with pytest.raises(ImportFailed, match=message):
        import_tflite(ring.model(), "model")


# ---- states that an exporter left float -------------------------------------------------------


def rounded(source: Quant = Q, between: Quant = Q) -> bytes:
    """Lyra's form: new columns are DEQUANTIZE of int8, what is assigned went through QUANTIZE."""
    float_ring = Ring()
    shapes = {"x": 2, "v": 4, "h": 6, "s": 4, "back": 4, "q": 6, "f": 2}
    tensors = [
        t for t in float_ring.tensors() if t.name not in shapes
    ] + [
        real(name, 1, n, 1, 3) if name in ("v", "h", "back", "f")
        else act(name, 1, n, 1, 3, quant=source if name == "x" else between)
        for name, n in shapes.items()
    ]
    once, handle, read, concat, cut, assign = float_ring.standard()
    calls = [
        once, handle, read, Call("DEQUANTIZE", ("x",), ("f",)),
        replace(concat, inputs=("v", "f")), Call("QUANTIZE", ("h",), ("q",)),
        replace(cut, inputs=("q", "b2", "e", "d")), Call("DEQUANTIZE", ("s",), ("back",)),
        replace(assign, inputs=("handle", "back")),
    ]
    start = ([Tensor("h0", (), "other"),
              Tensor("c", (1, 4, 1, 3), "float32", None, np.zeros((1, 4, 1, 3), np.float32))],
             START)
    return build(tensors, calls, ("x",), ("q",), start=start)


def test_a_float_state_of_int8_columns_is_their_past() -> None:
    data = rounded()
    graph, oracle = import_tflite(data, "model"), tflite_oracle(data)
    model, session = Simulator(graph), Session(convert(data))
    rng = np.random.default_rng(2)
    for _ in range(12):
        x = rng.integers(-128, 128, (1, 2, 1, 3)).astype(np.int8)
        expected = oracle.run({"x": x})
        np.testing.assert_array_equal(model.run({"x": x})["h"], expected["h"])
        np.testing.assert_array_equal(session.run(x), expected["q"])


@pytest.mark.parametrize("quant", [Quant((0.06,), (-3,)), Quant((0.05,), (-4,))])
def test_a_state_that_is_rounded_to_another_scale_is_refused(quant: Quant) -> None:
    (issue,) = check_tflite(rounded(source=quant), "model")
    assert "'back' is rounded on its way from 'h'" in issue.reason


def test_a_float_model_with_state_imports_and_is_not_quantized() -> None:
    """Samples by themselves would calibrate the first run only."""
    float_ring = Ring()
    tensors = [real(t.name, *t.shape) if t.dtype == "int8" else t for t in float_ring.tensors()]
    data = build(
        [*tensors, real("y", 1, 6, 1, 3)], [*float_ring.standard(), Call("RELU", ("h",), ("y",))],
        ("x",), ("y",), start=(
            [Tensor("h0", (), "other"),
             Tensor("c", (1, 4, 1, 3), "float32", None, np.zeros((1, 4, 1, 3), np.float32))],
            START))
    model, oracle = Simulator(import_tflite(data, "model")), tflite_oracle(data)
    rng = np.random.default_rng(3)
    for _ in range(9):
        x = rng.normal(size=(1, 2, 1, 3)).astype(np.float32)
        np.testing.assert_array_equal(model.run({"x": x})["y"], oracle.run({"x": x})["y"])
    with pytest.raises(UnsupportedModel, match="keeps state from run to run in a float model"):
        convert(data, options=ConvertOptions(calibration={"x": x[None]}))


# ---- uint8 outputs ----------------------------------------------------------------------------


def as_uint8(scale: float = 0.05, zero_point: int = 125, outputs: tuple[str, ...] = ("u",),
             more: tuple[Call, ...] = ()) -> bytes:
    tensors = [act("x", 1, 256), act("y", 1, 256),
               Tensor("u", (1, 256), "uint8", Quant((scale,), (zero_point,))),
               Tensor("u2", (1, 256), "uint8", Quant((scale,), (zero_point,)))]
    calls = [Call("RELU", ("x",), ("y",)), Call("QUANTIZE", ("y",), ("u",)), *more]
    return build(tensors, calls, ("x",), outputs)


def test_a_uint8_output_is_the_int8_result_plus_128() -> None:
    data = as_uint8()
    x = np.arange(-128, 128).astype(np.int8)[None]
    plan = convert(data)
    (out,) = plan.outputs
    assert (out.name, out.uint8_io, out.float_io) == ("u", True, False)
    found, expected = Session(plan).run(x), tflite_oracle(data).run({"x": x})["u"]
    assert isinstance(found, np.ndarray)
    assert found.dtype == expected.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)
    assert len(set(expected.ravel().tolist())) > 100


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (lambda: as_uint8(scale=0.06), "scale 0.06, zero point 125"),
        (lambda: as_uint8(zero_point=128), "zero point 128"),
        (lambda: as_uint8(outputs=("u", "y")), "uint8 activations are not executed"),
        (lambda: as_uint8(outputs=("u", "u2"), more=(Call("QUANTIZE", ("y",), ("u2",)),)),
         "uint8 activations are not executed"),
        (lambda: as_uint8(outputs=("u2",), more=(Call("QUANTIZE", ("u",), ("u2",)),)),
         "uint8 activations are not executed"),
    ],
)
def test_other_uint8_tensors_are_refused(model: Callable[[], bytes], reason: str) -> None:
    issues: tuple[Unsupported, ...] = check_tflite(model(), "model")
    assert any(i.operator == "QUANTIZE" and reason in i.reason for i in issues)
