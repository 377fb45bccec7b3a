"""Recurrent operators with variable tensors: UNIDIRECTIONAL_SEQUENCE_LSTM and SVDF.

Their state is a tensor of the file that is marked variable and starts as nothing (zero points);
it goes on from one invocation to the next, as TFLite's does until it is reset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tflite

from edgesparse.graph.ir import Quant, Shape, Tensor
from edgesparse.importers.tflite_call import Call
from edgesparse.importers.tflite_schema import RawTensor
from edgesparse.ops import Lstm, Svdf
from edgesparse.ops.lstm import MOST_CELL_BITS

INT8 = "export it with full integer quantization: int8 activations and weights, int16 state"
FLOAT = f"{INT8}, or unroll the layer (Keras: unroll=True)"
PLAIN = "a plain LSTM (Keras: tf_keras.layers.LSTM)"
VARIANTS = (
    ((9, 10, 11), "peephole connections"),
    ((16, 17), "a projection"),
    ((20, 21, 22, 23), "layer normalization"),
)
"""Optional inputs of an LSTM and what they make of it."""
INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES = (1, 2, 3, 4), (5, 6, 7, 8), (12, 13, 14, 15)
HIDDEN_STATE, CELL_STATE = 18, 19
HIDDEN_SCALE = 4
"""The intermediate tensor with the scale of the output before a projection."""


def lstm(call: Call) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: the four gates become the rows of one matrix."""
    x = call.data(0)
    if x.dtype != "int8":
        call.refuse(f"it computes in {x.dtype}", FLOAT)
    if len(x.shape) != 3:
        call.refuse(f"its input has shape {list(x.shape)}; [1, T, C] is allowed",
                    "re-export with the TFLite converter")
    _check_variant(call)
    w, r = (_stacked(call, x, numbers, label) for numbers, label in (
        (INPUT_WEIGHTS, "input"), (RECURRENT_WEIGHTS, "recurrent")))
    b = _biases(call, x)
    units = r.shape[1]
    _state(call, HIDDEN_STATE, "INT8", (1, units))
    bits, clip = _cell(call, units)
    _check_hidden(call)
    call.emit(Lstm(bits, clip), (x, w, r, b))


