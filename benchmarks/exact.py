"""Exact kernels against neural-tangents, on the same inputs and cores: time, peak memory and agreement.

    python benchmarks/exact.py [CASE ...]

Makes an environment with neural-tangents 0.6.5 and jax 0.5.3, the last release it runs on, in `.venv-nt` in this
project. Every measurement is a fresh process: seconds are medians without the first, compiling run; memory is the peak of
the process, library and output included.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
PEER = ROOT / ".venv-nt"
PINNED = ["neural-tangents==0.6.5", "jax==0.5.3", "jaxlib==0.5.3", "numpy<2.3"]


def conv(stax, width=1):
    return stax.Conv(width, (3, 3), padding="SAME", W_std=1.4)


def fully_connected(stax, act):
    dense = stax.Dense(1, 1.4, 0.1)
    return stax.serial(dense, act, dense, act, dense, act, dense)


def flattened(stax, act):
    return stax.serial(conv(stax), act, conv(stax), act, conv(stax), act, stax.Flatten(), stax.Dense(1))


def myrtle(stax, act):
    pool = stax.AvgPool((2, 2), strides=(2, 2))
    first = [conv(stax), act, conv(stax), act, pool, conv(stax), act, pool, conv(stax), act]
    return stax.serial(*first, stax.GlobalAvgPool(), stax.Dense(1))


def residual(stax, act):
    block = stax.serial(
        stax.FanOut(2),
        stax.parallel(stax.serial(act, conv(stax), act, conv(stax)), stax.Identity()),
        stax.FanInSum(),
    )
    return stax.serial(conv(stax), stax.repeat(block, 4), act, stax.GlobalAvgPool(), stax.Dense(1))


def tanh(stax, act):
    dense = stax.Dense(1)
    return stax.serial(dense, act, dense, act, dense)


def _numerical(stax):
    import jax.numpy as jnp

    return stax.ElementwiseNumerical(jnp.tanh, deg=25)


def rows(n):
    return np.random.default_rng(0).normal(size=(n, 100)).astype(np.float32)


def images(n):
    return np.random.default_rng(0).normal(size=(n, 32, 32, 3)).astype(np.float32)


class Case(NamedTuple):
    """What is computed, what is asked of the ratio of times and of memory, and the least work that it takes."""

    build: Callable
    activation: Callable
    inputs: Callable
    count: int
    faster: float  # at least so many times
    smaller: float  # the peak of memory at most this share
    entries: float  # activations of covariances for each pair of inputs
    flops: float  # for each of these, both kernels, counted in the source

    def floor(self, bandwidth: float, peak: float) -> float:
        """Seconds for the flops at the peak of a matrix product, or for writing the results, whichever is more."""
        pairs = self.count * (self.count + 1) / 2
        return max(pairs * self.entries * self.flops / peak, 2 * 4 * self.count**2 / bandwidth)


def named(name):
    return lambda stax: getattr(stax, name)()


PIXELS = 32**2
MYRTLE = 2 * PIXELS**2 + (PIXELS // 4) ** 2 + (PIXELS // 16) ** 2
CASES = {
    # 200 of the flops of a fully connected pair are its inputs' product, which the three layers share here
    "fully connected, ReLU": Case(fully_connected, named("Relu"), rows, 4000, 2, 1, 3, 130),
    "fully connected, GELU": Case(fully_connected, named("Gelu"), rows, 4000, 2, 1, 3, 150),
    "fully connected, erf": Case(fully_connected, named("Erf"), rows, 4000, 2, 1, 3, 130),
    "3 convolutions, Flatten": Case(flattened, named("Relu"), images, 200, 1.5, 1, 3 * PIXELS, 75),
    "Myrtle-5, ReLU": Case(myrtle, named("Relu"), images, 8, 20, 0.25, MYRTLE, 75),
    "Myrtle-5, ExpNormalized": Case(myrtle, named("ExpNormalized"), images, 8, 20, 0.25, MYRTLE, 45),
    "tanh": Case(tanh, _numerical, rows, 300, 20, np.inf, 2, 2 * 2 * 64),
    "residual, 4 blocks": Case(residual, named("Relu"), images, 4, 5, 1, 9 * PIXELS**2, 75),
}


def machine() -> tuple[float, float]:
    """Bytes written a second and flops a second in float32, by a copy and a matrix product of NumPy."""

    def best(fn):
        times = []
        for _ in range(5):
            start = time.perf_counter()
            fn()
            times.append(time.perf_counter() - start)
        return min(times)

    large, copy = np.ones(2**26, np.float32), np.empty(2**26, np.float32)
    square = np.ones((2048, 2048), np.float32)
    return large.nbytes / best(lambda: np.copyto(copy, large)), 2 * 2048**3 / best(lambda: square @ square)


def measure(library: str, case: str, out: str) -> None:
    """Run one case with one library in this process, and print what it took."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    if library == "widelimit":
        from widelimit import stax
    else:
        from neural_tangents import stax
    chosen = CASES[case]
    x = chosen.inputs(chosen.count)
    kernel_fn = chosen.build(stax, chosen.activation(stax))[2]
    run = kernel_fn
    if library != "widelimit":
        run = jax.jit(kernel_fn, static_argnums=2)

    def once():
        start = time.perf_counter()
        result = jax.block_until_ready(tuple(run(x, None, ("nngp", "ntk"))))
        return time.perf_counter() - start, result

    first, result = once()
    second, _ = once()
    times = [second, *(once()[0] for _ in range(max(2, min(10, int(10 / second)))))]
    np.savez(out, *[np.asarray(k) for k in result])
    status = Path(
        "/proc/self/status"
    ).read_text()  # unlike getrusage's peak, not that of the process which started this
    peak = int(status.split("VmHWM:")[1].split()[0])
    print(json.dumps({"first": first, "seconds": statistics.median(times), "bytes": 1024 * peak}))


