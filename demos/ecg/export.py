"""Export through Keras and the TFLite converter, and checks of what came out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.lite.python import schema_py_generated as schema

from demos.ecg import reference_integer as ri
from demos.ecg.folded import Folded, Shape, run_folded

WINDOW_INPUTS = 1440
WINDOW_STEPS = WINDOW_INPUTS // 8
INPUT_RANGE_MV = (-3.0, 4.0)
"""Calibration windows are clipped to this, so that single artefacts do not cost resolution."""
EXACT_STEPS = 50
"""Last steps of a window, from step 130 on: their receptive field (1039 inputs) lies inside it."""


def keras_model(folded: list[Folded]) -> tf.keras.Model:
    """The same net as a Keras functional model.

    Input [1, 1440, 1] float32, mV at 180 Hz; output [1, 180, 4] float32 logits (beat, N, S, V).
    """
    layers = tf.keras.layers
    x = source = layers.Input(batch_shape=(1, WINDOW_INPUTS, 1), name="ecg")
    for part in folded:
        spec = part.spec
        fused = not spec.residual and not spec.head
        conv = layers.Conv1D(
            spec.outputs,
            spec.kernel,
            strides=spec.stride,
            dilation_rate=spec.dilation,
            padding="causal",
            activation="relu" if fused else None,
            name=spec.name,
        )
        y = conv(x)
        conv.set_weights([part.weight.transpose(2, 1, 0), part.bias])
        if spec.residual:
            y = layers.Add(name=f"{spec.name}_add")([x, y])
            y = layers.ReLU(name=f"{spec.name}_relu")(y)
        x = y
    return tf.keras.Model(source, x, name="ecg")


def to_tflite(model: tf.keras.Model, calibration: NDArray[np.float32]) -> bytes:
    """Full int8, int8 input and output.

    calibration  [windows, 1440, 1] mV, from training records only
    """

    def representative() -> Iterator[list[NDArray[np.float32]]]:
        for window in np.clip(calibration, *INPUT_RANGE_MV):
            yield [window[None].astype(np.float32)]

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = representative
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = tf.int8
    converter.inference_output_type = tf.int8
    return bytes(converter.convert())


class Int8Model:
    """Runs a .tflite with the TFLite reference kernels, window by window."""

    def __init__(self, model: bytes) -> None:
        resolver = tf.lite.experimental.OpResolverType.BUILTIN_REF
        self._interpreter = tf.lite.Interpreter(
            model_content=model, num_threads=1, experimental_op_resolver_type=resolver
        )
        self._interpreter.allocate_tensors()
        self._source = self._interpreter.get_input_details()[0]
        self._result = self._interpreter.get_output_details()[0]

    @property
    def input_scale(self) -> ri.InputScale:
        """From 1/16 ADC unit to this model's int8."""
        return ri.input_scale(*self._source["quantization"])

    @property
    def tables(self) -> ri.Tables:
        """For the integer decoder."""
        return ri.tables(*self._result["quantization"])

    def quantization(self) -> dict[str, tuple[float, int]]:
        """Scale and zero point of input and output."""
        return {"input": self._source["quantization"], "output": self._result["quantization"]}

    def window(self, q: NDArray[np.int8]) -> NDArray[np.int8]:
        """q [1440] int8 -> logits [180, 4] int8."""
        self._interpreter.set_tensor(self._source["index"], q[None, :, None])
        self._interpreter.invoke()
        return np.asarray(self._interpreter.get_tensor(self._result["index"])[0], np.int8)

    def dequantized(self, logits: NDArray[np.int8]) -> NDArray[np.float32]:
        """logits [steps, 4] int8 -> float32."""
        scale, zero = self._result["quantization"]
        return np.asarray((logits.astype(np.float32) - zero) * np.float32(scale))

    def sliding(self, inputs: NDArray[np.int64]) -> NDArray[np.int8]:
        """A whole signal by windows 50 steps apart, using only steps with all of their history.

        inputs   [time] 1/16 ADC unit at 180 Hz, time >= 1440
        returns  [ceil(time / 8), 4] int8 logits, equal to a stream from rest
        """
        steps = -(-len(inputs) // 8)
        shifts = -(-(steps - WINDOW_STEPS) // EXACT_STEPS)
        scale = self.input_scale
        padded = np.full(WINDOW_INPUTS + 8 * EXACT_STEPS * shifts, scale.zero_point, np.int8)
        padded[: len(inputs)] = scale.quantize(inputs)
        parts = [self.window(padded[:WINDOW_INPUTS])]
        for k in range(1, shifts + 1):
            start = 8 * EXACT_STEPS * k
            parts.append(self.window(padded[start : start + WINDOW_INPUTS])[-EXACT_STEPS:])
        return np.concatenate(parts)[:steps]


def float_difference(
    model: tf.keras.Model, folded: list[Folded], windows: NDArray[np.float32]
) -> float:
    """Largest difference of logits between Keras and the folded torch net.

    windows  [windows, 1440, 1] mV
    """
    worst = 0.0
    for window in windows:
        ours = run_folded(folded, window[:, 0])
        theirs = np.asarray(model(window[None], training=False))[0]
        worst = max(worst, float(np.abs(ours - theirs).max()))
    return worst


def sqnr_db(model: Int8Model, folded: list[Folded], windows: NDArray[np.float32]) -> list[float]:
    """Per window: power of the float logits over power of (int8 - float), in dB.

    windows  [windows, 1440, 1] mV
    """
    out = []
    for window in windows:
        exact = run_folded(folded, window[:, 0]).astype(np.float64)
        inputs = np.rint(window[:, 0].astype(np.float64) * (ri.ADU_PER_MV << ri.FRACTION_BITS))
        q = model.input_scale.quantize(inputs.astype(np.int64))
        error = model.dequantized(model.window(q)) - exact
        out.append(round(float(10 * np.log10(np.square(exact).sum() / np.square(error).sum())), 2))
    return out


def _operators(model: bytes) -> tuple[Any, list[tuple[str, Any]]]:
    root = schema.ModelT.InitFromPackedBuf(model, 0)
    names = {v: k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}
    graph = root.subgraphs[0]
    codes = [max(c.builtinCode, c.deprecatedBuiltinCode) for c in root.operatorCodes]
    return root, [(names[codes[op.opcodeIndex]], op) for op in graph.operators]


def operator_names(model: bytes) -> list[str]:
    """TFLite operators in order of execution."""
    return [name for name, _ in _operators(model)[1]]


def weight_zeros(model: bytes, shape: Shape) -> list[dict[str, Any]]:
    """Per convolution of the .tflite: zero weights and all-zero blocks, of the stored int8.

    Raises ValueError when a weight zero point is not 0, when the layers are not the expected ones,
    or when a pruned layer has fewer zero blocks than it should (0.1 % less is rounding).
    """
    root, operators = _operators(model)
    graph = root.subgraphs[0]
    convs = [op for name, op in operators if name == "CONV_2D"]
    rows = []
    for spec, op in zip((*shape.specs(), shape.head()), convs, strict=True):
        tensor = graph.tensors[op.inputs[1]]
        if np.any(np.asarray(tensor.quantization.zeroPoint) != 0):
            raise ValueError(f"{spec.name}: weight zero point is not 0")
        raw = np.asarray(root.buffers[tensor.buffer].data, np.uint8).view(np.int8)
        weight = raw.reshape(spec.outputs, spec.kernel * spec.inputs)
        row = {"layer": spec.name, "weights": weight.size, "zeros": int((weight == 0).sum())}
        if spec.pruned and shape.sparsity:
            zero = (weight.reshape(-1, shape.block, weight.shape[1]) == 0).all(axis=1)
            if zero.mean() < shape.sparsity - 1e-3:
                raise ValueError(f"{spec.name}: only {zero.mean():.4f} of the blocks are zero")
            row |= {"blocks": zero.size, "zero_blocks": int(zero.sum())}
        rows.append(row)
    return rows
