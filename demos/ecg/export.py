"""Export through Keras and the TFLite converter, and checks of what came out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.lite.python import schema_py_generated as schema

from demos.ecg.net import HEAD, SPECS, Folded, run_folded
from demos.ecg.prune import BLOCK_ROWS

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
        fused = not spec.residual and spec is not HEAD
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
    return tf.keras.Model(source, x, name="ecg_c48")


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

    def window(self, inputs_mv: NDArray[np.float32]) -> NDArray[np.float32]:
        """inputs_mv [1440] mV -> dequantized logits [180, 4]."""
        scale, zero = self._source["quantization"]
        q = np.clip(np.rint(inputs_mv / np.float32(scale)) + zero, -128, 127).astype(np.int8)
        self._interpreter.set_tensor(self._source["index"], q[None, :, None])
        self._interpreter.invoke()
        scale, zero = self._result["quantization"]
        raw = self._interpreter.get_tensor(self._result["index"])[0]
        return np.asarray((raw.astype(np.float32) - zero) * np.float32(scale))

    def sliding(self, inputs_mv: NDArray[np.float32]) -> NDArray[np.float32]:
        """A whole signal by windows 50 steps apart, using only steps with all of their history.

        inputs_mv  [time] mV at 180 Hz, time >= 1440
        returns    [ceil(time / 8), 4] logits, equal to a stream from rest
        """
        steps = -(-len(inputs_mv) // 8)
        shifts = -(-(steps - WINDOW_STEPS) // EXACT_STEPS)
        padded = np.zeros(WINDOW_INPUTS + 8 * EXACT_STEPS * shifts, np.float32)
        padded[: len(inputs_mv)] = inputs_mv
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
        error = model.window(window[:, 0]) - exact
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


def weight_zeros(model: bytes) -> list[dict[str, Any]]:
    """Per convolution of the .tflite: zero weights and all-zero 4x1 blocks, of the stored int8.

    Raises ValueError when a weight zero point is not 0, when the layers are not the expected ones,
    or when a pruned layer has less than 74.9 % of its blocks at zero.
    """
    root, operators = _operators(model)
    graph = root.subgraphs[0]
    convs = [op for name, op in operators if name == "CONV_2D"]
    rows = []
    for spec, op in zip((*SPECS, HEAD), convs, strict=True):
        tensor = graph.tensors[op.inputs[1]]
        if np.any(np.asarray(tensor.quantization.zeroPoint) != 0):
            raise ValueError(f"{spec.name}: weight zero point is not 0")
        raw = np.asarray(root.buffers[tensor.buffer].data, np.uint8).view(np.int8)
        weight = raw.reshape(spec.outputs, spec.kernel * spec.inputs)
        blocks = (weight.reshape(spec.outputs // BLOCK_ROWS, BLOCK_ROWS, -1) == 0).all(axis=1)
        if spec.pruned and blocks.mean() < 0.749:
            raise ValueError(f"{spec.name}: only {blocks.mean():.4f} of the 4x1 blocks are zero")
        rows.append(
            {
                "layer": spec.name,
                "weights": weight.size,
                "zeros": int((weight == 0).sum()),
                "blocks": blocks.size,
                "zero_blocks": int(blocks.sum()),
                "zero_percent": round(100.0 * float((weight == 0).mean()), 2),
            }
        )
    return rows
