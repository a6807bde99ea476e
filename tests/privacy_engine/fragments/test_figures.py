"""The sums over fragments are the figures of the joined recoding."""

import json
from pathlib import Path

import numpy as np
import pytest

from privacy_engine.anonymizers.anonymizer import Anonymizer
from privacy_engine.engines.engine import Engine
from privacy_engine.fragments.figures import FragmentFigures
from privacy_engine.measures import utility
from privacy_engine.measures.distributions import AttributeTally, Distribution, Withheld, distributions
from privacy_engine.measures.recoding import Recoding
from privacy_engine.registry import load_method
from privacy_engine.tables.encoding import EncodedTable
from tests.privacy_engine.fragments.tables import SCHEMA, Fragmented, people, planned, released

METHODS: dict[str, Anonymizer] = {
    "mondrian": load_method("mondrian", k=5, l=3),
    "mondrian suppresses": load_method("mondrian", k=5, l=4, suppression_limit=0.1),
    "ilp distorts": load_method("ilp_l_diversity", k=5, l=4, repair="distort"),
}


@pytest.fixture(scope="module", params=METHODS)
def fragmented(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Fragmented:
    method, table = METHODS[request.param], people(800)
    plan = planned(engine, tmp_path_factory.mktemp("table"), table, method, SCHEMA, 250)
    return released(plan, table, method)


def joined_recoding(fragmented: Fragmented) -> Recoding:
    """The classes of all fragments as a recoding of the table, which knows of no fragments."""
    table = people(800)
    labels, used = np.full(len(table), -2), 0
    for fragment, part in enumerate(fragmented.parts):
        recoding = part.release.recoding
        rows = np.flatnonzero(fragmented.fragment_of == fragment)[recoding.encoded.rows]
        labels[rows] = np.where(recoding.labels >= 0, recoding.labels + used, -1)
        used += recoding.classes
    encoded = EncodedTable.encode(table, SCHEMA)
    return Recoding(encoded, labels[encoded.rows])


def test_sums_of_losses_are_the_losses_of_the_join(fragmented: Fragmented) -> None:
    figures = FragmentFigures.total(part.figures for part in fragmented.parts)
    known = utility.figures(joined_recoding(fragmented))
    known.pop("non_uniform_entropy")
    assert figures.utility() == pytest.approx(known)
    assert figures.losses() == [
        (name, pytest.approx(lca), pytest.approx(own))
        for name, lca, own in zip(
            ("age", "salary", "grade", "city", "colour"),
            utility.ncp(joined_recoding(fragmented), "lca"),
            utility.ncp(joined_recoding(fragmented), "own"),
            strict=True,
        )
    ]


def test_sums_of_distributions_are_those_of_the_join(fragmented: Fragmented) -> None:
    figures = FragmentFigures.total(part.figures for part in fragmented.parts)
    known = distributions(joined_recoding(fragmented), 5)
    for found, whole in zip(figures.distributions(5), known, strict=True):
        if isinstance(whole, Withheld):
            assert found == whole
            continue
        assert isinstance(found, Distribution)
        assert (found.attribute, found.ordered, found.groups) == (
            whole.attribute,
            whole.ordered,
            whole.groups,
        )
        assert found.before == whole.before
        assert found.after == pytest.approx(whole.after)


def test_domains_that_are_not_public_stay_hidden(fragmented: Fragmented) -> None:
    figures = FragmentFigures.total(part.figures for part in fragmented.parts)
    reported = [d.attribute for d in figures.distributions(5) if isinstance(d, Distribution)]
    assert reported == ["age", "grade", "city"]


def test_counts_add_up(fragmented: Fragmented) -> None:
    figures = FragmentFigures.total(part.figures for part in fragmented.parts)
    assert figures.records == 800
    assert figures.released == len(fragmented.joined)
    assert figures.released + figures.suppressed == figures.records
    shares = [part.release.notes["distorted"] * part.figures.records for part in fragmented.parts]
    assert figures.notes["distorted"] == pytest.approx(sum(shares) / 800)


def test_they_can_be_written_as_plain_values(fragmented: Fragmented) -> None:
    for part in fragmented.parts:
        assert FragmentFigures.from_dict(json.loads(json.dumps(part.figures.to_dict()))) == part.figures


def test_the_order_of_the_fragments_does_not_matter(fragmented: Fragmented) -> None:
    parts = [part.figures for part in fragmented.parts]
    one, other = FragmentFigures.total(parts), FragmentFigures.total(reversed(parts))
    assert one.utility() == pytest.approx(other.utility())


def test_suppressed_cells_cost_the_whole_domain_in_every_fragment(engine: Engine, tmp_path: Path) -> None:
    method, table = load_method("obpa", k=5, model="suppression", refine=False), people(600)
    together = released(planned(engine, tmp_path, table, method, SCHEMA, 200), table, method)
    figures = FragmentFigures.total(part.figures for part in together.parts)
    shown = together.joined[["age_from", "salary_from", "grade", "city", "colour"]]
    suppressed = (shown == "*").to_numpy() | shown.isna().to_numpy()
    assert figures.utility()["gcp"] == pytest.approx(suppressed.mean())
    assert figures.suppressed_cells == suppressed.sum()


def test_a_distorted_value_is_counted(engine: Engine, tmp_path: Path) -> None:
    method, table = METHODS["ilp distorts"], people(800)
    together = released(planned(engine, tmp_path, table, method, SCHEMA, 250), table, method)
    figures = FragmentFigures.total(part.figures for part in together.parts)
    true = table.set_index("record")["disease"]
    changed = (together.joined.set_index("record")["disease"].sort_index() != true).sum()
    assert figures.distorted == changed > 0


def test_tallies_of_different_groups_are_withheld() -> None:
    one = AttributeTally(attribute="age", ordered=True, groups=("0 to 9",), before=(4,), after=(4.0,))
    other = AttributeTally(attribute="age", ordered=True, groups=("0 to 8",), before=(4,), after=(4.0,))
    assert one + one == AttributeTally(
        attribute="age", ordered=True, groups=("0 to 9",), before=(8,), after=(8.0,)
    )
    found = one + other
    assert isinstance(found, Withheld)
    assert found + one == one + found == found


def test_small_counts_are_hidden_after_they_are_added_not_before() -> None:
    one = AttributeTally(attribute="age", ordered=True, groups=("0", "1"), before=(4, 9), after=(6.5, 6.5))
    assert one.shown(5).before == (None, None)
    both = one + one
    assert isinstance(both, AttributeTally)
    assert both.shown(5).before == (10, 20)


def test_what_a_method_counts_is_counted_over_all_fragments(fragmented: Fragmented) -> None:
    figures = FragmentFigures.total(part.figures for part in fragmented.parts)
    counted = [part.release.notes for part in fragmented.parts]
    names = {name for notes in counted for name in notes} - {"distorted"}
    assert {name: figures.notes[name] for name in names} == {
        name: sum(notes.get(name, 0) for notes in counted) for name in names
    }
    assert set(figures.notes) == names | {"distorted"}
    again = FragmentFigures.from_dict(json.loads(json.dumps(figures.to_dict())))
    assert again.notes == figures.notes


def test_the_clusters_of_all_fragments_are_reported(engine: Engine, tmp_path: Path) -> None:
    method, table = load_method("ilp_l_diversity", k=5, l=2), people(800)
    parts = released(planned(engine, tmp_path, table, method, SCHEMA, 250), table, method).parts
    assert FragmentFigures.total(part.figures for part in parts).notes["clusters"] >= len(parts)
