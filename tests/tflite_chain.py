"""Build whole small networks as .tflite files, layer by layer, int8 or float32.

    net = Net(np.random.default_rng(0))
    x = net.input(1, 1, 140, 8)
    model = net.build(net.dense(net.flat(net.conv(x, 16, (1, 3))), 5))

Scales are chosen so that the values of every layer spread over the int8 range.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tflite

from edgesparse.graph.ir import Array, Quant, Tensor
from tflite_builder import Call, Options, build

SPREAD = 74.0
"""Standard deviation of int8 values that are uniform over their range."""
GAIN = 2.0
"""How much wider than its input a result is stored, against what activations cut away."""
ACTIVATIONS = {
    "none": tflite.ActivationFunctionType.NONE, "relu": tflite.ActivationFunctionType.RELU,
    "relu6": tflite.ActivationFunctionType.RELU6,
}
PADDINGS = {"same": tflite.Padding.SAME, "valid": tflite.Padding.VALID}


class Net:
    """Layers as they come; every method returns the name of the tensor it computes."""

    def __init__(self, rng: np.random.Generator, real: bool = False) -> None:
        self.rng = rng
        self.real = real
        self.tensors: dict[str, Tensor] = {}
        self.calls: list[Call] = []
        self.inputs: list[str] = []

    def build(self, *outputs: str) -> bytes:
        return build(list(self.tensors.values()), self.calls, self.inputs, outputs)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.tensors[name].shape

    def input(self, *shape: int) -> str:
        name = f"input{len(self.inputs)}"
        self.inputs.append(name)
        return self._tensor(name, shape, 0.05)

    # Layers

    def conv(self, x: str, rows: int, kernel: tuple[int, int], **how: Any) -> str:
        """CONV_2D on [1, H, W, C]; how: stride, dilation, padding, activation, zeros, weights."""
        data = how.pop("weights", None)
        if data is None:
            data = self.weights(rows, *kernel, self.shape(x)[-1], zeros=how.pop("zeros", 0.0))
        return self._sliding("CONV_2D", x, data, 0, how)

    def depthwise(self, x: str, kernel: tuple[int, int], **how: Any) -> str:
        data = self.weights(1, *kernel, self.shape(x)[-1], zeros=how.pop("zeros", 0.0))
        return self._sliding("DEPTHWISE_CONV_2D", x, data, 3, how)

    def dense(
        self, x: str, rows: int, activation: str = "none", zeros: float = 0.0,
        weights: Array | None = None,
    ) -> str:
        """FULLY_CONNECTED on [N, K], one scale for all weights as the converter writes it."""
        data = self.weights(rows, self.shape(x)[-1], zeros=zeros) if weights is None else weights
        w, b, scale = self._parameters(x, data, None)
        options = Options("FullyConnected", {"FusedActivationFunction": ACTIVATIONS[activation]})
        shape = (self.shape(x)[0], rows)
        return self._call("FULLY_CONNECTED", (x, w, b), shape, options, scale)

    def pool(self, kind: str, x: str, kernel: tuple[int, int], **how: Any) -> str:
        """kind: MAX_POOL_2D or AVERAGE_POOL_2D."""
        stride, padding = how.get("stride", kernel), how.get("padding", "valid")
        options = Options("Pool2D", {
            "Padding": PADDINGS[padding], "FilterHeight": kernel[0], "FilterWidth": kernel[1],
            "StrideH": stride[0], "StrideW": stride[1]})
        shape = self._positions(self.shape(x), kernel, stride, (1, 1), padding)
        return self._moved(kind, (x,), (*shape, self.shape(x)[-1]), options)

    def binary(self, kind: str, a: str, b: str, activation: str = "none") -> str:
        """kind: ADD or MUL, with broadcasting."""
        options = Options(
            kind.capitalize(), {"FusedActivationFunction": ACTIVATIONS[activation]})
        scales = [self.tensors[t].scale for t in (a, b)] if not self.real else [1.0, 1.0]
        scale = sum(scales) if kind == "ADD" else math.prod(scales) * SPREAD
        shape = np.broadcast_shapes(self.shape(a), self.shape(b))
        return self._call(kind, (a, b), shape, options, float(scale))

    def relu(self, x: str) -> str:
        """RELU into the quantization that the converter gives it: no code for negative numbers."""
        quant = None if self.real else Quant((self.tensors[x].scale,), (-128,))
        return self._call("RELU", (x,), self.shape(x), quant=quant)

    def softmax(self, x: str) -> str:
        return self._call(
            "SOFTMAX", (x,), self.shape(x), Options("Softmax", {"Beta": 1.0}),
            quant=None if self.real else Quant((1 / 256,), (-128,)))

    # Layout

    def reshape(self, x: str, *shape: int) -> str:
        target = self.ints(*shape)
        return self._moved("RESHAPE", (x, target), shape, Options("Reshape", {"NewShape": shape}))

    def flat(self, x: str) -> str:
        return self.reshape(x, 1, math.prod(self.shape(x)))

    def expand(self, x: str, axis: int) -> str:
        shape = list(self.shape(x))
        shape.insert(axis, 1)
        axis_tensor = self.ints(axis, scalar=True)
        return self._moved("EXPAND_DIMS", (x, axis_tensor), tuple(shape), Options("ExpandDims"))

    def squeeze(self, x: str, axis: int) -> str:
        shape = list(self.shape(x))
        assert shape.pop(axis) == 1
        return self._moved(
            "SQUEEZE", (x,), tuple(shape), Options("Squeeze", {"SqueezeDims": (axis,)}))

    def pad(self, x: str, *pairs: tuple[int, int]) -> str:
        shape = tuple(n + low + high for n, (low, high) in zip(self.shape(x), pairs, strict=True))
        return self._moved("PAD", (x, self.matrix(*pairs)), shape, Options("Pad"))

    def space_to_batch(self, x: str, block: int, pads: tuple[int, int]) -> str:
        """Of [1, T, C], along T."""
        _, time, channels = self.shape(x)
        shape = (block, (time + sum(pads)) // block, channels)
        return self._moved(
            "SPACE_TO_BATCH_ND", (x, self.ints(block), self.matrix(pads)), shape,
            Options("SpaceToBatchND"))

    def batch_to_space(self, x: str, block: int, crops: tuple[int, int]) -> str:
        _, time, channels = self.shape(x)
        shape = (1, time * block - sum(crops), channels)
        return self._moved(
            "BATCH_TO_SPACE_ND", (x, self.ints(block), self.matrix(crops)), shape,
            Options("BatchToSpaceND"))

    # Constants

    def weights(self, *shape: int, zeros: float = 0.0) -> Array:
        """Random weights [rows, ...] (depthwise: [1, ..., channels]), the smallest of them set to 0
        until a share of `zeros` is. A result is about as large as what it is computed from."""
        terms = math.prod(shape[1:]) / (shape[-1] if shape[0] == 1 else 1)
        w: Array = (self.rng.normal(size=shape) / math.sqrt(terms)).astype(np.float32)
        if zeros:
            w[np.abs(w) <= np.quantile(np.abs(w), zeros)] = 0
        return w

    def vector(self, channels: int, low: float = -1.0, high: float = 1.0) -> str:
        """[channels] random numbers as a constant operand."""
        real = self.rng.uniform(low, high, channels).astype(np.float32)
        if self.real:
            return self.constant(real)
        scale = float(np.float32(max(abs(low), abs(high)) / 127))
        return self.constant(np.rint(real / scale).astype(np.int8), Quant((scale,), (0,)))

    def ints(self, *values: int, scalar: bool = False) -> str:
        data = np.array(values[0] if scalar else values, np.int32)
        return self.constant(data)

    def matrix(self, *pairs: tuple[int, int]) -> str:
        return self.constant(np.array(pairs, np.int32))

    def constant(self, data: Array, quant: Quant | None = None) -> str:
        return self._add(Tensor(
            f"constant{len(self.tensors)}", data.shape, data.dtype.name,  # type: ignore[arg-type]
            quant, data))

    # Inside

    def _sliding(self, code: str, x: str, data: Array, axis: int, how: dict[str, Any]) -> str:
        stride, dilation = how.get("stride", (1, 1)), how.get("dilation", (1, 1))
        padding = how.get("padding", "same")
        w, b, scale = self._parameters(x, data, axis)
        fields = {
            "Padding": PADDINGS[padding], "StrideH": stride[0], "StrideW": stride[1],
            "DilationHFactor": dilation[0], "DilationWFactor": dilation[1],
            "FusedActivationFunction": ACTIVATIONS[how.get("activation", "none")]}
        if code == "CONV_2D":
            options = Options("Conv2D", fields)
        else:
            options = Options("DepthwiseConv2D", {**fields, "DepthMultiplier": 1})
        kernel = (data.shape[1], data.shape[2])
        shape = self._positions(self.shape(x), kernel, stride, dilation, padding)
        return self._call(code, (x, w, b), (*shape, data.shape[axis]), options, scale)

    def _positions(
        self, shape: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int],
        dilation: tuple[int, int], padding: str,
    ) -> tuple[int, ...]:
        out = [shape[0]]
        for n, k, s, d in zip(shape[1:3], kernel, stride, dilation):
            out.append(-(-n // s) if padding == "same" else (n - (k - 1) * d - 1) // s + 1)
        return tuple(out)

    def _parameters(self, x: str, data: Array, axis: int | None) -> tuple[str, str, float]:
        """(weights, bias, a scale for the result that uses its range)."""
        rows = data.shape[axis or 0]
        if self.real:
            bias = self.rng.normal(size=rows).astype(np.float32)
            return self.constant(data), self.constant(bias), 1.0
        others = tuple(i for i in range(data.ndim) if i != axis) if axis is not None else None
        largest = np.maximum(np.abs(data).max(axis=others), 1e-3).astype(np.float64)
        scale = np.atleast_1d((largest / 127).astype(np.float32))
        steps = scale if axis is None else scale.reshape(
            [-1 if i == axis else 1 for i in range(data.ndim)])
        w = np.rint(data / steps).astype(np.int8)
        quant = Quant(tuple(scale.tolist()), (0,) * scale.size, axis)
        in_scale = self.tensors[x].scale
        product = tuple(float(np.float32(in_scale * s)) for s in scale)
        b = self.rng.integers(-2000, 2000, rows).astype(np.int32)
        bias_quant = Quant(product, (0,) * scale.size, None if axis is None else 0)
        result = in_scale * max(float(np.std(data)), 1e-3) * math.sqrt(data.size / rows)
        return self.constant(w, quant), self.constant(b, bias_quant), result / GAIN

    def _call(
        self, code: str, inputs: tuple[str, ...], shape: tuple[int, ...],
        options: Options | None = None, scale: float = 1.0, quant: Quant | None = None,
    ) -> str:
        name = f"{code.lower()}{len(self.calls)}"
        self._tensor(name, shape, scale, quant)
        self.calls.append(Call(code, inputs, (name,), options))
        return name

    def _moved(
        self, code: str, inputs: tuple[str, ...], shape: tuple[int, ...], options: Options
    ) -> str:
        """A result in the quantization of the first input."""
        return self._call(code, inputs, shape, options, quant=self.tensors[inputs[0]].quant)

    def _tensor(
        self, name: str, shape: tuple[int, ...], scale: float, quant: Quant | None = None
    ) -> str:
        if self.real:
            return self._add(Tensor(name, shape, "float32"))
        quant = quant or Quant((float(np.float32(scale)),), (int(self.rng.integers(-90, 90)),))
        return self._add(Tensor(name, shape, "int8", quant))

    def _add(self, tensor: Tensor) -> str:
        assert tensor.name not in self.tensors
        self.tensors[tensor.name] = tensor
        return tensor.name
