"""Pseudonyms: equal in their scope, different beyond it, not to be made without the key, reported nowhere."""

import base64
import hashlib
import hmac
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privacy_engine.errors import SchemaError, SecretError, SpecError
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Role
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import copy_source
from privacy_release.sources.pseudonyms import Naming, PseudonymKey, key_of_environment
from privacy_release.sources.records import CopyRules
from privacy_release.steps.memberships.persons import Persons
from privacy_release.workarea.people import Identification

AGE = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}
KEYS = {name: PseudonymKey(name.encode() * 32) for name in ("a", "b")}


def pseudonyms(
    folder: Path,
    values: Any,
    *,
    column: str = "id",
    scope: str = "series",
    key: str = "a",
    name: str = "visits",
    release: str = "1",
    series: str | None = None,
) -> list[str | None]:
    fields = {"connection": key, "scope": scope} | ({"series": series} if series else {})
    schema = DataSchema.from_dict({"age": AGE, column: {"role": "identifier", "pseudonym": fields}})
    pq.write_table(pa.table({"age": [30] * len(values), column: values}), folder / "source.parquet")
    naming = Naming(series=name, release=release, key_of=KEYS.__getitem__)
    target = folder / "copy.parquet"
    made = copy_source(find_source(str(folder / "source.parquet")), schema, target, CopyRules(naming=naming))
    assert made.schema[column].role is Role.INSENSITIVE
    reported = made.schema[column].direct_identifiers()["pseudonym"]
    assert reported == {"scope": scope, "series": series or name, "key": KEYS[key].fingerprint}
    kept: list[str | None] = pq.read_table(target)[column].to_pylist()
    return kept


def test_they_have_one_form_whatever_they_stand_for(tmp_path: Path) -> None:
    made = pseudonyms(tmp_path, ["a", "a much longer identifier, ünïcode", "", None])
    assert [bool(re.fullmatch("[A-Z2-7]{26}", p)) for p in made if p is not None] == [True] * 3
    assert made[3] is None


@pytest.mark.parametrize(("scope", "same"), [("series", True), ("release", False)])
def test_runs_share_them_in_a_series_alone(tmp_path: Path, scope: str, same: bool) -> None:
    one, again, later = (
        pseudonyms(tmp_path, ["x", "y"], scope=scope, release=release) for release in ("1", "1", "2")
    )
    assert one == again
    assert (one == later) is same
    assert same or not set(one) & set(later)


@pytest.mark.parametrize("scope", ["release", "series"])
def test_tables_share_them_whatever_column_and_type_they_have(tmp_path: Path, scope: str) -> None:
    patients = pseudonyms(tmp_path, [1, 2, 3], scope=scope, name="patients", series="hospital")
    visits = pseudonyms(tmp_path, ["3", "1"], column="patient", scope=scope, name="visits", series="hospital")
    null = pseudonyms(tmp_path, [2.0, None], scope=scope, name="x", series="hospital")
    assert visits == [patients[2], patients[0]]
    assert null == [patients[1], None]


def test_scopes_series_and_keys_tell_them_apart(tmp_path: Path) -> None:
    made = [
        pseudonyms(tmp_path, ["x"]),
        pseudonyms(tmp_path, ["x"], scope="release"),
        pseudonyms(tmp_path, ["x"], scope="release", release="2"),
        pseudonyms(tmp_path, ["x"], key="b"),
        pseudonyms(tmp_path, ["x"], name="other"),
        # parts of equal text, cut elsewhere
        pseudonyms(tmp_path, ["x"], scope="release", name="visits1", release="2"),
        pseudonyms(tmp_path, ["x"], scope="release", name="visits", release="12"),
    ]
    assert len({p[0] for p in made}) == len(made)


