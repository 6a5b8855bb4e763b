"""Put known faults into the package, one at a time, and see that a test notices each.

    python tools/faults.py                  # all of them
    python tools/faults.py --only NAME      # those with NAME in their name, file or test
    python tools/faults.py --jobs 2

Each fault once passed all fast tests. When code moves, its entry moves with it: `old` is a text that occurs once in `file`.
The fault is put into a temporary copy of the source; the working tree is not touched.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "widelimit"
PRECISE = "test_promises.py"  # left out of a run with other files, as it needs other compiler flags (tests/conftest.py)


class Fault(NamedTuple):
    """A change to the source that makes it wrong, and a test that must then fail."""

    name: str
    file: str  # below src/widelimit
    old: str
    new: str
    test: str  # below tests


FAULTS = [
    Fault(
        "a journal without its matrices is read", "execution/files.py",
        "self.journal.exists() and all(path.exists() for path in self.partial)",
        "self.journal.exists() or all(path.exists() for path in self.partial)",
        "kernels/test_resume.py::test_leftover_files_stop_no_run",
    ),
    Fault(
        "one matrix of two is enough to go on", "execution/files.py",
        "all(path.exists() for path in self.partial)", "any(path.exists() for path in self.partial)",
        "kernels/test_resume.py::test_leftover_files_stop_no_run",
    ),
    Fault(
        "an old journal stays while new matrices are made", "execution/files.py",
        "            self.journal.unlink(missing_ok=True)  # before", "            pass  # before",
        "kernels/test_resume.py::test_a_kill_after_a_file_was_lost",
    ),
    Fault(
        "the journal is rewritten in place", "execution/files.py",
        'new = self.journal.with_name(self.journal.name + ".new")', "new = self.journal",
        "kernels/test_resume.py::test_a_kill_at_any_file_call_of_a_run_that_goes_on",
    ),
    Fault(
        "matrices are not flushed", "execution/files.py", "            array.flush()", "            pass",
        "kernels/test_resume.py::test_entries_are_on_disk_before_a_file_has_its_name",
    ),
    Fault(
        "a tile on the diagonal takes equal inputs for different ones", "execution/sinks.py",
        "                if self.own_diagonal:", "                if False:",
        "kernels/test_matrix.py::test_sizes_of_blocks_change_nothing",
    ),
    Fault(
        "the results of a tile are counted once", "kernels/matrix.py",
        "2 * analysis.output_size_in_bytes", "analysis.output_size_in_bytes",
        "kernels/test_matrix.py::test_a_tile_is_counted_with_its_inputs_and_results",
    ),
    Fault(
        "the inputs of a tile are not counted", "kernels/matrix.py",
        "return inputs + analysis.temp", "return analysis.temp",
        "kernels/test_matrix.py::test_a_tile_is_counted_with_its_inputs_and_results",
    ),
    Fault(
        "an average pool's squared weights lose their divisor", "layers/spatial.py",
        "        return self.along(x, axis, which) / self._counts(x, axis, which)\n\n    def _counts",
        "        return self.along(x, axis, which)\n\n    def _counts",
        "sketches/test_sketch.py::test_exact_features_have_the_exact_kernel[dropout and a pool]",
    ),
    Fault(
        "weights of the standard parameterisation lose their scale", "layers/weights.py",
        "self.linear(W, x) / sqrt(self.s[0])", "self.linear(W, x)",
        "layers/test_layers.py::test_scales_of_the_standard_parameterisation_leave_the_outputs_alone",
    ),
    Fault(
        "SAME padding puts the pixel more in front", "layers/windows.py",
        "return total // 2, total - total // 2", "return total - total // 2, total // 2",
        "layers/test_layers.py::test_same_padding_is_that_of_lax",
    ),
    Fault(
        "variances below 0 stay", "regression/gaussian_process.py",
        "jnp.maximum(prior - jnp.sum(half**2, axis=0), 0)", "prior - jnp.sum(half**2, axis=0)",
        "regression/test_linear.py::test_variances_are_not_negative",
    ),
    Fault(
        "an eigenvalue is 0 without regard to the largest", "regression/spectrum.py",
        "np.finfo(np.float64).eps * max(values.max(initial=0), 1e-300)", "np.finfo(np.float64).eps",
        "regression/test_ridge.py::test_weights_of_repeated_features_are_the_smallest",
    ),
    Fault(
        "the slope of a given dual is extended from too far", "activations/open.py", "else 2e-2", "else 1e-1",
        "activations/test_activations.py::test_from_dual_takes_one_sided_limits",
    ),
    Fault(
        "the slope of a given dual is extended from too near", "activations/open.py", "else 2e-2", "else 1e-3",
        "activations/test_activations.py::test_from_dual_takes_one_sided_limits",
    ),
    Fault(
        "one key draws the masks of both inputs", "nt/empirical.py",
        "keys = (key, key) if x2 is None else jax.random.split(key)", "keys = (key, key)",
        "nt/test_nt.py::test_different_inputs_have_masks_of_their_own",
    ),
    Fault(
        "coefficients lose their sign", "sketches/series.py", "sign = jnp.where(r[..., last] < 0, -1, 1)", "sign = 1",
        "sketches/test_sketch.py::test_powers_keep_the_signs_of_coefficients",
    ),
    Fault(
        "the quadratic part is taken out with another factor than it has", "sketches/random_weights.py",
        "(tau**2 - point.spread[..., None]) / sqrt(2)", "(tau**2 - point.spread[..., None])",
        "sketches/test_sketch.py::test_random_weights_without_their_quadratic_part_are_unbiased",
    ),
    Fault(
        "one degree more is counted as exact", "sketches/powers.py",
        "for order in range(least, exact))", "for order in range(least, exact + 1))",
        "sketches/test_sketch.py::test_powers_use_the_columns_that_were_asked_for",
    ),
    Fault(
        "a batch of features is twice as large", "execution/policy.py",
        "return 1 << (fit.bit_length() - 1)", "return 1 << fit.bit_length()",
        "sketches/test_sketch.py::test_a_batch_fits_its_share_of_memory",
    ),
    Fault(
        "the row counter of blocks does not advance", "estimators/sketched_ridge.py",
        "            start += len(phi)", "            pass",
        "estimators/test_estimators.py::test_blocks_of_features_are_one_block",
    ),
    Fault(
        "rows in a stream are counted without their weights", "estimators/stream.py",
        "self.effective += len(y) if w is None else float(effective_rows(w).sum())", "self.effective += len(y)",
        "estimators/test_estimators.py::test_whole_weights_in_chunks_are_repeated_rows",
    ),
    Fault(
        "rows of weight below 1 are counted as less than one", "estimators/stream.py",
        "self.effective += len(y) if w is None else float(effective_rows(w).sum())",
        "self.effective += len(y) if w is None else float(w.sum())",
        "estimators/test_estimators.py::test_equal_weights_in_chunks_are_those_of_the_whole",
    ),
    Fault(
        "a saved model forgets the weights of its rows", "estimators/stream.py",
        '"effective": self.effective', '"effective": float(self.count)',
        "estimators/test_estimators.py::TestModels::test_weights_go_on_where_they_were",
    ),
    Fault(
        "deviations of predictions lose a square", "cli/learn.py", "np.sqrt(of_function**2 +", "np.sqrt(of_function +",
        "cli/test_cli.py::test_deviations",
    ),
    Fault(
        "as many rows as classes are too few to hold out by shares", "cli/learn.py",
        "* len(y) >= len(counts)", "* len(y) > len(counts)",
        "cli/test_cli.py::test_classes_are_held_out_by_their_shares",
    ),
    Fault(
        "two rows of a class are too few to hold out by shares", "cli/learn.py",
        "counts.min() >= 2", "counts.min() > 2", "cli/test_cli.py::test_classes_are_held_out_by_their_shares",
    ),
    Fault(
        "the last degree of a spectrum is another", "cli/look.py",
        'typer.Option(help="The last degree of the spectrum.")] = 8',
        'typer.Option(help="The last degree of the spectrum.")] = 9',
        "cli/test_cli.py::test_activations",
    ),
    Fault(
        "a pickle may note values anywhere", "datasets/pickles.py",
        'in ("PUT", "LONG_BINPUT")', 'in ("LONG_BINPUT",)',
        "datasets/test_cifar.py::test_a_pickle_cannot_reach_numpy_or_what_reads_it",
    ),
    Fault(
        "gzipped files hold the time", "datasets/writing.py", ', file, mtime=0)', ', file)',
        "datasets/test_writing.py::test_many_rows_are_written",
    ),
    Fault(
        "part of a row tells the delimiter", "datasets/text.py",
        "(lengths if complete else lengths[:-1]) or lengths or [0]", "lengths or [0]",
        "datasets/test_text.py::test_a_text_over_several_lines_does_not_mislead",
    ),
    Fault(
        "a GPU's program is run step by step", "kernels/gpu/paired_windows.py",
        "def fast_window_sum(x: Array, interpret: bool = False)",
        "def fast_window_sum(x: Array, interpret: bool = True)",
        "kernels/test_on_gpu.py::test_a_gpu_gets_the_program_and_other_devices_the_definition",
    ),
]  # fmt: skip


def run_tests(
    source: Path, tests: Iterable[str], options: Iterable[str] = (), seconds: float | None = None, **variables: str
) -> subprocess.CompletedProcess:
    """Run fast tests in one process, until one fails, against the package in the folder `source`."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    environment["PYTHONPATH"] = os.pathsep.join([str(source), str(ROOT / "tools")])
    command = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        [*command, *(str(ROOT / "tests" / test) for test in tests)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip


@contextmanager
def changed_source(file: str, text: str) -> Iterator[Path]:
    """A folder with a copy of the package, in which one file holds another text."""
    with TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE.parent, folder, dirs_exist_ok=True, ignore=ignored)
        (Path(folder) / PACKAGE.name / file).write_text(text)
        yield Path(folder)


