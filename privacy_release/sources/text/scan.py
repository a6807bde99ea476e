"""Direct identifiers in the text that will be released: found while it is copied, told by kind and count.

Each distinct value of a part is looked at once: RE2 finds those that a form of
`privacy_release.sources.text.kinds` may be in, and the checks there decide. Memory: a part. What is found
is told by column, kind and number of records, never by value.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from privacy_engine.engines.parquet import batches, common_schema
from privacy_engine.errors import SchemaError
from privacy_engine.tables.schema import Attribute, DataSchema
from privacy_engine.vocabulary import Kind, Role, counted
from privacy_release.sources.text.kinds import every_pattern, found_in, patterns
from privacy_release.sources.text.patterns import Pattern, Span, in_ascii, numbers, redacted
from privacy_release.sources.text.recognizer import has_recognizer, recognized

if TYPE_CHECKING:
    import numpy.typing as npt

_SHARE = 0.5  # of the cells that a column's name, or a check digit, says something of
_DIGITS, _NUMBER = "^[0-9]+$", "^[0-9]{8,19}$"
_LOOKED_AT = 5_000  # numbers of a part; their share is that of all
_FEW = 5  # cells of digits, among which one in ten passes a check by chance
_CAPITALIZED = r"^[A-ZÀ-ÖØ-Þ][A-Za-zÀ-ÖØ-öø-ÿ'’. -]*\d{0,4}$"
_OF_PERSON = "name patient person customer client employee contact user de la of full"
# Words of a column's name, and what most values then look like. All words must be of the first two.
_NAMED: Mapping[str, tuple[str, str, str]] = {
    "name": (
        "first last middle maiden given family surname forename firstname lastname fullname vorname nachname "
        "nom prenom prénom apellido apellidos nombre cognome nome imie imię nazwisko voornaam achternaam",
        _OF_PERSON,
        _CAPITALIZED,
    ),
    "address": (
        "address addr street adresse strasse straße direccion dirección indirizzo adres",
        f"{_OF_PERSON} home postal mailing line email mail",
        r"^[^@]*\d[^@]* [^@]*[A-Za-z]|[A-Za-z][^@]* [^@]*\d",
    ),
    "phone": (
        "phone tel telephone mobile cell fax telefon handy telefono teléfono",
        f"{_OF_PERSON} number no nr home work",
        r"^\+?[0-9 ()./-]{7,20}$",
    ),
    "national_id": (
        "ssn sin nino nhs pesel bsn nir dni nie cpf curp passport passports driver drivers license licence",
        f"{_OF_PERSON} number no nr id",
        r"^[A-Z0-9 ./-]*[0-9][A-Z0-9 ./-]*[0-9][A-Z0-9 ./-]*$",
    ),
}


class TextScan:
    """What the released text of a table holds, part by part."""

    def __init__(self, schema: "DataSchema", *, clean: bool = False) -> None:
        """Scan the columns of a schema whose values it does not list.

        Args:
            schema: Of the records.
            clean: Whether all kinds are looked for, as `clean_text` asks; else those of every release.
        """
        self._columns = {a.name: _Column(a, clean=clean) for a in schema.attributes if _is_scanned(a)}

    def cleaned(self, table: "pa.Table") -> "pa.Table":
        """Look through the next records; the same, with what is to be redacted in brackets."""
        for name, column in self._columns.items():
            if name in table.column_names and t.is_string(table.schema.field(name).type):
                at = table.schema.get_field_index(name)
                if (changed := column.cleaned(table.column(name).combine_chunks())) is not None:
                    table = table.set_column(at, table.schema.field(at), changed)
        return table

    def absorb(self, other: "TextScan") -> None:
        """Take what another one found in other records of the table."""
        for name, column in self._columns.items():
            column.absorb(other._columns[name])

    def found(self) -> dict[str, dict[str, int]]:
        """The number of records of each kind, by column; of the columns that have some."""
        return {name: found for name, column in self._columns.items() if (found := column.found())}

    def require_clean(self) -> None:
        """Refuse text that would tell who a record is about.

        Raises:
            SchemaError: naming each column, what is in it, in how many records, and the remedies.
        """
        told = []
        for name, found in self.found().items():
            column = self._columns[name]
            if column.attribute.text == "redact":
                found = column.of_name()
            if found and (column.attribute.text is None or column.attribute.text == "redact"):
                kinds = ", ".join(
                    f"{_shown(kind)} in {counted(n, 'record')}" for kind, n in sorted(found.items())
                )
                told.append(f"{name}: {kinds}")
        if told:
            raise SchemaError(
                f"text that will be released looks like direct identifiers: {'; '.join(told)}. Give such a "
                "column the role identifier; or write `text: redact` to put the kind in its place, which "
                "cannot help where the whole column is of names or numbers; or `text: {allow: <reason>}`, "
                "which goes into the manifest"
            )


def found_in_files(files: Sequence[str]) -> dict[str, dict[str, int]]:
    """What the text of a table in Parquet files holds: the number of records of each kind, by column."""
    names = [field.name for field in common_schema(files) if not _is_plain(field.type)]
    if not names:
        return {}
    scan = TextScan(DataSchema(tuple(Attribute(name=name) for name in names)))
    for table in batches(files, names):
        scan.cleaned(table)
    return scan.found()


def found_in_release(files: Sequence[str], schema: "DataSchema") -> dict[str, dict[str, int]]:
    """What the released text of Parquet files holds: the number of records of each kind, by column.

    All kinds are looked for, those of `clean_text` among them; dates outside of columns of dates.
    """
    scanned = tuple(a for a in schema.attributes if _is_scanned(a) and a.name != schema.by)
    if not scanned:
        return {}
    scan = TextScan(replace(schema, attributes=scanned, person=None), clean=True)
    for table in batches(files, [a.name for a in scanned]):
        scan.cleaned(table)
    return scan.found()


def _is_plain(kind: "pa.DataType") -> bool:
    """Whether values of a type are no text, so that they need not be read."""
    return bool(t.is_primitive(kind) or t.is_nested(kind))


def _is_scanned(attribute: "Attribute") -> bool:
    """Whether values of an attribute are released that no schema names."""
    released = attribute.role is not Role.IDENTIFIER and attribute.pseudonym is None
    words = attribute.kind is not Kind.NUMERIC and attribute.dates is None
    return released and words and not attribute.has_public_domain


def _shown(kind: str) -> str:
    return kind.replace("_", " ")


class _Column:
    """What one column holds."""

    def __init__(self, attribute: "Attribute", *, clean: bool) -> None:
        self.attribute = attribute
        self._redacts = attribute.text == "redact" and not clean
        self._clean = clean or self._redacts
        self._dated = attribute.about == "date"
        self._kinds: Counter[str] = Counter()
        self._numbers: dict[str, float] = defaultdict(float)  # of cells of digits alone
        self._known = self._digits = self._fits = 0
        self._hint = _hint(attribute.name)

    def cleaned(self, cells: "pa.Array") -> "pa.Array | None":
        """Count what is found; the cells without it, where they are to be redacted and there is something."""
        coded = cells.dictionary_encode()
        values, codes = coded.dictionary, coded.indices
        known = codes.drop_null().to_numpy(zero_copy_only=False)
        records = np.bincount(known, minlength=len(values))
        self._known += len(known)
        self._count_whole(values, records)
        changed: dict[int, str] = {}
        kinds: dict[int, set[str]] = {}
        for code, found in self._found_in(values):
            kinds[code] = {kind for _, kind in found}
            if self._redacts:
                changed[code] = redacted(values[code].as_py(), found)
        for code, more in self._recognized(values, changed):
            kinds[code] = kinds.get(code, set()) | more
            changed[code] = f"[{min(more)}]"  # nothing says where in the text, so all of it goes
        for code, of_text in kinds.items():
            self._kinds.update(dict.fromkeys(of_text, int(records[code])))
        if not self._redacts:
            return None
        codes_of_numbers = _matching(values, _NUMBER)
        for code, text in zip(codes_of_numbers.tolist(), _texts(values, codes_of_numbers), strict=True):
            if names := self._names_of(text):
                changed[code] = f"[{names[0].partition(' ')[0]}]"
        if not changed:
            return None
        texts = values.to_pylist()
        for code, text in changed.items():
            texts[code] = text
        return pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string())).cast(pa.string())

    def _recognized(
        self, values: "pa.Array", changed: Mapping[int, str]
    ) -> Iterator[tuple[int, frozenset[str]]]:
        """Codes of the values, as they are redacted, in which the deployment's recognizer finds kinds."""
        if has_recognizer():
            texts = [changed.get(code, text) for code, text in enumerate(values.to_pylist())]
            yield from ((code, kinds) for code, kinds in enumerate(recognized(texts)) if kinds)

    def _found_in(self, values: "pa.Array") -> Iterator[tuple[int, list[tuple[Span, str]]]]:
        """Codes of the values that hold something, and where.

        RE2 chooses the values that each pattern looks at. One expression of all forms has so many states
        that it takes five times as long as the forms one by one.
        """
        values = _plain(values)
        digits = set(_matching(values, _DIGITS).tolist())
        among: dict[int, list[Pattern]] = defaultdict(list)
        for pattern in every_pattern() if self._clean else patterns():
            if not (self._dated and pattern.kind == "date"):
                for code in _matching(values, pattern.form).tolist():
                    among[code].append(pattern)
        for code in sorted(among.keys() - digits):
            if found := found_in(values[code].as_py(), tuple(among[code])):
                yield code, found

    def absorb(self, other: "_Column") -> None:
        """Take what was found in other records."""
        self._kinds.update(other._kinds)
        for name, count in other._numbers.items():
            self._numbers[name] += count
        self._known += other._known
        self._digits += other._digits
        self._fits += other._fits

    def _count_whole(self, values: "pa.Array", records: "npt.NDArray[np.int64]") -> None:
        """Cells that are digits alone, and such as the name of the column says."""
        if self._hint:
            self._fits += int(records[_matching(values, self._hint[1])].sum())
        self._digits += int(records[_matching(values, _DIGITS)].sum())
        codes = _matching(values, _NUMBER)
        looked_at = codes[:_LOOKED_AT]
        for code, text in zip(looked_at.tolist(), _texts(values, looked_at), strict=True):
            for name in self._names_of(text):
                self._numbers[name] += records[code] * records[codes].sum() / records[looked_at].sum()

    def _names_of(self, digits: str) -> list[str]:
        """What a number passes the check of."""
        asked = self._clean and not self._dated
        return [name for name, check in numbers().items() if (asked or name != "date") and check(digits)]

    def found(self) -> dict[str, int]:
        """Records by kind."""
        return dict(self._kinds + Counter(self.of_name()) + Counter(self._of_numbers()))

    def _of_numbers(self) -> dict[str, int]:
        """Kinds of which there are too many for chance among the cells of digits."""
        told: dict[str, int] = {}
        for name, count in self._numbers.items():
            strong = name in ("card", "national_id of France")
            if count >= _SHARE * self._digits and (strong or count >= _FEW):
                kind = name.partition(" ")[0]
                told[kind] = max(round(count), told.get(kind, 0))
        return told

    def of_name(self) -> dict[str, int]:
        """What the name of the column says, where most values agree and no form says so of each."""
        if self._hint is None or not self._fits or self._fits < _SHARE * self._known:
            return {}
        kind = self._hint[0]
        return {kind: self._fits - self._kinds[kind]} if self._fits > self._kinds[kind] else {}


