"""Downloads from a server of our own, packages that are missing, and the sets that come with scikit-learn."""

import hashlib
import http.server
import os
import sys
import threading
from functools import partial

import numpy as np
import pytest

from published_files import (
    check_cifar10,
    cifar10_files,
    mnist_files,
    pack,
    put,
)
from widelimit import datasets as data
from widelimit.datasets import images


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