def test_no_one_makes_them_without_the_key(tmp_path: Path) -> None:
    """Tried: hashes of the identifier alone, and HMAC under all that is published of the key."""
    (made,) = pseudonyms(tmp_path, ["4711"])
    domain = b"".join(len(p).to_bytes(4, "big") + p for p in (b"pseudonym", b"series", b"visits"))
    public = [b"", KEYS["a"].fingerprint.encode(), bytes.fromhex(KEYS["a"].fingerprint), b"b" * 32]
    tried = [hmac.digest(key, text, "sha256") for key in public for text in (b"4711", domain + b"4711")]
    tried += [hashlib.sha256(text).digest() for text in (b"4711", domain + b"4711")]
    assert made not in {base64.b32encode(d[:16]).decode().rstrip("=") for d in tried}
    right = hmac.digest(b"a" * 32, domain + b"4711", "sha256")
    assert made == base64.b32encode(right[:16]).decode().rstrip("=")


def test_identifiers_and_key_are_not_in_the_copy(tmp_path: Path) -> None:
    pseudonyms(tmp_path, [f"canary-{i}" for i in range(300)])
    data = (tmp_path / "copy.parquet").read_bytes()
    assert b"canary" not in data
    assert b"a" * 32 not in data
    assert "aaa" not in repr(KEYS["a"])


def test_one_that_repeats_would_link_rows(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"id: 1 record repeats.*aggregate the source.*`person`") as caught:
        pseudonyms(tmp_path, ["canary", "canary", "y"])
    assert "canary" not in str(caught.value)


