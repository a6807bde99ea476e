"""One normal form for all spellings of a word, and none that joins words which a reader tells apart."""

import hashlib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy_engine.tables.normal import FORM, normal, normal_forms

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (unicodedata.normalize("NFC", "Ménière"), unicodedata.normalize("NFD", "Ménière")),
        ("HIV", "hiv"),
        ("Straße", "STRASSE"),
        ("HIV", " HIV\t"),
        ("heart  attack", "heart\u00a0attack"),
        ("heart attack", "heart\u2003\u2800attack"),
        ("HIV", "H\u200bIV"),
        ("HIV", "\ufeffHIV"),
        ("HIV", "HIV\u200e"),
        ("HIV", "H\x00IV"),
        ("HIV", "HIV\ufe0f"),
        ("Influenza", "Influ\u00adenza"),
        ("HIV", "\uff28\uff29\uff36"),
        ("office", "o\ufb03ce"),
        ("COVID-19", "COVID\u201119"),
        ("COVID-19", "COVID\u221219"),
        ("Crohn's disease", "Crohn\u2019s disease"),
        ("Crohn's disease", "Crohn\u00b4s disease"),
        ("Crohn's disease", unicodedata.normalize("NFKC", "Crohn\u00b4s disease")),
        ('"flu"', "\u201cflu\u201d"),
        ('"flu"', "\u2033flu\u2032\u2032"),
    ],
)
def test_spellings_that_read_the_same_have_one_form(one: str, other: str) -> None:
    assert normal_forms([one, other]) == [normal(one)] * 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Meniere", "Ménière"),
        ("COVID-19", "COVID19"),
        ("heart attack", "heartattack"),
        ("007", "7"),
        ("", "-"),
    ],
)
def test_different_words_keep_different_forms(one: str, other: str) -> None:
    assert normal(one) != normal(other)


def test_another_normal_form_has_another_name() -> None:
    """Stored hashes of persons name it. The signs are of Unicode 3.2, whose folding later versions keep."""
    signs = [chr(n) for n in range(0x11000) if unicodedata.ucd_3_2_0.category(chr(n)) not in ("Cn", "Cs")]
    digest = hashlib.sha256("\n".join(normal_forms([f"a{sign}b" for sign in signs])).encode()).hexdigest()
    assert (FORM, digest[:16]) == ("nfkc_casefold 1", "98cf31985a836db1")


@given(TEXTS)
def test_the_form_of_a_form_is_the_same(text: str) -> None:
    assert normal(normal(text)) == normal(text)


@given(TEXTS)
def test_composed_decomposed_and_padded_spellings_have_one_form(text: str) -> None:
    spellings = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert set(normal_forms([*spellings, f" {text} \u200b"])) == {normal(text)}
