"""Builtin operators that compute -> Op; and the one table of all operators that import."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import tflite

from edgesparse.graph.ir import Quant, Tensor
from edgesparse.importers import tflite_layout as layout
from edgesparse.importers import tflite_recurrent as recurrent
from edgesparse.importers import tflite_state as state
from edgesparse.importers.tflite_call import Call
from edgesparse.ops import (
    Activation,
    Add,
    AvgPool,
    Conv,
    Dequantize,
    FullyConnected,
    HardSwish,
    LeakyRelu,
    Logistic,
    MaxPool,
    Mean,
    Mul,
    Op,
    Quantize,
    Relu,
    Requantize,
    Softmax,
    Sub,
    Tanh,
)

Handler = Callable[[Call], None]

ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: Activation.NONE,
    tflite.ActivationFunctionType.RELU: Activation.RELU,
    tflite.ActivationFunctionType.RELU_N1_TO_1: Activation.RELU_N1_TO_1,
    tflite.ActivationFunctionType.RELU6: Activation.RELU6,
}
REFUSED_ACTIVATIONS = {
    tflite.ActivationFunctionType.TANH: "TANH",
    tflite.ActivationFunctionType.SIGN_BIT: "SIGN_BIT",
}
FUSED = "FusedActivationFunction"
MAX_STEP = 1 << 15
"""Kernels, strides and dilations beyond this are damage, not design."""


def convolution(call: Call) -> None:
    """CONV_2D: x [N, H, W, C], w [M, kh, kw, C / groups], b [M] or absent."""
    x, w, b = _mac_inputs(call, per_channel_axis=0)
    if x.channels % w.shape[3]:
        call.fail(f"{x.channels} input channels are no multiple of the {w.shape[3]} of its weights")
    groups = x.channels // w.shape[3]
    if w.shape[0] % groups:
        call.fail(f"{w.shape[0]} output channels do not divide into {groups} groups")
    _emit_conv(call, (x, w, b), groups)


def depthwise(call: Call) -> None:
    """DEPTHWISE_CONV_2D: w [1, kh, kw, C * multiplier] becomes [C * multiplier, kh, kw, 1]."""
    x, w, b = _mac_inputs(call, per_channel_axis=3, reorder=_filters_first)
    if w.shape[0] % x.channels:
        call.fail(f"{w.shape[0]} filters are no multiple of {x.channels} input channels")
    _emit_conv(call, (x, w, b), groups=x.channels)


def fully_connected(call: Call) -> None:
    """FULLY_CONNECTED: x [..., K], w [M, K], b [M] or absent."""
    if call.option("WeightsFormat") != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        call.refuse("its weights are stored in the SHUFFLED4x16INT8 format",
                    "re-export without shuffled weights")
    x, w, b = _mac_inputs(call, per_channel_axis=0)
    keep_dims = bool(call.option("KeepNumDims"))
    call.emit(FullyConnected(keep_dims, activation=_activation(call)), (x, w, b))


def _emit_conv(call: Call, ins: tuple[Tensor, Tensor, Tensor], groups: int) -> None:
    x, w, _ = ins
    stride = (_step(call, "StrideH"), _step(call, "StrideW"))
    dilation = (_step(call, "DilationHFactor", 1), _step(call, "DilationWFactor", 1))
    pad = _padding(call, x, (w.shape[1], w.shape[2]), stride, dilation)
    call.emit(Conv(stride, dilation, pad, groups, activation=_activation(call)), ins)


def _mac_inputs(
    call: Call, per_channel_axis: int, reorder: Callable[[Tensor, str], Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(x, weights, bias); the bias is zeros when the file has none."""
    x = call.data(0)
    stored = call.constant(1, x)
    if call.op.name != "FULLY_CONNECTED":
        call.rank4(x, "input")
        call.rank4(stored, "weights")
    elif len(stored.shape) != 2:
        call.refuse(f"weights '{stored.name}' have shape {list(stored.shape)}; two dimensions are "
                    "allowed")
    if 0 in stored.shape:
        call.fail(f"weights '{stored.name}' of shape {list(stored.shape)} have no elements")
    _check_weights(call, x, stored, per_channel_axis)
    w = call.parameter(1, x, reorder)
    if call.has(2):
        return x, w, _bias(call, x, w)
    zeros = np.zeros(w.shape[0], np.int32 if x.dtype == "int8" else np.float32)
    quant = None
    if x.quant is not None and w.quant is not None:
        scale = x.scale * np.asarray(w.quant.scale, np.float64)
        limits = np.finfo(np.float32)
        if scale.min() < limits.tiny or scale.max() > limits.max:
            call.fail(f"the scales of '{x.name}' and '{w.name}' have no float32 product")
        single = scale.astype(np.float32)
        quant = Quant(tuple(single.tolist()), (0,) * single.size, w.quant.axis)
    name = call.build.fresh_name(f"{call.layer}/bias")
    return x, w, Tensor(name, zeros.shape, "int32" if quant else "float32", quant, zeros)


