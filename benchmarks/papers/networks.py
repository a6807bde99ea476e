"""The published Bayesian networks Cancer, Sachs and Alarm, and records drawn from them.

Cancer: Korb and Nicholson (2010), Bayesian Artificial Intelligence, section 2.2.2. Sachs: Sachs, Perez,
Pe'er, Lauffenburger, Nolan (2005), Science 308. Alarm: Beinlich, Suermondt, Chavez, Cooper (1989). The PyPI
package pgmpy ships all three in the Bayesian interchange format; it is fetched for its files alone and none
of its code is run.
"""

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np
import pandas as pd

from benchmarks.environments import UnavailableError, package_folder
from privacy_engine import DataSchema
from privacy_engine.synthesizers.bayes.bayesian_network import BayesianNetwork, Node

PACKAGE = "pgmpy==1.1.2"
FOLDER = "pgmpy/utils/example_models"

VARIABLE = re.compile(r"variable\s+(\S+)\s*\{\s*type\s+discrete\s*\[\s*(\d+)\s*\]\s*\{([^}]*)\}\s*;\s*\}")
PROBABILITY = re.compile(r"probability\s*\(\s*([^)|]+?)\s*(?:\|\s*([^)]*?)\s*)?\)\s*\{([^}]*)\}")
ROW = re.compile(r"(?:\(([^)]*)\)|table)\s*([^;]*);")
ROUNDING = 1e-3  # of published probabilities, which are written with few digits


@dataclass(frozen=True, kw_only=True)
class PublishedNetwork:
    """A network and the names of the values that its codes stand for."""

    network: BayesianNetwork
    values: Mapping[str, tuple[str, ...]]

    @property
    def schema(self) -> DataSchema:
        """All attributes categorical, with the values as their public domain."""
        return DataSchema.from_dict(
            {name: {"categories": list(values)} for name, values in self.values.items()}
        )

    def draw(self, rows: int, rng: np.random.Generator) -> pd.DataFrame:
        """Independent records."""
        codes = self.network.sample(rows, rng)
        return pd.DataFrame(
            {
                name: np.array(self.values[name], dtype=object)[row]
                for name, row in zip(self.network.names, codes, strict=True)
            }
        )


def published(name: str) -> PublishedNetwork:
    """One of the networks by its name in small letters.

    Raises:
        UnavailableError: if the package with the files can neither be found in the cache nor fetched.
    """
    file = package_folder(PACKAGE) / FOLDER / f"{name}.bif.gz"
    if not file.is_file():
        raise UnavailableError(f"{PACKAGE} holds no {file.name}: choose a version that does")
    return parse_bif(gzip.decompress(file.read_bytes()).decode("utf-8"))


def parse_bif(text: str) -> PublishedNetwork:
    """A network of discrete variables in the Bayesian interchange format.

    Raises:
        ValueError: if a variable has no distribution, a row is missing, or it does not sum to 1.
    """
    values = {name: _words(inside) for name, _, inside in VARIABLE.findall(text)}
    for name, count, _ in VARIABLE.findall(text):
        if len(values[name]) != int(count):
            raise ValueError(f"variable {name!r} must have {count} values, got {len(values[name])}")
    given = {child: (_words(parents), rows) for child, parents, rows in PROBABILITY.findall(text)}
    if set(given) != set(values):
        raise ValueError(
            f"every variable must have one distribution; {len(values)} and {len(given)} were read"
        )
    nodes = {child: _node(child, parents, rows, values) for child, (parents, rows) in given.items()}
    order = TopologicalSorter({child: node.parents for child, node in nodes.items()}).static_order()
    network = BayesianNetwork(
        names=tuple(values),
        sizes=tuple(len(of) for of in values.values()),
        nodes=tuple(nodes[name] for name in order),
    )
    return PublishedNetwork(network=network, values=values)


def _node(child: str, parents: tuple[str, ...], rows: str, values: Mapping[str, tuple[str, ...]]) -> Node:
    table = np.full([len(values[name]) for name in (*parents, child)], np.nan)
    for given, numbers in ROW.findall(rows):
        place = tuple(values[p].index(word) for p, word in zip(parents, _words(given), strict=True))
        table[place] = [float(number) for number in _words(numbers)]
    sums = table.sum(axis=-1, keepdims=True)
    if not np.allclose(sums, 1, rtol=0, atol=ROUNDING):  # NaN where a row is missing
        raise ValueError(f"each distribution of {child!r} must be given and sum to 1")
    return Node(attribute=child, parents=parents, table=table / sums)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[\s,]+", text.strip()) if word)
