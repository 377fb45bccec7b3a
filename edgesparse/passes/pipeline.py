"""The passes in their order, and the loop that runs them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from edgesparse.graph.ir import Graph
from edgesparse.graph.text import to_text
from edgesparse.graph.verify import verify
from edgesparse.passes.collapse_unary import collapse_unary
from edgesparse.passes.conv1d import conv1d
from edgesparse.passes.dead_channels import dead_channels
from edgesparse.passes.dilated_conv import dilated_conv
from edgesparse.passes.eliminate_dead import eliminate_dead
from edgesparse.passes.explicit_padding import explicit_padding
from edgesparse.passes.fold_batch_norm import fold_batch_norm
from edgesparse.passes.fold_bias import fold_bias
from edgesparse.passes.fold_constants import fold_constants
from edgesparse.passes.fuse_activation import fuse_activation
from edgesparse.passes.limit_padding import limit_padding
from edgesparse.passes.merge_reshapes import merge_reshapes
from edgesparse.passes.move_quantization import move_quantization
from edgesparse.passes.peel_float_io import peel_float_io
from edgesparse.passes.sink_reshapes import sink_reshapes

Pass = Callable[[Graph], Graph]

CANONICAL: tuple[Pass, ...] = (
    # First: everything after it asks "is this a constant?", and weights may be computed ones.
    fold_constants,
    # Before anything counts readers: a dead reader would forbid a fusion.
    eliminate_dead,
    # Needs the triple as exporters write it, Reshapes included; conv1d would change its ranks.
    dilated_conv,
    # Before the fusions, which look at neighbours: brings all of a 1-D model to one rank, ...
    conv1d,
    # ... moves the Reshapes that this takes away from between the neighbours, ...
    sink_reshapes,
    # ... and lets them cancel.
    merge_reshapes,
    # After the ranks agree, so that Pad and Conv meet, and those of a dilated Conv too.
    explicit_padding,
    # Float: factors first, because a Mul between Conv and Add hides the Add from fold_bias, ...
    fold_batch_norm,
    # ... then the additions, ...
    fold_bias,
    # ... then activations, which close an operator to both.
    fuse_activation,
    # Only now is a Quantize behind a Reshape still there a matter of its own.
    move_quantization,
    # After the moves, which bring the Quantize to the input and the Dequantize to the output.
    peel_float_io,
    # What the passes above have bypassed.
    eliminate_dead,
)
"""For every model, float or int8."""

INT8: tuple[Pass, ...] = (
    # After fuse_activation: a clamp in the Conv is cheaper than a table.
    collapse_unary,
    # After everything that changes which operators read a channel; tables are one kind of them.
    dead_channels,
    # Bypassed constants, and nodes that dead_channels made equal.
    eliminate_dead,
    # Last: the passes before read padding as an attribute, and only a plan minds how much.
    limit_padding,
)
"""For a model whose activations are int8: as imported, or after quantization."""


def run_passes(
    graph: Graph,
    passes: Sequence[Pass] = CANONICAL + INT8,
    dump_after: Collection[str] = (),
    dump: Callable[[str, str], None] | None = None,
) -> Graph:
    """Run the passes in order and verify the graph after each.

    dump_after  names of passes after which `dump` gets (name, text of the graph)

    Raises GraphInvalid when a pass leaves an inconsistent graph.
    """
    for run in passes:
        name = run.__name__
        graph = run(graph)
        verify(graph, after=name)
        if dump is not None and name in dump_after:
            dump(name, to_text(graph))
    return graph