def _check_weights(call: Call, x: Tensor, w: Tensor, axis: int) -> None:
    if x.dtype == "int8" and w.dtype != "int8":
        call.refuse(f"weights '{w.name}' are {w.dtype} for int8 activations", "int8 weights")
    if x.dtype == "float32" and w.dtype not in ("float32", "float16", "int8"):
        call.refuse(f"weights '{w.name}' are {w.dtype} for float activations",
                    "float32, float16 or int8 weights")
    if w.dtype != "int8":
        return
    if w.quant is None:
        call.refuse(f"weights '{w.name}' are int8 without a scale",
                    "re-export with full integer quantization")
    if any(w.quant.zero_point):
        call.refuse(f"weights '{w.name}' have a zero point other than 0",
                    "re-export with symmetric weights")
    if w.quant.axis not in (None, axis):
        call.refuse(f"weights '{w.name}' are quantized along dimension {w.quant.axis}; along the "
                    f"output channels ({axis}) is allowed")


def _bias(call: Call, x: Tensor, w: Tensor) -> Tensor:
    b = call.parameter(2, x)
    allowed = "int32" if x.dtype == "int8" else "float32"
    if b.dtype != allowed:
        call.refuse(f"bias '{b.name}' is {b.dtype}; beside {x.dtype} activations {allowed} is "
                    "allowed")
    if b.size != w.shape[0]:
        call.fail(f"bias '{b.name}' has {b.size} entries for {w.shape[0]} output channels")
    if b.shape != (b.size,):
        call.refuse(f"bias '{b.name}' has shape {list(b.shape)}; one dimension is allowed")
    return b


def _filters_first(w: Tensor, name: str) -> Tensor:
    """[1, kh, kw, M] -> [M, kh, kw, 1], quantized along dimension 0."""
    assert w.data is not None
    data = np.ascontiguousarray(w.data.transpose(3, 1, 2, 0))
    quant = w.quant
    if quant is not None and quant.per_channel:
        quant = Quant(quant.scale, quant.zero_point, 0)
    return Tensor(name, data.shape, w.dtype, quant, data)


def pool(op: type[MaxPool] | type[AvgPool]) -> Handler:
    def handler(call: Call) -> None:
        x = call.data(0)
        call.rank4(x, "input")
        call.same_quant([x])
        kernel = (_step(call, "FilterHeight"), _step(call, "FilterWidth"))
        stride = (_step(call, "StrideH"), _step(call, "StrideW"))
        pad = _padding(call, x, kernel, stride, (1, 1))
        call.emit(op(kernel, stride, pad, _activation(call)), (x,))

    return handler


def mean(call: Call) -> None:
    x = call.data(0)
    axes = sorted({call.axis(axis, len(x.shape)) for axis in call.integers(1)})
    if not axes:
        call.fail("it names no dimension")
    call.emit(Mean(tuple(axes), bool(call.option("KeepDims"))), (x,))


