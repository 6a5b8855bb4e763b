"""Small files of the kinds that data sets and tables are published in."""

import gzip
import io
import pickle
import struct
import tarfile
from functools import partial
from typing import ClassVar

import numpy as np

NAMES10 = [f"thing{i}" for i in range(10)]


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


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def mnist_files(end=".gz", dot="-"):
    rng = np.random.default_rng(0)
    files = {}
    for part, rows in (("train", 6), ("t10k", 3)):
        files[f"{part}-images{dot}idx3-ubyte{end}"] = idx(rng.integers(0, 256, (rows, 28, 28), np.uint8))
        files[f"{part}-labels{dot}idx1-ubyte{end}"] = idx(rng.integers(0, 10, rows, np.uint8))
    return {name: gzip.compress(content) if end else content for name, content in files.items()}


def text(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    raw = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def parquet(path, **columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


def saved(tmp_path, name="t.npy", *array, **arrays):
    (np.save if array else np.savez_compressed)(tmp_path / name, *array, **arrays)
    return tmp_path / name
