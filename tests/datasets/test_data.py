"""Data sets and tables: every format, every refusal, and files that were damaged."""

import ast
import gzip
import hashlib
import http.server
import io
import os
import pickle
import struct
import sys
import tarfile
import threading
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from widelimit import datasets as data
from widelimit.datasets import images

NAMES10 = [f"thing{i}" for i in range(10)]


# CIFAR


def batch(seed, rows=4, classes=10):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (rows, 3072), np.uint8), rng.integers(0, classes, rows).tolist()


class OfPython2(pickle._Pickler):
    """Strings and bytes as Python 2 wrote them, as in the published files."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, value):
        raw = value.encode("latin1") if isinstance(value, str) else value
        self.write(pickle.BINSTRING + struct.pack("<i", len(raw)) + raw)
        self.memoize(value)

    dispatch[bytes] = dispatch[str] = save_string


def published(value):
    buffer = io.BytesIO()
    OfPython2(buffer, 2).dump(value)
    return buffer.getvalue().replace(b"numpy._core", b"numpy.core")


PICKLERS = {
    "python2": published,
    **{f"protocol{p}": partial(pickle.dumps, protocol=p) for p in (0, 2, 4, 5)},
}


def cifar10_files(dump=pickle.dumps):
    batches = {f"data_batch_{i}": batch(i) for i in range(1, 6)} | {"test_batch": batch(6)}
    files = {name: dump({b"data": x, b"labels": y, b"batch_label": b"x"}) for name, (x, y) in batches.items()}
    return files | {"batches.meta": dump({b"label_names": [n.encode() for n in NAMES10]})}


def cifar10_binary():
    batches = {f"data_batch_{i}.bin": batch(i) for i in range(1, 6)} | {"test_batch.bin": batch(6)}
    files = {
        n: b"".join(bytes([k]) + row.tobytes() for row, k in zip(x, y, strict=True)) for n, (x, y) in batches.items()
    }
    return files | {"batches.meta.txt": ("\n".join(NAMES10) + "\n\n").encode()}


def cifar100_files():
    names = {"fine_label_names": [f"f{i}" for i in range(100)], "coarse_label_names": [f"c{i}" for i in range(20)]}
    parts = {}
    for name, seed in (("train", 1), ("test", 2)):
        x, fine = batch(seed, classes=100)
        parts[name] = x, fine, [label // 5 for label in fine]
    pickles = {
        name: published({"data": x, "fine_labels": fine, "coarse_labels": coarse})
        for name, (x, fine, coarse) in parts.items()
    }
    binary = {
        f"{name}.bin": b"".join(bytes([c, f]) + row.tobytes() for row, f, c in zip(x, fine, coarse, strict=True))
        for name, (x, fine, coarse) in parts.items()
    }
    texts = {f"{name}.txt": "\n".join(values).encode() for name, values in names.items()}
    return pickles | {"meta": published(names)}, binary | texts


def put(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def pack(path, folder, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def check_cifar10(found):
    assert found.x_train.shape == (20, 32, 32, 3)
    assert found.x_train.dtype == np.uint8
    assert found.y_train.dtype == np.int64
    assert found.names == tuple(NAMES10)
    for x, y, seed, start in [(found.x_train, found.y_train, 3, 8), (found.x_test, found.y_test, 6, 0)]:
        rows, labels = batch(seed)
        for i in range(4):
            for channel in range(3):
                np.testing.assert_array_equal(x[start + i, :, :, channel].ravel(), rows[i].reshape(3, 1024)[channel])
        assert y[start : start + 4].tolist() == labels


@pytest.mark.parametrize("dump", PICKLERS.values(), ids=PICKLERS)
def test_cifar10_pickles(tmp_path, dump):
    put(tmp_path / "cifar-10-batches-py", cifar10_files(dump))
    check_cifar10(data.cifar10(tmp_path))
    check_cifar10(data.cifar10(tmp_path / "cifar-10-batches-py"))


def test_cifar10_binary_and_archives(tmp_path):
    put(tmp_path / "a" / "cifar-10-batches-bin", cifar10_binary())
    check_cifar10(data.cifar10(tmp_path / "a"))
    check_cifar10(data.cifar10(str(tmp_path / "a" / "cifar-10-batches-bin")))
    for name, folder, files in [
        ("cifar-10-python.tar.gz", "cifar-10-batches-py", cifar10_files()),
        ("cifar-10-binary.tar.gz", "cifar-10-batches-bin", cifar10_binary()),
    ]:
        (tmp_path / name[:9]).mkdir(exist_ok=True)
        path = pack(tmp_path / name[:9] / name, folder, files)
        check_cifar10(data.cifar10(path))
        check_cifar10(data.cifar10(path.parent))
        assert os.listdir(path.parent) == [name]  # nothing was unpacked
        path.unlink()


def test_cifar100(tmp_path):
    pickles, binary = cifar100_files()
    put(tmp_path / "py" / "cifar-100-python", pickles)
    put(tmp_path / "bin" / "cifar-100-binary", binary)
    for folder in ("py", "bin"):
        fine, coarse = data.cifar100(tmp_path / folder), data.cifar100(tmp_path / folder, coarse=True)
        assert fine.y_train.tolist() == batch(1, classes=100)[1]
        np.testing.assert_array_equal(coarse.y_test, fine.y_test // 5)
        assert (fine.names[7], coarse.names[7], len(fine.names), len(coarse.names)) == ("f7", "c7", 100, 20)
        np.testing.assert_array_equal(fine.x_test[1, :, :, 2].ravel(), batch(2, classes=100)[0][1, 2048:])


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("protocol", range(6))
def test_an_evil_pickle_runs_nothing(tmp_path, protocol):
    touched = tmp_path / "touched"
    evil = pickle.dumps({b"data": Evil(touched), b"labels": [0]}, protocol)
    folder = put(tmp_path / "c", cifar10_files() | {"data_batch_2": evil})
    with pytest.raises(ValueError, match=r"data_batch_2.*io\.open.*nothing was run"):
        data.cifar10(folder)
    assert not touched.exists()


def test_a_pickle_cannot_reach_numpy_or_what_reads_it(tmp_path):
    def assert_refused(raw, match):
        with pytest.raises(ValueError, match=match):
            data.cifar10(put(tmp_path, cifar10_files() | {"test_batch": raw}))

    assert_refused(b"cnumpy\nload\n.", "numpy.load")
    assert_refused(b"cnumpy.core.multiarray\nscalar\n.", "scalar")
    assert_refused(pickle.dumps({b"data": np.array([print, 1]), b"labels": [0]}), "builtins.print")
    assert_refused(pickle.dumps({b"data": np.array(["a", None]), b"labels": [0, 1]}), "array of 'O8'")
    assert_refused(pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [0]}), "array of 'f8'")
    assert_refused(b"]r\xff\xff\xff\x7f.", "notes 2147483647 values")  # 30 GB of notes
    assert_refused(b"]p9999999\n.", "notes 9999999 values")  # the same in text
    assert_refused(b"c_codecs\nencode\n(Va\nVrot13\ntR.", "rot13")
    # sets an attribute of the class it is given, and must not spoil the next file
    assert_refused(b"cnumpy\nndarray\n(N(dV__setstate__\nNstb.", "cannot be read|not a dict")
    check_cifar10(data.cifar10(put(tmp_path, cifar10_files())))


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("data_batch_1", b"", "data_batch_1.*cut off"),
        ("data_batch_1", cifar10_files()["data_batch_1"][:-500], "data_batch_1.*cut off"),
        ("data_batch_1", b"\x89PNG something else", "data_batch_1"),
        ("data_batch_1", pickle.dumps([1]), "a list, not a dict"),
        ("data_batch_1", pickle.dumps({b"data": batch(0)[0]}), "no 'labels'"),
        ("data_batch_1", pickle.dumps({b"data": [1], b"labels": [1]}), "images are list"),
        ("data_batch_1", pickle.dumps({b"data": batch(0)[0][:, :5], b"labels": [1]}), r"\(4, 5\)"),
        ("data_batch_1", pickle.dumps({b"data": batch(0)[0], b"labels": [1]}), "4 images, and labels"),
        ("data_batch_1", pickle.dumps({b"data": batch(0)[0], b"labels": [1, 2, 3, 10]}), "from 1 to 10.*10 classes"),
        ("data_batch_1", pickle.dumps({b"data": batch(0)[0], b"labels": [1, 2, 3, -1]}), "from -1 to 3"),
        ("batches.meta", pickle.dumps({b"label_names": 3}), "no list of names"),
    ],
)
def test_damaged_cifar(tmp_path, name, content, match):
    folder = put(tmp_path, cifar10_files() | {name: content})
    with pytest.raises(ValueError, match=match):
        data.cifar10(folder)


def test_missing_and_truncated_cifar(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cifar-10-batches-py.*download=True"):
        data.cifar10(tmp_path / "nowhere")
    files = cifar10_files()
    del files["data_batch_4"]
    with pytest.raises(FileNotFoundError, match="lacks the file 'data_batch_4'"):
        data.cifar10(put(tmp_path / "a", files))
    (tmp_path / "b").mkdir()
    with pytest.raises(FileNotFoundError, match="lacks the file 'data_batch_4'"):
        data.cifar10(pack(tmp_path / "b" / "cifar-10-python.tar.gz", "cifar-10-batches-py", files))
    path = tmp_path / "b" / "cifar-10-python.tar.gz"
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(ValueError, match=r"cifar-10-python\.tar\.gz.*cut off"):
        data.cifar10(path)
    binary = cifar10_binary()
    with pytest.raises(ValueError, match=r"test_batch\.bin.*rows of 3073"):
        data.cifar10(put(tmp_path / "c", binary | {"test_batch.bin": binary["test_batch.bin"][:-1]}))


def test_links_and_bombs_in_archives(tmp_path, monkeypatch):
    path = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        link = tarfile.TarInfo("cifar-10-batches-py/batches.meta")
        link.type, link.linkname = tarfile.SYMTYPE, "/elsewhere"
        archive.addfile(link)
    with pytest.raises(FileNotFoundError, match=r"lacks the file 'batches\.meta'"):
        data.cifar10(path)
    monkeypatch.setattr(images, "_LARGEST", 1000)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        data.cifar10(pack(path, "cifar-10-batches-py", cifar10_files()))


# MNIST


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def mnist_files(end=".gz", dot="-"):
    rng = np.random.default_rng(0)
    files = {}
    for part, rows in (("train", 6), ("t10k", 3)):
        files[f"{part}-images{dot}idx3-ubyte{end}"] = idx(rng.integers(0, 256, (rows, 28, 28), np.uint8))
        files[f"{part}-labels{dot}idx1-ubyte{end}"] = idx(rng.integers(0, 10, rows, np.uint8))
    return {name: gzip.compress(content) if end else content for name, content in files.items()}


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("dot", ["-", "."])
@pytest.mark.parametrize("below", ["", "mnist", "MNIST/raw"])
def test_mnist(tmp_path, end, dot, below):
    put(tmp_path / below, mnist_files(end, dot))
    found = data.mnist(tmp_path)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(found.x_train, rng.integers(0, 256, (6, 28, 28, 1), np.uint8))
    np.testing.assert_array_equal(found.y_train, rng.integers(0, 10, 6, np.uint8))
    assert found.x_test.shape == (3, 28, 28, 1)
    assert found.y_test.dtype == np.int64
    assert found.names[3] == "3"
    found.x_train[0] = 0  # an array of one's own


def test_fashion_mnist(tmp_path):
    put(tmp_path / "fashion-mnist", mnist_files())
    put(tmp_path / "mnist", mnist_files())
    found = data.fashion_mnist(tmp_path)
    assert len(found.names) == 10
    assert found.names[9] == "Ankle boot"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda raw: raw[:-1], "has 4703"),
        (lambda raw: raw + b"0", "has 4705"),
        (lambda raw: raw[:7], "begins with 00000803"),
        (lambda raw: b"GIF89a", "begins with 47494638"),
        (lambda raw: raw[:4] + b"\xff" * 12 + raw[16:], "4294967295"),
    ],
)
def test_damaged_mnist(tmp_path, change, match):
    files = mnist_files("")
    files["train-images-idx3-ubyte"] = change(files["train-images-idx3-ubyte"])
    with pytest.raises(ValueError, match=rf"train-images.*{match}"):
        data.mnist(put(tmp_path, files))


def test_damaged_gzip_and_missing_mnist(tmp_path):
    files = mnist_files()
    name = "t10k-images-idx3-ubyte.gz"
    with pytest.raises(ValueError, match=rf"{name}.*cut off"):
        data.mnist(put(tmp_path, files | {name: files[name][:-20]}))
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"holds no {name}.*download=True"):
        data.mnist(tmp_path)
    labels = gzip.compress(idx(np.arange(7, dtype=np.uint8)))
    with pytest.raises(ValueError, match="6 images, and labels"):
        data.mnist(put(tmp_path, files | {"train-labels-idx1-ubyte.gz": labels}))


# Downloads, from a server of our own


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    (tmp_path / "served").mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "served")) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield tmp_path / "served", f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()
        thread.join()


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


def test_download(tmp_path, monkeypatch, server):
    served, url = server
    archive = pack(served / "cifar-10-python.tar.gz", "cifar-10-batches-py", cifar10_files())
    put(served, mnist_files())
    monkeypatch.setitem(images._SOURCES, "cifar", (url, {archive.name: md5(archive)}))
    monkeypatch.setitem(images._SOURCES, "mnist", (url, {name: md5(served / name) for name in mnist_files()}))

    mine = tmp_path / "mine"
    check_cifar10(data.cifar10(mine, download=True))
    assert data.mnist(mine, download=True).x_train.shape == (6, 28, 28, 1)
    assert sorted(os.listdir(mine)) == [archive.name, "mnist"]

    for path in served.iterdir():  # from now on nothing is asked for
        path.unlink()
    check_cifar10(data.cifar10(mine, download=True))
    check_cifar10(data.cifar10(mine))
    assert len(data.mnist(mine, download=True).y_test) == 3

    monkeypatch.setattr("pooch.os_cache", lambda name: mine)
    check_cifar10(data.cifar10())
    assert len(data.mnist().y_test) == 3
    with pytest.raises(FileNotFoundError, match="download=True"):
        data.fashion_mnist()


def test_download_fails(tmp_path, monkeypatch, server):
    served, url = server
    put(served, {"cifar-10-python.tar.gz": b"another file"})
    name = "cifar-10-python.tar.gz"
    mine = tmp_path / "mine"
    monkeypatch.setitem(images._SOURCES, "cifar", (url, {name: "0" * 32}))
    with pytest.raises(OSError, match=rf"{name} could not be downloaded from {url}{name} .*hash.*by hand.*mine"):
        data.cifar10(mine, download=True)
    monkeypatch.setitem(images._SOURCES, "cifar", ("http://127.0.0.1:1/", {name: "0" * 32}))  # where nobody listens
    with pytest.raises(OSError, match=rf"http://127\.0\.0\.1:1/{name} .*by hand"):
        data.cifar10(mine, download=True)
    assert os.listdir(mine) == []


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("pooch", lambda folder: data.cifar10(folder, download=True)),
        ("pooch", lambda folder: data.mnist()),
        ("pyarrow", lambda folder: data.read(put(folder, {"a.parquet": b""}) / "a.parquet")),
        ("pyarrow", lambda folder: data.write(folder / "b.parquet", {"a": [1.0]})),
        ("sklearn", lambda folder: data.bundled("iris")),
    ],
)
def test_missing_packages(tmp_path, monkeypatch, package, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf'{package} is not installed.*pip install "widelimit\[data\]"'):
        call(tmp_path)
    assert not (tmp_path / "b.parquet").exists()


# The bundled sets


@pytest.mark.parametrize(
    ("name", "x", "y", "targets"),
    [
        ("digits", (1797, 64), (1797,), 10), ("iris", (150, 4), (150,), 3), ("wine", (178, 13), (178,), 3),
        ("breast_cancer", (569, 30), (569,), 2), ("diabetes", (442, 10), (442,), 1), ("linnerud", (20, 3), (20, 3), 3),
    ],
)  # fmt: skip
def test_bundled(name, x, y, targets):
    found = data.bundled(name)
    assert (found.x.shape, found.y.shape, found.x.dtype) == (x, y, np.float64)
    assert len(found.feature_names) == x[1]
    assert len(found.target_names) == targets
    assert all(isinstance(n, str) for n in found.feature_names + found.target_names)


def test_bundled_unknown():
    with pytest.raises(ValueError, match=r"'mnist'.*digits, iris, wine, breast_cancer, diabetes, linnerud"):
        data.bundled("mnist")


# Tables


CSV = "a,b,kind\n1,2.5,cat\n-3,4e2,dog\n"
X = [[1, 2.5], [-3, 400]]


def text(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    raw = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.TSV", "t.tsv.gz"])
@pytest.mark.parametrize(
    "content",
    [
        CSV, CSV.replace(",", ";"), CSV.replace(",", "\t"), CSV.replace("\n", "\r\n"), "\ufeff" + CSV, CSV[:-1],
        "\n\n" + CSV.replace("\n", "\n\n"),
        "\r\n" + CSV.replace("\n", "\r\n\r\n"), CSV.replace(",", " , "), '"a","b","kind"\n"1","2.5","cat"\n"-3","4e2","dog"',
        CSV.replace("\n", "\r"),
    ],
)  # fmt: skip
def test_csv(tmp_path, name, content):
    found = data.read(text(tmp_path, content, name), target="kind")
    np.testing.assert_array_equal(found.x, X)
    assert found.x.dtype == np.float64
    assert found.x.flags.c_contiguous
    assert found.y.tolist() == ["cat", "dog"]
    assert (found.names, found.target) == (("a", "b"), "kind")
    assert data.columns_of(text(tmp_path, content, name)) == {"a": "number", "b": "number", "kind": "text"}


def test_csv_choices(tmp_path):
    path = text(tmp_path, CSV)
    found = data.read(path, drop=["kind"])
    assert (found.x.tolist(), found.y, found.names, found.target) == (X, None, ("a", "b"), None)
    found = data.read(path, target="a", drop="kind")
    assert (found.x.tolist(), found.y.tolist(), found.names) == ([[2.5], [400]], [1, -3], ("b",))
    assert found.y.dtype == np.int64
    assert data.read(path, target=1, drop=-1).y.tolist() == [2.5, 400]
    for target in (-1, "-1", 2):
        assert data.read(path, target=target).target == "kind"
    one = data.read(text(tmp_path, "v\n1\n2\n"))
    assert (one.x.tolist(), one.names) == ([[1], [2]], ("v",))
    with pytest.raises(ValueError, match="key='x'"):
        data.read(path, key="x")


def test_a_text_over_several_lines_does_not_mislead(tmp_path):
    """The first lines tell the delimiter, and the last of them may be a part of a row."""
    rows = (
        [f'{i};"one line";cat' for i in range(18)] + ['18;"two\nlines";dog'] + [f'{i};"one";cat' for i in range(19, 30)]
    )
    found = data.read(text(tmp_path, "\n".join(["a, b, c or d;note;kind", *rows])), target="kind", drop=["note"])
    assert found.names == ("a, b, c or d",)
    np.testing.assert_array_equal(found.x[:, 0], np.arange(30))
    assert found.y.tolist() == ["cat"] * 18 + ["dog"] + ["cat"] * 11


def test_csv_without_header(tmp_path):
    path = text(tmp_path, CSV.partition("\n")[2])
    for target in (-1, 2, "2", "-1"):
        found = data.read(path, target=target)
        assert (found.x.tolist(), found.y.tolist(), found.names, found.target) == (X, ["cat", "dog"], None, 2)
    assert data.read(path, drop=[2, 0]).x.tolist() == [[2.5], [400]]
    assert data.columns_of(path) == {"0": "number", "1": "number", "2": "text"}


def test_csv_quotes(tmp_path):
    content = 'x,"the, kind"\n1,"a, ""b"""\n2,"two\nlines"\n3, plain \n'
    found = data.read(text(tmp_path, content), target="the, kind")
    assert found.y.tolist() == ['a, "b"', "two\nlines", "plain"]
    assert found.x.tolist() == [[1], [2], [3]]
    long = "x,kind\n" + "".join(f'{i},"a\nb\nc"\n' for i in range(40))  # a field over the end of the sample
    assert len(data.read(text(tmp_path, long), target="kind").x) == 40


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["1", "2", "1"], np.array([1, 2, 1])),
        (["1", "2.0", "1"], np.array([1.0, 2.0, 1.0])),
        (["1", "b", "1"], np.array(["1", "b", "1"])),
        (["none", "b", "?"], np.array(["none", "b", "?"])),
        (["99999999999999999999", "1", "1"], np.array([1e20, 1, 1])),
        (["1_0", "2", "3"], np.array(["1_0", "2", "3"])),
        (["é", "日本", "ß"], np.array(["é", "日本", "ß"])),
    ],
)
def test_csv_targets(tmp_path, fields, expected):
    found = data.read(text(tmp_path, "x,t\n" + "".join(f"1,{field}\n" for field in fields)), target="t")
    np.testing.assert_array_equal(found.y, expected, strict=True)


