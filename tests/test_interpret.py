"""The plan interpreter, and the C core beside it, against the operators' integer definitions."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest

from case_plans import case_plan
from edgesparse.errors import BadInput, PlanInvalid
from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter, self_test_inputs
from edgesparse.plan.places import addresses, extent, halo_addresses
from edgesparse.plan.plan import Plan
from edgesparse.plan.write import write_plan
from edgesparse.runtime.session import Session
from op_cases import CASES
from plan_builder import PlanBuilder, mac, random_weights, requant, stored, tight_pitch, values

DRAWS = 60
LEAST = {"Mean": 5, "Add": 20, "Sub": 20, "Mul": 20}
"""Cases a plan can do as one step, of those drawn."""
OPERATORS = (
    "Add", "AvgPool", "Conv", "FullyConnected", "HardSwish", "LeakyRelu", "Logistic", "Lut",
    "MaxPool", "Mean", "Mul", "Pad", "Relu", "Requantize", "Softmax", "Sub", "Tanh", "Transpose",
)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_plan_of_one_operator_gives_the_bytes_of_its_definition(name: str) -> None:
    """Layouts, halos, encodings, row order and bias form are drawn as well."""
    rng = np.random.default_rng(sum(map(ord, name)))
    done = 0
    for _ in range(DRAWS):
        case = CASES[name](rng)
        made = case_plan(case, rng)
        if made is None:
            continue
        plan, feeds = made
        data = write_plan(plan)
        (found,) = Interpreter(data).run(feeds)
        assert np.array_equal(found, case.int8().reshape(found.shape)), (case, plan)
        assert np.array_equal(found, Session(Plan.from_bytes(data)).run(feeds)), (case, plan)
        done += 1
    assert done >= LEAST.get(name, 40)


# ---- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", pm.Layout)
def test_elements_and_halo_of_a_tensor_never_meet(layout: pm.Layout) -> None:
    """For all small sizes, and nothing stands outside the bytes the pitch promises."""
    for columns in range(1, 10):
        for channels in (1, 3, 4, 5, 9):
            for halo in (0, 1, 2):
                for phases in range(2, 9) if layout is pm.Layout.POLYPHASE else (1,):
                    place = pm.Place(offset=1000, pitch=0, columns=columns, channels=channels,
                                     halo=halo, layout=layout, phases=phases, zero_point=0)
                    place = replace(place, pitch=tight_pitch(place))
                    own, around = addresses(place), halo_addresses(place)
                    every = np.concatenate([own.ravel(), around.ravel()])
                    assert own.shape == (columns, channels)
                    assert around.shape == (2 * halo * phases, channels)
                    assert len(np.unique(every)) == len(every)
                    low, high = extent(place)
                    assert low == every.min()
                    assert every.max() < high
                    lines = {pm.Layout.NWC: columns + 2 * halo, pm.Layout.C4: -(-channels // 4)}
                    assert high - low == lines.get(layout, channels) * place.pitch


def test_addresses_are_those_of_the_table() -> None:
    def at(**fields: int) -> list[list[int]]:
        place = pm.Place(offset=100, columns=3, channels=5, zero_point=0, **fields)
        own: list[list[int]] = addresses(place)[:, [0, 4]].tolist()
        return own

    assert at(pitch=8) == [[100, 104], [108, 112], [116, 120]]
    assert at(pitch=9, layout=pm.Layout.PLANAR) == [[100, 136], [101, 137], [102, 138]]
    assert at(pitch=20, layout=pm.Layout.C4) == [[100, 120], [104, 124], [108, 128]]
    assert at(pitch=6, layout=pm.Layout.POLYPHASE, phases=2) == [
        [100, 124], [103, 127], [101, 125]]


def test_the_writer_of_a_tensor_writes_its_halo_and_no_byte_more() -> None:
    for layout in pm.Layout:
        b = PlanBuilder()
        x = b.input(1, 5, 3)
        phases = 3 if layout is pm.Layout.POLYPHASE else 1
        y = b.tensor(1, 5, 3, layout=layout, halo=2, phases=phases, zero_point=-7)
        b.tail(pm.Load(), x, y)
        b.tail(pm.Load(), y, b.output(1, 5, 3))
        plan = b.plan()
        session = Interpreter(write_plan(plan))
        session.run([np.full((1, 5, 3), 9, np.int8)])
        place = plan.tensors[y].place
        around = session._arena[halo_addresses(place)]
        assert around.size == 2 * 2 * phases * 3
        assert (around == -7).all()
        assert np.count_nonzero(session._arena == -7) == around.size


# ---- sessions -----------------------------------------------------------------------------------


def small() -> PlanBuilder:
    b = PlanBuilder()
    b.tail(pm.Load(), b.input(2, 3), b.output(2, 3), pm.Clamp(qmin=-5, qmax=5))
    return b


def test_inputs_that_do_not_fit_are_refused() -> None:
    session = Interpreter(write_plan(small().plan()))
    for inputs in ([], [values(np.random.default_rng(0), 3, 2)], [np.zeros((2, 3))]):
        with pytest.raises(BadInput, match="input"):
            session.run(inputs)


def test_bytes_of_no_plan_are_refused() -> None:
    with pytest.raises(PlanInvalid):
        Interpreter(b"not a plan")


def test_a_trace_holds_what_every_step_wrote_right_after_it() -> None:
    """The second step overwrites the first one's tensor."""
    b = PlanBuilder()
    x, y = b.input(1, 2), b.tensor(1, 2)
    z = b.same_place(y)
    b.tail(pm.Load(), x, y, pm.Clamp(qmin=0, qmax=100))
    b.tail(pm.Load(), y, z, pm.Clamp(qmin=0, qmax=9))
    b.tail(pm.Load(), z, b.output(1, 2))
    trace = Interpreter(write_plan(b.plan())).run_traced([np.array([[-3, 50]], np.int8)])
    assert {k: v.tolist() for k, v in trace.items()} == {y: [[0, 50]], z: [[0, 9]], 3: [[0, 9]]}


