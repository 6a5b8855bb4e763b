"""What all readers share: errors that name the file, and packages that may be missing."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Give whatever goes wrong inside a broken file one shape: a ValueError that names the file.

    Those who wrote the parsers did not foresee every broken file: zip, gzip, pickle and NumPy headers raise a dozen kinds.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            yield
    except MemoryError:  # may be no fault of the file
        raise
    except UnicodeDecodeError as error:
        seen = f"byte {error.object[error.start]:#04x}: {error.reason}"
        raise ValueError(f"{path}: is not text in UTF-8 ({seen}). Save it in that encoding.") from error
    except Exception as error:
        seen = str(error) or type(error).__name__
        raise ValueError(
            f"{path}: cannot be read as {what} ({seen}). It may be cut off, or of another kind."
        ) from error


@contextmanager
def needed(extra: str = "data") -> Iterator[None]:
    """Around the import of a package that not everyone has, of an extra of this one."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f'{error.name} is not installed. Get it with: pip install "widelimit[{extra}]"') from error
