"""Data to try networks on, and the files of tables.

Images from the files their authors published (`cifar10`, `cifar100`, `mnist`, `fashion_mnist`), the small sets that come
with scikit-learn (`bundled`), and tables of your own as CSV, Parquet and NumPy files (`read`, `columns_of`, `write`).
Nothing in a file is ever executed, and nothing is downloaded unless asked.
"""

from .bundled import Bundled, bundled
from .columns import Table
from .images import Images, cifar10, cifar100, fashion_mnist, mnist
from .tables import columns_of, read
from .writing import write

__all__ = [
    "Bundled", "Images", "Table", "bundled", "cifar10", "cifar100", "columns_of", "fashion_mnist", "mnist", "read", "write",
]  # fmt: skip