def test_a_step_that_relies_on_bytes_of_the_run_before_shows() -> None:
    """Reading what nobody wrote in this run gives the poison, in every run."""
    b = PlanBuilder()
    x, never, y = b.input(1, 2), b.tensor(1, 2), b.output(1, 2)
    b.tail(pm.Load(), never, y)
    b.tail(pm.Load(), x, never)
    session = Interpreter(write_plan(b.plan()))
    first = session.run([np.ones((1, 2), np.int8)])[0]
    second = session.run([np.ones((1, 2), np.int8)])[0]
    assert np.array_equal(first, second)
    assert (first != 1).all()


def test_scratch_over_a_live_tensor_shows() -> None:
    rng = np.random.default_rng(0)
    w = random_weights(rng, 4, 6)
    b = PlanBuilder()
    x, y = b.input(3, 3), b.output(2, 4)
    b.tail(mac(stored(w), w, np.zeros(4), 0, in_w=3, in_c=3, kernel_w=2, out_w=2), x, y,
           requant(np.full(4, 0.01), 0))
    plan = b.plan()
    inputs = [values(rng, 3, 3)]
    good = Interpreter(write_plan(plan)).run(inputs)[0]
    step = replace(plan.steps[0], scratch_bytes=8, scratch_offset=plan.tensors[x].place.offset)
    bad = Interpreter(write_plan(replace(plan, steps=(step,)))).run(inputs)[0]
    assert not np.array_equal(good, bad)


# ---- the self test ------------------------------------------------------------------------------


def test_self_test_inputs_are_xorshift32() -> None:
    """Marsaglia's example: from 2463534242 the first number is 723471715."""
    assert self_test_inputs(2463534242, 1)[0] == np.int8(723471715 >> 24)
    state, expected = 1, []
    for _ in range(1000):
        state ^= (state << 13) % 2**32
        state ^= state >> 17
        state ^= (state << 5) % 2**32
        expected.append((state >> 24) - (256 if state >> 31 else 0))
    assert self_test_inputs(1, 1000).tolist() == expected


def test_self_test_values_are_the_trace_and_the_outputs_of_a_fresh_run() -> None:
    b = PlanBuilder()
    ring = b.ring(4, 3)
    x = b.input(1, 3)
    b.tail(pm.Load(), x, b.append(ring, 1), pm.Clamp(qmin=-9, qmax=9))
    moved, y = b.tensor(4, 3), b.output(4, 3)
    b.tail(pm.Copy(dims=(12,), in_strides=(1,), out_strides=(1,)), b.view(ring, 4), moved)
    b.tail(pm.Load(), moved, y, pm.Clamp(qmin=-5, qmax=5))
    session = Interpreter(write_plan(b.plan()))
    first = session.self_test_values(77)
    session.run([values(np.random.default_rng(0), 1, 3)])
    crc, outputs = session.self_test_values(77)
    assert (crc, outputs.tolist()) == (first[0], first[1].tolist())
    entered = np.clip(self_test_inputs(77, 3), -9, 9)
    expected = np.zeros((4, 3), np.int8)
    expected[3] = np.clip(entered, -5, 5)
    assert outputs.tolist() == expected.ravel().tolist()
    assert crc == zlib.crc32(expected.tobytes(), zlib.crc32(entered.tobytes()))
    assert session.self_test_values(78)[0] != crc


# ---- Plan ---------------------------------------------------------------------------------------


