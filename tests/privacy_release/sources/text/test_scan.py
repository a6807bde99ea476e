"""Direct identifiers in text: each kind is found, what is clean goes through, no value is quoted."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from privacy_engine.engines.parquet import batches
from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.addresses import find_source
from privacy_release.sources.copying import Copied, copy_source
from privacy_release.sources.text import scan
from privacy_release.sources.text.kinds import found_in, patterns
from privacy_release.sources.text.scan import TextScan

N = 100_000
FIRST = {"role": "quasi_identifier", "kind": "numeric", "bounds": [0, 120]}
# Made up, or published by those who issue them as examples.
PLANTED = [
    ("email", "write to jane.roe+x@mail.example.org please"),
    ("phone", "call back under +49 30 901820"),
    ("phone", "reached at (415) 555-0132 today"),
    ("phone", "415-555-0132"),
    ("phone", "joindre au 01 42 68 53 00"),
    ("phone", "tel. 7946 0958"),
    ("card", "paid with 4111 1111 1111 1111"),
    ("card", "5500005555555559 was refused"),
    ("iban", "to DE89 3704 0044 0532 0130 00 FROM ABROAD"),
    ("iban", "GB82WEST12345698765432"),
    ("ip", "seen from 192.168.17.4."),
    ("ip", "seen from 2001:db8:85a3::8a2e:370:7334"),
    ("national_id", "SSN 219-09-9999"),
    ("national_id", "ssn: 219099999"),
    ("national_id", "AB 12 34 56 C"),
    ("national_id", "943 476 5919"),
    ("national_id", "1 85 05 78 006 084 91"),
    ("national_id", "12345678Z"),
    ("national_id", "X-1234567-L"),
    ("national_id", "RSSMRA85T10A562S"),
    ("national_id", "PESEL 44051401359"),
    ("national_id", "86 095 742 719"),
    ("national_id", "BSN 111222333"),
    ("address", "lives at 638 Kulas Cape Apt 28"),
    ("address", "12 Main Street"),
    ("address", "Torstraße 12a"),
    ("address", "10 rue de la Paix"),
    ("address", "Calle Mayor, 5"),
    ("address", "P.O. Box 123"),
    ("address", "SW1A 1AA"),
    ("name", "seen by Dr. Müller"),
    ("name", "Frau Anna Schmidt"),
    ("name", "mother is Maria Gonzalez"),
]
CLEAN = [
    "Encounter for symptom (procedure)",
    "Version 1.2.3.4",
    "OID 2.16.840.1.113883.6.96",
    "12:30:45",
    "2021-03-04T05:06:07Z",
    "185345009",
    "448337001 is a code",
    "4111111111111112",
    "DE89 3704 0044 0532 0130 01",
    "12345678A",
    "St. Mary Medical Center",
    "Thomas Street",
    "ICD-10 E11.9, 3 times",
    "a @ b",
    "b3f1c9a2-0d4e-4c1a-9f60-0123456789ab",
    "01-01301",
    "1-800",
    "50-59",
    "between 100 and 2000 euros",
    "6 Minute Walk",
    "2 View Chest Wall",
    "Mark II",
    "Amoxicillin 250 MG / Clavulanate 125 MG Oral Tablet",
    "NDC 00093-7180-56",
    "ISBN 978-3-16-148410-0",
    "01.02.2020 - 03.04.2021",
    "1 000 000 000 000",
    "Prof-specialty",
    "Never-married",
]


def text_column(texts: list[str], rule: Any = None, role: str = "insensitive") -> tuple[DataSchema, pa.Table]:
    note = {"role": role, "kind": "categorical"} | ({} if rule is None else {"text": rule})
    schema = DataSchema.from_dict({"age": FIRST, "note": note})
    return schema, pa.table({"age": [30] * len(texts), "note": pa.array(texts, pa.string())})


def copied(folder: Path, schema: DataSchema, table: pa.Table) -> tuple[Copied, Path]:
    pq.write_table(table, folder / "source.parquet")
    (folder / "work").mkdir(exist_ok=True)
    target = folder / "work" / "copy.parquet"
    return copy_source(find_source(str(folder / "source.parquet")), schema, target), target


@pytest.mark.parametrize(("kind", "text"), PLANTED, ids=range(len(PLANTED)))
def test_each_form_is_found_by_both_engines_of_expressions(kind: str, text: str) -> None:
    assert kind in {found for _, found in found_in(text)}
    matched = [
        pc.match_substring_regex(pa.array([text]), p.form)[0].as_py() for p in patterns() if p.kind == kind
    ]
    assert any(matched)


@pytest.mark.parametrize("text", CLEAN, ids=range(len(CLEAN)))
def test_what_only_looks_like_one_goes_through(text: str) -> None:
    assert not found_in(text)


def test_the_two_engines_agree_on_every_form_and_text() -> None:
    """A form that RE2 reads otherwise would be looked for in vain."""
    texts = [text for _, text in PLANTED] + CLEAN
    for pattern in patterns():
        by_re2 = pc.match_substring_regex(pa.array(texts), pattern.form).to_pylist()
        missed = [i for i, text in enumerate(texts) if list(pattern.spans(text)) and not by_re2[i]]
        assert not missed, pattern.form


def test_short_values_have_the_findings_that_they_have_among_long_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RE2 selects what is searched among long values only."""
    texts, found = pa.array([text for _, text in PLANTED] + CLEAN), []
    for most in (0, 1_000_000):
        monkeypatch.setattr(scan, "_SHORT", most)
        found.append(list(scan._Column(Attribute(name="note"), clean=True)._found_in(texts)))
    assert found[0] == found[1]
    assert len(found[0]) >= len(PLANTED)


