"""`widelimit features` and `widelimit kernel`: arrays of a table, into .npy files."""

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .. import estimators
from ..estimators.inputs import network as make_network
from ..storage.files import atomic_file
from . import common
from .common import command, report


@command
def features(
    data: common.Data,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The .npy file to write, (rows, components).")],
    components: Annotated[int, typer.Option(help="The number of columns.")] = 4096,
    target: Annotated[str | None, typer.Option(help="A column that is no feature, and is left out.")] = None,
    save: Annotated[
        Path | None, typer.Option(help="Also write the map, to give other tables the same features.")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="A map that --save wrote, in place of a new one.")] = None,
    network: common.NetworkOptions,
    drop: common.Drop = None,
    key: common.Key = None,
    seed: common.Seed = 0,
    force: common.Force = False,
    as_json: common.Json = False,
) -> None:
    """Random features whose products approximate the kernel of an infinitely wide network.

    Columns are taken as they are: standardise them before. The file appears when it is whole.

        widelimit features table.csv --components 2048 --out features.npy
    """
    common.new_file(out, force, (".npy",))
    if save is not None:
        common.new_file(save, force, (".npz",))
    start = time.perf_counter()
    saved, names = (None, None) if model is None else _load_map(model)
    table = common.table_of(data, target, drop, key, names)
    common.check_images(network.arch, table.x, network.image_shape)
    feature_map = saved or estimators.NeuralFeatures(
        **network.for_estimator(), n_components=components, random_state=seed
    ).fit(table.x)
    feature_map.progress = common.is_terminal() and not as_json
    shape, dtype = _write_features(feature_map, table.x, out)
    feature_map.progress = False
    if save is not None:
        estimators.save(feature_map, save, about={"names": None if table.names is None else list(table.names)})
    report(
        {"rows": shape[0], "components": shape[1], "dtype": dtype.name, "seconds": time.perf_counter() - start,
         "features": out, "map": save}, as_json, "Features",
    )  # fmt: skip


def _load_map(path: Path) -> tuple[estimators.NeuralFeatures, list[str] | None]:
    """A map that --save wrote, and the names of its columns."""
    feature_map, about = estimators.load(path, with_about=True)
    if not isinstance(feature_map, estimators.NeuralFeatures):
        raise ValueError(f"{path}: holds {type(feature_map).__name__}, not a map of `widelimit features --save`.")
    return feature_map, about.get("names")


def _write_features(
    feature_map: estimators.NeuralFeatures, x: np.ndarray, out: Path
) -> tuple[tuple[int, int], np.dtype[Any]]:
    """Write the features block by block, since all of them may be larger than memory. Gives their shape and dtype."""
    shape = len(x), feature_map.n_components
    dtype = np.dtype(np.float32 if x.dtype == np.float32 else np.float64)
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with atomic_file(out) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in feature_map.transformed_blocks(x):
            file.write(np.ascontiguousarray(block, dtype).data)
    return shape, dtype


@command
def kernel(
    data: common.Data,
    other: Annotated[Path | None, typer.Argument(metavar="[OTHER]", help="A second table: K(DATA, OTHER).")] = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The .npy file to write.")] = Path("kernel.npy"),
    target: Annotated[str | None, typer.Option(help="A column that is no feature, and is left out.")] = None,
    memory: Annotated[str | None, typer.Option(help="The most memory to use beside inputs, such as 2GiB.")] = None,
    network: common.NetworkOptions,
    drop: common.Drop = None,
    key: common.Key = None,
    force: common.Force = False,
    as_json: common.Json = False,
) -> None:
    """The exact kernel matrix of a table's rows, tile by tile into an .npy file.

    Columns are taken as they are: standardise them before. The file appears when it is whole; the same command after a kill
    goes on where it was.

        widelimit kernel table.csv --activation relu --depth 2 --out kernel.npy
    """
    common.new_file(out, force, (".npy",))
    start = time.perf_counter()
    tables = [common.table_of(path, target, drop, key).x for path in (data, other) if path is not None]
    shape = common.image_shape(network.image_shape)
    common.check_images(network.arch, tables[0], network.image_shape)
    if shape is not None and any(x[0].size != np.prod(shape) for x in tables if len(x)):
        raise ValueError(
            f"--image-shape {network.image_shape} has {np.prod(shape)} numbers, and rows have {tables[0][0].size}."
        )
    if network.arch == "fc":  # of all numbers of an image
        tables = [x.reshape(len(x), -1) for x in tables]
    elif shape is not None:
        tables = [x.reshape(len(x), *shape) for x in tables]
    net = make_network(network.arch, network.activation, network.depth, network.W_std, network.b_std, None)
    first, second = tables[0], tables[1] if other is not None else None
    matrix = net.kernel(
        first, second, network.kernel, memory=memory, progress=common.is_terminal() and not as_json, out=out
    )
    report(
        {"shape": matrix.shape, "dtype": matrix.dtype.name, "seconds": time.perf_counter() - start, "kernel": out},
        as_json, "Kernel",
    )  # fmt: skip