def described() -> Plan:
    rng = np.random.default_rng(4)
    b = PlanBuilder()
    x = b.input(10, 4, scale=0.5, zero_point=3)
    y = b.tensor(8, 6)
    w = random_weights(rng, 6, 12, 0.5)
    b.tail(mac(stored(w), w, np.zeros(6), 3, in_w=10, in_c=4, kernel_w=3, out_w=8), x, y,
           requant(np.full(6, 0.01), 0),
           pm.MaxPool(window=pm.Window(in_w=8, out_w=8), qmin=-128, qmax=127))
    b.tail(pm.Load(), y, b.output(8, 6, scale=0.25), pm.Clamp(qmin=0, qmax=9))
    b.outputs[0] = replace(b.outputs[0], float_io=True)
    names = pm.Names(steps=("conv + pool", "relu"), inputs=("ecg",), outputs=("scores",),
                     tensors=("", "", ""))
    return Plan.from_bytes(write_plan(b.plan(names=names)))


def test_a_plan_describes_its_layers() -> None:
    plan = described()
    conv, relu = plan.layers
    source = plan.model.steps[0].source
    assert isinstance(source, pm.Mac)
    nnz = source.weights.groups[0].nnz
    assert (conv.name, conv.kind) == ("conv + pool", "conv1d")
    assert (conv.inputs, conv.outputs) == (((10, 4),), ((8, 6),))
    assert conv.stages == ("requant", "max_pool")
    assert (conv.macs, conv.macs_stored) == (6 * 12 * 8, nnz * 8)
    assert conv.zeros == 1 - nnz / 72
    assert [(g.encoding, g.rows, g.bytes) for g in conv.encodings] == [("dense", 6, 72)]
    assert (conv.weight_bytes, conv.dense_bytes, conv.layout) == (72, 72, "NWC")
    assert (relu.name, relu.kind, relu.macs, relu.encodings) == ("relu", "clamp", 0, ())


def test_a_plan_describes_its_inputs_outputs_and_size() -> None:
    plan = described()
    (x,), (y,) = plan.inputs, plan.outputs
    assert (x.name, x.shape, x.scale, x.zero_point, x.float_io) == ("ecg", (10, 4), 0.5, 3, False)
    assert (y.name, y.shape, y.scale, y.float_io) == ("scores", (8, 6), 0.25, True)
    assert plan.ram_bytes == plan.model.arena_bytes
    assert plan.flash_bytes == len(plan.data)
    assert bytes.fromhex(plan.digest) == plan.data[-48:-16]


def test_a_plan_stripped_of_its_names_counts() -> None:
    model = replace(described().model, names=None)
    plan = Plan.from_bytes(write_plan(model))
    assert [layer.name for layer in plan.layers] == ["step 0", "step 1"]
    assert (plan.inputs[0].name, plan.outputs[0].name) == ("input 0", "output 0")


@pytest.mark.parametrize(("geometry", "kind"), [
    ({"in_c": 4, "rows": 3}, "fully_connected"),
    ({"in_c": 4, "rows": 3, "in_w": 5, "out_w": 5}, "conv1d"),
    ({"in_c": 4, "rows": 8, "groups": 4, "in_w": 5, "out_w": 5}, "depthwise"),
    ({"in_c": 4, "rows": 8, "groups": 2, "in_w": 5, "out_w": 5}, "conv1d"),
    ({"in_c": 1, "rows": 8, "in_h": 5, "in_w": 5, "kernel_h": 5, "kernel_w": 5}, "conv2d"),
    ({"in_c": 1, "rows": 8, "in_h": 5, "in_w": 1, "kernel_h": 5}, "conv2d"),
])
def test_layers_are_called_what_they_are(geometry: dict[str, int], kind: str) -> None:
    g = pm.Geometry(**geometry)
    w = np.ones((g.rows, g.kernel_h * g.kernel_w * g.in_c // g.groups), np.int8)
    source = pm.Mac(geometry=g, weights=stored(w), bias=np.zeros(g.rows, np.int32),
                    bias_form=pm.BiasForm.PLAIN)
    b = PlanBuilder()
    b.tail(source, b.input(g.in_h * g.in_w, g.in_c), b.output(g.out_h * g.out_w, g.rows),
           requant(np.full(g.rows, 0.1), 0))
    assert Plan.from_bytes(write_plan(b.plan())).layers[0].kind == kind


def test_a_plan_is_saved_and_loaded(tmp_path: pytest.TempPathFactory) -> None:
    plan = described()
    path = f"{tmp_path}/plan.esp"
    plan.save(path)
    assert Plan.load(path).data == plan.data
    with pytest.raises(BadInput, match="nowhere"):
        Plan.load(f"{tmp_path}/nowhere.esp")
    with pytest.raises(BadInput, match="nowhere"):
        plan.save(f"{tmp_path}/nowhere/plan.esp")
