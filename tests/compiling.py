"""A small release, detection or attack for everything that compiles functions.

`python -m tests.compiling NAME...` runs these, and writes a line for each function that it compiles or
loads.
"""

import json
import sys
from typing import Any

import numpy as np
import pandas as pd

from privacy_engine.attacks.trial import Evidence, case_of, try_attack
from privacy_engine.compiled import _KernelCache
from privacy_engine.fragments.cutting import cut
from privacy_engine.registry import (
    ATTACKS,
    is_anonymizer,
    load_attack,
    load_detector,
    load_method,
    method_names,
    needs_whole_table,
)
from privacy_engine.release import Release
from privacy_engine.republication.guarantee import RepublicationGuarantee
from privacy_engine.republication.republish import republish
from privacy_engine.signatures import to_text
from privacy_engine.tables.hierarchy import Hierarchy
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import Membership
from privacy_engine.vocabulary import Departures
from privacy_release.cli.warm import ATTACKS as ALL_ATTACKS
from privacy_release.cli.warm import HISTORY
from privacy_release.reports.curator import render_curator_report
from privacy_release.reports.figures import loss_bound, measure
from privacy_release.reports.synthetic import own_marginals

ROWS = 300
MANY = 300  # categories: codes of more than 256 take two bytes each
# Types do not depend on how much work a method does.
QUICK: dict[str, dict[str, Any]] = {
    "latent_class": {"classes": 4, "fits": 1},
    "rfka": {"trees": 10},
    **{name: {"regroup": 1} for name in ("bottom_up", "obpa", "ilp_l_diversity")},
}


def release_by(name: str) -> None:
    """Release with each kind of rule, and measure as a release does."""
    variants: list[dict[str, Any]] = [{}]
    if is_anonymizer(name):
        close = {"model": "t_closeness", "t": 0.5, "attribute": "disease"}
        variants += [{"k": 3, "l": 2, "suppression_limit": 0.1}, {"require": (close,)}]
    for categories in (3, MANY):
        table, schema = people(categories)
        if is_anonymizer(name) and not needs_whole_table(name):
            cut(table, schema, len(table), len(table) // 4)
        for parameters in variants:
            method = load_method(name, **QUICK.get(name, {}) | parameters)
            _measure(method.release(table, schema, np.random.default_rng(7)), table, schema)


def release_again() -> None:
    """Release people who come and go, with and without counterfeits."""
    everyone, schema = people(3, insensitive=False)  # such a column would tell counterfeits from people
    for departures in ("known", "unknown"):
        for name in (n for n in method_names() if is_anonymizer(n)):
            earlier: list[Membership] = []
            for week in range(3):
                table = everyone.iloc[20 * week : 20 * week + 80].reset_index(drop=True)
                persons = table["name"].to_numpy(object)
                release = republish(
                    load_method(name, **QUICK.get(name, {}) | {"k": 3}),
                    table,
                    schema,
                    np.random.default_rng(7),
                    persons=persons,
                    earlier=earlier,
                    guarantee=RepublicationGuarantee(
                        k=3, m={"disease": 2}, departures=Departures(departures), counterfeits=0.3
                    ),
                    limit=0.9,
                )
                who = np.array([None if row < 0 else persons[row] for row in release.rows], dtype=object)
                earlier.append(Membership.of_table(who, release.table, release.schema))


def detect_by(name: str) -> None:
    """Look for outliers."""
    for categories in (3, MANY):
        load_detector(name).detect(*people(categories))


def attack() -> None:
    """Try every attack on records that are released as they are."""
    rng = np.random.default_rng(7)
    for categories in (3, MANY):
        table, schema = people(categories)
        inside, outside = table.iloc[: ROWS // 2], table.iloc[ROWS // 2 :]
        evidence = Evidence(
            release=inside, source=schema, people=inside, outsiders=outside, register=table[["age", "city"]]
        )
        case = case_of(evidence, rng)
        for name in ATTACKS:
            try_attack(load_attack(name), case, rng)


def _measure(release: Release, table: pd.DataFrame, schema: DataSchema) -> None:
    """Run what follows a method: figures, the report, and that of the curator."""
    measure(release, np.random.default_rng(7))
    loss_bound(release)
    if release.model is not None:
        own_marginals(release)
        render_curator_report(release, table, schema, name="warm", release_id="warm")


def people(categories: int, *, insensitive: bool = True) -> tuple[pd.DataFrame, DataSchema]:
    """Made-up records with each kind of attribute, one of which has this many categories."""

    rng = np.random.default_rng(7)
    cities = Hierarchy((("Bern", "south", "*"), ("Basel", "north", "*"), ("Chur", "south", "*")))
    colours = [f"colour {i}" for i in range(categories)]
    fields = {
        "name": {"role": "identifier"},
        "age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 100]},
        "grade": {"role": "quasi_identifier", "kind": "ordinal", "categories": ["low", "mid", "high"]},
        "city": {"role": "quasi_identifier", "hierarchy": "cities"},
        "colour": {"role": "quasi_identifier", "categories": colours},
        "disease": {"role": "sensitive", "categories": ["cold", "flu", "gout", "none"]},
        "visits": {"role": "insensitive", "kind": "numeric", "bounds": [0, 8]},
    }
    table = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(ROWS)],
            "age": rng.integers(18, 90, ROWS),
            "grade": rng.choice(["low", "mid", "high"], ROWS),
            "city": rng.choice(cities.values, ROWS),
            "colour": rng.choice(colours, ROWS),
            "disease": rng.choice(["cold", "flu", "gout", "none"], ROWS),
            "visits": rng.integers(0, 9, ROWS),
        }
    )
    if not insensitive:
        table, _ = table.drop(columns="visits"), fields.pop("visits")
    return table, DataSchema.from_dict(fields, {"cities": cities})


def run(name: str) -> None:
    """Run what this name stands for."""
    if name == ALL_ATTACKS:
        attack()
    elif name == HISTORY:
        release_again()
    elif name in method_names():
        release_by(name)
    else:
        detect_by(name)


def main() -> None:
    """Run these names; write the function and the types of each that was loaded or compiled."""
    load = _KernelCache._load_overload

    def reported(cache: Any, signature: Any, target: Any) -> Any:
        found = load(cache, signature, target)
        of = cache._py_func
        line = [name, "loaded" if found else "compiled", of.__module__, of.__name__, *map(to_text, signature)]
        sys.stdout.write(json.dumps(line) + "\n")
        return found

    _KernelCache._load_overload = reported
    for name in sys.argv[1:]:
        run(name)


if __name__ == "__main__":
    main()
