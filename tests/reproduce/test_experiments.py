"""The experiments: what they claim of mirror images, what is in their files, and how they go on and fail."""

import itertools
import json
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import widelimit as wl
from widelimit import reproduce as experiments
from widelimit.cli import app, common
from widelimit.datasets import Images
from widelimit.estimators import ZCA, ImageNormalizer
from widelimit.execution import progress
from widelimit.reproduce import cifar10, images, myrtle, study, widths
from widelimit.reproduce.myrtle import ON_TEST, Config
from widelimit.reproduce.study import save_figure

pytestmark = pytest.mark.xdist_group("experiments")
TRAIN, TEST, SIDE = 60, 20, 8
PENALTIES = (1e-3, 1e-1, 1.0)
SMALL = {"train": TRAIN, "test": TEST, "features": (32,), "penalties": PENALTIES}
OPTIONS = ["--train", str(TRAIN), "--test", str(TEST), "--penalties", *map(str, PENALTIES)]


def made(seed=0):
    """Stripes, upright or across, in one of two colours."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, TRAIN + TEST)
    x = rng.integers(0, 30, (len(y), SIDE, SIDE, 3))
    for i, label in enumerate(y):
        (x[i] if label < 2 else x[i].transpose(1, 0, 2))[rng.integers(2) :: 2, :, label % 2] += 180
    x = x.astype(np.uint8)
    return Images(x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], tuple("abcdefghij"))


DATA = made()
LABELS = np.concatenate([DATA.y_train, DATA.y_test])
Y = np.eye(10)[LABELS]


@pytest.fixture(scope="module")
def whitened():
    return images.whiten(DATA.x_train, np.concatenate([DATA.x_train, DATA.x_test]), 0.1)


@pytest.fixture(autouse=True)
def _no_files(monkeypatch):
    monkeypatch.setattr(common, "_keep_programs", lambda: None)
    monkeypatch.setattr(study, "cifar10", lambda folder, download: DATA)


def reproduce(config, data, out, batch=None, say=lambda line: None):
    """The runs of a configuration, as the command has them."""
    return study.reproduce(replace(cifar10.study_of(config), batch=batch), False, out, data, False, say)


def ridge(K, cross, y, penalties):
    """Predictions for every penalty, a number, from a kernel centred over its rows."""
    mean, n = K.mean(0), len(K)
    centred = K - mean - mean[:, None] + K.mean()
    cross = cross - mean - cross.mean(1, keepdims=True) + K.mean()
    solved = [np.linalg.solve(centred + p * np.eye(n), y - y.mean(0)) for p in penalties]
    return np.stack([cross @ a + y.mean(0) for a in solved])


def mean_diagonal(K):
    return np.trace(K - K.mean(0)) / len(K)


def mirror(x):
    return x[:, :, ::-1]


def check_file(run, K):
    """The accuracies in the file are those of a kernel (all rows, training rows)."""
    first = TRAIN - run["config"]["held_out"]
    for name, n, stop in (("held_out", first, TRAIN), ("test", TRAIN, TRAIN + TEST)):
        penalties = np.array(PENALTIES) * mean_diagonal(K[:n, :n])
        predicted = ridge(K[:n, :n], K[n:stop, :n], Y[:n], penalties)
        assert run[name]["accuracies"] == np.mean(predicted.argmax(2) == LABELS[n:stop], axis=1).tolist()
        errors = np.mean((predicted - Y[n:stop]) ** 2, axis=(1, 2))
        np.testing.assert_allclose(run[name]["errors"], errors, rtol=2e-3)
    assert run["accuracy"] == run["test"]["accuracies"][PENALTIES.index(run["penalty"])]
    assert run[ON_TEST]["accuracy"] == max(run["test"]["accuracies"])


def check_mirror_images(K, both, test):
    """Ridge regression with K is that on images and mirror images with the invariant kernel `both`, at twice the penalty."""
    own = mean_diagonal(K[:TRAIN, :TRAIN])
    penalties = np.array(PENALTIES[1:]) * own
    expected = ridge(both, test, np.concatenate([Y[:TRAIN]] * 2), 2 * penalties)
    found = ridge(K[:TRAIN, :TRAIN], K[TRAIN:, :TRAIN], Y[:TRAIN], penalties)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


def test_whitening_is_that_of_the_estimators(whitened):
    normal = ImageNormalizer().fit(DATA.x_train.astype(np.float64))
    train, test = (normal.transform(x.astype(np.float64)) for x in (DATA.x_train, DATA.x_test))
    zca = ZCA(0.1, center=False).fit(train)
    expected = np.concatenate([zca.transform(train), zca.transform(test)])
    np.testing.assert_allclose(whitened, expected, rtol=0, atol=1e-5)
    assert whitened.dtype == jnp.float32


def test_features_of_images_and_mirror_images(whitened, tmp_path):
    config = Config(**SMALL, flips=True)
    (run,) = reproduce(config, DATA, tmp_path / "r.json", batch=32)
    phi = config.network().feature_map(jax.random.key(0), (SIDE, SIDE, 3), 32, get="nngp", dtype="float32")
    x = np.asarray(whitened)
    own, other = phi(x).astype(np.float64), phi(mirror(x)).astype(np.float64)
    rows = (own + other) / 2
    K = rows @ rows[:TRAIN].T
    check_file(run, K)
    # side by side they are invariant
    sides = np.concatenate([own, other], axis=1), np.concatenate([other, own], axis=1)
    pairs = np.concatenate([side[:TRAIN] for side in sides]) / np.sqrt(2)
    check_mirror_images(K, pairs @ pairs.T, sides[0][TRAIN:] / np.sqrt(2) @ pairs.T)


def test_exact_last_stage_of_images_and_mirror_images(whitened, tmp_path):
    config = Config(**SMALL, flips=True, exact_last=True)
    (run,) = reproduce(config, DATA, tmp_path / "r.json")
    head, tail = myrtle.cut(config.network())
    assert head.output_shape((32, 32, 3), width=1) == (8, 8, 1)
    phi = head.feature_map(jax.random.key(0), (SIDE, SIDE, 3), 32, get="nngp", dtype="float32")
    made = images.features_of(phi, whitened, True, "float32", batch=32)
    x = np.asarray(whitened)
    own, other = phi(x).astype(np.float64), phi(mirror(x)).astype(np.float64)
    of_image = np.concatenate([own, mirror(other)], axis=-1) * np.sqrt(32)
    of_mirror = np.concatenate([other, mirror(own)], axis=-1) * np.sqrt(32)
    np.testing.assert_allclose(made.features, of_image, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.of_mirror(made.features), of_mirror, rtol=1e-4, atol=1e-5)
    K = images.rows_of_kernel(tail, made.features, TRAIN, made.of_mirror).astype(np.float64)
    both = np.concatenate([of_image[:TRAIN], of_mirror[:TRAIN]])
    rows = tail.kernel(np.concatenate([both, of_image[TRAIN:]]), both, get="nngp")
    np.testing.assert_allclose(K[:TRAIN], (rows[:TRAIN, :TRAIN] + rows[:TRAIN, TRAIN:]) / 2, rtol=1e-4)
    np.testing.assert_allclose(rows[TRAIN : 2 * TRAIN, :TRAIN], rows[:TRAIN, TRAIN:], rtol=1e-9)
    check_file(run, K)
    check_mirror_images(K, rows[: 2 * TRAIN], rows[2 * TRAIN :])
    assert run["seconds"]["kernel"] > 0
    plain = images.rows_of_kernel(tail, jnp.asarray(of_image, jnp.float32), TRAIN)
    np.testing.assert_allclose(plain[:TRAIN], rows[:TRAIN, :TRAIN], rtol=1e-4)
    # fewer channels hold most of the products, and mirror images theirs
    few = images.features_of(phi, whitened, True, "float32", batch=32, channels=40)
    assert few.features.shape[-1] == 40

    def products(left, right):
        left, right = (np.asarray(x, np.float64).reshape(-1, x.shape[-1]) for x in (left, right))
        return left @ right.T / left.shape[1]

    sides = (few.features, of_image), (few.of_mirror(few.features), of_mirror)
    for (found, whole), (other_found, other_whole) in itertools.product(sides, sides):
        expected = products(whole, other_whole)
        assert np.linalg.norm(products(found, other_found) - expected) < 0.02 * np.linalg.norm(expected)


def test_mirror_images_of_few_channels_are_exact_in_half_precision(whitened):
    head, _ = myrtle.cut(Config(**SMALL).network())
    phi = head.feature_map(jax.random.key(0), (SIDE, SIDE, 3), 32, get="nngp", dtype="float32")
    made = images.features_of(phi, whitened, True, "bfloat16", batch=32, channels=40)
    other = made.of_mirror(made.features)
    own, other = (np.asarray(x, np.float64).reshape(len(x), -1) for x in (made.features, other))
    assert np.linalg.eigvalsh(own @ (own + other).T).min() > -1e-9 * np.linalg.norm(own) ** 2


def test_a_run_in_the_file_is_not_computed_again(tmp_path, monkeypatch):
    out, heard = tmp_path / "r.json", []
    config = Config(**SMALL | {"features": (16, 32), "seeds": (0, 1)})
    compute, count = cifar10.run_once, []

    def killed(*arguments):
        if len(count) == 3:
            raise KeyboardInterrupt
        count.append(1)
        return compute(*arguments)

    monkeypatch.setattr(cifar10, "run_once", killed)
    with pytest.raises(KeyboardInterrupt):
        reproduce(config, DATA, out)
    first = json.loads(out.read_text())["runs"]
    assert len(first) == 3
    count.clear()
    runs = reproduce(config, DATA, out, say=heard.append)
    save_figure(cifar10.STUDY, cifar10.STUDY.runs_to_draw(runs, out), tmp_path / "r.png")
    assert len(count) == 1
    assert runs[:3] == first
    assert "already: 3 of 4 runs" in heard[0]
    pairs = [(*run["config"]["features"], *run["config"]["seeds"]) for run in runs]
    assert pairs == [(16, 0), (16, 1), (32, 0), (32, 1)]
    monkeypatch.setattr(myrtle, "whiten", None)
    monkeypatch.setattr(cifar10, "run_once", None)
    assert reproduce(config, DATA, out) == json.loads(out.read_text())["runs"]
    assert (tmp_path / "r.png").stat().st_size > 10_000
    points = next(iter(cifar10.summaries(runs).values()))
    assert [(p["features"], p["seeds"]) for p in points] == [(16, 2), (32, 2)]
    accuracies = [run["accuracy"] for run in runs[2:]]
    assert points[1]["accuracy"] == pytest.approx(np.mean(accuracies))
    assert points[1]["spread"] == pytest.approx(np.std(accuracies, ddof=1))
    # other images, and other settings, are other runs
    with pytest.raises(TypeError):
        reproduce(config, made(seed=1), out)
    with pytest.raises(TypeError):
        reproduce(Config(**SMALL, scale=2.0), DATA, out)


def test_either_command_does_the_same(tmp_path, capsys):
    arguments = [*OPTIONS, "--features", "16", "32", "--json"]
    experiments.main("cifar10", [*arguments, "--out", str(tmp_path / "a.json")], "prog")
    (first, second) = json.loads(capsys.readouterr().out)
    found = CliRunner().invoke(
        app, ["reproduce", "cifar10", *arguments, "--out", str(tmp_path / "b.json"), "--plot", str(tmp_path / "b.svg")]
    )
    assert found.exit_code == 0, (found.output, found.exception)
    for one, other in zip((first, second), json.loads(found.stdout), strict=True):
        for part in ("digest", "config", "accuracy", "held_out", "test", "penalty", "device", "versions"):
            assert one[part] == other[part], part
    assert (tmp_path / "b.svg").read_text().count("paper") >= 2
    experiments.main("cifar10", [*OPTIONS, "--features", "16", "32", "--out", str(tmp_path / "a.json")], "prog")
    assert "16 features" in capsys.readouterr().out


def test_seeds_are_summed_up_by_what_was_computed():
    def run(accuracy, **changes):
        config = Config(**SMALL, dtype="float32", held_out=6).settings() | changes
        return {"config": config, "device": "cpu", "accuracy": accuracy, "penalty": 0.1, ON_TEST: {"accuracy": accuracy},
                "seconds": {"preprocessing": accuracy, "all": 5 + accuracy}}  # fmt: skip

    runs = [
        run(0.5),
        run(0.7),
        run(0.9, seeds=[1]),
        run(0.1, dtype="bfloat16"),
        run(0.2, held_out=9),
        run(0.3, penalties=[0.1]),
    ]
    found = cifar10.summaries(runs)
    asked = "3 penalties from 0.001 to 1, "
    assert {name.partition("train 60, test 20, ")[2]: points[0]["seeds"] for name, points in found.items()} == {
        f"{asked}float32 (cpu)": 2, f"{asked}bfloat16 (cpu)": 1, f"held out 9, {asked}float32 (cpu)": 1,
        "1 penalties from 0.1 to 0.1, float32 (cpu)": 1,
    }  # fmt: skip
    (both,) = next(points for name, points in found.items() if f"60, test 20, {asked}float32" in name)
    assert both["accuracy"] == pytest.approx(0.8)  # of one seed the latest
    (alone,) = next(points for name, points in found.items() if "1 penalties" in name)
    assert (both["at edge"], alone["at edge"]) == (0, 1)  # that of the only penalty of its run
    assert (both["seconds"], both["slowest"]) == pytest.approx((5, 5))  # after preprocessing


def test_the_ntk_of_another_activation_in_bfloat16(tmp_path):
    config = Config(**SMALL, kernel="ntk", activation="relu", dtype="bfloat16", kept="bfloat16", held_out=10)
    (run,) = reproduce(config, DATA, tmp_path / "r.json")
    assert run["config"]["held_out"] == 10
    assert None not in run["test"]["errors"]
    assert max(run["test"]["accuracies"]) > 0.2  # 32 columns of an NTK say little
    assert "relu, NTK, train 60" in cifar10.run_line(run)


@pytest.mark.parametrize("name", ["relu", "gelu", "exp_normalized"])
def test_weights_keep_a_variance_of_one(name):
    layer, *_ = Config(activation=name).network().layers
    assert layer.W_std**2 * wl.dual(wl.activations.named(name), 1.0, 1.0, 1.0) == pytest.approx(1)


def test_an_interrupt_and_a_full_device_are_one_line(monkeypatch, capsys):
    def failing(error):
        def run_study(study, arguments, prog):
            raise error

        monkeypatch.setattr(study, "run_study", run_study)

    failing(KeyboardInterrupt())
    with pytest.raises(SystemExit) as ended:
        experiments.main("cifar10", [], "prog")
    assert ended.value.code == 130
    assert "the same command goes on" in capsys.readouterr().err
    failing(jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.\nmore"))
    with pytest.raises(SystemExit, match=r"Error: RESOURCE_EXHAUSTED.* Ask for fewer features"):
        experiments.main("cifar10", [], "prog")
    failing(jax.errors.JaxRuntimeError("INTERNAL: something else"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        experiments.main("cifar10", [], "prog")


def test_a_bar_needs_no_rich(monkeypatch):
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    with progress.bar("work", True, 3) as advance:
        advance(3)


def test_the_module_runs_without_rich_and_typer():
    code = (
        "import runpy, sys; sys.modules.update(rich=None, typer=None, matplotlib=None); "
        "sys.argv[1:] = ['--depth', '6']; runpy.run_module('widelimit.reproduce.cifar10', run_name='__main__')"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr.strip().endswith("Error: There are Myrtle networks of depth 5, 7 and 10, not 6.")


BAD = {
    "depth": (["--depth", "6"], "There are Myrtle networks of depth 5, 7 and 10, not 6"),
    "activation": (["--activation", "rellu"], "There is no activation named 'rellu'. Did you mean 'relu'"),
    "scale": (["--scale", "-1"], "--scale is a number above 0, not -1.0"),
    "scale of another": (["--scale", "2", "--activation", "relu"], "--scale is that of exp_normalized"),
    "kernel": (["--kernel", "ntkk"], "--kernel is nngp or ntk, not 'ntkk'"),
    "exact ntk": (["--kernel", "ntk", "--exact-last"], "Leave out --kernel ntk"),
    "features": (["--features", "16", "0"], "--features takes whole numbers from 1 to 16,777,216, not 16, 0"),
    "train": (["--train", "61"], "61 images to train are asked for, and the data has 60"),
    "held out": (["--train", "60", "--held-out", "59"], "--held-out 59 leaves nothing of --train 60"),
    "penalties": (["--penalties", "0"], "--penalties are numbers above 0, not [0.0]"),
    "regularization": (["--regularization", "0"], "--regularization is a number above 0"),
    "dtype": (["--dtype", "int8"], "--dtype is float32 or bfloat16, not 'int8'"),
    "batch": (["--batch", "0"], "--batch is a number of images of 1 or more, not 0"),
    "folder": (["--out", "nowhere/r.json"], "the folder nowhere does not exist"),
    "plot": (["--plot", "plot.txt"], "ends with .png, .svg or .pdf"),
    "out": (["--out", "."], "is a folder. Give the name of a file"),
    "sketch": (
        ["--sketch", "exact"],
        "--sketch is one of auto, random_weights, powers, cosine, polysketch, not 'exact'",
    ),
    "degree of auto": (["--degree", "3"], "auto has none. Name the sketch"),
    "degree 0": (["--sketch", "powers", "--degree", "0"], "--degree 0 leaves constants alone. Give 1 or more"),
    "degree of weights": (["--sketch", "random_weights", "--degree", "3"], "has no degree"),
    "seeds": (["--seeds", str(2**32)], "--seeds takes whole numbers from 0 to 4,294,967,295"),
    "channels": (["--exact-last", "--features", "8", "--channels", "9"], "more than the 8 columns of the features"),
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ((512,), 2000, 1000)),
        (["--full"], ((16_384,), 50_000, 10_000)),
        (["--full", "--features", "64", "128", "--test", "7"], ((64, 128), 50_000, 7)),
    ],
)
def test_the_paper_has_its_size_behind_full(arguments, expected, tmp_path, monkeypatch):
    configs = []
    monkeypatch.setattr(study, "reproduce", lambda study, full, *rest: configs.extend(study.settings(full)) or [])
    study.run_study(cifar10.STUDY, [*arguments, "--out", str(tmp_path / "a.json")], "prog")
    features = tuple(m for config in configs for m in config["features"])
    assert {(features, config["train"], config["test"]) for config in configs} == {expected}


@pytest.mark.parametrize("case", BAD)
def test_error(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, message = BAD[case]
    found = CliRunner().invoke(app, ["reproduce", "cifar10", *OPTIONS, *arguments])
    assert found.exit_code == 1, found.output
    assert message in found.stderr
    with pytest.raises(SystemExit, match="Error: ") as failed:
        experiments.main("cifar10", [*OPTIONS, *arguments], "prog")
    assert message in str(failed.value)
    assert list(tmp_path.iterdir()) == []


def test_more_features_than_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(myrtle, "memory", lambda: 4 * (TRAIN + TEST) * 32 - 1)
    with pytest.raises(MemoryError, match=r"--features 32 of 80 images take .* GB, and there are .* Ask for fewer"):
        reproduce(Config(**SMALL), DATA, tmp_path / "r.json")


def test_unknown_options_and_files_of_others_are_refused(tmp_path):
    for arguments in (["--widht", "3"], ["--depth", "five"], ["--features"]):
        refused = CliRunner().invoke(app, ["reproduce", "cifar10", *arguments])
        assert refused.exit_code == 2
        assert refused.stderr.startswith("Error: ")
        assert refused.stderr.count("\n") == 1
    assert "--exact-last" in CliRunner().invoke(app, ["reproduce", "cifar10", "--help"]).stdout
    for text in ("[]", '{"widelimit": 1, "runs": [{"digest": "a"}]}'):
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(SystemExit, match="is no file of results"):
            experiments.main("cifar10", [*OPTIONS, "--out", str(tmp_path / "r.json")], "prog")
    odd = DATA._replace(x_train=DATA.x_train[:, :6])
    with pytest.raises(ValueError, match="multiples of 4"):
        reproduce(Config(**SMALL), odd, tmp_path / "new.json")


def test_accuracy_by_the_number_of_features(tmp_path):
    small = widths.settings(False)[3] | {"features": [32, 64], "train": TRAIN, "test": TEST, "pixels": SIDE}
    runs = [{"config": small, **widths.compute(small, DATA)}]
    alone = Config(features=(64,), train=TRAIN, test=TEST, scale=0.5)
    (run,) = reproduce(alone, DATA, tmp_path / "a.json")
    assert runs[0]["accuracies"][1] == run["accuracy"]
    assert runs[0][ON_TEST][1] == run[ON_TEST]["accuracy"]
    other = {"config": small | {"seed": 1}, "accuracies": [0.5, 1.0], ON_TEST: [0.5, 1.0], "penalties": [1e-7, 1e-3]}
    of_less = other | {"config": small | {"test": 2, "pixels": 4}}  # not a seed of the others
    *first, row = widths.table([*runs, other])
    assert first[-1]["least or largest penalty"].endswith("of 2")
    assert len(widths.table([*runs, other, of_less])) == 2 * len(widths.table([*runs, other]))
    assert (row["activation"], row["features"], row["seeds"]) == ("normalised Gaussian, scale 0.5", 64, 2)
    assert row["accuracy, %"] == pytest.approx(50 * (run["accuracy"] + 1))
    save_figure(widths.STUDY, [*runs, other], tmp_path / "a.svg")
    assert "scale 0.5, NNGP" in (tmp_path / "a.svg").read_text()
    with pytest.raises(ValueError, match="5000 images to train are asked for, and the data has 60"):
        widths.compute(widths.settings(False)[0], DATA)


def test_the_figure_of_the_paper_is_asked_for():
    full = widths.settings(True)
    assert {tuple(config["features"]) for config in full} == {(512, 1024, 2048, 4096, 8192, 16384)}
    assert len(full) == 16
    assert {(config["train"], config["test"]) for config in full} == {(50_000, 10_000)}


def test_the_latest_images_are_kept():
    calls = []

    @images.latest
    def sums(x, shift):
        calls.append(shift)
        return x.sum() + shift

    first, other = np.ones(3), np.ones(3)
    given = [(first, 1), (first, 1.0), (first, 2), (other, 2), (first, 2)]
    assert [sums(*pair) for pair in given] == [4, 4, 5, 5, 5]
    assert calls == [1, 2, 2, 2]
