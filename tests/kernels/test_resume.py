"""A matrix on disk survives a kill at any moment: the next run gives the same numbers, and no file stops it."""

import os
import shutil
import sys
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import widelimit as wl

NET = wl.serial(wl.Dense(1.3, 0.2), "erf", wl.Dense(1.1))
X = np.random.default_rng(0).normal(size=(300, 4))
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
NAMES = ["nngp.npy", "ntk.npy"]


def run(folder: Path) -> list[np.ndarray]:
    """Both kernels into files, in ten tiles or more."""
    return [np.array(k) for k in NET.kernel(X, out=[folder / name for name in NAMES], memory=CORES * 2**19)]


class Killed(BaseException):
    """Ends a run as a kill does: from then on no file is opened, renamed or removed."""


class _Watch:
    """What Python reports of files in a folder: the calls so far, and the one at which the run is killed."""

    folder = ""
    calls: list[tuple[str, ...]]
    kill_at: int | None = None

    def __call__(self, event: str, args: tuple) -> None:
        if not self.folder or event not in ("open", "os.rename", "os.remove", "os.truncate"):
            return
        paths = [os.fspath(a) for a in args[: 2 if event == "os.rename" else 1] if isinstance(a, str | os.PathLike)]
        if not paths or not paths[0].startswith(self.folder):
            return
        self.calls.append((event, *map(os.path.basename, paths)))
        if self.kill_at is not None and len(self.calls) > self.kill_at:
            if event == "open" and args[2] & os.O_TRUNC and len(self.calls) == self.kill_at + 1:
                folder, self.folder = self.folder, ""
                Path(paths[0]).write_bytes(b"")  # the kill comes after the file was emptied
                self.folder = folder
            raise Killed


WATCH = _Watch()
sys.addaudithook(WATCH)


@contextmanager
def watched(folder: Path, kill_at: int | None = None):
    """The list of file calls in a folder; the run inside is killed at the call of that number."""
    WATCH.calls, WATCH.kill_at, WATCH.folder = [], kill_at, str(folder)
    try:
        yield WATCH.calls
    finally:
        WATCH.folder = ""


def killed(folder: Path, at: int) -> None:
    with watched(folder, at), pytest.raises(Killed):
        run(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The kernels of a run that is not killed, and its file calls."""
    folder = tmp_path_factory.mktemp("whole")
    with watched(folder) as calls:
        found = run(folder)
    assert sorted(os.listdir(folder)) == NAMES
    assert len(calls) > 20
    return found, list(calls)


@pytest.fixture
def half_done(tmp_path, whole):
    """A folder in which a run was killed half-way."""
    folder = tmp_path / "half"
    folder.mkdir()
    killed(folder, len(whole[1]) // 2)
    return folder


def check_finished(folder: Path, expected: list[np.ndarray]) -> None:
    for found, kernel in zip(run(folder), expected, strict=True):
        np.testing.assert_array_equal(found, kernel)
    assert sorted(os.listdir(folder)) == NAMES


def some_calls(count: int) -> list[int]:
    """All of the first and last calls of a run, and a few between."""
    return sorted({*range(min(count, 12)), count // 2, *range(max(count - 8, 0), count)})


def test_a_kill_at_any_file_call_of_a_first_run(tmp_path, whole):
    expected, calls = whole
    for at in some_calls(len(calls)):
        folder = tmp_path / str(at)
        folder.mkdir()
        killed(folder, at)
        check_finished(folder, expected)


def test_a_kill_at_any_file_call_of_a_run_that_goes_on(tmp_path, whole, half_done):
    """Nor is what the first run did lost: the third run makes fewer file calls than a whole one."""
    expected, calls = whole
    with watched(shutil.copytree(half_done, tmp_path / "second")) as rest:
        check_finished(tmp_path / "second", expected)
    assert len(rest) < len(calls)
    for at in some_calls(len(rest)):
        folder = shutil.copytree(half_done, tmp_path / str(at))
        killed(folder, at)
        finishing = any(name in os.listdir(folder) for name in NAMES)
        with watched(folder) as third:
            check_finished(folder, expected)
        assert finishing or len(third) < len(calls)


def test_leftover_files_stop_no_run(tmp_path, whole, half_done):
    """Whatever part of the files of a killed run is still there."""
    left = sorted(os.listdir(half_done))
    assert len(left) > 2
    for count in range(len(left) + 1):
        for kept in combinations(left, count):
            folder = tmp_path / "-".join(kept or ["none"])
            folder.mkdir()
            for name in kept:
                shutil.copy(half_done / name, folder)
            check_finished(folder, whole[0])


def test_a_kill_after_a_file_was_lost(tmp_path, whole, half_done):
    """Tiles that an old file calls done are not taken from matrices that were made anew, and are still empty."""
    for lost in sorted(os.listdir(half_done)):
        for at in range(10):
            folder = shutil.copytree(half_done, tmp_path / f"{lost}-{at}")
            (folder / lost).unlink()
            killed(folder, at)
            check_finished(folder, whole[0])


def test_entries_are_on_disk_before_a_file_has_its_name(tmp_path, whole, monkeypatch):
    """A crash of the machine must not leave a file of that name with entries missing."""
    flush = np.memmap.flush

    def flushed(array):
        WATCH.calls.append(("flush", os.path.basename(array.filename)))
        return flush(array)

    monkeypatch.setattr(np.memmap, "flush", flushed)
    with watched(tmp_path) as calls:
        run(tmp_path)
    named = [i for i, call in enumerate(calls) if call[0] == "os.rename" and call[2] in NAMES]
    assert len(named) == len(NAMES)
    for i in named:
        assert ("flush", calls[i][1]) in calls[:i]
