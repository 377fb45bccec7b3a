"""Compile pruned, quantized networks into plans for small machines, and run them.

    import edgesparse as es
    plan = es.convert("model.tflite", target="host")
    plan.save("model.esp")
    y = es.Session(plan).run(x)
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

__version__ = version("edgesparse")
