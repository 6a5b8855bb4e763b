"""How the tests run: compiler flags, kept programs, checked types and shapes, and what goes to one worker."""

import os

import jax
import pytest
from jaxtyping import install_import_hook

# Nearly all of the time is compilation. Without LLVM's optimisations and XLA's emitters of fusions it takes half, and
# results change in their last digits only. Tests marked `precise` look at those, and are compiled as users' programs are.
FAST = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"

# Whenever a function of these is called in a test, its arguments are compared with the types and shapes of its signature.
install_import_hook(
    [
        "widelimit.layers",
        "widelimit.kernels",
        "widelimit.sketches",
        "widelimit.features.plan",
        "widelimit.features.cosine",
    ],
    "beartype.beartype",
)


def pytest_configure(config):
    """Set XLA's flags before it starts, and keep what it compiles where the other workers and later runs find it."""
    flags = os.environ.get("XLA_FLAGS", "").replace(FAST, "").strip()
    os.environ["XLA_FLAGS"] = flags if _is_precise(config) else f"{flags} {FAST}".strip()
    jax.config.update("jax_compilation_cache_dir", str(config.rootpath / ".pytest_cache" / "programs"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_xdist_auto_num_workers(config):
    """Two processes, or this one alone for tests that are named: starting workers would take longer than they do."""
    return 0 if any("::" in arg for arg in config.args) else 2


def pytest_collection_modifyitems(config, items):
    """Leave out what needs other flags, and give the tests of one activation or network to one worker."""
    precise = [item for item in items if item.get_closest_marker("precise")]
    if precise and not _is_precise(config):
        config.hook.pytest_deselected(items=precise)
        items[:] = [item for item in items if not item.get_closest_marker("precise")]
    items.sort(key=lambda item: item.path.name != "test_precise.py")  # the longest test first
    from catalogue import ACTIVATIONS, NETWORKS  # makes arrays, which starts XLA

    for item in items:
        name = getattr(item, "callspec", None) and item.callspec.params.get("name")
        if isinstance(name, str):
            group = name if name in NETWORKS else name.split(" ")[0]  # the references name parameters after a space
            if group in NETWORKS | ACTIVATIONS:
                item.add_marker(pytest.mark.xdist_group(group))


def _is_precise(config):
    """Whether this run is of the tests of last digits: by `-m precise`, or as the only file named."""
    files = {arg.split("::")[0].rsplit("/", 1)[-1] for arg in config.args}
    return "not precise" not in config.option.markexpr and (
        "precise" in config.option.markexpr or files == {"test_promises.py"}
    )


@pytest.fixture
def x64():
    """JAX's 64-bit mode for the length of a test."""
    with jax.enable_x64(True):
        yield
