"""The public names of the package, used as the README uses them."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import edgesparse as es
from command_line import ECG, dense_layer


def test_a_model_becomes_a_plan_and_runs(tmp_path: Path) -> None:
    plan = es.convert(ECG, target="host")
    plan.save(tmp_path / "ecg.esp")
    again = es.load(tmp_path / "ecg.esp")
    assert again.data == plan.data
    assert (again.ram_bytes, again.flash_bytes) == (plan.ram_bytes, len(plan.data))
    assert len(again.layers) == 10
    y = es.Session(again, backend="portable").run(np.zeros((1, 1440, 1), np.int8))
    assert isinstance(y, np.ndarray)
    assert y.shape == (1, 180, 4)


def test_every_public_name_exists() -> None:
    assert [name for name in es.__all__ if not hasattr(es, name)] == []
    assert es.__version__ == version("edgesparse")
    assert (Path(es.__file__).parent / "py.typed").exists()


def test_what_a_stream_reports_has_public_names() -> None:
    options = es.StreamOptions(hop=8, frontend="ecg360", beats=True)
    stream = es.Stream(es.convert(ECG, options=es.Options(stream=options)))
    events = stream.push(np.zeros(3600, np.int16))
    assert {type(event) for event in events} == {es.Run, es.StateChange}
    (change,) = (event for event in events if isinstance(event, es.StateChange))
    assert change.state is es.SignalState.FLAT
    assert not [event for event in stream.flush() if isinstance(event, es.Beat)]


def test_every_error_is_caught_by_one_name() -> None:
    errors = [value for name in es.__all__ if isinstance(value := getattr(es, name), type)
              and issubclass(value, Exception)]
    assert len(errors) == 15
    assert all(issubclass(error, es.EdgeSparseError) for error in errors)


def test_options_reach_the_conversion() -> None:
    plan = es.convert(dense_layer(), options=es.Options(golden=False))
    assert plan.model.golden is None


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(es.BadInput, match=r"no\.esp"):
        es.load(tmp_path / "no.esp")
    with pytest.raises(es.BadInput, match=r"no\.tflite"):
        es.convert(tmp_path / "no.tflite")
