"""Check digits beside those of python-stdnum, and the two engines of expressions beside each other."""

from collections.abc import Callable
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy_release.sources.text import patterns as ours
from privacy_release.sources.text.kinds import every_pattern, found_in

FRAGMENTS = [
    *("0", "1", "4111", "12", "3", "999", "55", "192.168.1.1", "+49", "DE89", "GB82WEST"),
    *(" ", "-", ".", ":", "/", "(", ")", "@", ",", "'", "\n", "é", "Ł", "\0"),
    *("Dr", "Mr", "Maria", "Weg", "Street", "rue", "Calle", "tel", "SSN", "PESEL", "a", "X", "example.org"),
]


@pytest.mark.slow  # a second library, on all plants
@settings(max_examples=10 * settings.default.max_examples)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join))
def test_what_python_finds_re2_lets_through(text: str) -> None:
    """RE2 chooses which values are looked at: what it does not match would never be found."""
    for pattern in every_pattern():
        if list(pattern.spans(text)):
            assert pc.match_substring_regex(pa.array([text]), pattern.form).to_pylist() == [True]


@settings(max_examples=5 * settings.default.max_examples)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join))
def test_what_is_found_lies_in_order_and_redaction_takes_it_out(text: str) -> None:
    found = found_in(text, every_pattern())
    ends = [0, *(end for (_, end), _ in found)]
    assert all(end <= begin < stop for end, ((begin, stop), _) in zip(ends, found, strict=False))
    kept = ours.redacted(text, found)
    assert len(kept) == len(text) + sum(len(kind) + 2 - (stop - begin) for (begin, stop), kind in found)


@pytest.mark.parametrize(
    "text",
    [
        "Mr John Smith",
        "Dr. Anna Maria Rossi",
        "Mrs Xenobia Quill",
        "Ms Anna Smith-Jones",
        "Herr J. P. van der Berg",
    ],
)
def test_all_names_after_a_title_are_taken_out(text: str) -> None:
    kept = ours.redacted(f"seen by {text} today", found_in(f"seen by {text} today", every_pattern()))
    assert kept == "seen by [name] today"


def test_of_two_findings_that_overlap_nothing_remains() -> None:
    first, second = (
        ours.Pattern(kind=kind, form=form) for kind, form in (("a", "one two"), ("b", "two three"))
    )
    assert ours.redacted("one two three", found_in("one two three", (first, second))) == "[a]"


@pytest.mark.quick("luhn", "nhs")  # the others alike
@pytest.mark.parametrize(
    ("check", "module", "length"),
    [
        (ours._is_bsn, "nl.bsn", 9),
        (ours._is_nhs, "gb.nhs", 10),
        (ours._is_pesel, "pl.pesel", 11),
        (ours._is_german_tax, "de.idnr", 11),
        (ours.is_luhn, "luhn", 16),
    ],
    ids=["bsn", "nhs", "pesel", "idnr", "luhn"],
)
def test_check_digits_are_those_of_stdnum(check: Callable[[str], bool], module: str, length: int) -> None:
    valid = pytest.importorskip("stdnum") and import_module(f"stdnum.{module}").is_valid
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 10, (8_000, length))
    if module == "pl.pesel":  # of dates: otherwise few are valid
        rows[:, 2:6] = [0, 3, 1, 7]
    if module == "de.idnr":  # ten different digits, one of them put in the place of another
        rows[:, :10] = rng.permuted(np.tile(np.arange(10), (len(rows), 1)), axis=1)
        rows[:, 3] = rows[:, 7]
    texts = ["".join(map(str, row)) for row in rows]
    # three-digit days and real calendars are theirs; what they accept we must find
    theirs = [text for text in texts if valid(text)]
    assert len(theirs) > 500
    assert all(map(check, theirs))
    assert sum(map(check, texts)) <= 1.05 * len(theirs)


def test_numbers_with_letters_are_checked_as_stdnum_does() -> None:
    pytest.importorskip("stdnum")
    rng, letters = np.random.default_rng(5), "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    dni, codice = import_module("stdnum.es.dni"), import_module("stdnum.it.codicefiscale")
    for number in rng.integers(0, 10**8, 200):
        found = [x for x in letters if ours._is_dni(f"{number:08d}{x}")]
        assert found == [x for x in letters if dni.is_valid(f"{number:08d}{x}")]
    for year, place in zip(rng.integers(10, 99, 100), rng.integers(100, 999, 100), strict=True):
        body = f"RSSMRA{year}T10A{place}"
        right = codice.calc_check_digit(body)
        assert [x for x in letters if ours._is_codice_fiscale(body + x)] == [right]


def test_french_numbers_are_those_of_stdnum() -> None:
    pytest.importorskip("stdnum")
    nir = import_module("stdnum.fr.nir")
    for body in ("2820819398814", "185057800608", "1850520006084", "185052A006084", "185052B006084"):
        whole = body.ljust(13, "1")
        keys = [f"{key:02d}" for key in range(100)]
        assert [k for k in keys if ours._is_nir(whole + k)] == [k for k in keys if nir.is_valid(whole + k)]
