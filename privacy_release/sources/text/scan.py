"""Search released text for direct identifiers while it is copied. Findings are kinds and counts.

Each distinct value of a part is searched once: RE2 selects those that may contain a form of
`privacy_release.sources.text.kinds`, and its checks decide. If the values are short in total, RE2 selects
nothing. Memory: one part. Findings are reported by column, kind and number of records, never by value.
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
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.schema import DataSchema
from privacy_engine.vocabulary import Kind, Role, counted
from privacy_release.sources.text.kinds import every_pattern, found_in, patterns
from privacy_release.sources.text.patterns import Pattern, Span, in_ascii, numbers, redacted
from privacy_release.sources.text.recognizer import has_recognizer, recognized

if TYPE_CHECKING:
    import numpy.typing as npt

_SHARE = 0.5  # share of cells that must agree with a column's name, or pass a check
_DIGITS, _NUMBER = "^[0-9]+$", "^[0-9]{8,19}$"
_LOOKED_AT = 5_000  # numbers of a part that are checked, as a sample of all
_SHORT = 1_000  # bytes of values that are searched in less time than RE2 takes to compile the forms
_FEW = 5  # number of cells of digits below which chance may pass a check, one time in ten
_CAPITALIZED = r"^[A-ZÀ-ÖØ-Þ][A-Za-zÀ-ÖØ-öø-ÿ'’. -]*\d{0,4}$"
_OF_PERSON = "name patient person customer client employee contact user de la of full"
# Words of a column's name, and the form of most values then. All words must be in the first two groups.
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
    """The identifiers in the released text of a table, part by part."""

    def __init__(self, schema: "DataSchema", *, clean: bool = False) -> None:
        """Search the columns of a schema whose values it does not list.

        Args:
            schema: Schema of the records.
            clean: Whether all kinds are searched for, as `clean_text` requires. Otherwise those of every
                release.
        """
        self._columns = {a.name: _Column(a, clean=clean) for a in schema.attributes if _is_scanned(a)}

    def cleaned(self, table: "pa.Table") -> "pa.Table":
        """Search the next records, and return them with text to redact replaced by its kind in brackets."""
        for name, column in self._columns.items():
            if name in table.column_names and t.is_string(table.schema.field(name).type):
                at = table.schema.get_field_index(name)
                if (changed := column.cleaned(table.column(name).combine_chunks())) is not None:
                    table = table.set_column(at, table.schema.field(at), changed)
        return table

    def absorb(self, other: "TextScan") -> None:
        """Add the findings of another scan in other records of the table."""
        for name, column in self._columns.items():
            column.absorb(other._columns[name])

    def found(self) -> dict[str, dict[str, int]]:
        """Return the number of records of each kind, by column with findings."""
        return {name: found for name, column in self._columns.items() if (found := column.found())}

    def require_clean(self) -> None:
        """Raise if text would reveal who a record is about.

        Raises:
            SchemaError: Naming each column, what is in it, in how many records, and the remedies.
        """
        findings = []
        for name, found in self.found().items():
            column = self._columns[name]
            if column.attribute.text == "redact":
                found = column.of_name()
            if found and (column.attribute.text is None or column.attribute.text == "redact"):
                kinds = ", ".join(
                    f"{_shown(kind)} in {counted(n, 'record')}" for kind, n in sorted(found.items())
                )
                findings.append(f"{name}: {kinds}")
        if findings:
            raise SchemaError(
                f"text that will be released looks like direct identifiers: {'; '.join(findings)}. Give such "
                "a column the role identifier; or set `text: redact` to replace findings by their kind, "
                "which does not help if the whole column is names or numbers; or `text: {allow: <reason>}`, "
                "which goes into the manifest"
            )


def found_in_files(files: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the number of records of each kind in the text of Parquet files, by column."""
    names = [field.name for field in common_schema(files) if not _is_plain(field.type)]
    if not names:
        return {}
    scan = TextScan(DataSchema(tuple(Attribute(name=name) for name in names)))
    for table in batches(files, names):
        scan.cleaned(table)
    return scan.found()


def found_in_release(files: Sequence[str], schema: "DataSchema") -> dict[str, dict[str, int]]:
    """Return the number of records of each kind in the released text of Parquet files, by column.

    All kinds are searched for, including those of `clean_text`, except dates in columns of dates.
    """
    scanned = tuple(a for a in schema.attributes if _is_scanned(a) and a.name != schema.by)
    if not scanned:
        return {}
    scan = TextScan(replace(schema, attributes=scanned, person=None), clean=True)
    for table in batches(files, [a.name for a in scanned]):
        scan.cleaned(table)
    return scan.found()


def _is_plain(kind: "pa.DataType") -> bool:
    """Return whether values of a type are never text, so that they need not be read."""
    return bool(t.is_primitive(kind) or t.is_nested(kind))


def _is_scanned(attribute: "Attribute") -> bool:
    """Return whether values of an attribute are released without being listed in a schema."""
    released = attribute.role is not Role.IDENTIFIER and attribute.pseudonym is None
    words = attribute.kind is not Kind.NUMERIC and attribute.dates is None
    return released and words and not attribute.has_public_domain


def _shown(kind: str) -> str:
    return kind.replace("_", " ")


