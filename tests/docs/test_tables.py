"""The tables of README and docs are those of the catalogue."""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widelimit as wl
from catalogue import KERNEL_ONLY
from widelimit.activations import CATALOGUE
from widelimit.numerics import derivative

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
tables = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tables)


@pytest.mark.parametrize("page", tables.TABLES)
def test_tables_are_up_to_date(page):
    assert tables.updated(page) == (ROOT / page).read_text(), "Run `python docs/tables.py`."


def test_a_page_without_its_table_is_refused(tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text("no table")
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"README.md has no table of activations"):
        tables.updated("README.md")


@pytest.mark.parametrize(
    ("act", "row"),
    [
        (wl.Relu(), ("Relu()", "max(t, 0)", "1", "0", "closed")),
        (wl.Sign(), ("Sign()", "The sign of t, whose slope is 0 by convention", "0", "0, a jump", "closed")),
        (wl.RectifiedMonomial(2), ("RectifiedMonomial(degree)", "max(t, 0)^degree", "degree", "0", "closed")),
        (wl.Gaussian(), ("Gaussian(a=1, b=-1)", "a exp(b t^2), b <= 0", "", "", "closed")),
        (wl.Softsign(), ("Softsign()", r"t / (1 + \|t\|)", "", "0", "computed")),
        (wl.Elu(), ("Elu(alpha=1)", "t, or alpha (exp(t) - 1) below 0", "", "0", "one integral")),
        (CATALOGUE["gelu_tanh"], ("Gelu(approximate=True)", "t Phi(t), or with `approximate` its usual approximation by tanh",
                                  "", "", "computed")),
    ],
    ids=lambda value: "",
)  # fmt: skip
def test_what_a_row_says(act, row):
    found = tables.constructor(act), tables.function(type(act)), tables.homogeneity(act), tables.bends(act)
    assert (*found, act.evaluation) == row


def test_functions_bend_nowhere_else(x64):
    """Away from the points that `bends` lists, the first derivative changes little from one point of a grid to the next."""
    t = np.arange(-8, 8, 1e-3) + 5e-4
    for name, act in CATALOGUE.items():
        if name not in KERNEL_ONLY and name != "exp":
            slope = np.asarray(derivative(act.fn)(jnp.asarray(t)))
            values = np.asarray(act.fn(jnp.asarray(t)))
            jumps = [np.abs(np.diff(v)) > 0.01 * (1 + np.abs(v[1:])) for v in (values, slope)]
            places = (t[1:] - 5e-4)[jumps[0] | jumps[1]]
            assert set(np.round(places, 6).tolist()) <= set(act.bends()), name


def test_an_affine_map_moves_the_bends():
    assert wl.Affine(wl.HardTanh(), B=-2.0).bends() == (-0.5, 0.5)
    assert wl.Affine(wl.HardTanh(), B=0.0).bends() == ()
    assert jax.tree.leaves(wl.Affine(wl.Gelu()).bends()) == []
