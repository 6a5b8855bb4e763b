"""Damaged files: an error that names the file, or what is still in it."""

import ast
import gzip
import os
import sys
import time
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from helpers import damaged
from published_files import (
    cifar10_files,
    published,
    put,
    saved,
)
from widelimit import datasets as data


def tried(call, path):
    """What a call gives, or the ValueError it raises."""
    try:
        return call(path)
    except ValueError as error:
        return error


def originals(kind, tmp_path):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(6, 3))
    if kind == "csv":
        rows = "".join(f"{a!r},{b:.3f},{c:.1e},k{i}\n" for i, (a, b, c) in enumerate(values.tolist()))
        yield "t.csv", ("a,b,c,kind\n" + rows).encode(), {"target": -1}
        yield "t.csv", rows.replace("k", "").encode(), {}
        yield "t.csv", ('"a";"b"\n' + '"1";"2"\n' * 5).encode(), {}
        yield "t.csv.gz", gzip.compress(rows.encode()), {"target": -1}
    else:
        yield "t.npy", saved(tmp_path, "o.npy", values).read_bytes(), {}
        yield "t.npy", saved(tmp_path, "o.npy", (values * 9).astype("u1").reshape(1, 3, 3, 2)).read_bytes(), {}
        np.savez(tmp_path / "o.npz", x=values, y=np.array(list("abcdef")))
        yield "t.npz", (tmp_path / "o.npz").read_bytes(), {}
        yield "t.npz", saved(tmp_path, "o.npz", x=values, y=values[:, 0]).read_bytes(), {}


@pytest.mark.parametrize("kind", ["csv", "numpy"])
def test_damaged_files_read_or_say_so(tmp_path, kind):
    rng = np.random.default_rng(7)
    cases = list(originals(kind, tmp_path))
    folder = tmp_path / "damaged"
    folder.mkdir()
    read = refused = 0
    for i in range(250):
        name, raw, options = cases[i % len(cases)]
        path = folder / name
        path.write_bytes(damaged(raw, rng))
        start = time.perf_counter()
        for call in (partial(data.read, **options), data.columns_of):
            found = tried(call, path)
            if isinstance(found, ValueError):
                assert str(path) in str(found)
                refused += 1
                continue
            read += 1
            if isinstance(found, data.Table):
                assert np.isfinite(found.x).all()
                assert found.y is None or len(found.y) == len(found.x)
        assert time.perf_counter() - start < 5
        assert os.listdir(folder) == [name]
        path.unlink()
    assert read > 20
    assert refused > 100


def test_damaged_pickles_read_or_say_so(tmp_path):
    rng = np.random.default_rng(3)
    files = cifar10_files(published)
    folder = put(tmp_path, files)
    head = files["test_batch"][:200]  # what is not pixels
    for _ in range(60):
        (folder / "test_batch").write_bytes(damaged(head, rng) + files["test_batch"][200:])
        found = tried(data.cifar10, folder)
        assert isinstance(found, data.Images) or "test_batch" in str(found)


def test_a_zip_of_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("x.npy", "text")
        archive.writestr("readme", "text")
    with pytest.raises(ValueError, match=r"t\.npz.*another kind"):
        data.read(tmp_path / "t.npz")


def test_only_numpy_is_imported_with_the_package():
    for path in Path(data.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                assert all(alias.name in sys.stdlib_module_names | {"numpy"} for alias in node.names), path
            elif isinstance(node, ast.ImportFrom):
                top = (node.module or "").split(".")[0]
                known = sys.stdlib_module_names | {"numpy"} if node.level == 0 else {"numerics", "storage"}
                assert node.level == 1 or top in known, path
