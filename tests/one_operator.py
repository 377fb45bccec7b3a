"""Models of one operator, for tests of the importer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tflite

from edgesparse.graph.ir import Quant, Tensor
from tflite_builder import Call, Options, build

Q = Quant((0.05,), (-3,))
SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID


def act(name: str, *shape: int, quant: Quant = Q) -> Tensor:
    return Tensor(name, shape, "int8", quant)


def real(name: str, *shape: int) -> Tensor:
    return Tensor(name, shape, "float32")


def ints(name: str, values: npt.ArrayLike) -> Tensor:
    data = np.array(values, np.int32)
    return Tensor(name, data.shape, "int32", None, data)


def weights(name: str, *shape: int, axis: int | None = 0) -> Tensor:
    """int8, with one scale per index of `axis`; always the same for one shape."""
    rng = np.random.default_rng(shape)
    count = 1 if axis is None else shape[axis]
    scale = tuple(float(np.float32(s)) for s in rng.uniform(0.001, 0.01, count))
    data = rng.integers(-127, 128, shape).astype(np.int8)
    return Tensor(name, shape, "int8", Quant(scale, (0,) * count, axis), data)


def bias(w: Tensor, count: int) -> Tensor:
    """The bias beside `w`: scale of an activation times scale of w."""
    assert w.quant is not None
    scale = tuple(float(np.float32(s * Q.scale[0])) for s in w.quant.scale)
    quant = Quant(scale, (0,) * len(scale), 0 if w.quant.per_channel else None)
    data = np.random.default_rng(count).integers(-2000, 2000, count).astype(np.int32)
    return Tensor("b", (count,), "int32", quant, data)


def one(code: str, ins: Sequence[Tensor], outs: Sequence[Tensor],
        options: Options | None = None) -> bytes:
    """A model of one operator; its inputs are the tensors without data."""
    call = Call(code, tuple(t.name for t in ins), tuple(t.name for t in outs), options)
    tensors = [t for t in (*ins, *outs) if t.name]
    return build(list({t.name: t for t in tensors}.values()), [call],
                 [t.name for t in ins if t.data is None and t.name], [t.name for t in outs])


ABSENT = Tensor("", (), "int32")
FC = Options("FullyConnected")


def conv_options(kind: str, **fields: int) -> Options:
    return Options(kind, {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1,
                          "DilationHFactor": 1} | fields)
