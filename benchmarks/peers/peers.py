"""Other people's software on the same table: measured here where it is on PyPI, else quoted."""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.tables import SENSITIVE, Table
from privacy_engine import DataSchema, EncodedTable, Hierarchy, Recoding
from privacy_engine.tables.attribute import Attribute

Peer = Callable[[Table, int], npt.NDArray[np.int64]]
PART = "part"  # travels through the encoding, which sorts the records


@dataclass(frozen=True)
class Quoted:
    """GCP (LCA) that another author's run reached on the same table at k = 5, 10, 50."""

    name: str
    gcp: tuple[float, float, float]


# Measured elsewhere on the same 30,162 records, quasi-identifiers and hierarchies.
QUOTED = (
    Quoted("ARX, local recoding", (0.0349, 0.0507, 0.1024)),
    Quoted("mosaicrown Mondrian", (0.0534, 0.0861, 0.2096)),
    Quoted("naive pairwise agglomeration", (0.0230, 0.0397, 0.1045)),
    Quoted("naive agglomeration and three sweeps", (0.0208, 0.0357, 0.0934)),
)
QUOTED_KS = (5, 10, 50)


def anonypy_mondrian(table: Table, k: int) -> npt.NDArray[np.int64]:
    """The class of each record; the rows that anonypy would release are made and dropped, as its users do."""
    from anonypy.anonypy import Preserver, anonymize

    frame = table.frame.astype(
        {name: "category" for name in table.frame.columns if name not in _numbers(table)}
    )
    preserver = Preserver(frame, table.quasi_identifiers, SENSITIVE)
    parts = preserver.modrian.partition(k)
    anonymize(frame, parts, table.quasi_identifiers, SENSITIVE)
    labels = np.full(len(frame), -1, dtype=np.int64)
    for number, part in enumerate(parts):
        labels[np.asarray(part)] = number
    return labels


def anjana_global(table: Table, k: int, suppression: float = 5.0) -> npt.NDArray[np.int64]:
    """The class of each record under anjana's global recoding, -1 = suppressed (at most 5 %)."""
    from anjana.anonymity import k_anonymity

    with _strings_are_objects(), contextlib.redirect_stdout(io.StringIO()):  # it prints its progress
        frame = table.frame.astype(str).astype(object)
        levels = {a.name: _levels(a) for a in table.schema.quasi_identifiers}
        out = k_anonymity(frame, [], table.quasi_identifiers, k, suppression, levels)
    labels = np.full(len(frame), -1, dtype=np.int64)
    rows = out["index"].to_numpy() if "index" in out else out.index.to_numpy()
    labels[rows] = out.groupby(table.quasi_identifiers, observed=True).ngroup().to_numpy()
    return labels


def recoding_of(table: Table, labels: npt.NDArray[np.int64]) -> Recoding:
    """A peer's classes, charged as ours are: each by its tightest intervals and common ancestors."""
    known = (*table.schema.attributes, Attribute(name=PART))
    marked = EncodedTable.encode(table.frame.assign(**{PART: labels}), DataSchema(known))
    return Recoding.of_labels(marked, marked.table[PART].to_numpy(dtype=np.int64))


def pycanon_k(released: pd.DataFrame, quasi_identifiers: list[str]) -> int:
    """Size of the smallest class."""
    from pycanon.anonymity import k_anonymity

    return int(k_anonymity(released, quasi_identifiers))


def pycanon_l(released: pd.DataFrame, quasi_identifiers: list[str]) -> int:
    """Fewest distinct sensitive values in a class."""
    from pycanon.anonymity import l_diversity

    return int(l_diversity(released, quasi_identifiers, [SENSITIVE]))


def pycanon_t(released: pd.DataFrame, quasi_identifiers: list[str]) -> float:
    """Largest earth mover's distance (equal ground distance) of a class to the table."""
    from pycanon.anonymity import t_closeness

    return float(t_closeness(released, quasi_identifiers, [SENSITIVE]))


@contextlib.contextmanager
def _strings_are_objects() -> Iterator[None]:
    """Columns of text as before pandas 3; anjana refuses the others. The option warns that it will go."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pd.option_context("future.infer_string", False):
            yield


def _numbers(table: Table) -> list[str]:
    return [a.name for a in table.schema.quasi_identifiers if a.ordered]


def _levels(attribute: Attribute) -> dict[int, npt.NDArray[np.object_]]:
    """Generalization levels as anjana wants them; numbers by doubling intervals."""
    tree = attribute.hierarchy
    if tree is None:
        low, high = (int(bound) for bound in attribute.bounds or (0, 120))
        widths = [w for w in (2, 4, 8, 16, 32, 64) if w < high - low + 1]
        tree = Hierarchy.intervals(low, high, widths)
    return {
        level: np.array(column, dtype=object) for level, column in enumerate(zip(*tree.rows, strict=True))
    }