def _texts(values: "pa.Array", codes: "npt.NDArray[np.intp]") -> list[str]:
    """Some of the values."""
    texts: list[str] = values.take(pa.array(codes, pa.int64())).to_pylist()
    return texts


def _plain(values: "pa.Array") -> "pa.Array":
    """The texts, each of the same length, with hyphens, blanks and digits as those of ASCII."""
    other = _matching(values, r"[^\x00-\x7f]")
    if not len(other):
        return values
    texts = values.to_pylist()
    for code in other.tolist():
        texts[code] = in_ascii(texts[code])
    return pa.array(texts, pa.string())


def _matching(values: "pa.Array", form: str) -> "npt.NDArray[np.intp]":
    """The codes of the values that a regular expression matches."""
    return np.flatnonzero(pc.match_substring_regex(values, form).to_numpy(zero_copy_only=False))


def _hint(name: str) -> tuple[str, str] | None:
    """Kind and form of the values of a column of that name, where it says what they are.

    >>> _hint("patient_last_name")[0], _hint("last_visit")
    ('name', None)
    """
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    parts = [part for part in re.split(r"[\W\d_]+", words) if part]
    for kind, (telling, allowed, form) in _NAMED.items():
        known = set(telling.split())
        if known.intersection(parts) and set(parts) <= known | set(allowed.split()):
            return kind, form
    if "name" in parts and set(parts) <= set(_OF_PERSON.split()) and len(parts) > 1:
        return "name", _CAPITALIZED
    return None
