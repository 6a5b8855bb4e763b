"""CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST, from the files in which they are published.

`folder` is where the files are, or the folder above; without one, where `download=True` puts them. CIFAR may be unpacked
or the .tar.gz archive itself, in its Python or its binary version; MNIST's files may be gzipped or not. What is missing
is fetched only with `download=True`, and compared with its checksum.
"""

import gzip
import os
import struct
import tarfile
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

import numpy as np

from ..numerics.extras import needs_extra
from ..storage.files import reading
from .pickles import unpickle

_LARGEST = 2**28  # bytes of one file; the largest of these sets has 155 million

Folder = str | os.PathLike[str] | None
Reader = Callable[[bytes], tuple[np.ndarray, np.ndarray]]


class Images(NamedTuple):
    """uint8 images (n, height, width, channels), their classes counted from 0, and the names of the classes."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    names: tuple[str, ...]


def cifar10(folder: Folder = None, download: bool = False) -> Images:
    """50,000 and 10,000 colour photographs of 32 x 32 pixels in ten classes (Krizhevsky, 2009).

    `folder` holds the files, or is the one above them; `download` fetches them where they are missing, into `folder` or a
    cache of your account.
    """
    train = [f"data_batch_{i}" for i in range(1, 6)]
    layouts = [
        _Layout("cifar-10-batches-py", "cifar-10-python.tar.gz", train, "test_batch", "batches.meta",
                _from_pickle("labels"), _names_from_pickle("label_names")),
        _Layout("cifar-10-batches-bin", "cifar-10-binary.tar.gz", [f"{name}.bin" for name in train], "test_batch.bin",
                "batches.meta.txt", _from_binary(1, 0), _names_from_lines),
    ]  # fmt: skip
    return _cifar(layouts, folder, download)


def cifar100(folder: Folder = None, download: bool = False, coarse: bool = False) -> Images:
    """50,000 and 10,000 colour photographs of 32 x 32 pixels in 100 classes, with `coarse` in 20; else as `cifar10`."""
    kind = "coarse" if coarse else "fine"
    layouts = [
        _Layout("cifar-100-python", "cifar-100-python.tar.gz", ["train"], "test", "meta",
                _from_pickle(f"{kind}_labels"), _names_from_pickle(f"{kind}_label_names")),
        _Layout("cifar-100-binary", "cifar-100-binary.tar.gz", ["train.bin"], "test.bin",
                f"{kind}_label_names.txt", _from_binary(2, 0 if coarse else 1), _names_from_lines),
    ]  # fmt: skip
    return _cifar(layouts, folder, download)


def mnist(folder: Folder = None, download: bool = False) -> Images:
    """60,000 and 10,000 handwritten digits of 28 x 28 pixels (LeCun, Cortes and Burges); arguments as of `cifar10`."""
    return _mnist("mnist", "MNIST/raw", tuple("0123456789"), folder, download)


def fashion_mnist(folder: Folder = None, download: bool = False) -> Images:
    """60,000 and 10,000 pieces of clothing of 28 x 28 pixels (Xiao, Rasul and Vollgraf, 2017); as `cifar10`."""
    names = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
    return _mnist("fashion-mnist", "FashionMNIST/raw", tuple(names.split(",")), folder, download)


# Where each file is published, and its MD5.
_SOURCES = {
    "cifar": ("https://www.cs.toronto.edu/~kriz/", {
        "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
        "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
    }),
    "mnist": ("https://ossci-datasets.s3.amazonaws.com/mnist/", {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    }),
    "fashion-mnist": ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    }),
}  # fmt: skip


def _fetch(source: str, name: str, folder: Path) -> None:
    """Download a file into a folder, unless it is there and whole."""
    with needs_extra():
        import pooch
    url, sums = _SOURCES[source]
    try:
        pooch.retrieve(url + name, known_hash=f"md5:{sums[name]}", fname=name, path=folder)
    except Exception as error:  # of the network, the disk or the checksum
        raise OSError(
            f"{name} could not be downloaded from {url + name} ({error}). Get it there by hand, put it into {folder}, and "
            "give that folder without download=True."
        ) from error


def _home(folder: Folder) -> Path:
    if folder is not None:
        return Path(folder).expanduser()
    try:
        with needs_extra():
            import pooch
    except ImportError as error:
        raise ImportError(
            "No folder with the images is given. Name it: `folder`, or --data FOLDER. (Downloaded ones are found, and fetched, "
            f"by a package: {error})"
        ) from error
    return Path(pooch.os_cache("widelimit"))


# CIFAR


class _Layout(NamedTuple):
    """The files of one published version."""

    folder: str
    archive: str
    train: list[str]
    test: str
    meta: str
    read: Reader
    names: Callable[[bytes], list[str]]


_Source = tuple[_Layout, Path, Callable[[str], bytes | None]]


def _cifar(layouts: list[_Layout], folder: Folder, download: bool) -> Images:
    home = _home(folder)
    source = _find_folder(layouts, home)
    if source is None and download:
        _fetch("cifar", layouts[0].archive, home)
    source = source or _find_archive(layouts, home)
    if source is None:
        looked_for = ", ".join(name for layout in layouts for name in (layout.folder, layout.archive))
        lacks = "holds none of" if home.exists() else "does not exist. It should hold one of"
        raise FileNotFoundError(
            f"{home}: {lacks} {looked_for}. Give the folder that has them, or fetch them with download=True (--download)."
        )
    layout, where, content = source

    def read_member(name: str) -> bytes:
        raw = content(name)
        if raw is None:
            raise FileNotFoundError(f"{where}: lacks the file {name!r}. Unpack or download it anew.")
        return raw

    raw = read_member(layout.meta)
    with reading(where / layout.meta, "list of class names"):
        names = tuple(layout.names(raw))
    parts = []
    for name in [*layout.train, layout.test]:
        raw = read_member(name)
        with reading(where / name, "batch of CIFAR"):
            x, y = layout.read(raw)
            parts.append((x, _check_labels(y, len(x), names)))
    train = parts[:-1]
    return Images(np.concatenate([x for x, _ in train]), np.concatenate([y for _, y in train]), *parts[-1], names)


def _find_folder(layouts: list[_Layout], home: Path) -> _Source | None:
    """The first version that is in the folder or the one below it, and how to read its files."""
    for layout in layouts:
        for where in (home, home / layout.folder):
            if (where / layout.train[0]).is_file() or (where / layout.test).is_file():
                return layout, where, partial(_in_folder, where)
    return None


def _in_folder(where: Path, name: str) -> bytes | None:
    return (where / name).read_bytes() if (where / name).is_file() else None


def _find_archive(layouts: list[_Layout], home: Path) -> _Source | None:
    """The first version of which there is an archive. It is never unpacked onto the disk: its paths and links do no harm."""
    for layout in layouts:
        path = home if home.name == layout.archive else home / layout.archive
        if path.is_file():
            content: dict[str, bytes] = {}
            names = {*layout.train, layout.test, layout.meta}
            with reading(path, ".tar.gz archive"), tarfile.open(path, "r:gz") as archive:
                for member in archive:
                    name = PurePosixPath(member.name).name
                    file = archive.extractfile(member) if name in names and member.isreg() else None
                    if file is not None:
                        content[name] = _read_all(file)
            return layout, path, content.get
    return None


def _read_all(file: IO[bytes] | gzip.GzipFile) -> bytes:
    """The content of a file; an error beyond `_LARGEST` bytes."""
    content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST} bytes")
    return content


def _from_pickle(labels: str) -> Reader:
    def read(raw: bytes) -> tuple[np.ndarray, np.ndarray]:
        batch = unpickle(raw)
        missing = [name for name in ("data", labels) if name not in batch]
        if missing:
            raise ValueError(f"it has no {missing[0]!r}, only {sorted(batch)}")
        return _to_images(batch["data"]), np.asarray(batch[labels])

    return read


def _from_binary(bytes_of_labels: int, which: int) -> Reader:
    def read(raw: bytes) -> tuple[np.ndarray, np.ndarray]:
        row = bytes_of_labels + 3072
        if len(raw) % row:
            raise ValueError(f"its {len(raw)} bytes are not a number of rows of {row}")
        rows = np.frombuffer(raw, np.uint8).reshape(-1, row)
        return _to_images(rows[:, bytes_of_labels:]), rows[:, which]

    return read


def _to_images(rows: np.ndarray) -> np.ndarray:
    """Rows of three planes of colour as images with channels last."""
    if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != 3072:
        seen = f"{rows.dtype} {rows.shape}" if isinstance(rows, np.ndarray) else type(rows).__name__
        raise ValueError(f"its images are {seen}, not uint8 (n, 3072)")
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _check_labels(labels: np.ndarray, images: int, names: tuple[str, ...]) -> np.ndarray:
    if labels.shape != (images,) or labels.dtype.kind not in "iu" or images == 0:
        raise ValueError(f"it has {images} images, and labels {labels.dtype} {labels.shape}")
    if labels.min() < 0 or labels.max() >= len(names):
        raise ValueError(f"it has labels from {labels.min()} to {labels.max()}, and there are {len(names)} classes")
    return labels.astype(np.int64)


def _names_from_pickle(key: str) -> Callable[[bytes], list[str]]:
    def read(raw: bytes) -> list[str]:
        meta = unpickle(raw)
        if not isinstance(meta.get(key), list) or not all(isinstance(name, bytes | str) for name in meta[key]):
            raise ValueError(f"it has no list of names {key!r}, only {sorted(meta)}")
        return [name.decode() if isinstance(name, bytes) else name for name in meta[key]]

    return read


def _names_from_lines(raw: bytes) -> list[str]:
    return raw.decode().split()


# MNIST


def _mnist(source: str, other_folder: str, names: tuple[str, ...], folder: Folder, download: bool) -> Images:
    home = _home(folder)
    places = [home, home / source, home / other_folder]
    if folder is None:  # the cache holds several sets whose files have the same names
        places = places[1:]
    arrays: list[np.ndarray] = []
    for name in _SOURCES[source][1]:  # images and labels to train, then to test
        path = _idx_file(name, places)
        if download and (path is None or path == home / source / name):
            _fetch(source, name, home / source)
            path = home / source / name
        if path is None:
            raise FileNotFoundError(
                f"{home}: holds no {name}, gzipped or not. Give the folder that does, or fetch it with download=True."
            )
        with reading(path, "file of MNIST"):
            array = _idx(path, 3 if "idx3" in name else 1)
            arrays.append(array[..., None] if "idx3" in name else _check_labels(array, len(arrays[-1]), names))
    x_train, y_train, x_test, y_test = arrays
    return Images(x_train, y_train, x_test, y_test, names)


def _idx_file(name: str, places: list[Path]) -> Path | None:
    plain = name.removesuffix(".gz")
    spellings = [name, plain, plain.replace("-idx", ".idx"), name.replace("-idx", ".idx")]
    paths = (place / spelling for place in places for spelling in spellings)
    return next((path for path in paths if path.is_file()), None)


def _idx(path: Path, axes: int) -> np.ndarray:
    """An array of bytes after four that say so and the number of axes, and four for the length of each."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        head = file.read(4 + 4 * axes)
        if len(head) < 4 + 4 * axes or head[:4] != bytes([0, 0, 8, axes]):
            raise ValueError(f"it begins with {head[:4].hex()}, not {bytes([0, 0, 8, axes]).hex()}")
        shape = struct.unpack(f">{axes}I", head[4:])
        content = _read_all(file)
    if len(content) != prod(shape):
        raise ValueError(f"it says it holds {shape} bytes, and has {len(content)}")
    return np.frombuffer(content, np.uint8).reshape(shape).copy()  # one that can be written to
