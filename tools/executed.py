"""A pytest plugin: which functions of the package each test executes, written as JSON to the file named by EXECUTED.

{"file.py::function": {"test": seconds}}; a function that runs while tests are collected belongs to the test "".
"""

import json
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = os.path.join("src", "widelimit", "")
_codes: set = set()
_found: dict[str, dict[str, float]] = defaultdict(dict)


def _profile(frame, event, _):
    if event == "call":
        _codes.add(frame.f_code)


def _start():
    _codes.clear()
    threading.setprofile(_profile)
    sys.setprofile(_profile)


def _stop(test: str, seconds: float):
    sys.setprofile(None)
    threading.setprofile(None)
    for code in list(_codes):
        if PACKAGE in code.co_filename:
            file = code.co_filename.partition(PACKAGE)[2]
            function = code.co_qualname.partition(".<locals>.<")[0]  # a lambda is part of what it stands in
            _found[f"{file}::{function}"][test] = seconds


def pytest_configure():
    """Note what runs while tests are collected."""
    _start()


def pytest_collection_finish():
    """Keep it, as of no test."""
    _stop("", 0.0)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Note what runs in a test and its fixtures."""
    started = time.perf_counter()
    _start()
    yield
    _stop(item.nodeid.removeprefix("tests/"), round(time.perf_counter() - started, 2))


def pytest_sessionfinish():
    """Write it all."""
    Path(os.environ["EXECUTED"]).write_text(json.dumps(_found))