def peer_python() -> Path:
    """The interpreter of the peer's environment, made where it is missing."""
    python = PEER / "bin" / "python"
    if not (PEER / "ready").exists():
        print("making an environment with", *PINNED)
        subprocess.run([sys.executable, "-m", "venv", "--clear", PEER], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PINNED], check=True)
        (PEER / "ready").touch()
    return python


def run(python, library: str, case: str, out: Path) -> dict:
    command = [python, __file__, "--measure", library, case, str(out)]
    environment = os.environ | ({"PYTHONPATH": str(ROOT / "src")} if library == "widelimit" else {"PYTHONPATH": ""})
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{library} failed on {case}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"among {', '.join(CASES)}")
    names = parser.parse_args().cases or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        raise SystemExit(f"There is no case {unknown[0]!r}. Known are {', '.join(CASES)}.")
    python = peer_python()
    missed = []
    bandwidth, peak = machine()
    print(f"{os.cpu_count()} cores, {bandwidth / 1e9:.1f} GB/s copied, {peak / 1e9:.0f} Gflop/s in a matrix product")
    print("| case | ours, s | neural-tangents, s | ratio | floor, s | ours, MiB | neural-tangents, MiB | difference |")
    print("|---|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder:
        for name in names:
            files = [Path(folder) / f"{library}.npz" for library in ("ours", "theirs")]
            ours, theirs = (
                run(sys.executable, "widelimit", name, files[0]),
                run(python, "neural_tangents", name, files[1]),
            )
            with np.load(files[0]) as a, np.load(files[1]) as b:
                difference = max(float(np.max(np.abs(a[k] - b[k])) / np.max(np.abs(b[k]))) for k in a.files)
            ratio = theirs["seconds"] / ours["seconds"]
            case, memory = CASES[name], [kind["bytes"] / 2**20 for kind in (ours, theirs)]
            row = [ours["seconds"], theirs["seconds"], ratio, case.floor(bandwidth, peak), *memory]
            print(f"| {name} | " + " | ".join(f"{v:.3g}" for v in row) + f" | {difference:.0e} |", flush=True)
            if difference > (1e-2 if name == "tanh" else 1e-3):
                missed.append(f"{name}: differs by {difference}")
            if ratio < case.faster:
                missed.append(f"{name}: {ratio:.1f} times as fast, not {case.faster}")
            if memory[0] > case.smaller * memory[1]:
                missed.append(f"{name}: {memory[0] / memory[1]:.2f} of the memory, not {case.smaller}")
    if missed:
        raise SystemExit("; ".join(missed))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:])
    else:
        main()
