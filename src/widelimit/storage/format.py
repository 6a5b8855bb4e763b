"""The format of every file of ours: a header in JSON with one format number, and arrays beside it.

Networks and files of runs are the header alone, as JSON text. Feature maps and models are .npz files: the header as the
array `header`, and the arrays that it refers to by number as `array_0`, `array_1`, ... Nothing in a file is imported or
executed, and a file that declares more than it holds is refused before any memory is taken.
"""

import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .arrays import read_array
from .files import atomic_file, reading

FORMAT = 1


class Content(NamedTuple):
    """What a file may hold: its name in messages, the key of the header that tells it, and what writes and reads it."""

    name: str
    key: str
    writer: str
    reader: str


FEATURE_MAP = Content("feature map", "parts", "phi.save", "widelimit.load_features")
MODEL = Content("model", "model", "`widelimit fit` or widelimit.estimators.save", "widelimit.estimators.load")
RUNS = Content("file of results", "runs", "`widelimit reproduce`", "`widelimit report`")
NETWORK = Content("network", "network", "net.to_json()", "widelimit.from_json")
_CONTENTS = (FEATURE_MAP, MODEL, RUNS, NETWORK)  # the header of a feature map has a network too, so that comes last


def new_header(body: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a new file, or of a network inside of another."""
    return {"widelimit": FORMAT, **body}


def encode_header(body: Mapping[str, Any], indent: int | None = None) -> str:
    """The text of a header."""
    return json.dumps(new_header(body), indent=indent)


def decode_header(text: str | bytes, content: Content) -> dict[str, Any]:
    """The header in a text; an error unless it is in this format and of this content."""
    try:
        header = json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    return check_header(header, content)


def check_header(header: Any, content: Content) -> dict[str, Any]:
    """Refuse a header of another format or content."""
    if not isinstance(header, dict) or "widelimit" not in header:
        raise ValueError("it does not say its format")
    if header["widelimit"] != FORMAT or isinstance(header["widelimit"], bool):
        raise ValueError(f"it is in format {header['widelimit']!r}, and this widelimit reads {FORMAT}")
    held = next((known for known in _CONTENTS if known.key in header), None)
    if held is None:
        raise ValueError(f"it has no {content.key!r}")
    if held is not content:
        raise ValueError(f"it holds a {held.name}, which {held.reader} reads")
    return header


def write_text(path: str | os.PathLike[str], body: Mapping[str, Any]) -> None:
    """Write a file that is a header alone; whole or not at all."""
    with atomic_file(path) as file:
        file.write((encode_header(body, indent=1) + "\n").encode())


@contextmanager
def reading_text(path: str | os.PathLike[str], content: Content) -> Iterator[dict[str, Any]]:
    """The header of a file that is one; what goes wrong with it is an error about the file."""
    with _reading(path, content):
        yield decode_header(Path(path).read_bytes(), content)


def write_arrays(path: str | os.PathLike[str], body: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Write an .npz file of a header and arrays; whole or not at all."""
    named: dict[str, Any] = {f"array_{i}": array for i, array in enumerate(arrays)}
    with atomic_file(path) as file:
        np.savez(file, header=np.array(encode_header(body)), **named)


@contextmanager
def reading_arrays(path: str | os.PathLike[str], content: Content) -> Iterator[tuple[dict[str, Any], list[np.ndarray]]]:
    """The header and the arrays of an .npz file; what goes wrong with them is an error about the file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{os.fspath(path)}: is no file. Give the path of a {content.name}.")
    with _reading(path, content):
        with Path(path).open("rb") as opened, zipfile.ZipFile(opened) as archive:
            members = archive.infolist()
            if any(member.compress_type for member in members):
                raise ValueError("its arrays are compressed, as we write none")
            if sum(member.file_size for member in members) > os.fstat(opened.fileno()).st_size:
                raise ValueError("its arrays declare more bytes than the file has")
            header = decode_header(str(_member(archive, "header")), content)
            arrays = [_member(archive, f"array_{i}") for i in range(len(members) - 1)]
        yield header, arrays


def _member(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as file:
        return read_array(file, archive.getinfo(f"{name}.npy").file_size)


def _reading(path: str | os.PathLike[str], content: Content) -> Any:
    return reading(path, content.name, f"Give a file that {content.writer} wrote, whole.")