def try_fault(fault: Fault) -> tuple[str, str]:
    """What became of a fault, and the output of the tests."""
    path = PACKAGE / fault.file
    text = path.read_text() if path.exists() else ""
    if text.count(fault.old) != 1:
        return "text not found once", f"{fault.file} holds {text.count(fault.old)} times: {fault.old}"
    with changed_source(fault.file, text.replace(fault.old, fault.new)) as source:
        done = run_tests(source, [fault.test])
    found = {0: "NOT NOTICED", 1: "noticed"}.get(done.returncode, "the tests did not run")
    return found, done.stdout + done.stderr


def main() -> int:
    """Try the faults; 0 where all were noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME", help="faults whose name, file or test contains this")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if any(options.only in text for text in (fault.name, fault.file, fault.test))]
    if not faults:
        parser.error(f"no fault has {options.only!r} in its name, file or test")
    sound = run_tests(PACKAGE.parent, sorted({fault.test for fault in faults}))
    if sound.returncode != 0:
        print(sound.stdout + sound.stderr, "Tests fail without any fault.", sep="\n")
        return 1
    missed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for fault, (found, output) in zip(faults, pool.map(try_fault, faults), strict=True):
            print(f"{found:20} {fault.name} ({fault.file})", flush=True)
            if found != "noticed":
                missed += 1
                print(output)
    print(f"{len(faults) - missed} of {len(faults)} faults noticed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
