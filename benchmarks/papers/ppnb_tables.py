"""What PPNB is measured on: the simulated bank-card customers and Adult, as they are and as booleans."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from benchmarks.papers.bank_customers import CLASS, bank_customers, bank_schema
from privacy_engine import DataSchema
from privacy_engine.randomizers.channel import Channel
from privacy_engine.randomizers.randomization import Randomization

INCOME = "salary-class"
BOUNDS: Mapping[str, tuple[int, int]] = {
    "age": (17, 90),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_500),
    "hours-per-week": (1, 99),
}
LISTED_ADULT = (
    "workclass",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)
TRUTHS = ("False", "True")
BINS = tuple(f"bin {i}" for i in range(8))


@dataclass(frozen=True, kw_only=True)
class Data:
    """Records to learn from and to be tested on.

    Attributes:
        name: of the table.
        train, test: records with their class.
        schema: in which the class is released as it is.
        label: the class.
    """

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    schema: DataSchema
    label: str

    def asked(self) -> tuple[pd.DataFrame, pd.Series]:
        """The test records and their classes."""
        return self.test.drop(columns=self.label), self.test[self.label]

    def plain(self) -> dict[str, object]:
        """The manifest of a release that randomized nothing."""
        listed = [a for a in self.schema.attributes if a.categories and a.name != self.label]
        channels = {
            a.name: Channel.of_matrix(a.categories or (), np.eye(len(a.categories or ()))) for a in listed
        }
        return {"randomization": Randomization(mechanisms=channels).to_dict()}


def bank(rng: np.random.Generator, train: int, test: int) -> Data:
    """Freshly simulated customers."""
    return Data(
        name="bank-card customers",
        train=bank_customers(train, rng),
        test=bank_customers(test, rng),
        schema=bank_schema(),
        label=CLASS,
    )


def adult(frame: pd.DataFrame, rng: np.random.Generator, train: int, test: int) -> Data:
    """Adult's complete records, split at random at the ratio of the numbers where there are fewer."""
    table = frame.dropna().loc[:, [*BOUNDS, *LISTED_ADULT, INCOME]].reset_index(drop=True)
    fields: dict[str, dict[str, object]] = {
        name: {"role": "quasi_identifier", "kind": "numeric", "bounds": list(bounds)}
        for name, bounds in BOUNDS.items()
    }
    for name in (*LISTED_ADULT, INCOME):
        role = "insensitive" if name == INCOME else "quasi_identifier"
        fields[name] = {"role": role, "categories": sorted(table[name].unique())}
    share = min(1.0, len(table) / (train + test))
    rows = rng.permutation(len(table))[: int((train + test) * share)]
    first = int(train * share)
    return Data(
        name="Adult",
        train=table.take(rows[:first]).reset_index(drop=True),
        test=table.take(rows[first:]).reset_index(drop=True),
        schema=DataSchema.from_dict(fields),
        label=INCOME,
    )


def booleans(data: Data) -> Data:
    """Each attribute cut into two: above the median, or a category where the last class is frequent.

    The cuts are read from the training records: they are the experiment's setup and no part of a release.
    """
    last = (data.train[data.label] == sorted(data.train[data.label].unique())[-1]).to_numpy()
    cuts: dict[str, Callable[[pd.Series], pd.Series]] = {}
    for attribute in data.schema.attributes:
        column = data.train[attribute.name]
        if attribute.name == data.label:
            continue
        if attribute.bounds is not None:
            cuts[attribute.name] = partial(_above, float(column.median()))
        else:
            rates = pd.Series(last).groupby(column.to_numpy()).mean()
            cuts[attribute.name] = partial(_among, list(rates.index[rates > last.mean()]))
    fields: dict[str, dict[str, object]] = {
        name: {"role": "quasi_identifier", "categories": list(TRUTHS)} for name in cuts
    }
    fields[data.label] = data.schema[data.label].to_dict()
    return Data(
        name=f"{data.name}, booleans",
        train=_mapped(data.train, cuts, data.label),
        test=_mapped(data.test, cuts, data.label),
        schema=DataSchema.from_dict(fields),
        label=data.label,
    )


def binned(data: Data) -> Data:
    """Each number as one of eight equal-width public bins: what frequency oracles can take."""
    cuts: dict[str, Callable[[pd.Series], pd.Series]] = {}
    fields: dict[str, dict[str, object]] = {}
    for attribute in data.schema.attributes:
        if attribute.bounds is None:
            cuts[attribute.name] = pd.Series.copy
            fields[attribute.name] = attribute.to_dict()
        else:
            cuts[attribute.name] = partial(_in_bins, *attribute.bounds)
            fields[attribute.name] = {"role": "quasi_identifier", "categories": list(BINS)}
    return Data(
        name=f"{data.name}, in bins",
        train=_mapped(data.train, cuts, None),
        test=_mapped(data.test, cuts, None),
        schema=DataSchema.from_dict(fields),
        label=data.label,
    )


def _above(cut: float, values: pd.Series) -> pd.Series:
    return values > cut


def _among(often: list[str], values: pd.Series) -> pd.Series:
    return values.isin(often)


def _in_bins(low: float, high: float, values: pd.Series) -> pd.Series:
    edges = np.linspace(low, high, len(BINS) + 1)[1:-1]
    return pd.Series(np.array(BINS)[np.searchsorted(edges, values, side="right")])


def _mapped(
    table: pd.DataFrame, cuts: Mapping[str, Callable[[pd.Series], pd.Series]], label: str | None
) -> pd.DataFrame:
    columns = {name: cut(table[name]).reset_index(drop=True) for name, cut in cuts.items()}
    return pd.DataFrame(columns | ({label: table[label].reset_index(drop=True)} if label else {}))