@pytest.mark.parametrize("role", ["insensitive", "sensitive", "quasi_identifier"])
def test_one_of_each_in_a_large_column_stops_the_copy_and_is_not_reported(tmp_path: Path, role: str) -> None:
    rng = np.random.default_rng(1)
    texts = rng.choice(["well child visit", "check-up, 3 weeks later", "flu shot (10 ml)"], N).tolist()
    for place, (_, text) in zip(rng.choice(N, len(PLANTED), replace=False), PLANTED, strict=True):
        texts[place] = text
    with pytest.raises(SchemaError) as caught:
        copied(tmp_path, *text_column(texts, role=role))
    message = str(caught.value)
    for kind in {kind for kind, _ in PLANTED}:
        assert f"{kind.replace('_', ' ')} in " in message
    assert "text: redact" in message
    assert "allow: <reason>" in message
    assert not [text for _, text in PLANTED if text in message]
    assert not [word for _, text in PLANTED for word in text.split() if len(word) > 6 and word in message]
    assert not list((tmp_path / "work").iterdir())


def test_redaction_leaves_none_of_it_in_the_bytes(tmp_path: Path) -> None:
    texts = ["well child visit"] * 300 + [text for _, text in PLANTED]
    reported, path = copied(tmp_path, *text_column(texts, "redact"))
    kept = pq.read_table(path)["note"].to_pylist()
    assert kept[:300] == texts[:300]
    assert not [text for text in kept if found_in(text)]
    assert kept[300] == "write to [email] please"
    assert kept[306] == "paid with [card]"
    assert kept[308] == "to [iban] FROM ABROAD"
    secrets = [b"jane.roe", b"901820", b"5555555559", b"0532 0130", b"Gonzalez", b"219-09-9999", b"Kulas"]
    assert not [secret for secret in secrets if secret in path.read_bytes()]
    assert reported.text["note"]["card"] == 2


def test_digits_alone_are_judged_by_their_column(tmp_path: Path) -> None:
    cards = [f"411111111111{i:04d}" for i in range(2_000)]
    valid = [c for c in cards if sum(_luhn(c)) % 10 == 0]
    copied(tmp_path, *text_column(cards, role="sensitive"))  # one in ten passes Luhn's check by chance
    with pytest.raises(SchemaError, match=f"note: card in {len(valid):,} records"):
        copied(tmp_path, *text_column(valid, role="sensitive"))
    _, path = copied(tmp_path, *text_column(valid, "redact", "sensitive"))
    assert set(pq.read_table(path)["note"].to_pylist()) == {"[card]"}


