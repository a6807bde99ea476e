"""Intervals in the report on a private synthetic release."""

import numpy as np

from privacy_engine.synthesizers.latent.latent_class import LatentClass
from privacy_release.reports.synthetic import own_marginals
from tests import synthetic_tables


def test_the_report_shows_the_interval_of_each_share_or_none() -> None:
    """The shares of the drawn records are as before; next to them what the table may hold."""
    table = synthetic_tables.people(200, np.random.default_rng(1))
    for count, shown in ((5, True), (0, False)):
        method = LatentClass(epsilon=1.0, classes=2, fits=1, replicates=count)
        release = method.release(table, synthetic_tables.SCHEMA, np.random.default_rng(1))
        texts = [row["text"] for marginal in own_marginals(release) for row in marginal["rows"]]
        assert [text.endswith("in the source)") for text in texts] == [shown] * len(texts)
