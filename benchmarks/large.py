"""A matrix larger than its budget: the NTK of 20,000 rows in float32, into a file, with 1 GiB of memory.

    python benchmarks/large.py [--rows N] [--memory 1GiB]

Checks random entries against the kernel of their rows alone, and prints the seconds and the peak of the memory that is
not the file's.
"""

import argparse
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import widelimit as wl
from widelimit.tiles import parse_bytes


class Peak(threading.Thread):
    """The most anonymous memory of this process, looked at every few milliseconds."""

    def __init__(self):
        super().__init__(daemon=True)
        self.bytes, self.running = 0, True

    def run(self):
        while self.running:
            status = Path("/proc/self/status").read_text()
            found = next(line for line in status.splitlines() if line.startswith("RssAnon"))
            self.bytes = max(self.bytes, 1024 * int(found.split()[1]))
            time.sleep(0.005)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--memory", default="1GiB")
    options = parser.parse_args()
    n, net = options.rows, wl.nets.fully_connected(3, "relu", 1.4, 0.1)
    x = np.random.default_rng(0).normal(size=(n, 100)).astype(np.float32)
    peak = Peak()
    peak.start()
    with TemporaryDirectory() as folder:
        out = np.lib.format.open_memmap(Path(folder) / "ntk.npy", mode="w+", dtype=np.float32, shape=(n, n))
        start = time.perf_counter()
        net.kernel(x, get="ntk", memory=options.memory, progress=True, out=out)
        seconds = time.perf_counter() - start
        peak.running = False
        i, j = np.random.default_rng(1).integers(0, n, size=(2, 20))
        error = max(
            abs(out[a, b] - net.kernel(x[a : a + 1], x[b : b + 1], get="ntk")[0, 0]) for a, b in zip(i, j, strict=True)
        )
    assert error < 1e-5, error
    print(f"{n} rows: {seconds:.1f} s, {1e9 * seconds / (n * (n + 1) / 2):.1f} ns a pair, largest error {error:.0e}")
    print(f"peak memory apart from the file: {peak.bytes / 2**30:.2f} GiB with memory={options.memory}")
    if peak.bytes > 1.5 * parse_bytes(options.memory):
        raise SystemExit("more than one and a half times the budget")


if __name__ == "__main__":
    main()
