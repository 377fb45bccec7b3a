"""The nets that streaming is judged by: int8, one input channel, random weights.

conv_pool  five times (conv k 7 7 5 5 5 to 8 16 16 32 32, max pool 2)
strided    conv 16 k7 s2, 24 k5 s2, 32 k5 s2, 32 k3 s2, 32 k3
tcn        conv 16 k5, then 16 k3 with dilation 2 4 8 16 32
ds_cnn     conv 32 k8 s4, then four times (depthwise k9, pointwise 32)
ecg_c48    conv 16 k7 s2, 32 k5 s2, 48 k5 s2, then six times x + conv 48 k3 with dilation
           1 2 4 8 16 32, then conv 4 k1: the shipped ECG net is its causal form

Every convolution has the padding under test; pools have none. A mean over time and a fully
connected layer of 5 end each. `same` pads as TFLite does, `causal` span - 1 zeros on the left.
Where convolutions take columns away (`valid`), the x of a sum loses as many of its first ones: each
output sees what it sees in the causal form.
"""

from __future__ import annotations

import numpy as np

from edgesparse.graph.ir import Graph, Quant
from edgesparse.ops import Add, Conv, MaxPool, Mean, Slice
from edgesparse.ops.activation import Activation
from graph_builder import GraphBuilder

NETS = ("conv_pool", "strided", "tcn", "ds_cnn")
WITH_ECG = (*NETS, "ecg_c48")
PADDINGS = ("valid", "same", "causal")


def build(net: str, padding: str, window: int, seed: int = 0, head: bool = True) -> Graph:
    """A net for a window of `window` columns; without `head` it ends with its last columns."""
    b = GraphBuilder(np.random.default_rng(seed))
    x = b.input(1, window, 1, quant=Quant((0.05,), (-9,)))
    if net == "conv_pool":
        for rows, k in zip((8, 16, 16, 32, 32), (7, 7, 5, 5, 5)):
            x = conv(b, x, padding, rows, k)
            x = b.apply(MaxPool((1, 2), (1, 2)), x)
    elif net == "strided":
        for rows, k, s in ((16, 7, 2), (24, 5, 2), (32, 5, 2), (32, 3, 2), (32, 3, 1)):
            x = conv(b, x, padding, rows, k, stride=s)
    elif net == "tcn":
        x = conv(b, x, padding, 16, 5)
        for d in (2, 4, 8, 16, 32):
            x = conv(b, x, padding, 16, 3, dilation=d)
    elif net == "ds_cnn":
        x = conv(b, x, padding, 32, 8, stride=4)
        for _ in range(4):
            x = conv(b, x, padding, 32, 9, groups=32)
            x = conv(b, x, padding, 32, 1)
    elif net == "ecg_c48":
        for rows, k in ((16, 7), (32, 5), (48, 5)):
            x = conv(b, x, padding, rows, k, stride=2)
        for d in (1, 2, 4, 8, 16, 32):
            x = residual(b, x, conv(b, x, padding, 48, 3, dilation=d))
        x = conv(b, x, padding, 4, 1)
    if not head:
        return b.graph(x)
    fine = Quant((b.tensors[x].scale / 16,), (-128,))  # a column more or less must show
    x = b.apply(Mean((1,)), x, quant=fine)
    return b.graph(b.fully_connected(x, 5))


def conv(
    b: GraphBuilder, x: str, padding: str, rows: int, k: int, stride: int = 1,
    dilation: int = 1, groups: int = 1,
) -> str:
    size, span = b.shape(x)[1], (k - 1) * dilation + 1
    pad = (0, 0)
    if padding == "causal":
        pad = (span - 1, 0)
    elif padding == "same":
        total = max(0, (-(-size // stride) - 1) * stride + span - size)
        pad = (total // 2, total - total // 2)
    op = Conv((1, stride), (1, dilation), (0, 0, *pad), groups, activation=Activation.RELU)
    w, bias = b.weights(rows, 1, k, b.shape(x)[2] // groups)
    return b.apply(op, x, w, bias, quant=b.quant(-128))


def residual(b: GraphBuilder, x: str, y: str) -> str:
    """x + y with ReLU, of the last columns of x where y has fewer."""
    lost = b.shape(x)[1] - b.shape(y)[1]
    if lost:
        x = b.apply(Slice((0, lost, 0), (1, 1, 1), b.shape(y)), x)
    return b.apply(Add(activation=Activation.RELU), x, y, quant=b.quant(-128))
