"""Jobs: the same result whoever runs the blocks, in whatever order, from any source into any sink."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widelimit.execution.executors import Pipeline, Threads, execute, stream
from widelimit.execution.grid import Grid
from widelimit.execution.sinks import DeviceRows, HostRows, JoinedTiles, Matrices, Sum, Tile
from widelimit.execution.sources import ArraySource, DeviceSource, Slab, cut, fill

X = np.random.default_rng(0).normal(size=(23, 5)).astype(np.float32)
Y = np.arange(23)
EXECUTORS = [Pipeline(0), Pipeline(1), Pipeline(3), Threads(1), Threads(3), Threads(40)]
ROWS = Grid.of_rows(23, 8)


class Shuffled:
    """An executor that runs blocks in another order."""

    def __repr__(self):
        return "Shuffled()"

    def run(self, program, grid, sources, sink, advance):
        for i in np.random.default_rng(0).permutation(len(grid)):
            ((block, value),) = stream(program, grid.part(i, len(grid)), sources, ahead=0)
            sink.write(block, value)
            advance(block.units)


@pytest.mark.parametrize("executor", [*EXECUTORS, Shuffled()], ids=str)
def test_rows_of_a_tree_on_the_host(executor):
    found = execute(
        lambda part: {"x": 2 * part[0], "y": [part[1]]}, ROWS, [ArraySource((X, Y))], HostRows(23), executor
    )
    np.testing.assert_array_equal(found["x"], 2 * X)
    np.testing.assert_array_equal(found["y"][0], Y)


@pytest.mark.parametrize("executor", EXECUTORS[:3], ids=str)
def test_rows_on_the_device(executor):
    program = jax.jit(lambda slab: 2 * cut(slab, 8))
    found = execute(program, ROWS, [DeviceSource(jnp.asarray(X))], DeviceRows(23), executor)
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(found, 2 * X)
    assert program._cache_size() == 1  # type: ignore[attr-defined]


def test_rows_of_a_memory_map(tmp_path):
    np.save(tmp_path / "x.npy", X)
    source = ArraySource(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert type(source.read(slice(0, 8))) is np.ndarray
    np.testing.assert_array_equal(execute(np.square, ROWS, [source], HostRows(23), Threads(2)), X**2)


@pytest.mark.parametrize("arrays", [X, jnp.asarray(X), (X, Y)], ids=["numpy", "jax", "tree"])
def test_a_source_says_what_a_compiled_program_gets(arrays):
    source = ArraySource(arrays)
    given = fill(source.read(slice(16, 23)), 8)
    told = jax.tree.map(lambda x: (x.shape, x.dtype), source.abstract(8))
    assert told == jax.tree.map(lambda x: (x.shape, x.dtype), given)


@pytest.mark.parametrize("rows", [slice(0, 8), slice(16, 23), slice(22, 23)])
def test_a_slab_is_cut_to_the_rows_of_an_array(rows):
    whole = DeviceSource(jnp.asarray(X))
    assert fill(whole.read(rows), 8) is not None
    np.testing.assert_array_equal(cut(whole.read(rows), 8), fill(ArraySource(X).read(rows), 8))
    assert whole.abstract(8).arrays.shape == X.shape
    assert isinstance(whole.abstract(8), Slab)


def test_empty_blocks():
    found = execute(lambda x: fill(x, 4)[: len(x)], Grid.of_rows(0, 8), [ArraySource(X[:0])], HostRows(0), Pipeline())
    assert found.shape == (0, 5)
    np.testing.assert_array_equal(fill(X[:0], 2), np.zeros((2, 5)))


def test_arrays_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match=r"equally many rows, not \[22, 23\]"):
        ArraySource((X, Y[1:]))


def _products(x, y):
    """A tile of two matrices, larger than the block, whose diagonal is not exact."""
    x, y = fill(x, 8), fill(y, 8)
    return Tile([x @ y.T, np.exp(x @ y.T)], [np.full(8, 7.0), np.full(8, 8.0)])


@pytest.mark.parametrize("executor", [*EXECUTORS, Shuffled()], ids=str)
@pytest.mark.parametrize("own", [True, False])
def test_tiles_of_symmetric_matrices(executor, own):
    arrays, source = [np.full((23, 23), np.nan) for _ in range(2)], ArraySource(X.astype(np.float64))
    grid = Grid.of_tiles((23, 23), (8, 8), symmetric=True)
    found = execute(_products, grid, [source, source], Matrices(arrays, True, own), executor)
    product = source.arrays @ source.arrays.T
    for matrix, expected, value in zip(found, (product, np.exp(product)), (7, 8), strict=True):
        np.testing.assert_array_equal(matrix, matrix.T)
        if own:
            np.fill_diagonal(expected, value)
        np.testing.assert_allclose(matrix, expected, rtol=1e-12)


def test_tiles_of_a_rectangle():
    arrays = [np.full((23, 9), np.nan) for _ in range(2)]
    sources = [ArraySource(X), ArraySource(X[:9])]
    found = execute(_products, Grid.of_tiles((23, 9), (8, 8)), sources, Matrices(arrays, False, False), Threads(2))
    np.testing.assert_allclose(found[0], X @ X[:9].T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_parts_together_are_the_whole(n):
    grid, source = Grid.of_tiles((23, 23), (8, 8), symmetric=True), ArraySource(X)
    whole, parts = ([np.full((23, 23), np.nan) for _ in range(2)] for _ in range(2))
    execute(_products, grid, [source, source], Matrices(whole, True, True), Threads(2))
    for i in reversed(range(n)):
        execute(_products, grid.part(i, n), [source, source], Matrices(parts, True, True), Threads(2))
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a, b)


# Numbers of many sizes, whose sum depends on the order in its last digits.
UNEVEN = np.random.default_rng(1).normal(size=(103, 4)).astype(np.float32) * np.logspace(-6, 6, 103)[:, None]
UNEVEN = UNEVEN.astype(np.float32)
SUMMED = Grid.of_rows(103, 5)


def _sum(executor, grid=SUMMED):
    sink: Sum = Sum()
    return execute(lambda x: (x.sum(0), {"rows": len(x)}), grid, [ArraySource(UNEVEN)], sink, executor), sink


@pytest.mark.parametrize("executor", [*EXECUTORS, Shuffled()], ids=str)
def test_a_sum_does_not_depend_on_who_adds(executor):
    (total, count), _ = _sum(executor)
    (expected, _), _ = _sum(Pipeline(0))
    np.testing.assert_array_equal(total, expected)
    assert count == {"rows": 103}
    np.testing.assert_allclose(total, UNEVEN.astype(np.float64).sum(0), rtol=1e-5)


def test_the_order_of_a_plain_sum_shows():
    forward, backward = (sum(x.sum(0) for x in np.array_split(part, 21)) for part in (UNEVEN, UNEVEN[::-1]))
    assert (forward != backward).any()  # or the test above would show nothing


@pytest.mark.parametrize("n", [2, 3, 7, 21])
def test_sums_of_parts_are_the_sum_of_the_whole(n):
    merged: Sum = Sum()
    for i in np.random.default_rng(n).permutation(n):
        merged.merge(_sum(Threads(2), SUMMED.part(i, n))[1])
    np.testing.assert_array_equal(merged.result()[0], _sum(Threads(3))[0][0])


def test_the_sum_of_no_blocks_is_refused():
    with pytest.raises(ValueError, match="no sum of no blocks"):
        Sum().result()
    with pytest.raises(ValueError, match="No block was written"):
        HostRows(3).result()


@pytest.mark.parametrize("executor", EXECUTORS, ids=str)
def test_the_first_error_ends_the_work(executor):
    done, lock = [], threading.Lock()

    def program(x):
        with lock:
            done.append(x[0])
        if len(done) == 3:
            raise MemoryError("a block failed")
        return x

    grid = Grid.of_rows(2000, 1)
    with pytest.raises(MemoryError, match="a block failed"):
        execute(program, grid, [ArraySource(np.arange(2000))], HostRows(2000), executor)
    assert len(done) < 200  # twice as many as there are workers, at most, were begun


def test_blocks_are_begun_before_one_is_taken():
    begun = []
    blocks = stream(lambda x: begun.append(len(x)) or x, ROWS, [ArraySource(X)], ahead=1)
    for taken, (block, value) in enumerate(blocks, 1):
        assert len(begun) == min(taken + 1, 3)
        np.testing.assert_array_equal(value, X[block.rows])


def test_joined_tiles_of_pixels_are_not_mirrored():
    """(n1, n2, pixels) is no matrix, whose mirror image would be another block: it is still missing."""
    square, grid = Grid.of_tiles((23, 23), (8, 8)), Grid.of_tiles((23, 23), (8, 8), symmetric=True)
    for pixels, missing in ((False, 0), (True, 3)):
        sink: JoinedTiles = JoinedTiles(mirrored=True)
        for block, value in stream(
            lambda x, y, p=pixels: (x @ y.T)[..., None] if p else x @ y.T, grid, [ArraySource(X)] * 2
        ):
            sink.write(block, value)
        assert len(sink.missing(square)) == missing


def test_the_bar_counts_rows_and_tiles(capsys):
    execute(np.square, ROWS, [ArraySource(X)], HostRows(23), Threads(2), "rows of squares")
    shown = capsys.readouterr().out
    assert "rows of squares" in shown
    assert "23/23" in shown
    tiles = Grid.of_tiles((23, 9), (8, 8))
    execute(lambda x, y: x @ y.T, tiles, [ArraySource(X), ArraySource(X[:9])], JoinedTiles(False), Pipeline(), "tiles")
    assert "6/6" in capsys.readouterr().out
    execute(np.square, ROWS, [ArraySource(X)], HostRows(23), Threads(2))
    assert capsys.readouterr().out == ""
