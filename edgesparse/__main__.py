"""`python -m edgesparse` is the command line."""

from __future__ import annotations

from edgesparse.cli import main

main()