def test_the_person_of_rows_has_none() -> None:
    identifier = {"role": "identifier", "pseudonym": {"connection": "a", "scope": "series"}}
    with pytest.raises(SchemaError, match="must have no pseudonym, which would link the rows"):
        DataSchema.from_dict({"age": AGE, "id": identifier, "person": "id"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"role": "insensitive", "pseudonym": {"connection": "a", "scope": "series"}},
            "role must be identifier",
        ),
        ({"role": "identifier", "pseudonym": {"scope": "series"}}, "connection"),
        ({"role": "identifier", "pseudonym": {"connection": "a"}}, "scope"),
        ({"role": "identifier", "pseudonym": {"connection": "a", "scope": "ever"}}, "scope"),
        ({"role": "identifier", "pseudonym": "a"}, "must be a mapping"),
        ({"role": "identifier", "text": "redact"}, "released text columns"),
        ({"role": "insensitive", "text": "allow"}, "reason"),
        ({"role": "insensitive", "text": {"allow": " "}}, "reason"),
        ({"role": "sensitive", "unique": {"allow": "r"}}, "insensitive"),
        ({"role": "insensitive", "unique": "allow"}, "reason"),
    ],
)
def test_wrong_fields_say_what_must_hold(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        DataSchema.from_dict({"id": fields})


def test_a_source_cannot_bring_its_own(tmp_path: Path) -> None:
    """A column that says it is of pseudonyms would be released as it is."""
    fields = {"role": "insensitive", "pseudonym": {"scope": "series", "key": "0" * 32}}
    schema = DataSchema.from_dict({"age": AGE, "id": fields})
    pq.write_table(pa.table({"age": [30], "id": ["x"]}), tmp_path / "source.parquet")
    with pytest.raises(SchemaError, match="a source has no pseudonyms yet"):
        copy_source(find_source(str(tmp_path / "source.parquet")), schema, tmp_path / "copy.parquet")


def test_a_release_must_be_named(tmp_path: Path) -> None:
    identifier = {"role": "identifier", "pseudonym": {"connection": "a", "scope": "series"}}
    pq.write_table(pa.table({"age": [30], "id": ["x"]}), tmp_path / "source.parquet")
    with pytest.raises(SpecError, match="name and the ID of the release"):
        copy_source(
            find_source(str(tmp_path / "source.parquet")),
            DataSchema.from_dict({"age": AGE, "id": identifier}),
            tmp_path / "copy.parquet",
        )


def test_a_short_or_missing_key_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRIVACY_PSEUDONYM_KEY", raising=False)
    with pytest.raises(SecretError, match="PRIVACY_PSEUDONYM_KEY"):
        key_of_environment("any")
    monkeypatch.setenv("PRIVACY_PSEUDONYM_KEY", "hunter2")
    with pytest.raises(SecretError, match="at least 32 random bytes, got 7") as caught:
        key_of_environment("any")
    assert "hunter2" not in str(caught.value)


def test_a_person_followed_over_releases_may_have_one_too(tmp_path: Path) -> None:
    """The hash by which a person is followed is of the identifier, not of the pseudonym."""
    identifier = {"role": "identifier", "pseudonym": {"connection": "a", "scope": "release"}}
    schema = DataSchema.from_dict({"age": AGE, "id": identifier})
    pq.write_table(pa.table({"age": [30, 31], "id": ["x", "y"]}), tmp_path / "source.parquet")
    followed = []
    for release in ("1", "2"):
        people = Persons(Identification(column="id", key="m" * 32))
        naming = Naming(series="s", release=release, key_of=KEYS.__getitem__)
        target, source = tmp_path / f"copy{release}.parquet", find_source(str(tmp_path / "source.parquet"))
        made = copy_source(source, schema, target, CopyRules(people=people, naming=naming))
        followed.append(people.hashes().tolist())
        assert pq.read_table(target).column_names == list(made.schema.names) == ["age", "id"]
    assert followed[0] == followed[1]
    assert pq.read_table(tmp_path / "copy1.parquet") != pq.read_table(tmp_path / "copy2.parquet")


def test_answers_go_by_the_identifier_itself(tmp_path: Path) -> None:
    identifier = {"role": "identifier", "pseudonym": {"connection": "a", "scope": "release"}}
    schema = DataSchema.from_dict({"age": AGE, "id": identifier})
    pq.write_table(pa.table({"age": [30], "id": ["x"]}), tmp_path / "source.parquet")
    naming = Naming(series="s", release="1", key_of=KEYS.__getitem__)
    with pytest.raises(SpecError, match="remove its pseudonym"):
        copy_source(
            find_source(str(tmp_path / "source.parquet")),
            schema,
            tmp_path / "copy.parquet",
            CopyRules(individual="id", naming=naming),
        )


def test_a_schema_with_its_fields_survives_as_text() -> None:
    fields = {
        "id": {"role": "identifier", "pseudonym": {"connection": "a", "scope": "series", "series": "s"}},
        "note": {"role": "insensitive", "text": "redact", "unique": {"allow": "r"}},
        "more": {"role": "sensitive", "text": {"allow": "r"}},
    }
    assert DataSchema.from_json(DataSchema.from_dict(fields).to_json()) == DataSchema.from_dict(fields)


def test_a_column_without_values_has_no_pseudonyms(tmp_path: Path) -> None:
    assert pseudonyms(tmp_path, pa.array([None, None], pa.string())) == [None, None]


def test_numbers_have_pseudonyms_of_text_whatever_is_said_of_them(tmp_path: Path) -> None:
    fields = {"connection": "a", "scope": "series"}
    number = {"role": "identifier", "kind": "numeric", "bounds": [0, 9], "pseudonym": fields}
    schema = DataSchema.from_dict({"age": AGE, "id": number})
    pq.write_table(pa.table({"age": [30, 31], "id": [4_711, 4_712]}), tmp_path / "source.parquet")
    naming = Naming(series="visits", release="1", key_of=KEYS.__getitem__)
    target = tmp_path / "copy.parquet"
    made = copy_source(
        find_source(str(tmp_path / "source.parquet")), schema, target, CopyRules(naming=naming)
    )
    assert pq.read_table(target)["id"].to_pylist() == pseudonyms(tmp_path, ["4711", "4712"])
    made.schema.check(pq.read_table(target).to_pandas())
