"""Short names for the layers of a model, for tables; JSON and errors have the full ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

OPERATOR = re.compile(r"[A-Z][A-Za-z0-9]*|convolution\d*|depthwise\d*|separable_conv2d\d*")
"""Last parts of exporters' names that say what a layer does, which the table says anyway."""


def short_names(names: Sequence[str], numbered: bool = True) -> list[str]:
    """model/conv_a/Pad + model/conv_a/Relu;model/conv_a/BiasAdd + model/add_a/Add  ->  conv_a +1

    The first layer of each step and how many more there are; of a layer the first of its merged
    names, without the part all begin with. What is the same after that gets a number, where that is
    wanted.
    """
    layers = [[part.split(";")[0].split("/") for part in name.split(" + ")] for name in names]
    firsts = {path[0] for paths in layers for path in paths if len(path) > 1}
    common = firsts.pop() if len(firsts) == 1 else None
    short = []
    for paths in layers:
        parts = []
        for path in paths:
            if len(path) > 1 and path[0] == common:
                path = path[1:]
            if len(path) > 1 and OPERATOR.fullmatch(path[-1]):
                path = path[:-1]
            parts.append("/".join(path))
        unique = list(dict.fromkeys(parts))
        short.append(unique[0] + (f" +{len(unique) - 1}" if len(unique) > 1 else ""))
    total, seen = Counter(short), Counter[str]()
    for i, name in enumerate(short):
        seen[name] += 1
        if numbered and total[name] > 1:
            short[i] = f"{name} #{seen[name]}"
    return short