class _Column:
    """The findings in one column."""

    def __init__(self, attribute: "Attribute", *, clean: bool) -> None:
        self.attribute = attribute
        self._redacts = attribute.text == "redact" and not clean
        self._clean = clean or self._redacts
        self._dated = attribute.about == "date"
        self._kinds: Counter[str] = Counter()
        self._numbers: dict[str, float] = defaultdict(float)  # for cells of only digits
        self._known = self._digits = self._fits = 0
        self._hint = _hint(attribute.name)

    def cleaned(self, cells: "pa.Array") -> "pa.Array | None":
        """Count findings. Return the cells without them, if they are to be redacted and there are any."""
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
            changed[code] = f"[{min(more)}]"  # its position in the text is unknown, so the text is replaced
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
        """Return codes of redacted values in which the deployment's recognizer finds kinds."""
        if has_recognizer():
            texts = [changed.get(code, text) for code, text in enumerate(values.to_pylist())]
            yield from ((code, kinds) for code, kinds in enumerate(recognized(texts)) if kinds)

    def _found_in(self, values: "pa.Array") -> Iterator[tuple[int, list[tuple[Span, str]]]]:
        """Yield codes of the values with findings, and the findings.

        RE2 selects the values that each pattern is applied to, unless they are short in total: all patterns
        are then applied to all. A single expression for all forms needs so large an automaton that it takes
        five times as long as the individual forms.
        """
        values = _plain(values)
        digits = set(_matching(values, _DIGITS).tolist())
        among: dict[int, list[Pattern]] = defaultdict(list)
        short = _size(values) <= _SHORT
        for pattern in every_pattern() if self._clean else patterns():
            if not (self._dated and pattern.kind == "date"):
                for code in range(len(values)) if short else _matching(values, pattern.form).tolist():
                    among[code].append(pattern)
        for code in sorted(among.keys() - digits):
            if found := found_in(values[code].as_py(), tuple(among[code])):
                yield code, found

    def absorb(self, other: "_Column") -> None:
        """Add the findings in other records."""
        self._kinds.update(other._kinds)
        for name, count in other._numbers.items():
            self._numbers[name] += count
        self._known += other._known
        self._digits += other._digits
        self._fits += other._fits

    def _count_whole(self, values: "pa.Array", records: "npt.NDArray[np.int64]") -> None:
        """Count cells of only digits, and cells with the form that the column's name suggests."""
        if self._hint:
            self._fits += int(records[_matching(values, self._hint[1])].sum())
        self._digits += int(records[_matching(values, _DIGITS)].sum())
        codes = _matching(values, _NUMBER)
        looked_at = codes[:_LOOKED_AT]
        for code, text in zip(looked_at.tolist(), _texts(values, looked_at), strict=True):
            for name in self._names_of(text):
                self._numbers[name] += records[code] * records[codes].sum() / records[looked_at].sum()

    def _names_of(self, digits: str) -> list[str]:
        """Return the kinds whose check a number passes."""
        dates_too = self._clean and not self._dated
        return [name for name, check in numbers().items() if (dates_too or name != "date") and check(digits)]

    def found(self) -> dict[str, int]:
        """Return the number of records by kind."""
        return dict(self._kinds + Counter(self.of_name()) + Counter(self._of_numbers()))

    def _of_numbers(self) -> dict[str, int]:
        """Return kinds that are too frequent among the cells of digits to be chance."""
        kinds: dict[str, int] = {}
        for name, count in self._numbers.items():
            strong = name in ("card", "national_id of France")
            if count >= _SHARE * self._digits and (strong or count >= _FEW):
                kind = name.partition(" ")[0]
                kinds[kind] = max(round(count), kinds.get(kind, 0))
        return kinds

    def of_name(self) -> dict[str, int]:
        """Return the kind that the column's name suggests, if most values agree and no form finds it."""
        if self._hint is None or not self._fits or self._fits < _SHARE * self._known:
            return {}
        kind = self._hint[0]
        return {kind: self._fits - self._kinds[kind]} if self._fits > self._kinds[kind] else {}


def _texts(values: "pa.Array", codes: "npt.NDArray[np.intp]") -> list[str]:
    """Return some of the values."""
    texts: list[str] = values.take(pa.array(codes, pa.int64())).to_pylist()
    return texts


def _plain(values: "pa.Array") -> "pa.Array":
    """Return the texts, each of the same length, with hyphens, blanks and digits converted to ASCII."""
    other = _matching(values, r"[^\x00-\x7f]")
    if not len(other):
        return values
    texts = values.to_pylist()
    for code in other.tolist():
        texts[code] = in_ascii(texts[code])
    return pa.array(texts, pa.string())


def _size(values: "pa.Array") -> int:
    """Return the number of bytes of all values together."""
    return int(pc.sum(pc.binary_length(values)).as_py() or 0)


def _matching(values: "pa.Array", form: str) -> "npt.NDArray[np.intp]":
    """Return the codes of the values that a regular expression matches."""
    return np.flatnonzero(pc.match_substring_regex(values, form).to_numpy(zero_copy_only=False))


def _hint(name: str) -> tuple[str, str] | None:
    """Return the kind and form of values that a column's name suggests. None if it suggests nothing.

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
