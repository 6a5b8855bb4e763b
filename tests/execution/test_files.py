"""Matrices in files: whatever a kill leaves behind, the next run ends with the identical result."""

import json
from itertools import count, product
from pathlib import Path

import numpy as np
import pytest

from widelimit.execution.executors import Pipeline, Threads, execute
from widelimit.execution.files import MatrixFiles
from widelimit.execution.grid import Grid
from widelimit.execution.sinks import Matrices, Tile
from widelimit.execution.sources import ArraySource

X = np.arange(1.0, 6.0)[:, None]
EXPECTED = [X @ X.T, (X @ X.T) ** 2]
for matrix in EXPECTED:
    np.fill_diagonal(matrix, -1.0)
GRID = Grid.of_tiles((5, 5), (2, 2), symmetric=True)
CALLS = [
    *["unlink", "open_memmap", "open_memmap", "write_text", "replace"],
    *["write", "append"] * len(GRID),
    *["flush", "flush", "replace", "replace", "unlink", "open_memmap", "open_memmap"],
]
LEFTOVERS = "a.npy.partial", "b.npy.partial", "a.npy.progress"


class Killed(BaseException):
    """The process ends here."""


class Killer:
    """Counts the calls that change files, and ends the process before or after one of them."""

    def __init__(self, monkeypatch):
        self.calls, self.last, self.after = [], None, False
        for owner, name in [(Path, "unlink"), (Path, "replace"), (Path, "write_text"), (Matrices, "write")]:
            monkeypatch.setattr(owner, name, self._counted(name, getattr(owner, name)))
        for owner, name in [(np.lib.format, "open_memmap"), (np.memmap, "flush")]:
            monkeypatch.setattr(owner, name, self._counted(name, getattr(owner, name)))
        opened = Path.open
        monkeypatch.setattr(
            Path, "open", lambda path, *mode, **how: (self._counted("append", opened) if mode == ("a",) else opened)(
                path, *mode, **how
            ),
        )  # fmt: skip

    def _counted(self, name, call):
        def counted(*args, **kwargs):
            self.calls.append(name)
            now = len(self.calls) == self.last
            if now and not self.after:
                raise Killed
            result = call(*args, **kwargs)
            if now:
                getattr(result, "close", lambda: None)()
                raise Killed
            return result

        return counted

    def kill_at(self, call, after=False):
        self.calls, self.last, self.after = [], call, after


@pytest.fixture
def killer(monkeypatch):
    return Killer(monkeypatch)


def _run(folder, executor=Pipeline(0), programs=None, what="five numbers"):  # noqa: B008
    files = MatrixFiles([folder / "a.npy", folder / "b.npy"], what)

    def program(x, y):
        if programs is not None:
            programs.append(float(x[0, 0]))
        return Tile([x @ y.T, (x @ y.T) ** 2], [np.full(len(x), -1.0)] * 2)

    grid = Grid.of_tiles((5, 5), files.sides or (2, 2), symmetric=True)
    files.open(grid, np.dtype(float), [1.0, 2.0], symmetric=True, own_diagonal=True)
    return execute(program, grid, [ArraySource(X)] * 2, files, executor)


def _check(folder, found):
    for name, matrix, expected in zip(("a.npy", "b.npy"), found, EXPECTED, strict=True):
        np.testing.assert_array_equal(matrix, expected)
        np.testing.assert_array_equal(np.load(folder / name), expected)
    assert sorted(path.name for path in folder.iterdir()) == ["a.npy", "b.npy"]


def test_the_calls_that_change_files(tmp_path, killer):
    """A tile is in its file before its line is in the journal, and files are flushed before they have their names."""
    found = _run(tmp_path)
    assert killer.calls == CALLS
    _check(tmp_path, found)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kept", list(product([False, True], repeat=3)), ids=str)
def test_a_kill_at_every_call(tmp_path, killer, kept, after):
    """Of a killed computation some files are left; the next is killed at every call in turn, and a third one ends well."""
    for call in count(1):
        folder = tmp_path / str(call)
        folder.mkdir()
        killer.kill_at(12)
        with pytest.raises(Killed):
            _run(folder)
        for name, keep in zip(LEFTOVERS, kept, strict=True):
            if not keep:
                (folder / name).unlink()
        killer.kill_at(call, after)
        try:
            found = _run(folder)
        except Killed:
            killer.kill_at(None)
            _check(folder, _run(folder))
        else:  # the second one came to its end
            killer.kill_at(None)
            _check(folder, found)
            break
    assert call == 1 + len(CALLS) - (1 + 2 * 3 if all(kept) else 0)  # but for the journal to remove and three tiles


def test_what_was_done_is_not_done_again(tmp_path, killer):
    killer.kill_at(5 + 2 * 4)  # before the fourth tile has its line
    with pytest.raises(Killed):
        _run(tmp_path)
    killer.kill_at(None)
    programs: list[float] = []
    _check(tmp_path, _run(tmp_path, Threads(3), programs))
    assert len(programs) == 3


def test_another_computation_is_refused(tmp_path, killer):
    killer.kill_at(10)
    with pytest.raises(Killed):
        _run(tmp_path)
    killer.kill_at(None)
    with pytest.raises(ValueError, match="of another computation"):
        _run(tmp_path, what="other numbers")
    files = MatrixFiles([tmp_path / "a.npy", tmp_path / "b.npy"], "five numbers")
    assert files.sides == (2, 2)
    with pytest.raises(ValueError, match="of another computation"):
        files.open(GRID, np.dtype(float), [1.0, 2.001], symmetric=True, own_diagonal=True)
    _check(tmp_path, _run(tmp_path))


def test_a_line_that_was_cut_off_counts_for_nothing(tmp_path, killer):
    killer.kill_at(12)
    with pytest.raises(Killed):
        _run(tmp_path)
    killer.kill_at(None)
    journal = tmp_path / "a.npy.progress"
    header, *lines = journal.read_text().split("\n")
    assert json.loads(header) == {"what": "five numbers", "sides": [2, 2], "probe": [1.0, 2.0]}
    assert lines == ["0 0", "0 2", "0 4", ""]
    with journal.open("a") as file:
        file.write("2 ")
    _check(tmp_path, _run(tmp_path))
