"""MNIST and Fashion-MNIST."""

import gzip

import numpy as np
import pytest

from published_files import (
    idx,
    mnist_files,
    put,
)
from widelimit import datasets as data


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
