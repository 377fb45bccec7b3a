"""What a plan is made for. A Target describes a machine; how to compile is in Options."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from edgesparse.errors import BadInput

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Target:
    """A machine, read from targets/<name>.toml.

    config       configuration id the plan carries; 0: any machine may run it
    flash_bytes  what plan and code may take, 0: not limited
    ram_bytes    what the arena may take, 0: not limited
    """

    name: str
    description: str
    config: int
    flash_bytes: int
    ram_bytes: int


@cache
def target_names() -> tuple[str, ...]:
    folder = files("edgesparse") / "targets"
    return tuple(sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml")))


@cache
def load_target(name: str) -> Target:
    """Raises BadInput when there is no such target."""
    if name not in target_names():
        raise BadInput(f"target {name!r} is not known; there are {', '.join(target_names())}")
    text = (files("edgesparse") / "targets" / f"{name}.toml").read_text(encoding="utf-8")
    return Target(name=name, **tomllib.loads(text))
