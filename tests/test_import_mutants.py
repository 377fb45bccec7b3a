"""Damaged .tflite files: a typed error that names the place, never a crash or a long wait."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tflite

from edgesparse.errors import ImportFailed, UnsupportedModel
from edgesparse.graph.verify import verify
from edgesparse.importers.tflite import import_tflite
from edgesparse.importers.tflite_schema import read_model
from mutate import mutants
from test_import_tflite import read

SOURCES = (
    "cases/tflite/b16", "cases/tflite/cr", "cases/tflite/mu", "cases/tflite/s2b",
    "cases/tflite/sfc_b4", "cases/tflite/sfc_csr", "generated/acts_uns0_int8",
    "generated/conv1d_uns80_int8_SP", "generated/gru_unroll_uns0_int8",
    "mp/mp_feedback_tensor_test_model", "mww/mww_v2_vad", "pcg/pcg_mfcc_int8",
    "pcg/pcg_oldmodels_mfcc_float16", "tflm/tflm_audio_preproc_int8", "tflm/tflm_hello_float",
    "tflm/tflm_hello_int8", "tflm/tflm_keyword_scrambled", "tflm/tflm_mnist_lstm_int8",
)
SECONDS = 2.0
"""Far over the 25 ms that the slowest of these takes, on any machine."""


@pytest.mark.parametrize("number", range(len(SOURCES)), ids=lambda n: SOURCES[n])
def test_mutants_import_or_fail_with_a_typed_error(
    number: int, data_root: Path, pytestconfig: pytest.Config
) -> None:
    count = -(-int(pytestconfig.getoption("--mutants")) // len(SOURCES))
    data = read(data_root, SOURCES[number])
    outcomes: Counter[str] = Counter()
    for mutant in mutants(data, np.random.default_rng([31, number]), count):
        start = time.process_time()
        message = "mutant: "
        try:
            verify(import_tflite(mutant, "mutant"))
            outcomes["imported"] += 1
        except (ImportFailed, UnsupportedModel) as error:
            message = str(error)
            outcomes[type(error).__name__] += 1
        assert message.startswith("mutant: ")
        assert time.process_time() - start < SECONDS
    assert outcomes["ImportFailed"] > count // 4, outcomes
    assert sum(outcomes.values()) == count


# Chosen damage: a field of cases/tflite/cr (three convolutions of 16 channels) is overwritten.


def tables(data: bytes) -> tuple[tflite.Model, tflite.SubGraph, tflite.Operator, tflite.Tensor]:
    """The model, its graph, its first convolution and the weights of that."""
    model = tflite.Model.GetRootAs(data)
    graph = model.Subgraphs(0)
    conv = graph.Operators(0)
    return model, graph, conv, graph.Tensors(conv.Inputs(1))


def patched(data: bytes, at: int, value: int) -> bytes:
    """The file with another 32-bit word at `at`."""
    return data[:at] + (value % 2**32).to_bytes(4, "little") + data[at + 4 :]


def field(table: object, slot: int) -> int:
    """Where a scalar field of a table stands in the file."""
    return table._tab.Pos + table._tab.Offset(slot)  # type: ignore[attr-defined, no-any-return]


def items(table: object, slot: int) -> int:
    """Where the first item of a vector field stands; its length is four bytes before."""
    return table._tab.Vector(table._tab.Offset(slot))  # type: ignore[attr-defined, no-any-return]


def seven_scales(data: bytes) -> bytes:
    quant = tables(data)[3].Quantization()
    return patched(patched(data, items(quant, 8) - 4, 7), items(quant, 10) - 4, 7)


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "8 bytes": (lambda d: d[:8], "file header is damaged|version is damaged|list is damaged"),
    "empty": (lambda d: b"", "not a .tflite file"),
    "4 bytes": (lambda d: d[:4], "not a .tflite file"),
    "truncated at 60 %": (lambda d: d[: len(d) * 6 // 10], "is damaged|ends at byte"),
    "truncated by 16 bytes": (lambda d: d[:-16], "is damaged|ends at byte"),
    "wrong magic": (lambda d: d[:4] + b"TFL9" + d[8:], "identifier b'TFL9'"),
    "buffer index 9999": (
        lambda d: patched(d, field(tables(d)[3], 8), 9999),
        r"tensor \d+ \(.*\) is in buffer 9999; the file has 7"),
    "tensor index 77": (
        lambda d: patched(d, items(tables(d)[2], 6) + 4, 77),
        r"operator 0 \(CONV_2D\): tensor index 77; the graph has 10"),
    "output index 77": (
        lambda d: patched(d, items(tables(d)[2], 8), 77), "operator 0.*tensor index 77"),
    "graph input 77": (
        lambda d: patched(d, items(tables(d)[1], 6), 77), "graph inputs: tensor index 77"),
    "graph output -1": (
        lambda d: patched(d, items(tables(d)[1], 8), -1), "graph outputs: tensor index -1"),
    "weight shape larger than its buffer": (
        lambda d: patched(d, items(tables(d)[3], 4) + 4, 9),
        r"tensor \d+ .*takes \d+ bytes; buffer \d+ has \d+"),
    "7 scales for 16 channels": (seven_scales, r"tensor \d+ .*7 scales for 16 channels"),
    "7 scales for 16 zero points": (
        lambda d: patched(d, items(tables(d)[3].Quantization(), 8) - 4, 7),
        "7 scales but 16 zero points"),
    "scale of infinity": (
        lambda d: patched(d, items(tables(d)[3].Quantization(), 8), 0x7F800000),
        "a scale is not a positive number"),
    "scale of 0": (
        lambda d: patched(d, items(tables(d)[3].Quantization(), 8), 0),
        "a scale is not a positive number"),
    "zero point 128": (
        lambda d: patched(d, items(tables(d)[3].Quantization(), 10), 128),
        "a zero point is outside -128 ... 127"),
    "two operators write one tensor": (
        lambda d: patched(d, items(tables(d)[1].Operators(1), 8), tables(d)[2].Outputs(0)),
        "operator 1.*which has a value already"),
    "an operator reads its own output": (
        lambda d: patched(d, items(tables(d)[2], 6), tables(d)[2].Outputs(0)),
        "operator 0.*which nothing before it computes"),
    "no stride": (
        lambda d: patched(d, field(options(d), 6), 0), "operator 0.*StrideW is 0"),
    "a stride of 2**31 - 1": (
        lambda d: patched(d, field(options(d), 6), 2**31 - 1), "operator 0.*StrideW is 2147483647"),
    "another stride": (
        lambda d: patched(d, field(options(d), 6), 3),
        r"operator 0.*its inputs give shape \[1, 1, \d+, 16\]; the file says \[1, 1, 187, 16\]"),
    "2**31 tensors": (
        lambda d: patched(d, items(tables(d)[1], 4) - 4, 2**31), "2147483648 tensors; at most"),
    "2**31 operators": (
        lambda d: patched(d, items(tables(d)[1], 10) - 4, 2**31), "2147483648 operators; at most"),
    "2**31 buffers": (
        lambda d: patched(d, items(tables(d)[0], 12) - 4, 2**31), "buffer list has 2147483648"),
    "2**32 - 1 inputs": (
        lambda d: patched(d, items(tables(d)[2], 6) - 4, 2**32 - 1), "operator 0.*inputs"),
    "a name of 2**31 bytes": (
        lambda d: patched(d, items(tables(d)[3], 10) - 4, 2**31), r"tensor \d+ name ends at byte"),
    "no operator codes": (
        lambda d: patched(d, items(tables(d)[0], 6) - 4, 0),
        "operator 0 has operator code 0; the file lists 0"),
}


def options(data: bytes) -> tflite.Conv2DOptions:
    union = tables(data)[2].BuiltinOptions()
    found = tflite.Conv2DOptions()
    found.Init(union.Bytes, union.Pos)
    return found


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named(case: str, data_root: Path) -> None:
    damage, message = DAMAGE[case]
    data = read(data_root, "cases/tflite/cr")
    import_tflite(data, "sound")
    with pytest.raises(ImportFailed, match=f"^damaged: .*({message})"):
        import_tflite(damage(data), "damaged")


def test_every_truncation_is_noticed(data_root: Path) -> None:
    data = read(data_root, "cases/tflite/s2b")
    for size in range(0, len(data) - 4, 7):
        with pytest.raises(ImportFailed, match=r"^cut: "):
            import_tflite(data[:size], "cut")


def test_names_reach_the_terminal_as_text(data_root: Path) -> None:
    """Escape codes, line ends and broken UTF-8 in a tensor name are shown as replaced."""
    data = read(data_root, "cases/tflite/mu")
    at = items(tables(data)[1].Tensors(0), 10)
    for word in (b"\x1b[", b"\n\x00", b"\xff\xfe"):
        size = int.from_bytes(data[at - 4 : at], "little")
        named = data[:at] + word[:size] + data[at + min(size, 2) :]
        (name,) = import_tflite(named, "names").inputs
        assert name.isprintable()
        assert "\ufffd" in name


def test_open_length_is_refused_by_name_and_batch_is_pinned(data_root: Path) -> None:
    data = read(data_root, "tflm/tflm_hello_int8")
    assert read_model(data, "hello").tensors[0].signature == (-1, 1)
    assert import_tflite(data, "hello").inputs == ("serving_default_dense_input:0",)
    tensor = tables(data)[1].Tensors(0)
    open_length = patched(data, items(tensor, 18) + 4, -1)
    with pytest.raises(UnsupportedModel, match=r"dense_input:0.*dimension 1 is dynamic"):
        import_tflite(open_length, "hello")


def test_state_variable_is_refused(data_root: Path) -> None:
    """The variable flag on a tensor that a layer reads: it keeps its value between runs."""
    data = read(data_root, "tflm/tflm_mnist_lstm_int8")
    assert [t.is_variable for t in read_model(data, "lstm").tensors].count(True) == 2
    graph = tables(data)[1]
    fully_connected = next(graph.Operators(i) for i in range(graph.OperatorsLength())
                           if graph.Operators(i).BuiltinOptionsType() == 8)
    state = next(i for i in range(graph.TensorsLength()) if graph.Tensors(i).IsVariable())
    reads_state = patched(data, items(fully_connected, 6), state)
    with pytest.raises(UnsupportedModel, match=r"\(FULLY_CONNECTED\): .* is a state variable"):
        import_tflite(reads_state, "lstm")


def test_shared_tables_do_not_multiply_work(data_root: Path) -> None:
    """40,000 entries of the operator list are one operator with 40,000 inputs."""
    data = read(data_root, "tflm/tflm_hello_int8")
    data = data.ljust(len(data) + -len(data) % 4, b"\0")
    count = 40_000
    vtable = 4 + 4 * count  # from the end of the file: the list, what it points at, inputs, outputs
    table = vtable + 12
    entries = [table - (4 + 4 * i) for i in range(count)]
    outputs = 4 + 4 * (count + 1)  # from the field of the inputs
    attack = data + b"".join((
        np.array([count, *entries], "<u4").tobytes(),
        np.array([10, 12, 0, 4, 8, 0], "<u2").tobytes(),
        np.array([12, 8, outputs], "<u4").tobytes(),
        np.array([count, *[0] * count], "<u4").tobytes(),
        np.array([1, 1], "<u4").tobytes(),
    ))
    operators = field(tables(data)[1], 10)
    attack = patched(attack, operators, len(data) - operators)
    last = tables(attack)[1].Operators(count - 1)
    assert (last.InputsLength(), last.Outputs(0)) == (count, 1)
    start = time.process_time()
    with pytest.raises(ImportFailed, match=r"more than .* bytes of file can hold"):
        import_tflite(attack, "shared")
    assert time.process_time() - start < SECONDS
