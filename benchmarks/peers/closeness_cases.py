"""Tables and models under which the loss of searches under quotas is compared with that of earlier ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.tables import FIELDS, SENSITIVE, Table
from deploy.local.samples.adult import provided
from privacy_release.spec.files import load_schema

CENSUS_NAMES = (
    "PUMA", "SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "HOUSING_TYPE", "OWN_RENT", "EDU", "DVET", "DREM",
    "DPHY", "DEYE", "DEAR",
)  # fmt: skip
INCOME = "PINCP_DECILE"
Models = Sequence[Mapping[str, object]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A table, and what is asked of each class besides k."""

    table: Table
    title: str
    asked: str
    models: Models


def cases(adult: Table) -> Iterator[Case]:
    """Adult, Breast Cancer and the excerpt of a census, as far as PRIVACY_DATA has them."""
    yield from _of(adult, "Adult, 8 quasi-identifiers", _usual(SENSITIVE, t=0.2, beta=2))
    tree = _with(adult, {SENSITIVE: {"role": "sensitive", "hierarchy": "hierarchies/adult/occupation.csv"}})
    distant = {"model": "t_closeness", "distance": "hierarchical", "attribute": SENSITIVE, "t": 0.15}
    yield from _of(tree, "Adult, 8 quasi-identifiers", {"hierarchical t = .15": (distant,)})
    both = _with(adult, {"salary-class": {"role": "sensitive"}})
    two = tuple({"model": "t_closeness", "attribute": a, "t": 0.3} for a in (SENSITIVE, "salary-class"))
    yield from _of(both, "Adult, 7 quasi-identifiers, 2 sensitive", {"t = .3 of both": two})
    cancer = provided("breast_cancer_wisconsin.parquet")
    if cancer is not None:
        yield from _of(
            _breast_cancer(cancer),
            "Breast Cancer, 9 quasi-identifiers",
            _usual("class", l=2, t=0.2, beta=0.5),
        )
    census = provided("nist_national2019.parquet")
    if census is not None:
        ordered = {"model": "t_closeness", "distance": "ordered", "attribute": INCOME, "t": 0.1}
        asked = {**_usual(INCOME, t=0.2, beta=2), "ordered t = .1": (ordered,)}
        yield from _of(_census(census), "Census, 16 quasi-identifiers", asked)


def _usual(attribute: str, *, t: float, beta: float, l: int = 3) -> dict[str, Models]:  # noqa: E741
    return {
        "k": (),
        f"l = {l}": ({"model": "distinct_l_diversity", "attribute": attribute, "l": l},),
        f"t = {_short(t)}": ({"model": "t_closeness", "attribute": attribute, "t": t},),
        f"beta = {_short(beta)}": ({"model": "beta_likeness", "attribute": attribute, "beta": beta},),
        "delta = 2": ({"model": "delta_disclosure", "attribute": attribute, "delta": 2},),
    }


def _short(limit: float) -> str:
    return f"{limit:g}".removeprefix("0")


def _of(table: Table, title: str, asked: Mapping[str, Models]) -> Iterator[Case]:
    for name, models in asked.items():
        yield Case(table=table, title=title, asked=name, models=models)


def _with(adult: Table, fields: Mapping[str, Mapping[str, object]]) -> Table:
    return Table(frame=adult.frame, schema=load_schema({**FIELDS, **fields}), source=adult.source)


def _breast_cancer(file: Path) -> Table:
    frame = pd.read_parquet(file).dropna().drop(columns="id").reset_index(drop=True)
    names = [name for name in frame.columns if name != "class"]
    graded = {"role": "quasi_identifier", "kind": "ordinal", "bounds": [1, 10]}
    fields = {**dict.fromkeys(names, graded), "class": {"role": "sensitive"}}
    return Table(frame=frame, schema=load_schema(fields), source="UCI Breast Cancer Wisconsin")


def _census(file: Path) -> Table:
    frame = pd.read_parquet(file, columns=["AGEP", *CENSUS_NAMES, INCOME]).astype(
        dict.fromkeys([*CENSUS_NAMES, INCOME], "str")
    )
    fields: dict[str, Mapping[str, object]] = {
        "AGEP": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 99]},
        **{name: {"role": "quasi_identifier"} for name in CENSUS_NAMES},
        INCOME: {"role": "sensitive", "kind": "ordinal", "categories": ["N", *map(str, range(10))]},
    }
    return Table(frame=frame, schema=load_schema(fields), source="NIST, national 2019")
