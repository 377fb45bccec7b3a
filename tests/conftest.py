"""Options and fixtures of every test; refuses to test a stale extension."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from needs import require, required

pytest_plugins = ("pytester",)

ROOT = Path(__file__).resolve().parent.parent
BUILT_FROM = ("native/include", "native/src", "native/bindings")
BUILT_BY = ("CMakeLists.txt", "native/CMakeLists.txt")


# The same cases in every run: a test that fails now and then says nothing about the change at hand.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data-root",
        type=Path,
        default=ROOT.parent / "shared",
        help="folder with models/ and cases/ (default: ../shared beside the checkout)",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files under tests/golden instead of comparing with them",
    )
    parser.addoption(
        "--mutants",
        type=int,
        default=1500,
        help="how many damaged .tflite files to import (default 1500)",
    )
    parser.addoption(
        "--link-runs",
        type=int,
        default=150,
        help="how often to use the link over a bad line (default 150)",
    )
    parser.addoption(
        "--device-link-runs",
        type=int,
        default=4,
        help="how often to use an emulated board over a bad line (default 4)",
    )
    parser.addoption(
        "--link-seed", type=int, default=0, help="of the first of these (default 0)")


def pytest_configure() -> None:
    try:
        required()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Edits under native/ need a reinstall; without one every result would be about the past."""
    if hasattr(session.config, "workerinput"):
        return  # the xdist controller has looked already
    try:
        import edgesparse._native as native
    except ImportError as error:
        pytest.exit(f"{error}: run pip install -e '.[test]'", 2)
    built = Path(native.__file__).stat().st_mtime
    parts = [path for part in BUILT_FROM for path in (ROOT / part).rglob("*.*")]
    newer = [
        str(path.relative_to(ROOT))
        for path in (*parts, *(ROOT / name for name in BUILT_BY))
        if path.is_file() and path.stat().st_mtime > built
    ]
    if newer:
        pytest.exit(f"{', '.join(newer)} changed after the build: run pip install -e .", 2)


@pytest.fixture(scope="session")
def data_root(pytestconfig: pytest.Config) -> Path:
    """The shared folder of models and records, or a skip that says how to name it."""
    root: Path = pytestconfig.getoption("--data-root").resolve()
    require("data", root.is_dir())
    return root


@pytest.fixture(scope="session")
def models_dir(data_root: Path) -> Path:
    """Models by family; models.json describes them."""
    require("data", (data_root / "models").is_dir())
    return data_root / "models"


@pytest.fixture(scope="session")
def cases_dir(data_root: Path) -> Path:
    """Valid and malformed files for the readers."""
    require("data", (data_root / "cases").is_dir())
    return data_root / "cases"


@pytest.fixture(scope="session")
def update_golden(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--update-golden"))
