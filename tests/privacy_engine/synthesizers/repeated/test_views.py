"""Tables that are chosen once: counted, followed over releases, and fitted each time."""

import numpy as np
import pandas as pd
import pytest

from privacy_engine import DataSchema
from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_engine.synthesizers.latent.learned_model import Measurement
from privacy_engine.synthesizers.repeated.following import followed, opened
from privacy_engine.synthesizers.repeated.views import FixedViews, known_of
from privacy_engine.tables.domains import CodedTable

SCHEMA = DataSchema.from_dict(
    {
        "age": {"kind": "numeric", "bounds": [0, 100], "bins": 10},
        "town": {"categories": ["n", "e", "s", "w"]},
        "ill": {"categories": ["no", "yes"]},
    }
)
METHOD = LatentClass(epsilon=4.0, classes=4, fits=1, rules=0, replicates=2)


def week(share: float, rows: int = 4_000) -> CodedTable:
    """People of whom that share is ill, the older the more."""
    rng = np.random.default_rng(5)
    age = rng.integers(0, 100, rows)
    ill = np.where(rng.random(rows) < share * age / 50, "yes", "no")
    frame = pd.DataFrame({"age": age, "town": rng.choice(list("nesw"), rows), "ill": ill})
    return CodedTable.encode(frame, SCHEMA)


@pytest.fixture(scope="module")
def measured() -> Measurement:
    """What was measured in the first week."""
    return METHOD.measured(week(0.2))


def test_each_table_counts_every_record_once(measured: Measurement) -> None:
    views = FixedViews.of(measured, METHOD)
    counted = views.counted(week(0.2))
    assert [table.sum() for table in counted] == [4_000] * len(counted)
    assert [len(table) for table in counted] == [int(np.prod(shape)) for shape in views.shapes]
    assert [len(known.cells) for known in known_of(measured)] == [len(table) for table in counted]
    assert len(views.names(week(0.2))) == len(counted)


def test_what_was_known_at_the_choice_is_near_the_counts(measured: Measurement) -> None:
    # A mean square of at least 8 cells is 25 times its variance less than once in 1e7: one cell at 20 scales.
    for known, table in zip(
        known_of(measured), FixedViews.of(measured, METHOD).counted(week(0.2)), strict=True
    ):
        assert ((known.cells - table) ** 2).mean() < 25 * known.variance + 4


def test_a_model_follows_what_changed() -> None:
    ill = SCHEMA.names.index("ill")
    first, later = opened(METHOD, week(0.2)), []
    for share in (0.2, 0.6):
        later.append(followed(METHOD, week(share), first, later))
        drawn = later[-1].network.sample(4_000, np.random.default_rng(1))[ill]
        true = (week(share).codes[ill] == 1).mean()
        assert abs((drawn == 1).mean() - true) < 0.05  # noise of about 30 in 4,000, and of the drawing .008
