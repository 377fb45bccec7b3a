"""Random cases of every operator: attributes, tensors, inputs, and the same as a .tflite model.

CASES[operator name](rng) draws one. A new operator needs an entry: tests/test_ops.py says so.
"""

from __future__ import annotations

from op_cases import elementwise, layout, macs, recurrent, windows
from op_cases.parts import CASES, Case

__all__ = ["CASES", "Case", "elementwise", "layout", "macs", "recurrent", "windows"]
