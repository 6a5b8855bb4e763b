"""Files of every kind with something wrong in them: an error that names the file, or a whole and sound object.

Bytes are damaged at random, which checksums mostly catch. So headers are changed inside of sound files too: in every
place of the JSON a value that does not belong there, and other arrays than those that were written.
"""

import json
import resource
import time
from functools import partial

import jax
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widelimit as wl
from helpers import damaged
from widelimit import estimators
from widelimit.reproduce.results import add_run, read_runs

pytestmark = [pytest.mark.xdist_group("fuzz"), pytest.mark.filterwarnings("ignore")]  # of large scales, say
RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
Y = X[:, 0] ** 2
IMAGES = RNG.normal(size=(2, 3, 3, 2))
KEY = jax.random.key(0)
NET = wl.serial(
    wl.Conv((2, 2), padding="SAME", W_std=1.2), "relu", wl.AvgPool((3, 3), padding="SAME"), wl.Flatten(), wl.Dense()
)
# Values that do not belong where they are put, or ask for more than there is.
WRONG = [
    None, True, -1, 0, 1, 3, 2**31, 10**12, 10**40, 0.5, -1.5, 1e308, float("nan"), float("inf"), "", "ntk", "x" * 99, [], {},
    [[]], {"array": 0}, {"array": 99}, {"array": -1}, {"items": [1]}, {"tuple": "Choice", "values": []}, {"number": "nan"},
    {"objects": [1, [2]], "shape": [10**9]}, {"estimator": "ZCA", "parameters": {}, "fitted": {}}, {"os": {}}, {"serial": []},
    {"registered": "nothing"}, {"network": {"widelimit": 1, "network": {"serial": []}}},
]  # fmt: skip


def places(value, path=()):
    """The path of every value in JSON."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from places(part, (*path, key))


def changed(value, rng):
    """JSON with one value replaced, left out, doubled or exchanged for another."""
    value = json.loads(json.dumps(value))
    paths = [path for path in places(value) if path]
    *above, last = paths[rng.integers(len(paths))]
    holder = value
    for key in above:
        holder = holder[key]
    match rng.integers(6):
        case 0:
            del holder[last]
        case 1 if isinstance(holder, list):
            holder.insert(last, holder[last])
        case 2:
            other = value
            for key in paths[rng.integers(len(paths))]:
                other = other[key]
            holder[last] = json.loads(json.dumps(other))
        case _:
            holder[last] = WRONG[rng.integers(len(WRONG))]
    return value


def changed_array(array, rng):
    """An array of another type, shape or content."""
    match rng.integers(7):
        case 0:
            return array[..., None]
        case 1:
            return array[:-1] if array.ndim else np.ones(2)
        case 2:
            return array.astype(rng.choice(["f2", "f4", ">f8", "i8", "?", "c16", "U9"]))
        case 3:
            return np.full_like(array, np.nan) if array.dtype.kind == "f" else array[::-1] if array.ndim else array
        case 4:
            return np.empty((0, *array.shape[1:]), array.dtype)
        case 5:
            return np.full(array.shape, None, object)
        case _:
            return np.concatenate([array, array]) if array.ndim else array


def mutated_npz(path, rng):
    """A sound .npz file whose header or arrays were changed, or whose bytes were damaged."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays.pop("header")))
    kind = rng.integers(10)
    if kind == 0:
        path.write_bytes(damaged(path.read_bytes(), rng))
        return
    if kind < 3 and arrays:
        name = list(arrays)[rng.integers(len(arrays))]
        match rng.integers(4):
            case 0:
                del arrays[name]
            case 1:
                arrays["more"] = arrays[name]
            case _:
                arrays[name] = changed_array(arrays[name], rng)
    else:
        header = changed(header, rng)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)


def mutated_text(path, rng):
    """A text whose JSON was changed, or its bytes."""
    if rng.integers(2):
        path.write_bytes(damaged(path.read_bytes(), rng))
    else:
        path.write_text(json.dumps(changed(json.loads(path.read_text()), rng)))


def check_map(phi):
    if np.prod(phi.input_shape) * phi.columns < 10**6:
        shapes = jax.eval_shape(phi, jax.ShapeDtypeStruct((2, *phi.input_shape), np.float32))
        assert all(shape.shape[-1] == phi.columns for shape in jax.tree.leaves(shapes))


def check_model(model):
    columns = model.n_features_in_
    assert columns in (3, 18)
    with np.errstate(all="ignore"):
        values = model.predict(X) if hasattr(model, "predict") else model.transform(X)
    assert len(values) == len(X)


def sketched(kind, targets, **options):
    return kind(**{"depth": 1, "n_components": 8, "random_state": 0} | options).fit(X, targets)


