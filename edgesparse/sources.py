"""Where the C sources are that a firmware is built from."""

from __future__ import annotations

from pathlib import Path

from edgesparse.errors import SourcesMissing

PACKAGE = Path(__file__).resolve().parent
NEEDED = (
    "CMakeLists.txt", "LICENSE", "native/CMakeLists.txt", "native/include", "native/src",
    "firmware_sim/arm-none-eabi.cmake")


def source_root(package: Path = PACKAGE) -> Path:
    """The folder with native/ and firmware_sim/: a wheel has them in edgesparse/sources (the top
    CMakeLists.txt installs them), an editable install in its checkout.

    package  the folder of the package edgesparse
    Raises SourcesMissing when neither holds all of them.
    """
    packaged, checkout = package / "sources", package.parent
    missing = {root: [name for name in NEEDED if not (root / name).exists()]
               for root in (packaged, checkout)}
    for root, names in missing.items():
        if not names:
            return root
    raise SourcesMissing(
        f"C sources of edgesparse: {packaged} lacks {', '.join(missing[packaged])}, and {checkout} "
        "is no checkout; install edgesparse again from its wheel, or with pip install -e from a "
        "checkout")
