"""Classes by local search, on tables so small that the best ones are seen at a glance."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from privacy_engine.recoding.grouping.boxes import tabulate
from privacy_engine.recoding.grouping.model_rules import compile_constraints
from privacy_engine.republication.nested import People, search
from privacy_engine.tables.encoding import EncodedTable
from privacy_engine.tables.schema import DataSchema

K = 3
SCHEMA = DataSchema.from_dict({"age": {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 99]}})


def searched(
    ages: Sequence[int], labels: Sequence[int], cores: Sequence[tuple[int, int]] | None = None
) -> list[list[int]]:
    """The ages of each class found, sorted; `cores` are spans of ages."""
    encoded = EncodedTable.encode(pd.DataFrame({"age": ages}), SCHEMA)
    values = np.sort(np.unique(ages))
    n, place = len(ages), encoded.rows
    spans = cores or [(int(values[0]), int(values[-1]))] * n
    low, high = (np.searchsorted(values, [span[end] for span in spans]) for end in (0, 1))
    people = People(
        np.ascontiguousarray(encoded.codes, np.int32),
        low[place, None].astype(np.int32),
        high[place, None].astype(np.int32),
        np.zeros((n, 0), np.int32),
        np.zeros(n, np.bool_),
    )
    space, rules = tabulate(encoded.geometry()), compile_constraints((), encoded)
    begun = np.array(labels)[place]
    found, lo, hi = search(space, people, begun, K, K, rules, np.random.default_rng(1))
    for i, c in enumerate(found):  # each box and core: one covers the other
        box, core = (int(lo[c, 0]), int(hi[c, 0])), (int(people.low[i, 0]), int(people.high[i, 0]))
        assert box[0] <= encoded.codes[i, 0] <= box[1]
        assert (box[0] <= core[0] and core[1] <= box[1]) or (core[0] <= box[0] and box[1] <= core[1])
    own = np.array(ages)[place]
    return sorted(sorted(own[found == c].tolist()) for c in range(int(found.max()) + 1))


def test_members_of_classes_of_exactly_k_are_swapped() -> None:
    assert searched([0, 0, 10, 10, 10, 0], [0, 0, 0, 1, 1, 1]) == [[0, 0, 0], [10, 10, 10]]


def test_every_class_has_k_members_and_respects_their_cores() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        ages = rng.integers(0, 30, 40)
        reach = rng.integers(0, 12, (2, 40))
        cores = [
            (int(ages[ages >= age - a].min()), int(ages[ages <= age + b].max()))
            for age, a, b in zip(ages, *reach, strict=True)
        ]
        found = searched(ages.tolist(), rng.integers(0, 12, 40).tolist(), cores)
        assert min(map(len, found)) >= K
        assert sorted(age for own in found for age in own) == sorted(ages.tolist())


def test_members_that_their_classes_can_spare_form_one_of_their_own() -> None:
    ages = [0, 0, 0, 50, 70, 70, 70, 50, 90, 90, 90, 50, 90]
    labels = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]  # the last one has to join a class and leaves a place
    assert searched(ages, labels) == [[0, 0, 0], [50, 50, 50], [70, 70, 70], [90, 90, 90, 90]]
