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
from widelimit.execution.policy import parse_bytes


def anonymous_bytes() -> int:
    """The memory of this process that is not a file's."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("RssAnon:")[1].split()[0])


class Peak(threading.Thread):
    """The most anonymous memory of this process, looked at every few milliseconds."""

    def __init__(self):
        super().__init__(daemon=True)
        self.bytes, self.running = 0, True

    def run(self):
        while self.running:
            self.bytes = max(self.bytes, anonymous_bytes())
            time.sleep(0.005)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--memory", default="1GiB")
    options = parser.parse_args()
    n, net = options.rows, wl.nets.fully_connected(3, "relu", 1.4, 0.1)
    x = np.random.default_rng(0).normal(size=(n, 100)).astype(np.float32)
    net.kernel(x[:600], get="ntk", memory=options.memory)  # what Python, JAX and a program take at all
    start_bytes = anonymous_bytes()
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
    if error > 1e-5:
        raise SystemExit(f"an entry is wrong by {error}")
    print(f"{n} rows: {seconds:.1f} s, {1e9 * seconds / (n * (n + 1) / 2):.1f} ns a pair, largest error {error:.0e}")
    taken = peak.bytes - start_bytes
    print(f"peak memory apart from the file: {peak.bytes / 2**30:.2f} GiB with memory={options.memory}")
    print(f"of this {taken / 2**30:.2f} GiB are the kernel's, the rest Python's, JAX's and the inputs'")
    if taken > parse_bytes(options.memory):
        raise SystemExit("more than the budget")


if __name__ == "__main__":
    main()
