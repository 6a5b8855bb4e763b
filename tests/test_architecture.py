"""The shape of the code: who imports whom."""

import ast
from pathlib import Path

import widelimit as wl

SOURCE = Path(wl.__file__).parent
# Each module imports only from those before it.
ORDER = [
    "described", "numerics", "precision", "hermite", "quadrature", "activations", "state", "sketch",
    "layers", "exact", "progress", "resumed", "tiles", "cosine", "drawing", "sketched", "finite", "network", "nets", "ridge",
    "kernel_ridge", "device_ridge", "linear", "nt", "stax", "estimators", "data", "plots", "experiments", "demo", "cli",
]  # fmt: skip
HEAVY = {
    "sklearn": {"data", "demo", "estimators", "cli", "experiments.tabular"},
    "matplotlib": {"demo", "plots"},
    "rich": {"demo", "progress", "cli"},
    "typer": {"cli"},
    "optax": {"experiments.abrelu"},
    "dask": set(),
    "pooch": {"data"},
    "pyarrow": {"data"},
    "pandas": set(),
}


def _imports(path: Path):
    package = path.relative_to(SOURCE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
                names = [part for part in base if part] or [alias.name for alias in node.names]
                yield "widelimit", names[0]
            else:
                top, _, rest = node.module.partition(".")
                yield top, rest.split(".")[0] if top == "widelimit" and rest else node.module
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")[0], alias.name


def _modules():
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if module not in ("__init__", "__main__"):
            yield module, path


def test_imports_point_backwards():
    assert {module for module, _ in _modules()} == set(ORDER)
    for module, path in _modules():
        for package, name in _imports(path):
            if package == "widelimit" and name not in (module, "widelimit", "__version__"):
                assert ORDER.index(name) < ORDER.index(module), f"{path.name} imports {name}"


def test_heavy_packages_and_private_jax_stay_out():
    for module, path in _modules():
        place = f"{module}.{path.stem}" if module == "experiments" else module
        for package, name in _imports(path):
            assert place in HEAVY.get(package, {place}), f"{path.name} imports {package}"
            assert not name.startswith(("jax._src", "jax.core", "jax.interpreters")), f"{path.name} imports {name}"
        assert "jax.core." not in path.read_text()
