"""Tables and images as NumPy files."""

import numpy as np
import pytest

from published_files import (
    Evil,
    saved,
)
from widelimit import datasets as data


@pytest.mark.parametrize(
    ("given", "dtype"),
    [("f8", "f8"), (">f8", "f8"), ("f4", "f4"), ("f2", "f4"), ("u1", "f4"), ("i2", "f4"), ("i8", "f8"), ("?", "f4")],
)
def test_npy(tmp_path, given, dtype):
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(given)
    for array in (values, np.asfortranarray(values)):
        found = data.read(saved(tmp_path, "t.npy", array))
        np.testing.assert_array_equal(found.x, values.astype(dtype), strict=True)
        assert found[1:] == (None, None, None)
    found = data.read(tmp_path / "t.npy", target=-1)
    assert (found.x.tolist(), found.y.tolist(), found.target) == ([[0, 1], [1, 0]], [1, 1], 2)
    assert data.read(tmp_path / "t.npy", target="0", drop=[1]).x.tolist() == [[1], [1]]
    assert data.columns_of(tmp_path / "t.npy") == {"the array": f"{np.dtype(given)} (2, 3)"}


def test_npz(tmp_path):
    pictures, labels = np.arange(48, dtype=np.uint8).reshape(2, 4, 2, 3), np.array(["u", "v"])
    path = saved(tmp_path, "t.npz", x=pictures, y=labels, rows=np.eye(2), z=np.array([5, 6]))
    found = data.read(path)
    np.testing.assert_array_equal(found.x, pictures.astype(np.float32), strict=True)
    assert (found.y.tolist(), found.names, found.target) == (["u", "v"], None, "y")
    found = data.read(path, key="rows", target="z")
    assert (found.x.tolist(), found.y.tolist(), found.target) == ([[1, 0], [0, 1]], [5, 6], "z")
    assert data.read(path, key="rows", target="-1").y.tolist() == [0, 1]
    assert data.columns_of(path)["x"] == "uint8 (2, 4, 2, 3)"
    np.savez(tmp_path / "u.npz", X=np.eye(2))
    assert data.read(tmp_path / "u.npz").y is None


@pytest.mark.parametrize(
    ("arrays", "options", "match"),
    [
        ({"a": np.eye(2)}, {}, "no array 'x'.*'a'.*key"),
        ({"x": np.eye(2)}, {"key": "q"}, "no array 'q'.*'x'"),
        ({"x": np.eye(2)}, {"target": "q"}, "no array 'q'.*'x'"),
        ({"x": np.eye(2)}, {"target": 5}, "no column 5"),
        ({"x": np.eye(2), "y": np.ones(3)}, {}, "2 rows and 'y' 3"),
        ({"x": np.eye(2), "y": np.ones((2, 1, 1))}, {}, r"'y' has the shape \(2, 1, 1\)"),
        ({"x": np.eye(2), "y": np.array([1, np.nan])}, {}, "'y' is not finite: nan at 1"),
        ({"x": np.array([[1, np.inf]])}, {}, r"'x' is not finite: inf at \(0, 1\)"),
        ({"x": np.ones(3)}, {}, r"shape \(3,\).*rows.*images"),
        ({"x": np.ones(())}, {}, r"shape \(\)"),
        ({"x": np.ones((0, 3))}, {}, r"shape \(0, 3\)"),
        ({"x": np.ones((2, 2, 2, 1))}, {"drop": [0]}, "only rows have columns"),
        ({"x": np.array([["a"]])}, {}, "'x' holds texts"),
        ({"x": np.array([[1j]])}, {}, "complex128"),
        ({"x": np.ones((2, 2), np.longdouble)}, {}, "float128|longdouble"),
        ({"x": np.array([[1, "a"]], object)}, {}, "holds Python objects"),
        ({"x": np.eye(2), "y": np.array([None, 1])}, {}, "'y' holds Python objects"),
        ({"x": np.ones(2, [("a", "f8")])}, {}, "of type"),
        ({}, {}, "holds no array"),
    ],
)
def test_npz_refusals(tmp_path, arrays, options, match):
    path = saved(tmp_path, "t.npz", **arrays)
    with pytest.raises(ValueError, match=match) as caught:
        data.read(path, **options)
    assert str(path) in str(caught.value)


def test_npy_refusals(tmp_path):
    path = tmp_path / "t.npy"

    def assert_refused(raw, match):
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=match) as caught:
            data.read(path)
        assert str(path) in str(caught.value)

    whole = saved(tmp_path, "t.npy", np.eye(9)).read_bytes()
    assert_refused(whole[:-1], r"says it is float64 \(9, 9\), and 647 bytes follow")
    assert_refused(whole + b"1", "649 bytes follow")
    assert_refused(whole[:50], "cut off")
    assert_refused(b"", "cut off")
    assert_refused(b"a,b\n1,2\n", "cut off, or of another kind")
    assert_refused(whole.replace(b"(9, 9)", b"(9,-9)"), "shape")
    assert_refused(whole.replace(b"(9, 9), }    ", b"(99999999,9),}"), "bytes follow")
    assert_refused(whole.replace(b"\x93NUMPY\x01", b"\x93NUMPY\x07"), "version")
    touched = tmp_path / "touched"
    np.save(path, np.array([Evil(touched)], object), allow_pickle=True)
    assert_refused(path.read_bytes(), "Python objects.*run any program")
    assert not touched.exists()
    zipped = saved(tmp_path, "t.npz", x=np.eye(9))
    zipped.write_bytes(zipped.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"t\.npz.*cut off"):
        data.read(zipped)
