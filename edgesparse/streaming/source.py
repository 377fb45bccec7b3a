"""The one input a stream feeds, as columns along time."""

from __future__ import annotations

from edgesparse.errors import Unsupported
from edgesparse.graph.ir import Graph
from edgesparse.ops import Reshape


def along_time(graph: Graph) -> Graph:
    """The graph with its input as [1, T, C].

    rewrite:  y = Reshape(x), y [1, T, C]   ->   y is the input
    when:     x is read by that Reshape only, as exporters write it around 1-D layers
    Raises Unsupported when the model has several inputs or none that runs along time.
    """
    if len(graph.inputs) != 1:
        raise Unsupported(
            graph.name, "stream", f"it has {len(graph.inputs)} inputs; a stream feeds one",
            "a model with one signal input, its leads as channels")
    source = graph.tensors[graph.inputs[0]]
    if len(source.shape) == 3 and source.shape[0] == 1:
        return graph
    readers = graph.consumers[source.name]
    if len(readers) == 1 and isinstance(readers[0].op, Reshape):
        y = graph.tensors[readers[0].outputs[0]]
        if len(y.shape) == 3 and y.shape[0] == 1 and y.name not in graph.outputs:
            nodes = [node for node in graph.nodes if node is not readers[0]]
            return graph.with_nodes(nodes, inputs=(y.name,))
    raise Unsupported(
        source.name, "stream", f"an input of shape {list(source.shape)} has no time axis that a "
        "stream can feed", "an input [1, T, C], T columns of C channels")
