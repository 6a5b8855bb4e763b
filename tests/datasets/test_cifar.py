"""CIFAR-10 and CIFAR-100: every published version, refusals, and pickles that mean harm."""

import os
import pickle
import tarfile

import numpy as np
import pytest

from published_files import (
    PICKLERS,
    Evil,
    batch,
    check_cifar10,
    cifar10_binary,
    cifar10_files,
    cifar100_files,
    pack,
    put,
)
from widelimit import datasets as data
from widelimit.datasets import images


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
    assert_refused(b"cnumpy\nndarray\n(N(dV__setstate__\nNstb.", "that can be read|not a dict")
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
