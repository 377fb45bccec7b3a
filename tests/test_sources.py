"""The C sources are found in a checkout and in an installed wheel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgesparse.errors import SourcesMissing
from edgesparse.sources import NEEDED, source_root
from test_house import ROOT


def put_sources(root: Path) -> None:
    for name in NEEDED:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if "." in path.name or path.name.isupper():
            path.touch()
        else:
            path.mkdir()


def test_an_editable_install_uses_its_checkout() -> None:
    assert source_root() == ROOT


def test_an_installed_package_uses_the_copy_inside_it(tmp_path: Path) -> None:
    package = tmp_path / "edgesparse"
    put_sources(package / "sources")
    assert source_root(package) == package / "sources"


def test_a_package_without_sources_says_what_is_missing(tmp_path: Path) -> None:
    package = tmp_path / "edgesparse"
    put_sources(package / "sources")
    (package / "sources" / "native" / "src").rmdir()
    with pytest.raises(SourcesMissing, match="sources lacks native/src, and"):
        source_root(package)


def test_the_wheel_gets_every_path_that_is_needed() -> None:
    """The rules of CMakeLists.txt name them; a wheel itself takes minutes to build."""
    text = (ROOT / "CMakeLists.txt").read_text()
    rules = " ".join(re.findall(r"install\(((?:FILES|DIRECTORY)[^)]*)\)", text))
    assert [name for name in NEEDED if name not in rules and name.split("/")[0] not in rules] == []
