"""Each kind on its plants, on plants that it was not tuned on, and on columns that hold none."""

import re
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deploy.local.embedded import checkout
from privacy_engine.tables.schema import DataSchema
from privacy_release.sources.text import patterns as known
from privacy_release.sources.text.kinds import TextKind, every_pattern, found_in, kinds
from privacy_release.sources.text.patterns import in_ascii
from privacy_release.sources.text.scan import TextScan
from tests.privacy_release.sources.text import held_out
from tests.privacy_release.sources.text.innocent import INNOCENT
from tests.privacy_release.sources.text.tuned import TUNED


def found(text: str) -> set[str]:
    return {kind for _, kind in found_in(text, every_pattern())}


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_a_kind_finds_its_plants(kind: TextKind) -> None:
    plants = TUNED[kind.name]
    assert len(plants) >= 10
    assert [text for text in plants if kind.name not in found(text)] == []


@pytest.mark.parametrize("column", INNOCENT)
def test_innocent_columns_pass(column: str) -> None:
    assert [text for text in INNOCENT[column] if found(text)] == []


def test_the_documentation_gives_kinds_rates_and_false_alarms() -> None:
    """Rates are those of plants and columns that no pattern was tuned on; some need the extra."""
    pytest.importorskip("stdnum")
    pytest.importorskip("phonenumbers")
    of_extra = known.all_known()[len(known._built_in()) :]
    without = tuple(pattern for pattern in every_pattern() if pattern not in of_extra)
    page = (checkout() / "docs" / "text_kinds.md").read_text(encoding="utf-8")
    rows = []
    for kind in kinds():
        plants = (*held_out.PLANTS.get(kind.name, ()), *held_out.LATER[kind.name])
        rate, less = (
            f"{sum(bool(found_in(text, among)) for text in map(in_ascii, plants))} of {len(plants)}"
            for among in (every_pattern(), without)
        )
        when = "always" if kind.always else "`clean_text`"
        shown = rate if less == rate else f"{rate}, without the extra {less}"
        rows.append(f"| `{kind.name}` | {kind.what} | {when} | {shown} |")
    for name, texts in held_out.INNOCENT.items():
        rows.append(f"| {name} | {sum(map(bool, map(found, texts)))} of {len(texts)} |")
    assert [row for row in rows if row not in page] == []
    assert f"none of {len(INNOCENT)} columns" in page


@pytest.mark.parametrize("text", ["617‑555‑0123", "６１７-555-0123", "jane＠example.org"])
def test_hyphens_and_digits_of_other_blocks_hide_nothing(text: str) -> None:
    schema = DataSchema.from_dict({"note": {"role": "insensitive", "kind": "categorical"}})
    scan = TextScan(schema)
    scan.cleaned(pa.table({"note": [f"reach {text} now"]}))
    assert list(scan.found()) == ["note"]


def test_dates_ages_and_web_addresses_are_found_where_text_must_be_clean() -> None:
    schema = DataSchema.from_dict({"note": {"role": "insensitive", "kind": "categorical"}})
    table = pa.table({"note": ["aged 97", "March 14th", "janedoe.com", "well"]})
    for clean, wanted in ((False, {}), (True, {"note": {"age": 1, "date": 1, "url": 1}})):
        scan = TextScan(schema, clean=clean)
        scan.cleaned(table)
        assert scan.found() == wanted


def test_redaction_takes_out_what_clean_text_looks_for() -> None:
    fields = {"note": {"role": "insensitive", "kind": "categorical", "text": "redact"}}
    scan = TextScan(DataSchema.from_dict(fields))
    cleaned = scan.cleaned(pa.table({"note": ["aged 97, seen March 14th", "well"]}))
    assert cleaned["note"].to_pylist() == ["[age], seen [date]", "well"]


def test_every_pattern_repeats_a_bounded_number_of_times() -> None:
    """The work at each character has a bound, so a text of n characters costs a multiple of n."""
    for pattern in every_pattern():
        bare = re.sub(r"\\.|\[(?:\\.|[^]\\])*\]", "x", pattern.form)
        assert re.search(r"[*+]|\{\d+,\}", bare) is None, pattern.form


@pytest.mark.parametrize("unit", ["1 ", "a.", "A1", "9-", "a@", "+1 ", "Mary ", "1:", "SN ", "12/"])
def test_long_hostile_texts_are_read_alike_by_both_engines(unit: str) -> None:
    text = unit * 300
    for pattern, end in product(every_pattern(), ("", "!")):
        spans = list(pattern.spans(text + end))
        assert len(spans) <= len(text)
        if spans:
            assert pc.match_substring_regex(pa.array([text + end]), pattern.form).to_pylist() == [True]