def binary(op: type[Add] | type[Sub] | type[Mul]) -> Handler:
    def handler(call: Call) -> None:
        ins = (call.data(0), call.data(1))
        call.same_type(ins)
        call.emit(op(_activation(call)), ins)

    return handler


def softmax(call: Call) -> None:
    x = call.data(0)
    beta = float(call.option("Beta", 1.0))
    if not (math.isfinite(beta) and beta > 0):
        call.fail(f"beta is {beta}; it must be a positive number")
    _fixed_quant(call, 1 / 256, -128)
    call.emit(Softmax(beta), (x,))


def leaky_relu(call: Call) -> None:
    alpha = float(call.option("Alpha"))
    if not math.isfinite(alpha):
        call.fail(f"alpha is {alpha}")
    call.emit(LeakyRelu(alpha), (call.data(0),))


def unary(op: Op, scale: float | None = None, zero_point: int = 0) -> Handler:
    """`scale` and `zero_point`: what the int8 output must have."""

    def handler(call: Call) -> None:
        x = call.data(0)
        if scale is not None:
            _fixed_quant(call, scale, zero_point)
        call.emit(op, (x,))

    return handler


def quantize(call: Call) -> None:
    x = call.data(0)
    if x.dtype == "int8" and call.output().type == "UINT8":
        _as_uint8(call, x)
        return
    call.emit(Quantize() if x.dtype == "float32" else Requantize(), (x,), converts=True)


def _as_uint8(call: Call, x: Tensor) -> None:
    """A result for a user who wants uint8: the same real numbers, stored + 128."""
    raw, model = call.output(), call.build.model
    out = call.build.tensor(raw, raw.shape)
    ends_here = raw.index in model.outputs and call.index(0) not in model.outputs and not any(
        raw.index in op.inputs for op in model.operators)
    if not ends_here or call.index(0) in call.build.shown_as_uint8:
        call.refuse("uint8 activations are not executed; allowed is a graph output that is uint8",
                    "re-export with int8 activations")
    same = out.quant == Quant((x.scale,), (x.zero_point + 128,))
    if not same or out.shape != x.shape:
        call.refuse(f"it makes {_scaled(out)} of {_scaled(x)}; the same shape and scale, and a "
                    "zero point 128 higher, are allowed", "an int8 output")
    call.build.values[raw.index] = x
    call.build.uint8_outputs.add(raw.index)
    call.build.shown_as_uint8.add(call.index(0))


def _scaled(t: Tensor) -> str:
    parameters = f"scale {t.scale:g}, zero point {t.zero_point}" if t.quant else "no scale"
    return f"{t.dtype} {list(t.shape)} ({parameters})"


def dequantize(call: Call) -> None:
    """Of a constant, it waits for its reader (Build.dequantized)."""
    source, raw = call.any(0), call.output()
    if source.data is None:
        call.emit(Dequantize(), (call.data(0),), converts=True)
        return
    if source.dtype not in ("int8", "float16") or (source.dtype == "int8" and not source.quant):
        call.refuse(f"'{source.name}' is {source.dtype}; int8 with a scale, or float16, is allowed",
                    "re-export with int8 or float16 weights")
    out = call.build.tensor(raw, raw.shape)
    if out.dtype != "float32" or out.shape != source.shape:
        call.fail(f"it makes {out.dtype} {list(out.shape)} of {source.dtype} {list(source.shape)}")
    call.build.dequantized[raw.index] = source


def _step(call: Call, field: str, default: int = 0) -> int:
    value = int(call.option(field, default))
    if not 1 <= value <= MAX_STEP:
        call.fail(f"{field} is {value}; it must be 1 ... {MAX_STEP}")
    return value