def svdf(call: Call) -> None:
    """SVDF: x [1, C], feature weights int8, time weights int16, bias int32, state int16."""
    x = call.data(0)
    if x.dtype != "int8":
        call.refuse(f"it computes in {x.dtype}", INT8)
    if call.option("FusedActivationFunction") != tflite.ActivationFunctionType.RELU:
        call.refuse("its activation is not RELU, the only one TFLite's integer kernel has",
                    "activation='relu' in this layer")
    w, t = _matrix(call, x, 1, "int8"), _matrix(call, x, 2, "int16")
    rank = int(call.option("Rank"))
    filters, memory = t.shape
    if rank < 1 or filters % rank:
        call.fail(f"{filters} filters of rank {rank}")
    state = _state(call, 4, "INT16", (1, filters * memory))
    b = _vector(call, x, 3) if call.has(3) else Tensor(
        call.build.fresh_name(f"{call.layer}/bias"), (filters // rank,), "int32", None,
        np.zeros(filters // rank, np.int32))
    call.emit(Svdf(float(state.scale[0]), rank), (x, w, t, b))


# ---- what an LSTM must be ---------------------------------------------------------------------


def _check_variant(call: Call) -> None:
    if not call.has(INPUT_WEIGHTS[0]):
        call.refuse("it has coupled input and forget gates (CIFG), which are not executed", PLAIN)
    for numbers, what in VARIANTS:
        if any(call.has(i) for i in numbers):
            call.refuse(f"it has {what}, which is not executed", PLAIN)
    if call.option("TimeMajor", False):
        call.refuse("its input is time-major; [1, T, C] is allowed", "time_major=False")
    activation = call.option("FusedActivationFunction")
    if activation != tflite.ActivationFunctionType.TANH:
        call.refuse(f"its activation is number {activation} of the schema; TANH is allowed", PLAIN)


def _cell(call: Call, units: int) -> tuple[int, int]:
    """(integer bits, clip in stored units; 0: none) of the cell state.

    Source: TFLite unidirectional_sequence_lstm.cc, PopulateQuantizedLstmParams8x8_16.
    """
    scale = _state(call, CELL_STATE, "INT16", (1, units)).scale[0]
    exponent = round(math.log2(scale))
    if abs(math.log2(scale) - exponent) > 1e-3 or not 0 <= exponent + 15 <= MOST_CELL_BITS:
        call.refuse(f"its cell state has scale {scale:g}; a power of two from 2**-15 to 2**-9 is "
                    "allowed", "re-export with the TFLite converter")
    clip = float(call.option("CellClip", 0.0))
    if not math.isfinite(clip):
        call.fail(f"its cell clip is {clip}")
    return exponent + 15, max(int(np.float32(min(clip / float(scale), 32767.0))), 0)


def _check_hidden(call: Call) -> None:
    """The output, the state and the inner scale are one quantization, as converters write it."""
    inner = call.op.intermediates
    if len(inner) <= HIDDEN_SCALE or not 0 <= inner[HIDDEN_SCALE] < len(call.build.model.tensors):
        call.fail("the scale of its hidden values is missing")
    tensors = call.build.model.tensors
    hidden, state = tensors[inner[HIDDEN_SCALE]], tensors[call.index(HIDDEN_STATE)]
    out = call.out_quant()
    for raw in (hidden, state):
        quant = Quant(tuple(raw.scale.tolist()), tuple(raw.zero_point.tolist()))
        if quant != out:
            call.refuse(f"'{raw.name}' and the output have different scales or zero points",
                        "re-export with the TFLite converter")


# ---- parts ------------------------------------------------------------------------------------


def _state(call: Call, i: int, kind: str, shape: Shape) -> RawTensor:
    """Input i as the state of this operator and of no other."""
    index = call.index(i)
    raw = call.build.model.tensors[index]
    if not raw.is_variable or call.build.is_constant(raw):
        call.refuse(f"its state '{raw.name}' is no variable tensor", INT8)
    if raw.type != kind or raw.scale.size != 1:
        call.refuse(f"its state '{raw.name}' is {raw.type.lower()} with {raw.scale.size} scales; "
                    f"{kind.lower()} with one is allowed", INT8)
    call.build.tensor(raw, raw.shape)  # checks the scale
    if raw.shape != shape:
        call.fail(f"its state '{raw.name}' has shape {list(raw.shape)}; it must be {list(shape)}")
    users = sum(op.inputs.count(index) for op in call.build.model.operators)
    if users != 1 or index in call.build.model.outputs:
        call.refuse(f"its state '{raw.name}' is used elsewhere too", "a state of its own")
    return raw


def _matrix(call: Call, x: Tensor, i: int, dtype: str) -> Tensor:
    """Input i as a constant matrix of one scale, zero point 0."""
    w = call.constant(i, x)
    if w.dtype != dtype or w.quant is None:
        call.refuse(f"weights '{w.name}' are {w.dtype}{'' if w.quant else ' without a scale'}; "
                    f"{dtype} is allowed", INT8)
    if len(w.quant.scale) != 1 or any(w.quant.zero_point):
        call.refuse(f"weights '{w.name}' have a zero point or a scale per channel", INT8)
    if len(w.shape) != 2 or 0 in w.shape:
        call.fail(f"weights '{w.name}' have shape {list(w.shape)}")
    return w


def _vector(call: Call, x: Tensor, i: int) -> Tensor:
    b = call.constant(i, x)
    if b.dtype != "int32":
        call.refuse(f"bias '{b.name}' is {b.dtype}; int32 is allowed", INT8)
    if len(b.shape) != 1:
        call.fail(f"bias '{b.name}' has shape {list(b.shape)}")
    return b


def _stacked(call: Call, x: Tensor, numbers: Sequence[int], label: str) -> Tensor:
    """The weights of four gates as one matrix, each row with its gate's scale."""
    gates = [_matrix(call, x, i, "int8") for i in numbers]
    rows = gates[0].shape[0]
    if any(w.shape != gates[0].shape for w in gates):
        call.fail(f"its {label} weights have shapes {[list(w.shape) for w in gates]}")
    scales = tuple(w.quant.scale[0] for w in gates if w.quant is not None for _ in range(rows))
    return _joined(call, gates, f"{label}_weights", Quant(scales, (0,) * len(scales), 0))


def _biases(call: Call, x: Tensor) -> Tensor:
    gates = [_vector(call, x, i) for i in BIASES]
    if any(b.shape != gates[0].shape for b in gates):
        call.fail(f"its biases have shapes {[list(b.shape) for b in gates]}")
    return _joined(call, gates, "bias", None)


def _joined(call: Call, parts: Sequence[Tensor], label: str, quant: Quant | None) -> Tensor:
    call.build.room(sum(t.size for t in parts), f"operator {call.op.index} ({call.op.name})")
    data = np.concatenate([t.data for t in parts if t.data is not None])
    name = call.build.fresh_name(f"{call.layer}/{label}")
    return Tensor(name, data.shape, parts[0].dtype, quant, data)
