"""Fixtures for all tests."""

import jax
import pytest


@pytest.fixture
def x64():
    """JAX's 64-bit mode for the length of a test."""
    with jax.enable_x64(True):
        yield
