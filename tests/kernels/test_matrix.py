"""Large matrices: tiles of any number of inputs give what the whole gives, within a budget and into a file."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widelimit as wl
from widelimit.execution import policy
from widelimit.execution.files import MatrixFiles
from widelimit.execution.sources import ArraySource, DeviceSource
from widelimit.kernels import exact
from widelimit.kernels import matrix as tiles
from widelimit.numerics.device import use_backend

NET = wl.serial(wl.Dense(1.3, 0.2), "gelu", wl.Dense(1.1))
X = np.random.default_rng(0).normal(size=(23, 5))
SQUARE = np.ones((23, 23))
IMAGES = np.random.default_rng(0).normal(size=(7, 4, 4, 3))
CONV = wl.Conv((3, 3), padding="SAME", W_std=1.3, b_std=0.1)


@pytest.fixture
def small_tiles():
    with policy.use(tile_rows=8, tile_images=(2, 2)):
        yield


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_are_the_whole(small_tiles, dtype):
    x = X.astype(dtype)
    found = NET.kernel(x)
    with jax.enable_x64(dtype == np.float64):
        expected = [np.asarray(k) for k in exact.kernel(NET, x)]
    for get, whole in zip(("nngp", "ntk"), expected, strict=True):
        by_tiles, tolerance = getattr(found, get), 8 * np.finfo(dtype).eps * np.max(whole)
        assert by_tiles.dtype == dtype
        np.testing.assert_array_equal(by_tiles, by_tiles.T)
        np.testing.assert_allclose(by_tiles, whole, rtol=0, atol=tolerance)
        np.testing.assert_allclose(NET.kernel(x, x[:9], get=get), by_tiles[:, :9], rtol=0, atol=tolerance)
        np.testing.assert_allclose(NET.kernel(x, get=get, diagonal=True), np.diag(by_tiles), rtol=0, atol=tolerance)


DROPPING = {
    "rows": wl.serial(wl.Dense(1.3, 0.2), "erf", wl.Dropout(0.5), wl.Dense(1.1)),
    "images": wl.serial(CONV, "relu", wl.Dropout(0.5), wl.AvgPool((2, 2)), wl.Flatten(), wl.Dense()),
}


@pytest.mark.parametrize("kind", DROPPING)
@pytest.mark.parametrize(
    "sizes", [{"tile_rows": 1, "tile_images": (1, 1)}, {"tile_rows": 5, "tile_images": (3, 3)}], ids=str
)
def test_sizes_of_blocks_change_nothing(kind, sizes):
    """Tiles, blocks of images and workers of any number. An input and itself have one mask of Dropout, in tiles too."""
    net, x = DROPPING[kind], X if kind == "rows" else IMAGES.astype(np.float64)
    expected, rectangle = net.kernel(x), net.kernel(x, x + 0)
    for got in ("nngp", "ntk"):
        own, other = getattr(expected, got), getattr(rectangle, got)
        assert np.all(np.diag(own) > 1.2 * np.diag(other))
        np.testing.assert_allclose(np.diag(own), getattr(net.kernel(x, diagonal=True), got), rtol=1e-12)
    for workers, options in ((1, {"memory": "1GiB"}), (3, {"out": tuple(np.empty((2, len(x), len(x))))})):
        with policy.use(**sizes, workers=workers, covariances=40):
            found = net.kernel(x, **options)
            part = net.kernel(x, x[: len(x) // 2] + 0, memory="1GiB")
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
            np.testing.assert_array_equal(a, a.T)
        for a, b in zip(part, rectangle, strict=True):
            np.testing.assert_allclose(a, b[:, : len(x) // 2], rtol=1e-11, atol=1e-13)


def test_what_0_1_left_half_finished_goes_on(tmp_path):
    """Files of a computation by version 0.1, which was killed after three of six tiles."""
    for left in (Path(__file__).parents[1] / "data" / "half_finished").iterdir():
        shutil.copy(left, tmp_path)
    paths, write, written = (tmp_path / "nngp.npy", tmp_path / "ntk.npy"), MatrixFiles.write, []

    class Counted(MatrixFiles):
        def write(self, block, value):
            written.append(block.corner)
            write(self, block, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "MatrixFiles", Counted)
        found = NET.kernel(X, out=paths)
    assert sorted(written) == [(8, 8), (8, 16), (16, 16)]
    for path, a, b in zip(paths, found, NET.kernel(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)
        np.testing.assert_array_equal(np.load(path), a)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nngp.npy", "ntk.npy"]


def test_half_of_a_symmetric_kernel_of_two_inputs(small_tiles):
    turned = X[:, ::-1]  # K(x, turned y) = K(turned x, y)
    found = tiles.by_tiles(NET, X, turned, ("nngp",), symmetric=True).nngp
    np.testing.assert_allclose(found, NET.kernel(X, turned, get="nngp"), rtol=1e-13)


def test_tiles_of_images(small_tiles):
    images = np.random.default_rng(0).normal(size=(5, 4, 4, 2))
    net = wl.serial(wl.Conv((3, 3)), "relu", wl.GlobalAvgPool(), wl.Dense())
    found = net.kernel(images, get="ntk")
    np.testing.assert_array_equal(found, found.T)
    with jax.enable_x64(True):
        np.testing.assert_allclose(found, exact.kernel(net, images).ntk, rtol=1e-13)
    assert net.kernel(images[:0], get="ntk", memory="1GiB").shape == (0, 0)


ENDS = {"pool": (wl.AvgPool((2, 2), (2, 2)), CONV, wl.GlobalAvgPool()), "flatten": (wl.Flatten(),)}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("in_flight", [1, 3 * 16**2, 2**28])
def test_blocks_of_images_are_the_pairs(x64, end, in_flight):
    """Whatever is computed at a time, and whether or not blocks come out even: the kernels of single pairs."""
    net = wl.serial(CONV, "relu", *ENDS[end], wl.Dense())
    run = jax.jit(lambda x1, x2: exact.kernel(net, x1, x2))
    pairs = [[run(IMAGES[i : i + 1], IMAGES[j : j + 1]) for j in range(7)] for i in range(7)]
    with policy.use(covariances=in_flight):
        blocks = jax.jit(partial(exact.kernel, net))
        rectangular, symmetric = blocks(IMAGES[:5], IMAGES), blocks(IMAGES)
    for get in ("nngp", "ntk"):
        expected = np.block([[np.asarray(getattr(pair, get)) for pair in row] for row in pairs])
        np.testing.assert_allclose(getattr(rectangular, get), expected[:5], rtol=1e-13)
        whole = np.asarray(getattr(symmetric, get))
        np.testing.assert_allclose(whole, expected, rtol=1e-7)  # the slope of a row with itself
        np.testing.assert_allclose(whole[~np.eye(7, dtype=bool)], expected[~np.eye(7, dtype=bool)], rtol=1e-13)
        np.testing.assert_array_equal(whole, whole.T)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("x", [X, IMAGES], ids=["rows", "images"])
def test_half_precision_is_computed_in_float32(x, dtype):
    net = NET if x.ndim == 2 else wl.serial(CONV, "relu", wl.GlobalAvgPool(), wl.Dense())
    half = jnp.asarray(x, dtype)
    single = half.astype(jnp.float32)  # no digit is lost
    options: list[dict] = [{}, {"memory": "1GiB"}, {"diagonal": True}]
    for option in options:
        found, expected = net.kernel(half, get="ntk", **option), net.kernel(single, get="ntk", **option)
        assert found.dtype == expected.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
    with pytest.raises(ValueError, match="of float32"):
        net.kernel(half, get="ntk", out=np.empty((len(x), len(x))))


def _jax_array_is_its_numpy_array(tmp_path, net, x):
    array = jnp.asarray(x)
    for other in (None, x[:5]):
        expected = net.kernel(x, other, memory="1GiB")
        out = np.empty((2, len(x), len(x if other is None else other)), x.dtype)
        paths = tmp_path / "nngp.npy", tmp_path / "ntk.npy"
        places: list[dict] = [{"memory": "1GiB"}, {"progress": True}, {"out": (out[0], out[1])}, {"out": paths}]
        for options in places:
            for found, numpy in zip(net.kernel(array, other, **options), expected, strict=True):
                assert isinstance(found, np.ndarray)
                np.testing.assert_allclose(found, numpy, rtol=1e-6 if x.dtype == np.float32 else 1e-14)
                if other is None:
                    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_jax_arrays_stay_where_they_are(tmp_path, small_tiles, monkeypatch, dtype):
    """Tiles are cut out of them by the program; nothing else than tiles is brought back."""
    with jax.enable_x64(dtype == np.float64):
        _jax_array_is_its_numpy_array(tmp_path, NET, X.astype(dtype))
        monkeypatch.setattr(ArraySource, "read", None)
        assert NET.kernel(jnp.asarray(X, dtype), get="ntk", memory="1GiB").dtype == dtype


def test_tiles_on_an_accelerator():
    """Its sizes, and NumPy arrays put there as a whole, with the same results."""
    net = wl.serial(CONV, "relu", wl.GlobalAvgPool(), wl.Dense())
    images = IMAGES.astype(np.float32)
    expected = NET.kernel(X), net.kernel(images), net.kernel(images, images[:3])
    tiles._compile.cache_clear()
    for memory in (0, 2**30):
        with use_backend("gpu"), policy.use(tile_rows=8, tile_images=(2, 4), device_bytes=memory):
            found = NET.kernel(X), net.kernel(images), net.kernel(images, images[:3])
            assert isinstance(tiles._sources(images, images)[1], ArraySource if memory == 0 else DeviceSource)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=8 * np.finfo(a.dtype).eps, atol=8 * np.finfo(a.dtype).eps)
    tiles._compile.cache_clear()


@pytest.mark.parametrize(("pixels", "side", "flat"), [(8, 247, 512), (16, 64, 512), (32, 64, 494), (2, 512, 512)])
def test_sides_on_an_accelerator(pixels, side, flat):
    pooled = wl.serial(CONV, "relu", wl.GlobalAvgPool(), wl.Dense())
    x = np.empty((1, pixels, pixels, 3))
    with use_backend("gpu"):
        assert tiles.largest_side(pooled, x) == side
        assert tiles.largest_side(wl.nets.conv_flatten(1), x) == flat
        assert tiles.largest_side(NET, X) == 4096


def test_a_killed_computation_of_jax_arrays_goes_on(tmp_path, small_tiles, monkeypatch):
    x, out, write = jnp.asarray(X, jnp.bfloat16), tmp_path / "K.npy", MatrixFiles.write
    expected, done = NET.kernel(x, get="ntk", memory="1GiB"), []

    def counted(files, block, value):
        done.append(block)
        if len(done) == 4:
            raise KeyboardInterrupt
        write(files, block, value)

    monkeypatch.setattr(MatrixFiles, "write", counted)
    with pytest.raises(KeyboardInterrupt):
        NET.kernel(x, get="ntk", out=out)
    with pytest.raises(ValueError, match="of another computation"):
        NET.kernel(2 * x, get="ntk", out=out)
    with policy.use(tile_rows=16):  # the tiles stay those of the first call
        found = NET.kernel(x, get="ntk", out=out)
    assert 6 < len(done) < 2 * 6
    np.testing.assert_array_equal(found, expected)


def test_compiled_once_for_all_tiles_and_scales(small_tiles):
    tiles._compile.cache_clear()
    for scale in (1.0, 1.5):
        net = wl.serial(wl.Dense(scale, 0.2), "erf", wl.Dense(1.1))
        net.kernel(X)
        net.kernel(X, X[:22])
    assert tiles._compile.cache_info().misses == 1


def test_into_a_file_within_a_budget(tmp_path, small_tiles, capsys):
    out = np.lib.format.open_memmap(tmp_path / "K.npy", mode="w+", dtype=np.float64, shape=(23, 23))
    found = NET.kernel(X, get="ntk", memory="1MiB", progress=True, out=out)
    assert found is out
    out.flush()
    np.testing.assert_allclose(np.load(tmp_path / "K.npy"), NET.kernel(X, get="ntk"), rtol=1e-14)
    assert "kernel tiles" in capsys.readouterr().out
    both = np.empty((2, 23, 23))
    NET.kernel(X, out=(both[0], both[1]))
    np.testing.assert_allclose(both[1], out, rtol=1e-14)


def test_a_smaller_budget_makes_smaller_tiles():
    x = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)
    sources = tiles._sources(x, x)
    with policy.use(workers=2):
        large, small = (tiles._limit(NET, sources, True, budget, None) for budget in (None, 2**20))
    sides = tiles._sides(sources, small)
    assert sides < tiles._sides(sources, large) == (320, 320)  # a size that other numbers of rows share
    assert 2 * tiles._bytes_needed(tiles._compile_tile(NET, sources, sides, True), sum(sides), x) <= 2**20


def test_a_tile_is_counted_with_its_inputs_and_results():
    """Two copies of the results: those of the program, and those that a thread writes into the matrix."""
    x = np.zeros((300, 1000), np.float32)
    program = tiles._compile_tile(NET, tiles._sources(x, x), (64, 32), True)
    memory, numbers = program.memory_analysis(), 96 * 1000 + 2 * 2 * 64 * 32
    assert tiles._bytes_needed(program, 96, x) >= memory.temp_size_in_bytes + 4 * numbers


def test_a_killed_computation_goes_on(tmp_path, small_tiles, monkeypatch):
    """A tile that fails, in a thread of its own, ends the work; what was done before it is not done again."""
    out, expected = tmp_path / "K.npy", NET.kernel(X, get="ntk")
    read, computed = ArraySource.read, []

    def counted(source, rows):
        computed.append(rows)
        if len(computed) > 6:
            raise MemoryError("killed")
        return read(source, rows)

    monkeypatch.setattr(ArraySource, "read", counted)
    with pytest.raises(MemoryError, match="killed"):
        NET.kernel(X, get="ntk", out=out)
    monkeypatch.undo()
    assert not out.exists()
    with (tmp_path / "K.npy.progress").open("a") as file:
        file.write("16")  # a line cut off
    for another in (lambda: NET.kernel(X, get="nngp", out=out), lambda: NET.kernel(2 * X, get="ntk", out=out)):
        with pytest.raises(ValueError, match="of another computation"):
            another()
    computed.clear()
    monkeypatch.setattr(ArraySource, "read", lambda *args: computed.append(1) or read(*args))
    with policy.use(workers=8):  # more cores, and the same tiles
        found = NET.kernel(X, get="ntk", out=str(out), memory="1GiB")
    assert len(computed) < 2 * 6 + 2  # of 6 tiles and the probe, each of two inputs, some were done
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.load(out), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["K.npy"]


def test_functions_of_one_name_are_told_apart(tmp_path, small_tiles, monkeypatch):
    """A lambda prints as a lambda: some values of the kernel tell whether it is the same."""
    nets = [
        wl.serial(wl.Dense(), wl.FromDual(lambda cov, v1, v2: cov), wl.Dense()),
        wl.serial(wl.Dense(), wl.FromDual(lambda cov, v1, v2: cov**3 / (v1 * v2)), wl.Dense()),
    ]
    finish = MatrixFiles.result
    monkeypatch.setattr(MatrixFiles, "result", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        nets[0].kernel(X, get="nngp", out=tmp_path / "K.npy")
    monkeypatch.setattr(MatrixFiles, "result", finish)
    with pytest.raises(ValueError, match="of another computation"):
        nets[1].kernel(X, get="nngp", out=tmp_path / "K.npy")
    assert np.max(nets[0].kernel(X, get="nngp", out=tmp_path / "K.npy")) > 0
    assert NET.kernel(X[:0], get="ntk", out=tmp_path / "empty.npy").shape == (0, 0)
    assert np.load(tmp_path / "empty.npy").shape == (0, 0)


def test_outputs_follow_the_order_of_get(tmp_path):
    both = np.empty((2, 23, 23))
    NET.kernel(X, get=("ntk", "nngp"), out=(both[0], both[1]))
    np.testing.assert_array_equal(both[0], NET.kernel(X, get="ntk", memory="1GiB"))
    found = NET.kernel(X, X[:7], get=("ntk", "nngp"), out=(tmp_path / "ntk.npy", tmp_path / "nngp.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "ntk.npy"), found.ntk)
    assert np.abs(found.ntk - both[0][:, :7]).max() < 1e-12


@pytest.mark.parametrize("n", [1, 2, 9])
def test_lopsided_and_single_tiles(small_tiles, n):
    expected = NET.kernel(X, get="ntk")[:, :n]
    np.testing.assert_allclose(NET.kernel(X, X[:n], get="ntk", memory="1GiB"), expected, rtol=1e-13)
    np.testing.assert_allclose(NET.kernel(X[:n], X, get="ntk", memory="1GiB"), expected.T, rtol=1e-13)
    np.testing.assert_allclose(NET.kernel(X[:n], get="ntk", memory="1GiB"), expected[:n], rtol=1e-13)


MEASURED = """
import resource, sys, numpy as np, widelimit as wl
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
net = wl.nets.fully_connected(3, "gelu", 1.4, 0.1)
x = np.random.default_rng(0).normal(size=(6000, 8)).astype(np.float32)
net.kernel(x[:64], get="ntk", memory="256MiB")  # what a program takes at all
before = peak()
net.kernel(x, get="ntk", memory=sys.argv[1])
print(peak() - before)
"""


def test_the_budget_is_kept():
    """The peak of a fresh process, less the result, is within the budget."""
    budget = 2**23
    found = subprocess.run([sys.executable, "-c", MEASURED, str(budget)], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 4 * 6000**2 + budget + 16 * 2**20  # what compiling takes


BAD = {
    "too little memory": (lambda: NET.kernel(X, memory=100), "memory=100 bytes are too few for one tile"),
    "memory": (lambda: NET.kernel(X, memory="much"), "such as '2GiB', not 'much'"),
    "no memory": (lambda: NET.kernel(X, memory=-1), "not -1"),
    "shape of out": (lambda: NET.kernel(X, get="ntk", out=np.empty((3, 3))), r"shape \(23, 23\), not .*\(3, 3\)"),
    "dtype of out": (lambda: NET.kernel(X, get="ntk", out=np.empty((23, 23), np.float32)), "of float64.* not float32"),
    "one out for two": (lambda: NET.kernel(X, out=np.empty((23, 23))), "out takes an array for each of nngp, ntk"),
    "out that is none": (
        lambda: NET.kernel(X, get="ntk", out="K.txt"),
        "path of an .npy file in a folder that exists, not 'K.txt'",
    ),
    "out of a number": (lambda: NET.kernel(X, get="ntk", out=3), "out must be a path, or a NumPy array"),
    "one path for two": (lambda: NET.kernel(X, out="K.npy"), "out takes a path for each of nngp, ntk"),
    "one array twice": (lambda: NET.kernel(X, out=(SQUARE, SQUARE)), "shares memory"),
    "an input": (lambda: NET.kernel(SQUARE, get="ntk", out=SQUARE), "shares memory"),
    "one file twice": (lambda: NET.kernel(X, out=("K.npy", "./K.npy")), "a path for each of nngp, ntk"),
    "traced": (lambda: jax.jit(lambda x: NET.kernel(x, memory="1GiB"))(X), "JAX is tracing"),
    "diagonal": (lambda: NET.kernel(X, diagonal=True, memory="1GiB"), "for whole matrices"),
    "pixels": (
        lambda: wl.serial(wl.Conv((3, 3)), "relu").kernel(np.ones((2, 4, 4, 1)), memory="1GiB"),
        "outputs without pixels",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_error(case):
    attempt, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        attempt()


def test_a_read_only_file_is_refused(tmp_path):
    np.save(tmp_path / "K.npy", np.empty((23, 23)))
    with pytest.raises(ValueError, match="read-only"):
        NET.kernel(X, get="ntk", out=np.load(tmp_path / "K.npy", mmap_mode="r"))
