"""Read out of the code what it refuses: the texts of the errors, where they are raised.

A reader walks a function and every function of ours that it calls, and leaves out branches that are
not taken for the operator in question.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from edgesparse.importers.tflite_call import Call
from edgesparse.ops import Op

UNKNOWN = "..."
STAGE_OF = {"Sub": "Add"}
"""Operators whose stage in a plan has the name of another one."""


@dataclass(frozen=True)
class Refusal:
    """What a user reads, "..." where the message fills something in."""

    reason: str
    way_out: str


class Reader:
    """What the functions that read() is given refuse.

    name  the TFLite operator that is asked about
    op    the graph operator that is asked about
    """

    def __init__(self, name: str | None = None, op: type[Op] | None = None) -> None:
        self.name = name
        self.op = op
        self._found: dict[Refusal, None] = {}
        self._seen: set[tuple[FunctionType, tuple[tuple[str, str], ...]]] = set()

    def read(self, function: Any, deep: bool = True) -> list[Refusal]:
        """deep: what it calls, too. Anything but a function of ours refuses nothing."""
        self._read(function, {}, deep)
        return list(self._found)

    def _read(self, function: Any, given: Mapping[str, str], deep: bool) -> None:
        """given: texts of parameters that are known where it is called."""
        if not isinstance(function, FunctionType) or not is_ours(function):
            return
        key = (function, tuple(sorted(given.items())))
        if key not in self._seen:
            self._seen.add(key)
            names = names_of(function, self.op)
            for node in self._calls(tree_of(function), function):
                self._call(node, names, given, deep)

    def _calls(self, node: ast.AST, function: FunctionType) -> Iterator[ast.Call]:
        """Calls in the branches that may be taken."""
        if isinstance(node, ast.If):
            taken = self._taken(node.test, function)
            parts: list[ast.AST] = [node.test]
            parts += [] if taken is False else node.body
            parts += [] if taken is True else node.orelse
        else:
            parts = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call):
            yield node
        for part in parts:
            yield from self._calls(part, function)

    def _call(
        self, node: ast.Call, names: Mapping[str, Any], given: Mapping[str, str], deep: bool
    ) -> None:
        target = resolve(node.func, names)
        texts = [text_of(argument, names, given) for argument in node.args]
        if target is Call.refuse:
            self._add(texts)
        elif isinstance(node.func, ast.Name) and node.func.id == "Unsupported":
            self._add(texts[2:])
        elif deep and isinstance(target, FunctionType):
            parameters = [p for p in inspect.signature(target).parameters if p != "self"]
            known = {p: text for p, text in zip(parameters, texts) if text != UNKNOWN}
            self._read(target, known, deep)

    def _add(self, texts: list[str]) -> None:
        if texts and texts[0] != UNKNOWN:  # passed on: the text stands where it was said first
            self._found[Refusal(texts[0], texts[1] if len(texts) > 1 else "")] = None

    def _taken(self, test: ast.expr, function: FunctionType) -> bool | None:
        """Whether a condition holds for the operator in question; None where that is open."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return False if any(self._taken(v, function) is False for v in test.values) else None
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test, function)
        if isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance" and self.op:
            return self._is_instance(test, function)
        return None

    def _compared(self, test: ast.Compare, function: FunctionType) -> bool | None:
        (op,), (right,) = test.ops, test.comparators
        left = ast.unparse(test.left)
        if left == "call.op.name" and isinstance(right, ast.Constant) and self.name:
            equal = right.value == self.name
        elif left in closure_of(function) and ast.unparse(right) == "None":
            equal = closure_of(function)[left] is None
        else:
            return None
        if isinstance(op, (ast.Eq, ast.Is)):
            return equal
        return not equal if isinstance(op, (ast.NotEq, ast.IsNot)) else None

    def _is_instance(self, test: ast.Call, function: FunctionType) -> bool | None:
        assert self.op is not None
        kind = resolve(test.args[1], names_of(function, self.op))
        if not isinstance(kind, type):
            return None
        if issubclass(kind, Op) and ast.unparse(test.args[0]) in ("op", "node.op"):
            return issubclass(self.op, kind)
        if ast.unparse(test.args[0]) == "stage":
            return STAGE_OF.get(self.op.__name__, self.op.__name__) == kind.__name__
        return None


def returned(function: Any) -> list[Refusal]:
    """The (reason, way out) pairs that a function returns instead of raising."""
    names = names_of(function)
    return [
        Refusal(*(text_of(element, names, {}) for element in node.value.elts))
        for node in ast.walk(tree_of(function))
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)]


def operators_of(handler: Callable[[Call], None]) -> list[type[Op]]:
    """The graph operators that a handler of the importer makes, by name."""
    waiting: list[Any] = [handler]
    seen: set[Any] = set()
    found: set[type[Op]] = set()
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function in seen or not is_ours(function):
            continue
        seen.add(function)
        names = names_of(function)
        used = {n.id for n in ast.walk(tree_of(function)) if isinstance(n, ast.Name)}
        for value in (names.get(name) for name in sorted(used)):
            kind = value if isinstance(value, type) else type(value)
            if issubclass(kind, Op) and kind is not Op:
                found.add(kind)
            waiting.append(value)
    return sorted(found, key=lambda op: op.__name__)


# ---- names and texts --------------------------------------------------------------------------


def is_ours(function: FunctionType) -> bool:
    return function.__module__.startswith("edgesparse.")


def tree_of(function: FunctionType) -> ast.FunctionDef:
    """The body as it is written, annotations left out."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    tree.returns = None
    for argument in tree.args.args:
        argument.annotation = None
    return tree


def closure_of(function: FunctionType) -> Mapping[str, Any]:
    return inspect.getclosurevars(function).nonlocals


def names_of(function: FunctionType, op: type[Op] | None = None) -> dict[str, Any]:
    """What names in a function stand for; `call` and `self` are what they are there."""
    names = {**function.__globals__, **closure_of(function)}
    if function.__module__.startswith("edgesparse.importers"):
        names |= {"call": Call, "self": Call}
    elif op is not None:
        names["self"] = op
    return names


def resolve(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The function or class that a name, or a name in a module or class, stands for."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = names.get(node.value.id)
        if isinstance(owner, (ModuleType, type)):
            return getattr(owner, node.attr, None)
    return None


def text_of(node: ast.expr, names: Mapping[str, Any], given: Mapping[str, str]) -> str:
    """A text as it is written; UNKNOWN for what is not known before the program runs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.FormattedValue):
        return text_of(node.value, names, given)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part, names, given) for part in node.values)
    if isinstance(node, ast.Name):
        value = given.get(node.id, names.get(node.id))
        return value if isinstance(value, str) else UNKNOWN
    return UNKNOWN
