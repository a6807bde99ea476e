"""The forms of direct identifiers in text, with check digits, context or marks, and few false alarms.

Each form is a regular expression that Python and RE2 read alike. If it is loose, a check decides: Luhn and
the issuer of a card, ISO 7064 of a bank account, the check digits of national numbers. A cell of only digits
is none of them, unless at least half of a column's cells are, see `privacy_release.sources.text.scan`.

With the extra `text`, python-stdnum adds national numbers of more countries, and phonenumbers the telephone
numbers that are written without a country code. Names of persons are found by a title, by a frequent given
name before another capitalized word, and by the name of the column. A language model would find more, but has
to be downloaded. This is a safety net, not a proof.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec

Span = tuple[int, int]
Check = Callable[[str, Span], Span | None]

_LETTER = "[A-Za-zÀ-ÖØ-öø-ÿĀ-ž]"
_UPPER = "[A-ZÀ-ÖØ-ÞĀŁŚŻŽČŠŐŰ]"
_WORD = f"{_UPPER}{_LETTER}{{1,40}}"
# Other words that follow a number and a capital in descriptions: "2 View", "6 Minute Walk".
_STREETS = (
    "Alley|Avenue|Ave|Bluff|Boulevard|Blvd|Branch|Bridge|Brook|Bypass|Byway|Camp|Canyon|Cape|Causeway|"
    "Center|Centre|Circle|Cir|Cliff|Close|Corner|Court|Ct|Cove|Creek|Crescent|Crest|Crossing|Crossroad|"
    "Dale|Dam|Drive|Dr|Estate|Expressway|Extension|Ferry|Field|Ford|Forest|Forge|Fork|Fort|Freeway|"
    "Garden|Gateway|Glen|Green|Grove|Harbor|Haven|Heights|Highway|Hwy|Hill|Hollow|Inlet|Island|Isle|"
    "Junction|Knoll|Lake|Landing|Lane|Ln|Lodge|Loop|Mall|Manor|Meadow|Mews|Mill|Motorway|Mount|Mountain|"
    "Orchard|Oval|Overpass|Park|Parkway|Pkwy|Passage|Path|Pike|Pine|Place|Pl|Plaza|Point|Port|Prairie|"
    "Promenade|Quay|Ranch|Ridge|River|Road|Rd|Route|Row|Rue|Shoal|Shore|Skyway|Spring|Spur|Square|Sq|"
    "Station|Stravenue|Street|St|Summit|Terrace|Throughway|Trace|Trafficway|Trail|Tunnel|Turnpike|"
    "Underpass|Valley|Viaduct|Village|Ville|Vista|Way"
)
_GIVEN = (
    "Adam|Agnieszka|Ahmed|Alan|Albert|Alejandro|Alessandro|Alexander|Alice|Amanda|Amy|Ana|Andrea|Andreas|"
    "Andrew|Angela|Ann|Anna|Anne|Anthony|Antonio|Arthur|Ashley|Barbara|Benjamin|Betty|Brandon|Brenda|Brian|"
    "Carlos|Carmen|Carol|Carolyn|Catherine|Charles|Christine|Christopher|Claudia|Cynthia|Daniel|David|"
    "Deborah|Dennis|Diana|Diego|Donald|Donna|Dorothy|Edward|Elena|Elizabeth|Emily|Emma|Eric|Fatima|"
    "Ferdinand|Francesco|Francisco|Frank|Gabriel|Gary|George|Giovanni|Giulia|Giuseppe|Gregory|Hannah|Hans|"
    "Heather|Helen|Helga|Henry|Isabella|Jack|Jacob|James|Jan|Janet|Jason|Javier|Jean|Jeffrey|Jennifer|"
    "Jerry|Jessica|Joan|Joanna|Johann|John|Jonathan|Jose|José|Joseph|Joshua|Juan|Judith|Judy|Julia|Julie|"
    "Justin|Karen|Katarzyna|Katherine|Kathleen|Kenneth|Kevin|Kimberly|Klaus|Krzysztof|Larry|Laura|Lauren|"
    "Linda|Lisa|Louis|Lucia|Luis|Magdalena|Manuel|Marco|Margaret|Maria|María|Marie|Martha|Mary|"
    "Matthew|Megan|Melissa|Michael|Michelle|Miguel|Mohammed|Monika|Muhammad|Nancy|Nicholas|Nicole|Olivia|"
    "Pamela|Patricia|Patrick|Paul|Paula|Pedro|Peter|Philip|Pierre|Piotr|Rachel|Raymond|Rebecca|Renate|"
    "Richard|Robert|Roger|Ronald|Ruth|Ryan|Samantha|Samuel|Sandra|Sara|Sarah|Scott|Sharon|Shirley|Sofia|"
    "Stefan|Stephanie|Stephen|Steven|Susan|Teresa|Theresa|Thomas|Timothy|Tomasz|Tyler|Ursula|Walter|"
    "Wendy|William|Wolfgang|Zachary"
)
# A given name before these, or before the name of a street, belongs to a place or an institution.
_NO_SURNAME = frozenset(_STREETS.split("|")) | {
    "Arbor",
    "Beach",
    "Church",
    "City",
    "Clinic",
    "College",
    "Community",
    "County",
    "Disease",
    "Fellowship",
    "Foundation",
    "General",
    "Health",
    "Hospital",
    "House",
    "Institute",
    "Klinik",
    "Krankenhaus",
    "Medical",
    "Memorial",
    "School",
    "Syndrome",
    "Test",
    "Town",
    "University",
}


def found_everywhere(text: str, span: Span) -> Span | None:
    """Accept any match of a form that needs no further check."""
    return span


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A form of a kind of identifier in text.

    Attributes:
        kind: Name of the kind, one word.
        form: Regular expression that finds it.
        check: Function that returns the part of a match that is an identifier, or None.
    """

    kind: str
    form: str
    check: Check = found_everywhere

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the matches in a text."""
        for match in compiled(self.form).finditer(text):
            if (span := self.check(text, match.span())) is not None:
                yield span


@cache
def compiled(form: str) -> re.Pattern[str]:
    """Compile a form as RE2 reads it: letters, digits and word boundaries are those of ASCII."""
    return re.compile(form, re.ASCII)


def redacted(text: str, found: list[tuple[Span, str]]) -> str:
    """Return the text with the kind in brackets in place of each finding.

    >>> redacted("write to a@b.org", [((9, 16), "email")])
    'write to [email]'
    """
    parts, end = [], 0
    for span, kind in found:
        parts += [text[end : span[0]], f"[{kind}]"]
        end = span[1]
    return "".join([*parts, text[end:]])


@cache
def all_known() -> tuple[Pattern, ...]:
    """Return the patterns of this module and of the installed libraries."""
    return (*_built_in(), *_of_stdnum(), *_of_phonenumbers())


_COMPACT = r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
_DASHES = dict.fromkeys([*range(0x2010, 0x2016), 0x2212, 0xFE63], "-")
_BLANKS = dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")
_IN_ASCII = {**_DASHES, **_BLANKS, **{0xFF01 + i: chr(0x21 + i) for i in range(94)}}


def in_ascii(text: str) -> str:
    """Return a text of the same length, with hyphens, blanks and digits converted to ASCII.

    >>> in_ascii("617\u2011555\u20110123"), in_ascii("\uff16\uff11\uff17")
    ('617-555-0123', '617')
    """
    plain = text.translate(_IN_ASCII)
    if plain.isascii():
        return plain
    return "".join(str(int(c)) if not c.isascii() and c.isdecimal() else c for c in plain)


@cache
def numbers() -> dict[str, Callable[[str], bool]]:
    """Return the possible kinds of a cell of only digits: kind and number, and its check."""
    return {
        "card": _is_card,
        "device": lambda digits: len(digits) == 15 and len(set(digits)) > 1 and is_luhn(digits),
        "date": lambda digits: re.fullmatch(_COMPACT, digits) is not None,
        "national_id of France": lambda digits: len(digits) == 15 and _is_nir(digits),
        "national_id of Poland": lambda digits: len(digits) == 11 and _is_pesel(digits),
        "national_id of Germany": lambda digits: len(digits) == 11 and _is_german_tax(digits),
        "national_id of the United Kingdom": lambda digits: len(digits) == 10 and _is_nhs(digits),
        "national_id of the Netherlands": lambda digits: len(digits) == 9 and _is_bsn(digits),
    }


def _built_in() -> tuple[Pattern, ...]:
    words = f"{_WORD}(?:[ -]{_WORD}){{0,2}}"
    call = "(?i:tel|telephone|phone|mobile|fax|call|telefon|handy|whatsapp|telefono)"
    number = r"(?i:[ .:#-]{0,4}(?:no|nr|number)?[ .:#-]{0,4})"
    return (
        Pattern(kind="iban", form=r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?", check=_iban),
        Pattern(kind="card", form=r"\b\d(?:[ -]?\d){12,18}\b", check=of_digits(_is_card)),
        Pattern(kind="national_id", form=r"\b\d{3}-\d{2}-\d{4}\b", check=of_digits(_is_ssn)),
        Pattern(kind="national_id", form=r"\b(?i:ssn|social security)" + number + r"\d{9}\b"),
        Pattern(
            kind="national_id",
            form=r"\b[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]\b",
            check=_nino,
        ),
        Pattern(kind="national_id", form=r"\b\d{3}[ -]\d{3}[ -]\d{4}\b", check=of_digits(_is_nhs)),
        Pattern(
            kind="national_id",
            form=r"\b[12] ?\d{2} ?\d{2} ?\d[\dAB] ?\d{3} ?\d{3} ?\d{2}\b",
            check=_of_text(_is_nir),
        ),
        Pattern(kind="national_id", form=r"\b(?:\d{8}|[XYZ]-?\d{7})-?[A-Z]\b", check=_of_text(_is_dni)),
        Pattern(
            kind="national_id",
            form=r"\b[A-Z]{6}\d{2}[ABCDEHLMPRST]\d{2}[A-Z]\d{3}[A-Z]\b",
            check=_of_text(_is_codice_fiscale),
        ),
        Pattern(
            kind="national_id",
            form=r"\b(?i:pesel|bsn|nhs|steuer-?id|idnr|tax id)" + number + r"\d{9,11}\b",
            check=of_digits(lambda digits: any(check(digits) for check in numbers().values())),
        ),
        Pattern(kind="national_id", form=r"\b\d{2} \d{3} \d{3} \d{3}\b", check=of_digits(_is_german_tax)),
        Pattern(kind="phone", form=r"\+\d{1,3}[ .()/-]{0,3}(?:\d[ .()/-]{0,3}){6,13}\d\b", check=_alone),
        Pattern(
            kind="phone", form=r"(?:\([2-9]\d{2}\) ?|\b[2-9]\d{2}[-. ])[2-9]\d{2}[-. ]\d{4}\b", check=_alone
        ),
        Pattern(kind="phone", form=r"\b0[1-9](?:[ .-]\d{2}){4}\b", check=_alone),
        Pattern(kind="phone", form=rf"\b{call}{number}[(+]?\d(?:[ ()./-]{{0,2}}\d){{5,14}}\b"),
        Pattern(kind="ip", form=r"\b\d{1,3}(?:\.\d{1,3}){3}\b", check=_ip),
        Pattern(
            kind="ip", form=r"\b[0-9A-Fa-f]{1,4}:(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{1,4}\b", check=_ip
        ),
        Pattern(
            kind="address",
            form=rf"\b\d{{1,5}}[A-Za-z]? (?:{_UPPER}[A-Za-z.'-]{{0,30}} ){{1,4}}(?:{_STREETS})s?\b",
        ),
        Pattern(
            kind="address",
            form=rf"{_WORD}(?:straße|strasse|str\.|weg|gasse|platz|allee|damm|ufer|straat|laan|gracht|kade)"
            r" \d{1,4}[a-z]?\b",
        ),
        Pattern(
            kind="address",
            form=rf"\b\d{{1,4}},? (?:bis |ter )?(?i:rue|avenue|boulevard|chemin|impasse|quai|allée)"
            rf" (?:(?:de la|de|du|des|d'|l') ?)?{_WORD}",
        ),
        Pattern(
            kind="address",
            form=rf"\b(?:Calle|Avenida|Plaza|Via|Viale|Piazza|Corso|ul\.|al\.) (?:{_WORD} ){{0,3}}{_WORD},?"
            r" \d{1,4}\b",
        ),
        Pattern(kind="address", form=r"\b(?i:p\.? ?o\.? box) \d{1,6}\b"),
        Pattern(kind="address", form=r"\b[A-PR-UWYZ][A-HK-Y]?\d[A-Z\d]? \d[ABD-HJLNP-UW-Z]{2}\b"),
        Pattern(kind="name", form=rf"\b(?:{_GIVEN}) (?:{_UPPER}\. )?{words}", check=_surname),
    )


def of_digits(check: Callable[[str], bool]) -> Check:
    """Return a check of the digits of a match that is not part of a longer number."""

    def found(text: str, span: Span) -> Span | None:
        digits = "".join(c for c in text[slice(*span)] if c.isdigit())
        return _alone(text, span) if check(digits) else None

    return found


def _of_text(check: Callable[[str], bool]) -> Check:
    def found(text: str, span: Span) -> Span | None:
        plain = re.sub(r"[ .-]", "", text[slice(*span)])
        return _alone(text, span) if check(plain) else None

    return found


def _alone(text: str, span: Span) -> Span | None:
    """Reject a part of a longer number, and a cell of only digits, which is judged by its column."""
    if span == (0, len(text)) and text.isdigit():
        return None
    before, after = text[: span[0]][-2:], text[span[1] :][:2]
    joined = re.search(r"\d[-.]?$|\d$", before) or re.match(r"[-.]?\d", after)
    return None if joined else span


def is_luhn(digits: str) -> bool:
    """Return whether the check digit at the end is right (ISO/IEC 7812)."""
    doubled = [int(d) * (1 + i % 2) for i, d in enumerate(reversed(digits))]
    return sum(d - 9 * (d > 9) for d in doubled) % 10 == 0


def _is_card(digits: str) -> bool:
    """Check length, first digits of an issuer, and check digit (ISO/IEC 7812)."""
    issuer = r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[0689]\d{12}|6(?:011|5\d\d)\d{12}"
    return re.fullmatch(issuer, digits) is not None and len(set(digits)) > 1 and is_luhn(digits)


_LENGTHS = {
    15: "NO",
    16: "BE",
    18: "DK FI NL",
    19: "MK SI",
    20: "AT BA EE KZ LT LU XK",
    21: "CH HR LI LV",
    22: "BG DE GB GE IE ME RS VA",
    23: "AE GI IL",
    24: "AD CZ ES MD PK RO SA SE SK TN",
    25: "PT",
    26: "IS TR",
    27: "FR GR IT MC SM",
    28: "AL AZ CY HU LB PL",
    29: "BR PS QA UA",
    30: "KW",
    31: "MT",
}


def _iban(text: str, span: Span) -> Span | None:
    """Accept a bank account (ISO 13616): length of the country, and remainder 1 of 97, without the rest."""
    country, taken, end = text[span[0] : span[0] + 2], "", span[0]
    wanted = next((length for length, countries in _LENGTHS.items() if country in countries.split()), 0)
    for end in range(span[0], span[1]):
        taken += text[end].strip()
        if len(taken) == wanted:
            break
    if len(taken) != wanted or text[end + 1 : end + 2].isalnum():
        return None
    number = "".join(str(int(c, 36)) for c in taken[4:] + taken[:4])
    return (span[0], end + 1) if int(number) % 97 == 1 else None


def _is_ssn(digits: str) -> bool:
    """Check the form of the United States. 9xx are other numbers of persons, and invented ones."""
    return digits[:3] not in ("000", "666") and digits[3:5] != "00" and digits[5:] != "0000"


def _nino(text: str, span: Span) -> Span | None:
    return None if text[span[0] :][:2] in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ") else span


def _is_nhs(digits: str) -> bool:
    weighed = sum(int(d) * (10 - i) for i, d in enumerate(digits[:9]))
    return len(digits) == 10 and len(set(digits)) > 1 and 11 - weighed % 11 == (int(digits[9]) or 11)


def _is_nir(plain: str) -> bool:
    """France: sex, year, month, place and a key (97 minus the remainder)."""
    body = plain[:13].replace("2A", "19").replace("2B", "18") if plain[6:7] in "AB" else plain[:13]
    month = plain[3:5]
    months = month.isdigit() and (1 <= int(month) <= 12 or 20 <= int(month) <= 42 or int(month) >= 50)
    return bool(months and body.isdigit() and plain[13:].isdigit()) and 97 - int(body) % 97 == int(plain[13:])


def _is_dni(plain: str) -> bool:
    digits = plain[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return digits.isdigit() and "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == plain[-1]


def _is_codice_fiscale(plain: str) -> bool:
    odd = dict(zip("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", _ODD, strict=True))
    total = sum(odd[c] if i % 2 == 0 else int(c, 36) - 10 * (c >= "A") for i, c in enumerate(plain[:15]))
    return chr(ord("A") + total % 26) == plain[15]


_TEN = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21)
_ODD = (*_TEN, *_TEN, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)


def _is_german_tax(digits: str) -> bool:
    """Eleven digits, one of the first ten twice or thrice, and a check digit (ISO 7064, mod 11, 10)."""
    often = sorted((digits[:10].count(d) for d in set(digits[:10])), reverse=True)
    if len(digits) != 11 or digits[0] == "0" or often[0] not in (2, 3) or often[1] > 1:
        return False
    product = 10
    for d in digits[:10]:
        total = (int(d) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(digits[10])


def _is_pesel(digits: str) -> bool:
    """Poland: a date, whose month encodes the century, and a check digit."""
    month, day = int(digits[2:4]) % 20, int(digits[4:6])
    weighed = sum(int(d) * w for d, w in zip(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), strict=False))
    return len(digits) == 11 and 1 <= month <= 12 and 1 <= day <= 31 and weighed % 10 == 0


def _is_bsn(digits: str) -> bool:
    weighed = sum(int(d) * w for d, w in zip(digits, (9, 8, 7, 6, 5, 4, 3, 2, -1), strict=False))
    return len(digits) == 9 and len(set(digits)) > 1 and weighed % 11 == 0


def _ip(text: str, span: Span) -> Span | None:
    """Accept an address that is not a version or part of a longer dotted number."""
    port = "." in text[slice(*span)] and re.match(r":\d{1,5}\b", text[span[1] :])
    joined = re.match(r"[.:]\w", text[span[1] :]) and not port
    if joined or re.search(r"(?i)[\w.-]$|[0-9a-f:]:$|\bv(?:er|ersion)?[.:]? *$", text[: span[0]]):
        return None
    try:
        ipaddress.ip_address(text[slice(*span)])
    except ValueError:
        return None
    return span


def _surname(text: str, span: Span) -> Span | None:
    """Accept a name that is not that of an institution or a saint."""
    words = re.split(r"[ -]", text[slice(*span)])
    named = _NO_SURNAME.intersection(words) or re.search(r"\b(?:St\.?|Saint|San|Santa) $", text[: span[0]])
    called = re.match(
        r"(?:['’]s)? (?i:syndrome|disease|sign|test|fever|sequence|anomaly|palsy)\b", text[span[1] :]
    )
    return None if named or called else span


def _of_stdnum() -> tuple[Pattern, ...]:
    """Return patterns of national numbers of more countries, as python-stdnum checks them."""
    forms = {
        "be.nn": r"\b\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}\b",
        "br.cpf": r"\b\d{3}\.\d{3}\.\d{3}-\d{2}\b",
        "ch.ssn": r"\b756\.\d{4}\.\d{4}\.\d{2}\b",
        "cz.rc": r"\b\d{6}/\d{4}\b",
        "dk.cpr": r"\b\d{6}-\d{4}\b",
        "fi.hetu": r"\b\d{6}[-+A]\d{3}[0-9A-Y]\b",
        "in_.aadhaar": r"\b\d{4} \d{4} \d{4}\b",
        "mx.curp": r"\b[A-Z]{4}\d{6}[HM][A-Z]{5}[A-Z\d]\d\b",
        "se.personnummer": r"\b(?:\d{2})?\d{6}[-+]\d{4}\b",
    }
    if find_spec("stdnum") is None:
        return ()
    return tuple(
        Pattern(kind="national_id", form=form, check=_of_module(f"stdnum.{name}"))
        for name, form in forms.items()
    )


def _of_module(name: str) -> Check:
    def found(text: str, span: Span) -> Span | None:
        valid = import_module(name).is_valid(text[slice(*span)])
        return _alone(text, span) if valid else None

    return found


_SHORTEST_NUMBER = 9  # fewest digits of a number with its area code
_REGIONS = ("DE", "GB", "FR", "IT", "NL", "AT", "CH", "BE", "SE", "AU")  # regions with a leading zero


def _of_phonenumbers() -> tuple[Pattern, ...]:
    """Return patterns of numbers as dialled within a country, with the usual marks."""
    if find_spec("phonenumbers") is None:
        return ()
    return (
        Pattern(kind="phone", form=r"\(?\b0\d{1,4}(?:[ ()/-]{1,2}\d{2,8}){1,4}\b", check=_dialled_at_home),
    )


def _dialled_at_home(text: str, span: Span) -> Span | None:
    import phonenumbers

    given = text[slice(*span)]
    if re.fullmatch(r"\d{4,5}-\d{3,4}-\d{1,2}", given):  # a national drug code
        return None
    inside = re.search(r"[\w-]$", text[: span[0]]) or re.match(r"[\w-]", text[span[1] :])  # of a longer code
    if inside or sum(c.isdigit() for c in given) < _SHORTEST_NUMBER:
        return None
    for region in _REGIONS:
        matches = phonenumbers.PhoneNumberMatcher(given, region, phonenumbers.Leniency.STRICT_GROUPING)
        if any(match.start <= 1 and match.end == len(given) for match in matches):
            return span
    return None
