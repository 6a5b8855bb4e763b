"""Headers, values and declared state, without any network."""

import io
import json
import resource
import zipfile
from copy import copy
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from widelimit.storage.format import (
    FEATURE_MAP,
    FORMAT,
    MODEL,
    NETWORK,
    RUNS,
    decode_header,
    reading_arrays,
    write_arrays,
)
from widelimit.storage.state import check_state, declare, declared_state, is_storable, storable, storable_class
from widelimit.storage.values import Decoder, Encoder


class Pair(NamedTuple):
    first: object
    second: object


declare(Pair, {"first": "n", "second": "n m?"})


class Base:
    _saved: ClassVar = {"a": int, "b": "n"}


@storable
class Derived(Base):
    _saved: ClassVar = {"b": "n n", "c": str | None}


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, -0.5, "text", [1, [2.0, None]], (1, ("a", ())), np.inf, -np.inf, np.arange(3.0),
        [np.zeros((2, 0), np.float32), np.array(["a", "bc"])], np.array([["a", 1], ["b", 2.5]], object),
        Pair(np.ones(2), None), np.float64(0.5), np.int64(7),
    ],
    ids=repr,
)  # fmt: skip
def test_values_come_back(value):
    encoder = Encoder()
    data = json.loads(json.dumps(encoder.encode(value), allow_nan=False))
    found = Decoder(encoder.arrays).decode(data)
    if not isinstance(value, np.generic):
        assert type(found) is type(value)
    if isinstance(value, np.ndarray):
        np.testing.assert_array_equal(found, value, strict=True)
    else:
        np.testing.assert_equal(found, value)


def test_what_files_do_not_hold():
    for value in (1j, {1, 2}, {"a": 1}, np.array([1j]), np.array([object()]), test_values_come_back):
        with pytest.raises(TypeError, match="A file holds"):
            Encoder().encode(value)
    assert Encoder().encode(np.random.default_rng(0)) is None


@pytest.mark.parametrize(
    "data",
    [
        {"evil": 1},
        {},
        {"array": 1},
        {"array": True},
        {"array": -1},
        {"tuple": "Derived", "values": []},
        {"tuple": "os"},
    ],
)
def test_unknown_parts_are_refused(data):
    with pytest.raises(ValueError, match=r"part of an unknown kind|refers to the array"):
        Decoder([np.ones(1)]).decode(data)


def test_headers_say_format_and_content():
    assert decode_header(f'{{"widelimit": {FORMAT}, "runs": []}}', RUNS)["runs"] == []
    for text, content, message in (
        ("[]", RUNS, "does not say its format"),
        ('{"runs": []}', RUNS, "does not say its format"),
        ('{"widelimit": 2, "runs": []}', RUNS, "in format 2, and this widelimit reads 1"),
        ('{"widelimit": true, "runs": []}', RUNS, "in format True"),
        ('{"widelimit": 1}', MODEL, "has no 'model'"),
        ('{"widelimit": 1, "model": 1}', FEATURE_MAP, "holds a model, which widelimit.estimators.load reads"),
        ('{"widelimit": 1, "parts": [], "network": 1}', NETWORK, "holds a feature map"),
        ("[" * 100_000, NETWORK, "nested too deeply"),
    ):
        with pytest.raises(ValueError, match=message):
            decode_header(text, content)


@pytest.mark.parametrize("shape", ["(10**12,)", "(999999999999,)", "(-1,)", "(3,)", "((((", "(True,)"])
def test_no_memory_is_taken_for_what_is_not_there(shape, tmp_path):
    """What an array says of itself is compared with the bytes that follow."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path, array = tmp_path / "m.npz", io.BytesIO()
    write_arrays(path, {"model": 1}, [])
    np.save(array, np.zeros(1000))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(
            "array_0.npy", array.getvalue().replace(b"(1000,), }" + b" " * 20, f"{shape}, }}".ljust(30).encode())
        )
    with pytest.raises(ValueError, match=r"m\.npz: is no model that can be read"), reading_arrays(path, MODEL):
        pass
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # kilobytes


def test_members_that_overlap_are_refused(tmp_path):
    """Many names of the same bytes are how a small zip file holds petabytes."""
    path = tmp_path / "m.npz"
    write_arrays(path, {"model": 1}, [np.zeros(1000)])
    with zipfile.ZipFile(path, "a") as archive:
        for i in range(1, 9):
            again = copy(archive.getinfo("array_0.npy"))
            again.filename = f"array_{i}.npy"
            archive.filelist.append(again)
        archive._didModify = True
    with pytest.raises(ValueError, match="declare more bytes than the file has"), reading_arrays(path, MODEL):
        pass


def test_state_is_declared_by_classes_and_their_bases():
    assert declared_state(Derived) == {"a": int, "b": "n n", "c": str | None}
    assert is_storable(Derived)
    assert not is_storable(Base)
    assert storable_class("Derived", Base) is Derived
    for name, base in (("Base", Base), ("Derived", tuple), ("int", int)):
        with pytest.raises(ValueError, match="unknown kind"):
            storable_class(name, base)


def test_state_is_checked():
    good = {"a": 1, "b": np.eye(2), "c": None}
    sizes: dict[str, int] = {}
    check_state(good, declared_state(Derived), sizes)
    assert sizes == {"n": 2}
    check_state({"p": Pair(np.ones(2), np.ones((2, 3)))}, {"p": Pair}, sizes)
    assert sizes == {"n": 2, "m": 3}
    for changes, message in (
        ({"a": True}, "its a is missing, or of another kind"),
        ({"c": 3}, "its c is missing"),
        ({"b": np.ones((2, 3))}, "do not fit together: b has 3 n, and others 2"),
        ({"b": np.eye(3)}, "do not fit together"),
        ({"b": np.ones(2)}, "its b is missing, or no array of numbers over"),
        ({"b": None}, "its b is missing"),
        ({"b": np.array([["a"]])}, "no array of numbers"),
        ({"b": np.full((2, 2), np.nan)}, "NaN or infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            check_state(good | changes, declared_state(Derived), {"n": 2})
    with pytest.raises(ValueError, match="its c is missing"):
        check_state({"a": 1, "b": np.eye(2)}, declared_state(Derived), {})
