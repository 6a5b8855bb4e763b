"""Tables and arrays that are written."""

import os

import numpy as np
import pytest

from widelimit import datasets as data

COLUMNS = {
    "whole": np.array([1, -(2**60), 3]),
    "wide": np.array([0.1, 1e-300, -np.pi]),
    "narrow": np.array([0.1, 1 / 3, 1e30], np.float32),
    "file": np.array([True, False, True]),
    "kind": np.array(['a, "b"', "two\nlines", "ün\tï;"]),
}


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet"])
def test_written_tables_read_back(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    columns = COLUMNS if suffix == ".parquet" else {name: COLUMNS[name] for name in ("whole", "wide", "narrow", "kind")}
    data.write(path, columns)
    found = data.read(path, target="kind")
    numbers = [name for name in columns if name != "kind"]
    assert found.names == tuple(numbers)
    for j, name in enumerate(numbers):
        np.testing.assert_array_equal(found.x[:, j].astype(columns[name].dtype), columns[name])
    assert found.y.tolist() == COLUMNS["kind"].tolist()
    whole = data.read(path, target="whole", drop=["kind"])
    np.testing.assert_array_equal(whole.y, COLUMNS["whole"], strict=True)
    assert os.listdir(tmp_path) == [path.name]


def test_written_arrays_read_back(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(5, 4, 4, 2)), np.arange(5)
    data.write(tmp_path / "t.npz", {"x": x, "y": y, "file": y, "kind": COLUMNS["kind"]})
    found = data.read(tmp_path / "t.npz")
    np.testing.assert_array_equal(found.x, x, strict=True)
    np.testing.assert_array_equal(found.y, y, strict=True)
    with np.load(tmp_path / "t.npz") as file:  # as anyone would
        assert sorted(file.files) == ["file", "kind", "x", "y"]
        assert file["kind"].tolist() == COLUMNS["kind"].tolist()
    data.write(tmp_path / "t.npy", {"anything": x})
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), x, strict=True)


def test_many_rows_are_written(tmp_path):
    columns = {"a": np.random.default_rng(0).normal(size=10_000), "b": np.arange(10_000)}
    data.write(tmp_path / "t.csv.gz", columns)
    first = (tmp_path / "t.csv.gz").read_bytes()
    assert first[4:8] == bytes(4)  # no time stamp
    np.testing.assert_array_equal(data.read(tmp_path / "t.csv.gz").x, np.stack(list(columns.values()), 1))
    data.write(tmp_path / "t.csv.gz", columns, overwrite=True)
    assert (tmp_path / "t.csv.gz").read_bytes() == first


@pytest.mark.parametrize(
    ("name", "columns", "match"),
    [
        ("t.xlsx", {"a": [1]}, "no known format"),
        ("t.csv", {}, "0 arrays"),
        ("t.npz", {}, "0 arrays"),
        ("t.npy", {"a": [1], "b": [2]}, "2 arrays"),
        ("t.csv", {"a": [1], "b": [2, 3]}, "one length"),
        ("t.parquet", {"a": [[1]]}, "one axis"),
        ("t.csv", {"a": [None]}, "column 'a' is of type object"),
        ("t.npz", {"a": np.array([1j])}, "complex128"),
        ("t.csv", {"1": [1]}, "'1', which reads as a number"),
    ],
)
def test_writing_refuses(tmp_path, name, columns, match):
    with pytest.raises(ValueError, match=match):
        data.write(tmp_path / name, columns)
    assert os.listdir(tmp_path) == []


def test_writing_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    with pytest.raises(FileNotFoundError, match="none does not exist"):
        data.write(tmp_path / "none" / "t.csv", {"a": [1]})
    with pytest.raises(TypeError, match="names"):
        data.write(path, {1: [1]})
    data.write(path, {"a": [1]})
    with pytest.raises(FileExistsError, match="overwrite=True"):
        data.write(path, {"a": [2]})
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileExistsError, match="folder"):
        data.write(tmp_path / "folder.csv", {"a": [2]}, overwrite=True)
    assert data.read(path).x.tolist() == [[1]]
    data.write(path, {"a": [2]}, overwrite=True)
    assert data.read(path).x.tolist() == [[2]]

    def full(source, target):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        data.write(path, {"a": [3]}, overwrite=True)
    assert data.read(path).x.tolist() == [[2]]
    assert sorted(os.listdir(tmp_path)) == ["folder.csv", "t.csv"]