def dense():
    return wl.serial(wl.Dense(1.2, 0.1), wl.Affine(wl.Gelu(), 1.1), wl.Dense())


# Each with whether it is saved to learn more.
MODELS = {
    "classifier": (lambda: sketched(estimators.SketchedRidgeClassifier, np.digitize(Y, [0.3, 0.8])), False),
    "resumable": (
        lambda: sketched(estimators.SketchedRidgeRegressor, np.stack([Y, Y], 1), penalty="folds", folds=2),
        True,
    ),
    "few rows": (lambda: sketched(estimators.SketchedRidgeRegressor, Y, n_components=16), True),
    "exact": (lambda: estimators.NeuralKernelRegressor(activation=wl.Gelu(), depth=1).fit(X, Y), False),
    "exact classifier": (
        lambda: estimators.NeuralKernelClassifier(depth=1).fit(X, np.where(Y > 0.5, "a", "b").astype(object)),
        False,
    ),
    "pipeline": (
        lambda: make_pipeline(StandardScaler(), estimators.ZCA(), estimators.NeuralKernelRegressor(depth=1)).fit(X, Y),
        False,
    ),
}
MAPS = {
    "rows": lambda: dense().feature_map(KEY, (3,), 8, get=("nngp", "ntk")),
    "polynomial": lambda: wl.serial(wl.Dense(), "relu", wl.Dense()).feature_map(
        KEY, (3,), 16, sketch="cosine", degree=4
    ),
    "bfloat16": lambda: dense().feature_map(KEY, (3,), 5, sketch="powers", degree=2, dtype="bfloat16"),
    "images": lambda: NET.feature_map(KEY, (3, 3, 2), 16),
}


def fuzz(path, write, mutate, read, check, rounds, seed):
    """How many mutations were refused and how many were read; every other end is a failure."""
    rng = np.random.default_rng(seed)
    write(path)
    good, unnamed, refused, accepted, slowest = path.read_bytes(), 0, 0, 0, 0.0
    for _ in range(rounds):
        path.write_bytes(good)
        mutate(path, rng)
        start = time.process_time()
        try:
            found = read(path)
        except ValueError as error:
            unnamed += path.name not in str(error)
            refused += 1
        else:
            check(found)
            accepted += 1
        slowest = max(slowest, time.process_time() - start)
    assert unnamed == 0
    assert slowest < 30  # seconds
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    return refused, accepted


@pytest.fixture(autouse=True)
def memory():
    """No more than two gigabytes beyond what there was."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 * 2**20  # kilobytes


# So many mutations of each file, and so many of a text; the slow test has other ones.
ROUNDS = [(1, 40, 400), pytest.param(2, 200, 2000, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("seed", "rounds", "_"), ROUNDS)
@pytest.mark.parametrize("what", MAPS)
def test_feature_maps(what, seed, rounds, _, tmp_path):
    path = tmp_path / "phi.npz"
    refused, accepted = fuzz(path, MAPS[what]().save, mutated_npz, wl.load_features, check_map, rounds, seed)
    assert refused > rounds / 2
    assert accepted


@pytest.mark.parametrize(("seed", "rounds", "_"), ROUNDS)
@pytest.mark.parametrize("what", MODELS)
def test_models(what, seed, rounds, _, tmp_path):
    make, resumable = MODELS[what]
    write = partial(estimators.save, make(), resumable=resumable)
    refused, accepted = fuzz(tmp_path / "model.npz", write, mutated_npz, estimators.load, check_model, rounds, seed)
    assert refused > rounds / 3
    assert accepted


@pytest.mark.parametrize(("seed", "_", "rounds"), ROUNDS)
def test_networks(seed, _, rounds, tmp_path):
    def read(path):
        try:
            return wl.from_json(path.read_text(errors="surrogateescape"))
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from error

    def check(net):
        assert wl.from_json(net.to_json()) == net

    write = lambda path: path.write_text(
        wl.serial(NET, wl.residual("gelu", wl.Dense(b_std=0.1)), wl.Affine(wl.Erf())).to_json()
    )
    refused, accepted = fuzz(tmp_path / "net.json", write, mutated_text, read, check, rounds, seed)
    assert refused > rounds / 2
    assert accepted > rounds / 30


@pytest.mark.parametrize(("seed", "_", "rounds"), ROUNDS)
def test_results(seed, _, rounds, tmp_path):
    def write(path):
        for name in "ab":
            add_run(
                path, {"experiment": "squares", "digest": name, "config": {"a": 1}, "device": "cpu", "found": [0.5]}
            )

    def check(runs):
        assert all(isinstance(run["digest"], str) for run in runs)

    refused, accepted = fuzz(tmp_path / "runs.json", write, mutated_text, read_runs, check, rounds, seed)
    assert refused > rounds / 3
    assert accepted > rounds / 30
