"""The fragments of a release as they are kept: nothing of one fragment is taken for another's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privacy_engine.errors import IntegrityError, VerificationError
from privacy_engine.fragments.cut_tree import Cut, CutTree
from privacy_engine.fragments.plan import StandingCut
from privacy_engine.republication.in_fragments import within_fragments
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.cross_release import Membership
from privacy_release.steps.memberships.last import last_release
from privacy_release.steps.memberships.regions import (
    Regions,
    in_fragments,
    read_pieces,
    regions_of_frame,
    require_one_cut,
)

SCHEMA = DataSchema.from_dict(
    {"town": {"role": "quasi_identifier"}, "disease": {"role": "sensitive"}, "note": {"role": "insensitive"}}
)
TREE = CutTree(
    cuts=(Cut(column="town", among=frozenset("a"), sides=(1, -3)), Cut(column="town", sides=(-1, -2))),
    fragment_of=(0, 0, 1),
)
CUT = StandingCut(tree=TREE, schema=SCHEMA)
# One class for everyone else; in the fragments 0 and 1 it is one class each.
TABLE = pd.DataFrame({"town": "*", "disease": ["flu", "hiv", "flu", "gout"], "note": ["0", "0", "1", "1"]})
PERSONS = np.array(["Ada", "Ben", "Cem", "Dan"], dtype=object)
REGIONS = Regions(cut=CUT, of=np.array([0, 1, 2, 2]))


@pytest.fixture
def kept(tmp_path: Path) -> pd.DataFrame:
    """What is kept of the table, in the order of the persons."""
    own = REGIONS.kept(PERSONS, TABLE, SCHEMA, tmp_path / "pieces.parquet")
    return pd.DataFrame({"person": PERSONS, "class": 0, "values of disease": "all"}).assign(**own)


def test_classes_are_kept_within_their_fragments(kept: pd.DataFrame, tmp_path: Path) -> None:
    found = in_fragments(kept, "version 1")
    assert found["class"].tolist() == [0, 0, 1, 1]
    assert found["values of disease"].nunique() == 2
    assert regions_of_frame(found).of.tolist() == [0, 1, 2, 2]
    assert regions_of_frame(found).cut == CUT
    order = [3, 1, 0, 2]  # of the records: the row of the cuts is that of the first person
    other = replace(REGIONS, of=REGIONS.of[order]).kept(
        PERSONS[order], TABLE, SCHEMA, tmp_path / "other.parquet"
    )
    (row,) = np.flatnonzero(pd.Series(other["cuts of the fragments"]).notna())
    assert PERSONS[order][row] == "Ada"
    assert read_pieces(found, tmp_path / "pieces.parquet").tolist() == [0, 0, 1, 1]
    assert "region" not in pd.read_parquet(tmp_path / "pieces.parquet")  # a class may have one person of it


def test_records_go_to_persons_of_their_fragment() -> None:
    unknown = within_fragments(PERSONS, TABLE, SCHEMA, REGIONS.fragments)
    unknown = replace(unknown, values={"disease": np.full(4, -1)})
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        last = last_release(TABLE.iloc[order], SCHEMA, unknown, (REGIONS.fragments[order], REGIONS.fragments))
        assert dict(zip(last.persons, last.table["note"], strict=True)) == {
            "Ada": "0",
            "Ben": "0",
            "Cem": "1",
            "Dan": "1",
        }
    known = Membership.of_table(PERSONS, TABLE, SCHEMA)
    with pytest.raises(IntegrityError, match="must match its persons"):
        last_release(TABLE, SCHEMA, known, (REGIONS.fragments, np.array([0, 0, 0, 1])))


def test_a_file_of_regions_is_read_as_it_was_written(tmp_path: Path) -> None:
    ref = REGIONS.write(tmp_path / "regions.parquet")
    assert Regions.read(ref).of.tolist() == [0, 1, 2, 2]
    assert Regions.read(ref).cut == CUT
    Path(ref.uri).write_bytes(b"")
    with pytest.raises(IntegrityError):
        Regions.read(ref)


def test_a_release_in_one_piece_has_no_fragments() -> None:
    with pytest.raises(VerificationError, match="version 3 was made in one piece"):
        in_fragments(pd.DataFrame({"person": PERSONS, "class": 0}), "version 3")


def test_fragments_may_become_one_and_are_never_cut_again() -> None:
    one = replace(TREE, fragment_of=(0, 0, 0))
    require_one_cut([])
    require_one_cut([TREE, TREE, one])
    for trees in ([one, TREE], [CutTree(), TREE], [TREE, CutTree()]):
        with pytest.raises(VerificationError, match="in fragments of different cuts"):
            require_one_cut(trees)
