"""Fixtures for all tests."""

import jax
import pytest

from catalogue import ACTIVATIONS


def pytest_collection_modifyitems(items):
    """Tests of one activation go to one worker, where what they share is compiled once."""
    for item in items:
        name = getattr(item, "callspec", None) and item.callspec.params.get("name")
        kind = name.split(" ")[0] if isinstance(name, str) else None
        if kind in ACTIVATIONS:
            item.add_marker(pytest.mark.xdist_group(kind))


@pytest.fixture
def x64():
    """JAX's 64-bit mode for the length of a test."""
    with jax.enable_x64(True):
        yield