@pytest.mark.parametrize(
    ("content", "options", "match"),
    [
        ("", {}, "is empty"),
        ("\n\n", {}, "is empty"),
        ("a,b\n", {}, "columns 'a', 'b' and no rows"),
        (CSV, {}, "line 2, column 'kind': 'cat' is no number.*target"),
        ("1,2\n3,x\n", {}, r"line 2, column 1 \(counted from 0\): 'x' is no number"),
        ("a,2\n3,4\n", {}, "line 1, column 0.*first line was read as a row"),
        ("a,b\n1,2\n3\n", {}, "line 3 has 1 fields, where the first row has 2"),
        ("a,b\n1,2\n3,4,5\n", {}, "line 3 has 3 fields"),
        ("a,b\n1,2\n3,4,5\n", {"target": "b"}, "line 3 has 3 fields"),
        ("a,b,c\n1,2\n3,4\n", {}, "3 names in its first line, and 2 fields"),
        ("a,b\n1,\n", {}, "line 2, column 'b': a value is missing"),
        ("a,b\n1,NA\n", {}, "column 'b': a value is missing.*'NA'"),
        ("a,b\n1,2\n\n1,nan\n", {}, "line 4, column 'b': a value is missing"),
        ("a,b\n1,-inf\n", {}, "column 'b': '-inf' is not a finite number"),
        ("a,b\n1,1e999\n", {}, "'1e999' is not a finite number"),
        ("a;b\n1,5;2,5\n", {}, "'1,5' is no number"),
        ("a,b\n1,1_000\n", {}, "'1_000' is no number"),
        ("a,b,a\n1,2,3\n", {}, "two columns named 'a'"),
        (CSV, {"target": "class"}, "no column 'class'.*'a', 'b', 'kind'"),
        (CSV, {"target": 3}, "no column 3"),
        (CSV, {"target": "1"}, "no column '1'"),
        (CSV, {"drop": ["q"]}, "no column 'q'"),
        (CSV, {"target": "a", "drop": ["a"]}, "target and dropped"),
        ("a\n1\n", {"target": "a"}, "none is left"),
        ("x,t\n1,\n2,b\n", {"target": "t"}, "target, column 't', is missing in row 0"),
        ("x,t\n1,1\n2,?\n", {"target": "t"}, "missing in row 1.*'\\?'"),
        ("x,t\n1,1\n2,inf\n", {"target": "t"}, "missing in row 1.*'inf'"),
        (CSV.replace("cat", "chât").encode("latin1"), {"target": "kind"}, "not text in UTF-8.*0xe2"),
        (CSV.encode("utf-16"), {}, "not text in UTF-8.*0xff"),
        ('a,b\n1,"2\n', {}, "row that begins in line 2 has quotes.*Close"),
        ('a,t\n1,u\n2,"v\n3,w\n4,x\n', {"target": "t"}, "row that begins in line 3 has quotes"),
        ('a,t\n1,u\n2,"v\n3,"w"\n4,x\n', {"target": "t"}, "row that begins in line 3 has quotes"),
        ("a,b\n1,\x002\n", {}, "no number|cannot be read"),
        ("a,b\n1,2\n" + 'x"' * 100_000 + ",3\n", {}, "is no number|cannot be read"),
    ],
)
def test_csv_refusals(tmp_path, content, options, match):
    path = text(tmp_path, content)
    with pytest.raises(ValueError, match=match) as caught:
        data.read(path, **options)
    assert str(path) in str(caught.value)


