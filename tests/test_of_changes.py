"""`make quick` runs the tests of what changed."""

from pathlib import Path

import pytest

from of_changes import selected


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (["src/widelimit/layers/weights.py"], ["tests/layers"]),
        (["src/widelimit/kernels/gpu/stage.py", "tests/kernels/test_matrix.py"], ["tests/kernels"]),
        (["src/widelimit/network.py"], ["tests/test_network.py"]),
        (["docs/features.md", "README.md"], ["tests/docs"]),
        (["tests/test_errors.py", "tests/test_gone.py", "Makefile"], ["tests/test_errors.py"]),
        (["tests/test_promises.py"], ["tests/test_precise.py"]),
        ([], []),
    ],
)
def test_tests_of_changes(changed, tests):
    assert selected([Path(name) for name in changed]) == [Path(name) for name in tests]
