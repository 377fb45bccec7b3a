"""Print docs/OPERATORS.md: what imports, what it means, and what is refused, read from the code.

    python tools/operators_doc.py > docs/OPERATORS.md

The list of operators is the importer's own; meanings are the first lines of docstrings; reasons are
the texts of the errors, with "..." for what a message fills in when it is raised.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator

from refusals import Reader, Refusal, operators_of, returned

from edgesparse.importers import tflite as importer
from edgesparse.importers.tflite_ops import ACTIVATIONS, HANDLERS, REFUSED_ACTIVATIONS
from edgesparse.mapping import lower
from edgesparse.ops import OPS, Activation, Op
from edgesparse.quantize.lower_int8 import quantize_graph

COMMON = 0.5
"""What this share of all operators can be refused for is said once, for all of them."""
ARITHMETIC = ("parameters", "multipliers", "table")
"""Methods of an operator that find out whether it can be computed in integers."""

HEAD = """\
# Operators

Made by `python tools/operators_doc.py` from the importer's list and the texts in the code;
`pytest tests/test_docs.py --update-golden` renews it. `edgesparse convert --check MODEL` lists all
that is refused in a model, by the names of its layers.

## Supported in .tflite files
Activations are int8 with one scale and zero point, or float32; a model without int8 activations is
quantized by edgesparse (`--calibrate`). Weights are int8 with zero point 0 and one scale or one per
output channel, in float models float32, float16 or int8. Biases are int32, in float models
float32 or float16. Sparse weights, SparsityParameters of any layout, are decoded exactly. An
operator may have {activations} fused into it, but not {refused}.
"""

MEANINGS = """
## What they mean
`x`, `y` and the rest are real numbers. The integer form is that of the source, bit for bit.
"""

REFUSED = """
## Refused, with the reason
"..." stands for what the message fills in: a name, a shape, a number. What contradicts itself in a
file, such as shapes that do not fit, is called damage and is not listed here.
"""


def page() -> Iterator[str]:
    """The lines of docs/OPERATORS.md."""
    fused = ", ".join(a.name for a in ACTIVATIONS.values() if a is not Activation.NONE)
    refused = " or ".join(REFUSED_ACTIVATIONS.values())
    yield from HEAD.format(activations=fused, refused=refused).splitlines()
    yield from _table(("TFLite operator", "becomes", "note"), (
        (name, ", ".join(op.__name__ for op in operators_of(handler)) or "a constant",
         _note(name, handler.__doc__)) for name, handler in HANDLERS.items()))
    yield from MEANINGS.splitlines()
    yield from _table(("operator", "computes", "source of the integer form"), (
        (op.__name__, _formula(op), _source(op)) for _, op in sorted(OPS.items())))
    yield from REFUSED.splitlines()
    yield "\n### Models and their inputs"
    yield from _reasons(_of_models())
    yield "\n### Any operator"
    found = {name: _of_operator(name) for name in HANDLERS}
    common = _common(found)
    yield from _reasons(common)
    yield "\n### One operator or some"
    yield from _by_operator(
        (name, [r for r in refusals if r not in common]) for name, refusals in found.items())
    yield "\n### Float models, when they are quantized"
    yield from _reasons(Reader().read(quantize_graph))
    yield "\n### Operators that are not executed"
    yield from _by_operator([
        *((name, [Refusal(*texts)]) for name, texts in sorted(importer.REFUSED.items())),
        ("custom operators", Reader().read(importer._operator, deep=False)),
        ("all others", [Refusal(*importer.UNKNOWN)])])


# ---- what is refused --------------------------------------------------------------------------


def _of_operator(name: str) -> list[Refusal]:
    """Of one TFLite operator: at import, in its integer arithmetic, and where steps are made."""
    found = Reader(name).read(HANDLERS[name])
    for op in operators_of(HANDLERS[name]):
        for method in ARITHMETIC:
            found += Reader(name, op).read(getattr(op, method, None))
        emit = next((emit for kinds, emit in lower._EMIT if issubclass(op, kinds)), None)
        if emit is not None:
            found += Reader(name, op).read(emit)
        elif not hasattr(op, "table"):  # a pass has to take it away
            found += [r for r in Reader(name, op).read(lower._lower_node) if "kernel" in r.reason]
    return list(dict.fromkeys(found))


def _common(found: dict[str, list[Refusal]]) -> list[Refusal]:
    every = dict.fromkeys(r for refusals in found.values() for r in refusals)
    limit = COMMON * len(found)
    return [r for r in every if sum(r in refusals for refusals in found.values()) > limit]


def _of_models() -> list[Refusal]:
    """What import refuses before and after it looks at the operators."""
    own = [*Reader().read(importer._build, deep=False),
           *Reader().read(importer._check_outputs, deep=False)]
    return [*own, *returned(importer._input_refusal)]


# ---- docstrings -------------------------------------------------------------------------------


def _note(name: str, doc: str | None) -> str:
    """What a handler says of its operator, if it begins with the operator's name."""
    text = " ".join(inspect.cleandoc(doc or "").split("\n\n")[0].split())
    if not text.startswith(name):
        return ""
    return text.removeprefix(f"{name}: ")


def _formula(op: type[Op]) -> str:
    """The first paragraph of a docstring without the list of its tensors."""
    lines = inspect.cleandoc(op.__doc__ or "").split("\n\n")[0].split("\n")
    return " ".join(line for line in lines if not re.match(r"\w+  |\s|Source:", line))


def _source(op: type[Op]) -> str:
    """The "Source: ..." of the operator, its base or its integer parameters."""
    texts = [op.__doc__, op.__bases__[0].__doc__]
    texts += [getattr(getattr(op, name, None), "__doc__", None) for name in ARITHMETIC]
    for text in texts:
        said = re.search(r"Source: (.+?)\.?\s*(?:\n\s*\n|$)", inspect.cleandoc(text or ""), re.S)
        if said:
            return " ".join(said[1].split())
    return ""


# ---- tables -----------------------------------------------------------------------------------


def _reasons(refusals: Iterable[Refusal]) -> Iterator[str]:
    yield from _table(("reason", "way out"), ((r.reason, r.way_out) for r in refusals))


def _by_operator(groups: Iterable[tuple[str, list[Refusal]]]) -> Iterator[str]:
    """Operators with the same reason share a line."""
    who: dict[Refusal, list[str]] = {}
    for name, refusals in groups:
        for refusal in refusals:
            who.setdefault(refusal, []).append(name)
    yield from _table(("operator", "reason", "way out"), (
        (", ".join(names), refusal.reason, refusal.way_out) for refusal, names in who.items()))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield ""
    yield f"| {' | '.join(head)} |"
    yield "| --- " * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


if __name__ == "__main__":
    sys.stdout.write("\n".join(page()) + "\n")
