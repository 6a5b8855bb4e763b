"""Packages that not everyone has."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs_extra(extra: str = "data") -> Iterator[None]:
    """Around the import of a package of an extra of this one: an error that says how to get it."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f'{error.name} is not installed. Get it with: pip install "widelimit[{extra}]"') from error
