"""The tests marked `precise`, in a process of their own."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "marked",
    [
        "precise and not slow",
        pytest.param("precise and slow", marks=pytest.mark.slow),
        pytest.param("precise and oldest", marks=[pytest.mark.oldest, pytest.mark.slow]),  # with `-m oldest`
    ],
)
def test_last_digits_with_the_flags_of_users(marked, request):
    """XLA reads its flags once, so `pytest -m precise` is another process (tests/conftest.py)."""
    command = [sys.executable, "-m", "pytest", "-m", marked, "-n", "0", "--color=no", "tests/test_promises.py"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=request.config.rootpath, env=env, capture_output=True, text=True, timeout=3600, check=False
    )
    if done.returncode:
        pytest.fail(f"{' '.join(command[1:])}\n{done.stdout}{done.stderr}", pytrace=False)
