"""A plan as C: plan.c, the bytes, and plan.h, what a program has to know about them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from edgesparse.plan.plan import IoInfo, LayerInfo, Plan

PER_LINE = 16


def comment(text: str) -> str:
    """A name of the user's that cannot end a comment, nor go on in the next line."""
    plain = "".join(c if " " <= c <= "~" else "?" for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")


def plan_c(plan: Plan) -> str:
    """The text of plan.c: the whole plan file as one constant array."""
    return "\n".join((
        f"/* {_title(plan)} */",
        '#include "plan.h"',
        "",
        "#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L",
        "_Alignas(ES_ALIGN)",
        "#else",
        "__attribute__((aligned(ES_ALIGN)))",
        "#endif",
        "const uint8_t es_plan_data[ES_PLAN_BYTES] = {",
        *(f"    {','.join(map(str, plan.data[at : at + PER_LINE]))},"
          for at in range(0, len(plan.data), PER_LINE)),
        "};",
        ""))


def plan_h(plan: Plan) -> str:
    """The text of plan.h: sizes, RAM, inputs and outputs as macros; layers in a comment."""
    model = plan.model
    return "\n".join((
        f"/* {_title(plan)}",
        " *",
        *_layer_lines(plan.layers),
        " */",
        "#ifndef ES_PLAN_H",
        "#define ES_PLAN_H",
        "",
        '#include "edgesparse/edgesparse.h"',
        "",
        "/* bytes of flash for the plan, bytes of RAM for its arena: both exact */",
        f"#define ES_PLAN_BYTES {plan.flash_bytes}u",
        f"#define ES_PLAN_RAM {plan.ram_bytes}u",
        "/* it carries what es_self_test compares with */",
        f"#define ES_PLAN_HAS_GOLDEN {int(model.golden is not None)}",
        f"#define ES_PLAN_STEPS {len(model.steps)}",
        f"#define ES_PLAN_INPUTS {len(plan.inputs)}",
        f"#define ES_PLAN_OUTPUTS {len(plan.outputs)}",
        "",
        "/* int8, real = (stored - ZERO_POINT) * SCALE */",
        *_io_lines("INPUT", plan.inputs),
        *_io_lines("OUTPUT", plan.outputs),
        *_stream_lines(plan),
        "",
        "extern const uint8_t es_plan_data[ES_PLAN_BYTES];",
        "",
        "#endif /* ES_PLAN_H */",
        ""))


def _title(plan: Plan) -> str:
    model = plan.model
    name = model.names.model if model.names and model.names.model else "a model"
    return (f"Made by edgesparse export from {comment(name)}, for {comment(model.target)};\n"
            f" * SHA-256 {plan.digest}")


def _layer_lines(layers: Sequence[LayerInfo]) -> Iterator[str]:
    for number, layer in enumerate(layers):
        weights = ", ".join(dict.fromkeys(group.encoding for group in layer.encodings))
        shapes = " + ".join("x".join(map(str, dims)) for dims in layer.outputs)
        yield (f" * {number:3} {comment(layer.name)}: {layer.kind} -> {shapes}"
               + (f", {weights}, {layer.weight_bytes} bytes" if weights else ""))


def _io_lines(what: str, ios: Sequence[IoInfo]) -> Iterator[str]:
    for number, io in enumerate(ios):
        macro = f"ES_PLAN_{what}{number}"
        yield f"/* {comment(io.name)} */"
        yield f"#define {macro}_SIZE {math.prod(io.shape)}"
        yield f"#define {macro}_DIMS {len(io.shape)}"
        yield f"#define {macro}_SHAPE {{{', '.join(map(str, io.shape))}}}"
        yield f"#define {macro}_SCALE {np.float32(io.scale)}f"
        yield f"#define {macro}_ZERO_POINT {_number(io.zero_point)}"


def _stream_lines(plan: Plan) -> Iterator[str]:
    stream = plan.model.stream
    if stream is None:
        return
    decimation = stream.front_end.decimation if stream.front_end is not None else 1
    channels = plan.model.tensors[plan.model.inputs[0].tensor].place.channels
    yield ""
    yield "/* a stream: samples of the signal go in, es_push */"
    yield "#define ES_PLAN_STREAM 1"
    yield "/* samples a second times 1000, 0: unknown; samples of a run; int16 of a sample */"
    yield f"#define ES_PLAN_RATE_MHZ {stream.rate_mhz}u"
    yield f"#define ES_PLAN_HOP {stream.hop * decimation}"
    yield f"#define ES_PLAN_CHANNELS {channels}"


def _number(value: int) -> str:
    return str(value) if value >= 0 else f"({value})"
