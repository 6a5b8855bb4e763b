"""Which kind of device JAX computes on. Nothing else asks JAX for its backend."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax

_replacement: str | None = None


def backend() -> str:
    """The kind of JAX's default device: "cpu", "gpu" or "tpu"."""
    return jax.default_backend() if _replacement is None else _replacement


def on_accelerator() -> bool:
    """Whether programs run on something else than a CPU."""
    return backend() != "cpu"


@contextmanager
def use_backend(kind: str) -> Iterator[None]:
    """Decide as on a device of another kind, for tests. Programs still run where JAX runs them.

    Compiled programs are forgotten on the way in and out: they were chosen while they were traced.
    """
    global _replacement
    before, _replacement = _replacement, kind
    jax.clear_caches()
    try:
        yield
    finally:
        _replacement = before
        jax.clear_caches()
