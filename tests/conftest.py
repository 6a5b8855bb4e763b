"""Fixtures for all tests, which check the types and shapes in signatures whenever a function is called."""

import jax
import pytest
from jaxtyping import install_import_hook

CHECKED = [
    "widelimit.layers",
    "widelimit.kernels",
    "widelimit.sketches",
    "widelimit.features.plan",
    "widelimit.features.cosine",
]
with install_import_hook(CHECKED, "beartype.beartype"):
    from catalogue import ACTIVATIONS, NETWORKS


def pytest_collection_modifyitems(items):
    """Tests of one activation or network go to one worker, where what they share is compiled once."""
    for item in items:
        name = getattr(item, "callspec", None) and item.callspec.params.get("name")
        if isinstance(name, str):
            group = name if name in NETWORKS else name.split(" ")[0]  # the references name parameters after a space
            if group in NETWORKS | ACTIVATIONS:
                item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture
def x64():
    """JAX's 64-bit mode for the length of a test."""
    with jax.enable_x64(True):
        yield
