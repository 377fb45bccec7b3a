"""A valid plan that has one of everything, from which tests break one thing at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgesparse.plan import model as pm
from edgesparse.plan.interpret import Interpreter
from edgesparse.plan.npu_model import BlobPart, Npu, NpuBlob
from edgesparse.plan.write import write_plan
from edgesparse.quantize.fixedpoint import Rounding
from edgesparse.sparsity.formats import Bitmask, Bsr, DeltaCsr, Dense, Lanes, Nm
from plan_builder import (
    WHOLE,
    Matrix,
    PlanBuilder,
    add,
    lstm,
    mac,
    random_weights,
    requant,
    scaled,
    stored,
    svdf,
    values,
)

SEED = 20


def everything() -> pm.PlanModel:
    """Every table, source, stage, encoding, layout and role; its golden vector is right.

    Steps by number: 0 Load into a ring; 1 Mac over the ring (dense, bitmask and BSR rows in
    another order); 2 depthwise Mac, PLAIN, in
    lanes, with a pool; 3 horizontal Mac (N:M and delta-CSR rows)
    into two parts of one tensor, one by AddSingleRequant; 4 Load with Add, Mul, Lut, AvgPool;
    5 Load in place; 6 Load with Mean and Softmax; 7 Copy; 8 Lstm; 9 Svdf with two branches.
    """
    rng = np.random.default_rng(7)
    b = PlanBuilder()
    ring = b.ring(9, 4, zero_point=-3)
    b.ring(1, 1)
    x = b.input(1, 16, 4, zero_point=3, scale=0.5)
    fresh = b.input(2, 4, zero_point=-3)
    b.tail(pm.Load(), fresh, b.append(ring, 2), pm.Clamp(qmin=-100, qmax=100))
    convolved = _over_the_ring(b, rng, b.view(ring, 6, lag=1))
    _halves(b, rng, convolved, _depthwise(b, rng, x))
    b.inputs[0] = replace(b.inputs[0], float_io=True)
    reversed_x = b.output(1, 16, 4)
    b.tail(
        pm.Copy(dims=(15, 4), in_offset=3, in_strides=(4, -1), out_offset=56, out_strides=(-4, 1),
                fill=True, fill_value=-5), x, reversed_x)
    _recurrent(b, rng, fresh, b.outputs[0].tensor)
    plan = b.plan(
        config=0x1234, source_sha256=bytes(range(32)), producer="edgesparse", options="target=host",
        golden=pm.Golden(seed=SEED, trace_crc=0, outputs=np.zeros(84, np.int8)),
        names=pm.Names(
            model="m", tensors=tuple(f"t{i}" for i in range(len(b.tensors))),
            steps=tuple(f"s{i}" for i in range(len(b.steps))), inputs=("x", "fresh"),
            outputs=("y", "z", "h", "u", "v"), labels=("é", "b")),
        npu=Npu(
            config=0x1234, scratchpad_bytes=64, prologue=1, commands=np.zeros(48, np.uint8),
            blobs=_every_blob()))
    crc, outputs = Interpreter(write_plan(plan)).self_test_values(SEED)
    return replace(plan, golden=pm.Golden(seed=SEED, trace_crc=crc, outputs=outputs))


def _every_blob() -> tuple[NpuBlob, ...]:
    """One of each part."""
    return (
        NpuBlob(part=BlobPart.VALUES, step=2), NpuBlob(part=BlobPart.INDEX, step=1, index=2),
        NpuBlob(part=BlobPart.BIAS, step=3), NpuBlob(part=BlobPart.MULTIPLIER, step=3),
        NpuBlob(part=BlobPart.SHIFT, step=2), NpuBlob(part=BlobPart.TABLE, step=4, index=2),
        NpuBlob(part=BlobPart.TENSOR, index=7))


def _over_the_ring(b: PlanBuilder, rng: np.random.Generator, past: int) -> int:
    """6 columns of 4 channels -> 6 x 12, PLANAR with a halo."""
    w = random_weights(rng, 12, 12, 0.5)
    order = np.roll(np.arange(12), 3).astype(np.uint16)
    unordered = np.empty_like(w)
    unordered[order] = w
    out = b.tensor(6, 12, layout=pm.Layout.PLANAR, halo=1, zero_point=-1, scale=0.25)
    weights = stored(w, (3, Dense()), (4, Bitmask()), (5, Bsr(2, 4)), row_order=order)
    b.tail(
        mac(weights, unordered, values(rng, 12).astype(np.int64), -3, in_w=6, in_c=4, out_w=6,
            kernel_w=3, pad_left=1),
        past, out, requant(rng.random(12) / 100, 5))
    return out


def _depthwise(b: PlanBuilder, rng: np.random.Generator, x: int) -> int:
    """16 columns of 4 channels -> 8 x 4, pooled to 4 x 4 in C4."""
    w = random_weights(rng, 4, 3)
    out = b.tensor(1, 4, 4, layout=pm.Layout.C4, zero_point=5)
    b.tail(
        mac(stored(w, (4, Lanes.dense(16))), w, values(rng, 4).astype(np.int64), 3,
            bias_form=pm.BiasForm.PLAIN, in_w=16,
            in_c=4, groups=4, out_w=8, kernel_w=3, stride_w=2, pad_left=1),
        x, out, requant(np.array([0.01]), 5, rounding=Rounding.SINGLE),
        pm.MaxPool(window=pm.Window(in_w=8, out_w=4, kernel_w=2, stride_w=2), **WHOLE))
    return out


def _halves(b: PlanBuilder, rng: np.random.Generator, convolved: int, pooled: int) -> None:
    """Steps 3 to 6; the first output is their result, 1 x 10."""
    w = random_weights(rng, 10, 4)
    w[:6] *= np.array([0, 1, 1, 0], np.int8)
    w[7, :3] = 0
    halves = b.tensor(1, 4, 10, pitch=11)
    residual = b.constant(values(rng, 1, 4))
    b.step(
        mac(stored(w, (6, Nm(2, 4)), (4, DeltaCsr(4))), w, values(rng, 10).astype(np.int64), 5,
            in_w=4, in_c=4, out_w=4),
        pooled,
        pm.Branch(channels=6, output=b.part(halves, 0, 6), stages=(
            requant(rng.random(6) / 50, 0),)),
        pm.Branch(first_channel=6, channels=4, output=b.part(halves, 6, 4), stages=(
            pm.AddSingleRequant(
                operand=residual, other_zero_point=9, multiplier=np.array([77], np.int32),
                other_multiplier=np.array([900] * 4, np.int32), shift=np.array([14], np.int8),
                zero_point=1, qmin=-120, qmax=120),)))
    spread = b.tensor(1, 4, 10, layout=pm.Layout.POLYPHASE, phases=2, halo=1, zero_point=2)
    constant = b.constant(values(rng, 1, 10))
    b.tail(
        pm.Load(), halves, spread, add(constant, (0, 1, 2), negate_other=True),
        pm.Mul(operand=halves, value_zero_point=1, other_zero_point=2, out=scaled(3, 0.01),
               rounding=Rounding.SINGLE, **WHOLE),
        pm.Lut(table=values(rng, 256)),
        pm.AvgPool(window=pm.Window(in_w=4, out_w=4, kernel_w=3, pad_left=1), **WHOLE))
    b.tail(pm.Load(), spread, b.same_place(spread), add(constant, (0, 0, 0)))
    mean = pm.Mean(in_zero_point=1, scaled=scaled(-3, 0.25), rounding=Rounding.SINGLE, **WHOLE)
    b.tail(pm.Load(), len(b.tensors) - 1, b.output(1, 10), mean,
           pm.Softmax(multiplier=1 << 30, shift=20, diff_min=-99))
    assert b.tensors[convolved].place.halo == 1


def _recurrent(b: PlanBuilder, rng: np.random.Generator, x: int, y: int) -> None:
    """Steps 8 and 9; their outputs: 2 x 3, 1 x 2 and 1 x 2."""
    w, r = random_weights(rng, 12, 4), random_weights(rng, 12, 3, 0.5)
    matrices = (
        Matrix(stored(w, (5, Dense()), (7, Bsr(4, 1))), w),
        Matrix(stored(r, (6, Bitmask()), (6, DeltaCsr(4))), r))
    b.tail(lstm(b, x, matrices, 7, rng, cell_bits=4, cell_clip=20000), x, b.output(2, 3))
    f = random_weights(rng, 8, 10)
    factor = np.array([2.0**-25])
    b.step(
        svdf(b, y, Matrix(stored(f), f), rank=2, memory=3, rng=rng), y,
        pm.Branch(channels=2, output=b.output(1, 2), stages=(requant(factor, 1),)),
        pm.Branch(first_channel=2, channels=2, output=b.output(1, 2), stages=(
            requant(factor, -4, rounding=Rounding.SINGLE), pm.Clamp(qmin=-100, qmax=100))))


def c_header(data: bytes) -> str:
    """Plan bytes for the C tests, which have no files in QEMU."""
    rows = (data[i : i + 16] for i in range(0, len(data), 16))
    body = ",\n    ".join(", ".join(f"0x{byte:02x}" for byte in row) for row in rows)
    return (
        "/* The plan of tests/everything.py, written by\n"
        " * pytest tests/test_plan_open.py --update-golden */\n"
        "#include <stdint.h>\n\n"
        "/* clang-format off */\n"
        f"static const uint8_t plan_everything[{len(data)}]\n"
        "    __attribute__((aligned(16))) = {\n"
        f"    {body}}};\n")
