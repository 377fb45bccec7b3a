"""Is a graph consistent? Asked after import and after every pass."""

from __future__ import annotations

from edgesparse.errors import GraphInvalid, Unsupported
from edgesparse.graph.ir import Graph, Node
from edgesparse.ops.linear import Linear

REAL = ("float16", "float32")


def verify(graph: Graph, after: str = "import") -> None:
    """Return when `graph` keeps every rule of the representation.

    Raises GraphInvalid, naming the pass it was called `after` and the node, otherwise.
    """
    _tensors(graph, after)
    known = {name for name, tensor in graph.tensors.items() if tensor.data is not None}
    for name in graph.inputs:
        if name in known:
            raise GraphInvalid(f"after {after}: input {name} is a constant or named twice")
        known.add(name)
    for node in graph.nodes:
        where = f"after {after}: {type(node.op).__name__} {node.name}"
        for name in node.inputs:
            if name not in graph.tensors:
                raise GraphInvalid(f"{where}: reads {name}, which does not exist")
            if name not in known:
                raise GraphInvalid(f"{where}: reads {name} before anything computes it")
        for name in node.outputs:
            if name not in graph.tensors:
                raise GraphInvalid(f"{where}: writes {name}, which does not exist")
            if name in known:
                raise GraphInvalid(f"{where}: writes {name}, which has a value already")
            known.add(name)
        _shapes(graph, node, where)
        if isinstance(node.op, Linear):
            _weights(graph, node, where)
    for name in graph.outputs:
        if name not in known:
            raise GraphInvalid(f"after {after}: nothing computes output {name}")
        if graph.tensors[name].data is not None:
            raise GraphInvalid(f"after {after}: output {name} is a constant")
    for flags, names in (
        (graph.float_inputs, graph.inputs), (graph.input_names, graph.inputs),
        (graph.float_outputs, graph.outputs), (graph.output_names, graph.outputs),
        (graph.uint8_outputs, graph.outputs),
    ):
        if flags and len(flags) != len(names):
            raise GraphInvalid(f"after {after}: {len(flags)} notes on {len(names)} {names}")


def _tensors(graph: Graph, after: str) -> None:
    for name, tensor in graph.tensors.items():
        where = f"after {after}: tensor {name}"
        if tensor.name != name:
            raise GraphInvalid(f"{where}: calls itself {tensor.name}")
        if tensor.kept is not None and (
            len(tensor.kept) != tensor.channels or list(tensor.kept) != sorted(set(tensor.kept))
        ):
            raise GraphInvalid(f"{where}: keeps {len(tensor.kept)} of the model's channels, has "
                               f"{tensor.channels}")
        quant = tensor.quant
        if quant is not None:
            entries = 1 if quant.axis is None else tensor.shape[quant.axis]
            if len(quant.scale) != entries or len(quant.zero_point) != entries:
                raise GraphInvalid(f"{where}: {len(quant.scale)} scales for {entries} channels")
        if tensor.data is None:
            if tensor.dtype == "int8" and (quant is None or quant.per_channel):
                raise GraphInvalid(f"{where}: int8 without one scale and zero point")
        elif tensor.data.shape != tensor.shape or (
            tensor.dtype != "other" and tensor.data.dtype.name != tensor.dtype
        ):
            raise GraphInvalid(f"{where}: data is {tensor.data.dtype.name}"
                               f"{list(tensor.data.shape)}, not {tensor.dtype}{list(tensor.shape)}")


def _shapes(graph: Graph, node: Node, where: str) -> None:
    outs = graph.outs(node)
    try:
        shapes = node.op.infer(graph.ins(node))
    except Unsupported as error:
        raise GraphInvalid(f"{where}: {error}") from error
    if len(shapes) != len(outs):
        raise GraphInvalid(f"{where}: has {len(outs)} outputs, not {len(shapes)}")
    for shape, out in zip(shapes, outs):
        if shape != out.shape:
            raise GraphInvalid(f"{where}: gives {list(shape)}, {out.name} is {list(out.shape)}")


def _weights(graph: Graph, node: Node, where: str) -> None:
    """Everything int8 with symmetric weights and int32 bias, or everything float."""
    ins = graph.ins(node)
    if len(ins) != 3:
        raise GraphInvalid(f"{where}: has {len(ins)} inputs; 3 are needed: x, weights, bias")
    x, w, b = ins
    rows = w.shape[0]
    if b.shape != (rows,):
        raise GraphInvalid(f"{where}: bias of shape {list(b.shape)} for {rows} outputs")
    if x.dtype in REAL:
        if w.dtype not in REAL or b.dtype not in REAL:
            raise GraphInvalid(f"{where}: {x.dtype} input with {w.dtype} weights, {b.dtype} bias")
    elif (x.dtype, w.dtype, b.dtype) != ("int8", "int8", "int32"):
        raise GraphInvalid(f"{where}: {x.dtype} input, {w.dtype} weights, {b.dtype} bias")
    elif w.quant is None or w.quant.axis not in (None, 0):
        raise GraphInvalid(f"{where}: weights {w.name} need one scale, or one for each output")
