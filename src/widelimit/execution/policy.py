"""How large blocks are and how many are in work, by device and memory. Nothing else decides this.

Tests, and whoever knows better, change any of it for a while: `with policy.use(tile_rows=8): ...`.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite, isqrt
from typing import TypedDict, Unpack

import jax
import numpy as np

from ..numerics.device import on_accelerator


@dataclass(frozen=True)
class Policy:
    """Sizes and numbers for one kind of device."""

    workers: int  # tiles in work at a time
    tile_rows: int  # along a side of a tile, of inputs without pixels
    tile_images: tuple[int, int]  # the least and the most along a side of a tile of images
    covariances: int  # of images that go through the layers at a time
    batch_bytes: int  # of the widest arrays of a batch of features
    device_bytes: int  # memory of an accelerator, 0 where it is not known


class _Changes(TypedDict, total=False):
    workers: int
    tile_rows: int
    tile_images: tuple[int, int]
    covariances: int
    batch_bytes: int
    device_bytes: int


_changes: _Changes = {}
_BATCH_BYTES = 2**26
_BATCHES = 32  # that a device's memory holds, at least
_BATCH_ROWS = 4096  # of features, at most


def current() -> Policy:
    """The policy of JAX's default device, with what `use` changes."""
    if not on_accelerator():
        return replace(_cpu(), **_changes)
    memory = _changes["device_bytes"] if "device_bytes" in _changes else _bytes_of_device()
    return replace(_accelerator(memory), **_changes)


def _cpu() -> Policy:
    """Tiles small enough to stay near a core, one in work for each: their arrays of rows take a megabyte.

    The variances of images are computed anew in each tile, so tiles of them are many times an input.
    """
    return Policy(cores(), 512, (32, 32), 2**18, _BATCH_BYTES, 0)


def _accelerator(memory: int) -> Policy:
    """Large blocks, since only many numbers keep it busy; one is computed, one brought back, one written."""
    return Policy(3, 4096, (64, 512), 250_000_000, max(_BATCH_BYTES, memory // _BATCHES), memory)


@contextmanager
def use(**changes: Unpack[_Changes]) -> Iterator[None]:
    """Replace parts of the policy inside a `with`.

    Compiled programs are forgotten where `covariances` change, which are looked up while a program is traced.
    """
    global _changes
    before, _changes = _changes, {**_changes, **changes}
    try:
        if "covariances" in changes:
            jax.clear_caches()
        yield
    finally:
        _changes = before
        if "covariances" in changes:
            jax.clear_caches()


def cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def device_memory() -> int:
    """The bytes of memory of the accelerator; 0 where there is none, or it does not say."""
    return current().device_bytes


def _bytes_of_device() -> int:
    return (jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0)


def tile_side(images: bool, covariances: int = 1) -> int:
    """How many inputs along a side of a tile are best for speed; `covariances` is how many a pair of them has."""
    now = current()
    if not images:
        return now.tile_rows
    least, most = now.tile_images
    return min(most, max(least, isqrt(now.covariances // covariances)))


def batch_rows(row_bytes: int) -> int:
    """The rows of a batch of features, a power of two; `row_bytes` is the size of a row at its widest."""
    fit = max(1, min(_BATCH_ROWS, current().batch_bytes // row_bytes))
    return 1 << (fit.bit_length() - 1)


def fits_on_device(size: int) -> bool:
    """Whether inputs of `size` bytes go onto an accelerator as a whole: up to a quarter of its memory."""
    return on_accelerator() and size <= device_memory() / 4


def side_within(memory: int, limit: int, bytes_for: Callable[[int], tuple[int, int]]) -> int:
    """The largest side of at most `limit` of tiles that take up to `memory` bytes.

    `bytes_for(limit)` gives the side of the tiles chosen for a limit, and the bytes that all in work take.
    """
    while True:
        side, need = bytes_for(limit)
        if need <= memory:
            return limit
        if side == 1:
            raise ValueError(
                f"memory={memory} bytes are too few for one tile, which takes {need} on {current().workers} cores. "
                "Give more."
            )
        limit = max(1, min(side // 2, isqrt(side**2 * memory // need)))


_UNITS = {"": 1, "b": 1} | {
    f"{letter}{suffix}": base ** (power + 1)
    for power, letter in enumerate("kmgt")
    for suffix, base in (("b", 1000), ("ib", 1024), ("", 1024))
}


def parse_bytes(memory: int | float | str) -> int:
    """A number of bytes, given as such or as text like "2GiB" or "500 MB"."""
    if isinstance(memory, int | float | np.number) and not isinstance(memory, bool) and isfinite(memory) and memory > 0:
        return int(memory)
    match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", memory) if isinstance(memory, str) else None
    try:
        if match is not None:
            return int(float(match[1]) * _UNITS[match[2].lower()])
    except (KeyError, ValueError, OverflowError):
        pass
    raise ValueError(f"memory is a number of bytes, or text such as '2GiB', not {memory!r}.")