def _activation(call: Call) -> Activation:
    code = call.option(FUSED, tflite.ActivationFunctionType.NONE)
    if code in REFUSED_ACTIVATIONS:
        call.refuse(f"its fused activation is {REFUSED_ACTIVATIONS[code]}",
                    "make the activation an operator of its own")
    if code not in ACTIVATIONS:
        call.fail(f"fused activation {code} is none of the schema's")
    return ACTIVATIONS[code]


def _padding(
    call: Call, x: Tensor, kernel: tuple[int, int], stride: tuple[int, int],
    dilation: tuple[int, int],
) -> tuple[int, int, int, int]:
    """(top, bottom, left, right). SAME: ceil(size / stride) outputs, the odd one at the end.

    Source: TFLite padding.h, ComputePaddingHeightWidth.
    """
    code = call.option("Padding")
    if code == tflite.Padding.VALID:
        return 0, 0, 0, 0
    if code != tflite.Padding.SAME:
        call.fail(f"padding {code} is none of the schema's")
    ends: list[int] = []
    for size, k, s, d in zip(x.shape[1:3], kernel, stride, dilation):
        total = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
        ends += (total // 2, total - total // 2)
    top, bottom, left, right = ends
    return top, bottom, left, right


def _fixed_quant(call: Call, scale: float, zero_point: int) -> None:
    """TFLite's kernel computes in this output quantization and refuses others."""
    quant = call.out_quant()
    if quant is not None and call.output().type == "INT8" and not (
        math.isclose(quant.scale[0], scale, rel_tol=1e-3) and quant.zero_point == (zero_point,)
    ):
        call.refuse(f"its output has scale {quant.scale[0]:g} and zero point "
                    f"{quant.zero_point[0]}; {scale:g} and {zero_point} are allowed",
                    "re-export with the TFLite converter")


HANDLERS: Mapping[str, Handler] = {
    "ADD": binary(Add),
    "ASSIGN_VARIABLE": state.assign_variable,
    "AVERAGE_POOL_2D": pool(AvgPool),
    "BATCH_TO_SPACE_ND": layout.batch_to_space,
    "CALL_ONCE": state.call_once,
    "CONCATENATION": layout.concatenation,
    "CONV_2D": convolution,
    "DENSIFY": layout.densify,
    "DEPTHWISE_CONV_2D": depthwise,
    "DEQUANTIZE": dequantize,
    "EXPAND_DIMS": layout.expand_dims,
    "FILL": layout.fill,
    "FULLY_CONNECTED": fully_connected,
    "GATHER": layout.gather,
    "HARD_SWISH": unary(HardSwish()),
    "LEAKY_RELU": leaky_relu,
    "LOGISTIC": unary(Logistic(), 1 / 256, -128),
    "MAX_POOL_2D": pool(MaxPool),
    "MEAN": mean,
    "MUL": binary(Mul),
    "PACK": layout.pack,
    "PAD": layout.pad,
    "QUANTIZE": quantize,
    "READ_VARIABLE": state.read_variable,
    "REDUCE_PROD": layout.reduce_prod,
    "RELU": unary(Relu(Activation.RELU)),
    "RELU6": unary(Relu(Activation.RELU6)),
    "RELU_N1_TO_1": unary(Relu(Activation.RELU_N1_TO_1)),
    "RESHAPE": layout.reshape,
    "SHAPE": layout.shape,
    "SOFTMAX": softmax,
    "SPACE_TO_BATCH_ND": layout.space_to_batch,
    "SPLIT": layout.split,
    "SPLIT_V": layout.split_v,
    "SQUEEZE": layout.squeeze,
    "STRIDED_SLICE": layout.strided_slice,
    "SUB": binary(Sub),
    "SVDF": recurrent.svdf,
    "TANH": unary(Tanh(), 1 / 128, 0),
    "TRANSPOSE": layout.transpose,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": recurrent.lstm,
    "UNPACK": layout.unpack,
    "VAR_HANDLE": state.var_handle,
}
