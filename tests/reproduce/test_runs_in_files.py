"""Runs that are in files of results count as done: today's commands give them the names that they have there."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from widelimit.datasets import Images
from widelimit.reproduce import cifar10, load_study, myrtle, results, study
from widelimit.reproduce.options import Option

FILES = Path(__file__).parents[2] / "benchmarks" / "results"
# Of CIFAR-10: all of it, and the training images before whitening beside those that a run uses.
IMAGES = "3302bc091957b1f4e17accd83071d013a55640595133567415d74dddce6415da"
USED = {(50_000, 10_000): "ed09fac388accad7ac40096465fdeaac5b3fda8a90ae0e013e38c7633b226148"}
CHOICES = "cifar10-choices-h200"  # of other images, and of settings that have changed since
OF_BENCHMARKS = "orders-h200"  # of a script, not of an experiment
RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(256, size=(4, 8, 8, 3), dtype=np.uint8)
DATA = Images(PIXELS, np.arange(4), PIXELS[:2], np.arange(2), tuple("abcd"))


@pytest.fixture(autouse=True)
def _cifar10(monkeypatch):
    """Images whose digests are those of CIFAR-10."""
    monkeypatch.setattr(study, "_digest_of_images", lambda data: IMAGES)
    monkeypatch.setattr(cifar10, "_digest_of_images", lambda data, train, test: USED[train, test])


def on_device(monkeypatch, name):
    for module in (study, cifar10):
        monkeypatch.setattr(module, "device", lambda: name)
    monkeypatch.setattr(myrtle, "on_accelerator", lambda: name != "cpu")


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in FILES.glob("*.json") if path.stem not in (CHOICES, OF_BENCHMARKS))
)
def test_every_run_has_the_digest_of_its_settings(name, monkeypatch):
    runs = results.read_runs(FILES / f"{name}.json")
    assert runs
    for run in runs:
        on_device(monkeypatch, run["device"])
        own = load_study(run["experiment"])
        assert own.digest(run["config"], DATA if own.of_images else None) == run["digest"]


FIVE = "--penalties 3e-4 1e-3 3e-3 1e-2 3e-2"
COMMANDS = {  # that are all done
    "cifar10-h200": [
        f"cifar10 --full --seeds 0 1 2 {FIVE} --features 4096 8192 16384 32768",
        f"cifar10 --full --flips --seeds 0 1 2 {FIVE}",
        f"cifar10 --full --features 4096 --exact-last --channels 1024 --scale 1.5 --flips --seeds 0 1 2 {FIVE}",
    ],
    "cifar10-activations-h200": [f"cifar10 --full --scale 0.5 --features 512 1024 2048 4096 8192 16384 {FIVE}"],
    "abrelu-cpu": ["abrelu", "abrelu --train 10000 --pixels 16 --width 32 --epochs 20"],
    "abrelu-h200": ["abrelu --full --epochs 60"],
    "dual-kernel-cpu": ["dual-kernel --full"],
    "embedding-cpu": ["embedding"],
    "quadrature-cpu": ["quadrature"],
    "speedup-cpu": ["speedup"],
    "speedup-h200": ["speedup --full"],
    "widths-cpu": ["widths --train 10000 --test 10000"],
    "activations-cpu": ["activations --train 1000 --test 4000"],
    "tabular-cpu": ["tabular"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_of_the_docs_are_done(name, monkeypatch):
    runs = results.read_runs(FILES / f"{name}.json")
    on_device(monkeypatch, runs[0]["device"])
    done, named = {run["digest"] for run in runs}, set()
    for command in COMMANDS[name]:
        experiment, *arguments = command.split()
        own = load_study(experiment)
        options = own.parser("prog").parse_args(arguments)
        values = {key: getattr(options, key) for key in own.options if getattr(options, key) is not None}
        for config in own.with_options(values).settings(options.full):
            named.add(own.digest(config, DATA if own.of_images else None))
    assert named <= done


def test_settings_of_other_values_are_other_runs(monkeypatch):
    on_device(monkeypatch, "cpu")
    names = defaultdict(set)
    for changed in ({}, {"scale": 0.5}, {"seeds": [1]}, {"features": [64]}, {"kernel": "ntk"}, {"penalties": [0.1]}):
        (config,) = cifar10.STUDY.with_options({"train": 50_000, "test": 10_000, **changed}).settings(False)
        names[cifar10.STUDY.digest(config, DATA)].add(json.dumps(config))
    assert len(names) == 6


def test_the_commands_of_a_bare_machine_import_neither_typer_nor_zarr():
    """`benchmarks/pending.py` runs where JAX, NumPy, SciPy, scikit-learn and equinox are all that is installed."""
    code = (
        "import sys; sys.modules.update({name: None for name in ('typer', 'zarr', 'dask', 'rich', 'matplotlib', 'optax')})\n"
        "import runpy\n"
        "from widelimit.reproduce import EXPERIMENTS, load_study\n"
        "print(*(load_study(name).name for name in EXPERIMENTS))\n"
        "sys.argv[1:] = ['dual-kernel', '--out', '.']\n"
        "runpy.run_module('widelimit.reproduce', run_name='__main__')"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout.split()[0] == "cifar10"
    assert len(found.stdout.split()) == 9
    assert found.stderr.strip().endswith("Error: .: is a folder. Give the name of a file.")


def test_options_make_the_parser_and_its_checks():
    options = {
        "count": "a number", "share": Option("a share (%(default)s)", float, 0.5), "names": Option("some", str, several=True),
        "loud": Option("more lines", bool), "most": Option("a size", least=3),
    }  # fmt: skip
    own = study.Study(
        "toy", "Toy", "It is.", lambda runs: None, lambda runs: [], lambda full: [{"a": full}], dict, options=options
    )
    arguments = ["--count", "2", "--names", "a", "b", "--loud", "--out", "x.json"]
    parsed = own.parser("prog").parse_args(arguments)
    assert (parsed.count, parsed.share, parsed.names, parsed.loud, parsed.most) == (2, 0.5, ["a", "b"], True, None)
    changed = own.with_options({"count": 2, "names": ["a"]})
    assert changed.settings(True) == [{"a": True, "count": 2, "names": ["a"]}]
    for values, message in (
        ({"count": 0}, "--count is a whole number of 1 or more, not 0"),
        ({"most": 2}, "of 3 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            own.with_options(values)


def test_sizes_are_checked_before_the_first_run(tmp_path):
    """A list whose last run needs more images than there are computes none."""
    computed = []
    sizes = study.ImageStudy(
        "toy", "Toy", "It is.", lambda runs: None, lambda runs: [], lambda full: [{"train": n, "test": 1} for n in (2, 4, 9)],
        lambda config, data: computed.append(config) or {}, of_images=True,
    )  # fmt: skip
    heard = []
    with pytest.raises(ValueError, match="9 images to train are asked for, and the data has 4"):
        study.reproduce(sizes, False, tmp_path / "a.json", DATA, say=heard.append)
    assert computed == heard == []
    for name in ("abrelu", "activations", "widths", "cifar10"):
        own = load_study(name)
        with pytest.raises(ValueError, match=r"images to train are asked for, and the data has 4|held out"):
            own.check(own.settings(False)[0], DATA)