def _luhn(digits: str) -> list[int]:
    doubled = [int(d) * (1 + i % 2) for i, d in enumerate(reversed(digits))]
    return [d - 9 * (d > 9) for d in doubled]


def test_an_allowed_column_stays_and_its_reason_is_kept(tmp_path: Path) -> None:
    texts = [f"{text}" for _, text in PLANTED]
    reported, path = copied(tmp_path, *text_column(texts, {"allow": "letters of companies"}))
    assert pq.read_table(path)["note"].to_pylist() == texts
    assert reported.text["note"]["email"] == 1
    assert reported.schema["note"].direct_identifiers() == {"text": {"allow": "letters of companies"}}


def test_a_column_that_the_schema_lists_is_not_scanned(tmp_path: Path) -> None:
    note = {"role": "insensitive", "kind": "categorical", "categories": ["Dr. Who", "SW1A 1AA"]}
    schema = DataSchema.from_dict({"age": FIRST, "note": note})
    copied(tmp_path, schema, pa.table({"age": [3, 4], "note": ["Dr. Who", "SW1A 1AA"]}))


def test_redaction_cannot_help_where_a_whole_column_is_of_names(tmp_path: Path) -> None:
    names = {"last_name": {"role": "insensitive", "kind": "categorical", "text": "redact"}, "age": FIRST}
    table = pa.table({"age": [3] * 4, "last_name": ["Fahey393", "Okon", "Li", "O'Hara"]})
    with pytest.raises(SchemaError, match="last_name: name in 4 records"):
        copied(tmp_path, DataSchema.from_dict(names), table)


def test_nulls_and_empty_columns_are_no_findings(tmp_path: Path) -> None:
    schema, table = text_column(["a", "b"])
    nothing = table.set_column(1, "note", pa.array([None, None], pa.string()))
    assert copied(tmp_path, schema, nothing)[0].text == {}


def _of_text(file: str) -> tuple[DataSchema, list[pa.Table]]:
    if "PRIVACY_DATA" not in os.environ:
        pytest.skip("set PRIVACY_DATA to the folder of the public data sets")
    path = f"{os.environ['PRIVACY_DATA']}/{file}.parquet"
    tables = list(batches([path]))
    names = [field.name for field in tables[0].schema if pa.types.is_string(field.type)]
    schema = DataSchema.from_dict({n: {"role": "insensitive", "kind": "categorical"} for n in names})
    return schema, [table.select(names) for table in tables]


@pytest.mark.needs_data
@pytest.mark.parametrize("file", ["adult", "nist_national2019", "synthea_encounters"])
def test_no_column_of_clean_tables_is_stopped(file: str) -> None:
    schema, tables = _of_text(file)
    scan = TextScan(schema)
    for table in tables:
        scan.cleaned(table)
    assert scan.found() == {}


@pytest.mark.needs_data
def test_the_identifying_columns_of_synthea_are_found() -> None:
    schema, tables = _of_text("synthea_patients")
    scan = TextScan(schema)
    for table in tables:
        scan.cleaned(table)
    found = {name: set(kinds) for name, kinds in scan.found().items()}
    wanted = {
        "SSN": {"national_id"},
        "DRIVERS": {"national_id"},
        "PASSPORT": {"national_id"},
        "FIRST": {"name"},
        "MIDDLE": {"name"},
        "LAST": {"name"},
        "MAIDEN": {"name"},
        "ADDRESS": {"address"},
    }
    assert found.keys() == wanted.keys()
    assert all(kinds <= found[name] for name, kinds in wanted.items())


@pytest.mark.needs_data
def test_a_planted_phone_number_in_a_description_of_synthea_stops_the_release() -> None:
    schema, tables = _of_text("synthea_encounters")
    scan, table = TextScan(schema), tables[0]
    texts = table["DESCRIPTION"].to_pylist()
    texts[7_000] += ", call 415-555-0132"
    scan.cleaned(table.set_column(table.column_names.index("DESCRIPTION"), "DESCRIPTION", pa.array(texts)))
    with pytest.raises(SchemaError, match="DESCRIPTION: phone in 1 record"):
        scan.require_clean()