def test_truncated_gzip(tmp_path):
    path = text(tmp_path, "a,b\n" + "".join(f"{i},{i * i}\n" for i in range(1000)), "t.csv.gz")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"t\.csv\.gz.*cut off"):
        data.read(path)
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"t\.csv\.gz.*[Nn]ot a gzipped"):
        data.read(path)


def test_paths(tmp_path):
    for call in (data.read, data.columns_of):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            call(tmp_path / "none.csv")
        with pytest.raises(ValueError, match=r"no known format.*\.parquet"):
            call(tmp_path / "t.xlsx")
        (tmp_path / "folder.csv").mkdir(exist_ok=True)
        with pytest.raises(FileNotFoundError, match="is a folder"):
            call(tmp_path / "folder.csv")


def test_many_names_are_not_all_shown(tmp_path):
    path = text(tmp_path, ",".join(f"c{i}" for i in range(500)) + "\n" + ",".join("1" * 500))
    with pytest.raises(ValueError, match="'c19' and 480 more"):
        data.read(path, target="q")


# Parquet


def parquet(path, **columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


def test_parquet(tmp_path):
    import pyarrow as pa

    path = parquet(
        tmp_path / "t.parquet", a=[1, 2, 3], b=pa.array([0.5, 1.5, 2.5], pa.float32()), c=[True, False, True],
        d=pa.array([1, 2, 3], pa.decimal128(5, 2)), kind=pa.array(["u", "v", "u"]).dictionary_encode(), t=["x", "y", "z"],
    )  # fmt: skip
    found = data.read(path, target="kind", drop="t")
    np.testing.assert_array_equal(found.x, [[1, 0.5, 1, 1], [2, 1.5, 0, 2], [3, 2.5, 1, 3]], strict=True)
    assert found.y.tolist() == ["u", "v", "u"]
    assert (found.names, found.target) == (("a", "b", "c", "d"), "kind")
    assert data.read(path, target=-1, drop="kind").y.tolist() == ["x", "y", "z"]
    assert data.read(path, target="a", drop=["kind", "t"]).y.dtype == np.int64
    assert data.read(path, target="d", drop=["kind", "t"]).y.tolist() == [1, 2, 3]
    assert list(data.columns_of(path)) == ["a", "b", "c", "d", "kind", "t"]
    assert data.columns_of(path)["b"] == "float (3,)"


def test_parquet_of_pandas(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"a": [1.0, 2.0], "kind": pd.Categorical(["u", "v"]), "name": ["p", "q"]}, index=[7, 9])
    frame.to_parquet(tmp_path / "t.parquet")
    found = data.read(tmp_path / "t.parquet", target="kind", drop="name")
    assert (found.x.tolist(), found.y.tolist(), found.names) == ([[1], [2]], ["u", "v"], ("a",))
    assert data.read(tmp_path / "t.parquet", target="name", drop="kind").y.tolist() == ["p", "q"]


