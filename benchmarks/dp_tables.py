"""Tables with public domains that the synthesizers are measured on, and 80/20 splits of them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.environments import UnavailableError
from deploy.local.samples.adult import sample_table
from privacy_engine import DataSchema
from privacy_engine.measures.synthetic_utility import coded
from privacy_engine.tables.domains import CodedTable
from privacy_release.spec.files import load_schema

TRAIN = 0.8
BINS = 16  # public, equal width, of a number with more values
ADULT_BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}

BANK_BOUNDS = {
    "age": (18, 100),
    "balance": (-10_000, 110_000),
    "day": (1, 31),
    "duration": (0, 5_000),
    "campaign": (1, 64),
    "pdays": (-1, 900),
    "previous": (0, 300),
}
PLAYERS_BOUNDS = {
    "birthDate": (1820, 2005),
    "deathDate": (1870, 2025),
    "weight": (60, 330),
    "height": (40, 90),
}


@dataclass(frozen=True, kw_only=True)
class Data:
    """Records with a schema whose domains are all public, and what a classifier is to predict.

    Attributes:
        targets: attribute -> its name in the papers.
    """

    name: str
    frame: pd.DataFrame
    schema: DataSchema
    targets: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Four fifths to synthesize from, and one to test what is learned; both also in codes."""

    frame: pd.DataFrame
    train: CodedTable
    test: CodedTable


def split(data: Data, seed: int) -> Split:
    """At random by a seed, so that all methods of a run see the same records."""
    order = np.random.default_rng(seed).permutation(len(data.frame))
    cut = round(TRAIN * len(order))
    parts = [data.frame.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:])]
    train, test = (coded(part, data.schema) for part in parts)
    return Split(frame=parts[0], train=train, test=test)


def nltcs() -> Data:
    """16 binary attributes. Names by prevalence: the columns of the extract have none."""
    return _binary("NLTCS", "nltcs.parquet", {"nltcs_15": "outside", "nltcs_10": "bathing"})


def acs() -> Data:
    """23 binary attributes. Names by prevalence: mortgages are of owners only, pupils do not work."""
    return _binary("ACS", "acs.parquet", {"acs_04": "mortgage", "acs_18": "school"})


def adult(drop: Sequence[str] = ("education",)) -> Data:
    """Complete records of Adult; 14 columns: education follows from education-num."""
    frame, _ = sample_table()
    frame = frame.dropna().drop(columns=list(drop)).reset_index(drop=True)
    fields: dict[str, dict[str, object]] = {
        name: {"kind": "numeric", "bounds": list(ADULT_BOUNDS[name]), "bins": BINS}
        if name in ADULT_BOUNDS
        else {"hierarchy": f"hierarchies/adult/{name}.csv"}
        for name in frame.columns
    }
    return Data(
        name=f"Adult, {len(frame.columns)} columns",
        frame=frame,
        schema=load_schema(fields),
        targets={"salary-class": "income"},
    )


def bank_marketing() -> Data:
    """UCI's Bank Marketing, 17 columns; numbers in bins of equal width."""
    frame = pd.read_parquet(_provided("bank_marketing.parquet"))
    return Data(name="Bank Marketing", frame=frame, schema=_binned(frame, BANK_BOUNDS), targets={})


def baseball_players() -> Data:
    """Players of the Lahman data base, 7 columns with nulls; of the dates, only years."""
    frame = pd.read_parquet(_provided("baseball_players.parquet")).drop(columns="id")
    years = {name: frame[name].str[:4].astype(np.float64) for name in ("birthDate", "deathDate")}
    frame = frame.assign(**years)
    return Data(name="Baseball players", frame=frame, schema=_binned(frame, PLAYERS_BOUNDS), targets={})


def _binned(frame: pd.DataFrame, bounds: Mapping[str, tuple[float, float]]) -> DataSchema:
    """Numbers in 16 equal bins between public bounds; of all other columns, the values are public."""
    fields: dict[str, dict[str, object]] = {}
    for name in frame.columns:
        column = frame[name]
        domain: dict[str, object] = {"categories": sorted(column.dropna().unique())}
        if name in bounds:
            domain = {"kind": "numeric", "bounds": list(bounds[name]), "bins": BINS, "scale": "linear"}
        fields[name] = domain | ({"nullable": True} if column.isna().any() else {})
    return DataSchema.from_dict(fields)


def _binary(name: str, file: str, targets: dict[str, str]) -> Data:
    frame = pd.read_parquet(_provided(file))
    schema = DataSchema.from_dict({column: {"categories": ["0", "1"]} for column in frame.columns})
    return Data(name=name, frame=frame, schema=schema, targets=targets)


def _provided(file: str) -> Path:
    """A file of the folder of reference data.

    Raises:
        UnavailableError: If it is not there.
    """
    path = Path(os.environ.get("PRIVACY_DATA", "")) / file
    if not path.is_file():
        raise UnavailableError(f"{file} must lie in the folder that PRIVACY_DATA names")
    return path
