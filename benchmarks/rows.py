"""Features of 1,000 to 100,000 rows of 256 numbers, blocks consumed and not kept: seconds, and the peak of memory.

    python benchmarks/rows.py

Depth 3, ReLU with biases, 4096 features, float32, added up over rows. Each size runs in a process of its
own, whose peak is its resident memory. The time without the first block, which compiles, must be linear in the rows.
"""

import json
import resource
import subprocess
import sys
import time
from itertools import pairwise

SIZES = (1_000, 10_000, 100_000)
BATCH = 500


def measure(rows: int) -> dict[str, float]:
    import jax
    import numpy as np

    import widelimit as wl

    x = np.random.default_rng(0).normal(size=(rows, 256)).astype(np.float32)
    phi = wl.nets.fully_connected(3, "relu", 1.4, 0.1).feature_map(jax.random.key(0), (256,), features=4096)
    total = np.zeros(4096)
    for block in phi.blocks(x[:BATCH], batch=BATCH):
        total += block.sum(0)
    seconds = float("inf")
    for _ in range(max(1, 20_000 // rows)):  # short runs are repeated, and the fastest counts
        start = time.perf_counter()
        for block in phi.blocks(x, batch=BATCH):
            total += block.sum(0)
        seconds = min(seconds, time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    error = phi.error(x, sample=200).rms
    return {"rows": rows, "seconds": seconds, "GiB": peak, "error": error, "finite": bool(np.all(np.isfinite(total)))}


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]))))
        return
    print("| rows | seconds | microseconds a row | peak, GiB | error |\n|---|---|---|---|---|")
    found = []
    for size in SIZES:
        run = subprocess.run([sys.executable, __file__, str(size)], check=True, capture_output=True, text=True)
        found.append(json.loads(run.stdout.splitlines()[-1]))
        now = found[-1]
        each = 1e6 * now["seconds"] / size
        print(f"| {size} | {now['seconds']:.2f} | {each:.0f} | {now['GiB']:.2f} | {now['error']:.4f} |", flush=True)
    ratios = [b["seconds"] / a["seconds"] / 10 for a, b in pairwise(found)]
    if not all(0.7 < ratio < 1.3 for ratio in ratios):
        raise SystemExit(
            f"The time is not linear: ten times the rows take {[f'{10 * r:.1f}' for r in ratios]} times as long."
        )
    if found[-1]["GiB"] > 2 or not found[-1]["finite"]:
        raise SystemExit("More than 2 GiB, or not finite.")


if __name__ == "__main__":
    main()
