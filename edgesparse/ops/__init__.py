"""Every operator: one file each, known by class name in OPS."""

from __future__ import annotations

from edgesparse.ops.activation import Activation
from edgesparse.ops.add import Add, Sub
from edgesparse.ops.base import OPS, Op, register
from edgesparse.ops.concat import Concat
from edgesparse.ops.conv import Conv
from edgesparse.ops.fully_connected import FullyConnected
from edgesparse.ops.history import History
from edgesparse.ops.lstm import Lstm
from edgesparse.ops.lut import Lut
from edgesparse.ops.mean import Mean
from edgesparse.ops.mul import Mul
from edgesparse.ops.pad import Pad
from edgesparse.ops.pool import AvgPool, MaxPool
from edgesparse.ops.quantize import Dequantize, Quantize
from edgesparse.ops.reshape import Reshape
from edgesparse.ops.running import Running
from edgesparse.ops.slice import Slice
from edgesparse.ops.softmax import Softmax
from edgesparse.ops.space_to_batch import BatchToSpace, SpaceToBatch
from edgesparse.ops.stateful import Stateful
from edgesparse.ops.svdf import Svdf
from edgesparse.ops.transpose import Transpose
from edgesparse.ops.unary import (
    HardSwish,
    LeakyRelu,
    Logistic,
    Relu,
    Requantize,
    Tanh,
    Unary,
)

__all__ = [
    "OPS",
    "Activation",
    "Add",
    "AvgPool",
    "BatchToSpace",
    "Concat",
    "Conv",
    "Dequantize",
    "FullyConnected",
    "HardSwish",
    "History",
    "LeakyRelu",
    "Logistic",
    "Lstm",
    "Lut",
    "MaxPool",
    "Mean",
    "Mul",
    "Op",
    "Pad",
    "Quantize",
    "Relu",
    "Requantize",
    "Reshape",
    "Running",
    "Slice",
    "Softmax",
    "SpaceToBatch",
    "Stateful",
    "Sub",
    "Svdf",
    "Tanh",
    "Transpose",
    "Unary",
    "register",
]
