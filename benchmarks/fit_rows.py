"""Fit and predict 100,000 rows of 50 columns with 4096 features: seconds of each step, and the peak of memory.

    python benchmarks/fit_rows.py [--rows 100000] [--dtype float32]

The target is a smooth function with noise; the score on 10,000 further rows stands beside that of ridge regression on the
columns themselves and the best possible, so that the time is that of learning something. Fails above 3 GiB.
"""

import argparse
import resource
import time

import numpy as np
from sklearn.linear_model import Ridge

from widelimit.estimators import SketchedRidgeRegressor

COLUMNS, TEST, NOISE = 50, 10_000, 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--components", type=int, default=4096)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(options.rows + TEST, COLUMNS)).astype(options.dtype)
    directions = rng.normal(size=(COLUMNS, 3)) / COLUMNS**0.5
    clean = np.sin(2 * x @ directions[:, 0]) + (x @ directions[:, 1]) * (x @ directions[:, 2])
    y = clean + NOISE * rng.normal(size=len(x))
    train, test = slice(options.rows), slice(options.rows, None)
    model = SketchedRidgeRegressor(n_components=options.components, random_state=0, progress=True)
    start = time.perf_counter()
    model.fit(x[train], y[train])
    fitted = time.perf_counter() - start
    start = time.perf_counter()
    score = model.score(x[test], y[test])
    predicted = time.perf_counter() - start
    plain = Ridge().fit(x[train], y[train]).score(x[test], y[test])
    best = 1 - NOISE**2 / y[test].var()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print("| rows | features | fit, s | predict 10,000, s | peak, GiB | R^2 | ridge on columns | best possible |")
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| {options.rows} | {options.components} | {fitted:.1f} | {predicted:.1f} | {peak:.2f} | {score:.4f} | {plain:.4f} "
        f"| {best:.4f} |"
    )
    if peak > 3:
        raise SystemExit(f"{peak:.2f} GiB are more than 3.")


if __name__ == "__main__":
    main()