def test_parquet_in_several_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("widelimit.datasets.parquet._ROWS", 7)
    values = np.random.default_rng(0).normal(size=(40, 3))
    path = parquet(tmp_path / "t.parquet", **{f"c{i}": values[:, i] for i in range(3)})
    found = data.read(path, target="c1")
    np.testing.assert_array_equal(found.x, values[:, [0, 2]])
    np.testing.assert_array_equal(found.y, values[:, 1])


def test_parquet_refusals(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    def assert_refused(match, target=None, **columns):
        with pytest.raises(ValueError, match=match) as caught:
            data.read(parquet(tmp_path / "t.parquet", **columns), target=target)
        assert str(tmp_path) in str(caught.value)

    assert_refused("column 'b' is of type string", a=[1], b=["x"])
    assert_refused("column 'b' is of type list", a=[1], b=[[1, 2]])
    assert_refused(r"column 'b' has no value in row 1 ", a=[1, 2], b=[1.0, None])
    assert_refused(r"column 'b' has no value in row 1 ", "b", a=[1, 2], b=["x", None])
    assert_refused("column 'b' is not finite: nan at 1", a=[1, 2], b=[1.0, np.nan])
    assert_refused("target 'b' is not finite: inf at 1", "b", a=[1, 2], b=[1.0, np.inf])
    assert_refused("neither numbers nor text", "b", a=[1], b=pa.array([0], pa.timestamp("s")))
    assert_refused("no rows", a=pa.array([], pa.float64()))
    assert_refused("no column 'q'.*'a'", "q", a=[1])
    assert_refused("none is left", "a", a=[1])
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(ValueError, match="two columns named 'a'"):
        data.read(path)
    whole = parquet(path, a=list(range(1000))).read_bytes()
    for raw in (b"", b"PAR1", whole[:-10], whole[: len(whole) // 2], whole[200:], b"a,b\n1,2\n"):
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=r"t\.parquet: cannot be read as Parquet"):
            data.read(path)


# NumPy files


def saved(tmp_path, name="t.npy", *array, **arrays):
    (np.save if array else np.savez_compressed)(tmp_path / name, *array, **arrays)
    return tmp_path / name


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


# Writing


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


# Damage


def damaged(raw, rng):
    """The bytes with one to four things wrong."""
    raw = bytearray(raw)
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(0, max(1, len(raw))))
        kind = rng.integers(0, 5)
        if kind == 0 and raw:
            raw[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            del raw[at:]
        elif kind == 2:
            del raw[at : at + int(rng.integers(1, 9))]
        elif kind == 3:
            raw[at:at] = raw[at : at + int(rng.integers(1, 9))]
        else:
            raw[at:at] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(raw)


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
                assert node.level == 1 or top in sys.stdlib_module_names | {"numpy", "resumed"}, path
