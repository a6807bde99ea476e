"""The kinds of identifiers that are searched for in text, each with its patterns.

The table in docs/text_kinds.md, the tests and the scan share this list. Patterns repeat a bounded number of
times, so that the cost is linear in the length of the text. They use no look-around, which RE2 lacks.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from privacy_release.sources.text import patterns as known
from privacy_release.sources.text.patterns import Check, Pattern, Span, found_everywhere, of_digits

# Between a word such as "account" with its number, and the number itself: capitals and digits.
_MARK = r"(?i:no|nr|num|number|id|code|card|is|was|ending in|ending)\b"
_SEP = rf"[ .:#=]{{0,4}}(?:{_MARK}[ .:#=]{{0,3}}){{0,2}}"
_SURE = rf"[ .:]{{0,2}}(?:#|{_MARK})[ .:#=]{{0,3}}(?:{_MARK}[ .:#=]{{0,3}})?"
_CODE = r"[A-Z0-9](?:[-/. ]?[A-Z0-9]){3,24}\b"
_MONTHS = (
    "january|february|march|april|june|july|august|september|october|november|december|januar|februar|märz|"
    "maerz|mai|juni|juli|oktober|dezember|janvier|février|fevrier|mars|avril|juin|juillet|août|aout|"
    "septembre|octobre|novembre|décembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|"
    "octubre|noviembre|diciembre|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre|"
    "januari|februari|maart|mei|augustus|stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia|"
    "września|października|listopada|grudnia|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|"
    "novembro|dezembro"
)
_SHORT = "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
_MONTH = rf"(?:(?i:{_MONTHS})|May|MAY|(?:{_SHORT})\.?)"
_ANY_MONTH = rf"(?:{_MONTH}|(?i:{_SHORT}))"
_DAY, _TWO, _YEAR = "(?:0?[1-9]|[12][0-9]|3[01])", "(?:0?[1-9]|1[0-2])", "(?:1[89]|20)[0-9]{2}"
_ONES = "(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_OLD = rf"(?i:ninety(?:[ -]{_ONES})?|(?:one|a) hundred(?:[ -](?:and[ -])?{_ONES})?)"
_OVER = "(?:9[0-9]|1[01][0-9]|12[0-2])"
_ANY = r"[^\x00-\x7f]"
_HOSTS = "com|org|net|edu|gov|info|io|me|co|app|dev|page|blog|example"
_SITES = "facebook|instagram|twitter|tiktok|snapchat|telegram|linkedin|skype|insta|whatsapp|username"
_TITLES = (
    "Mrs?|Ms|Miss|Mx|Dr|Prof|Professor|Rev|Reverend|Rabbi|Imam|Nurse|Sgt|Capt|Lt|Herr|Frau|Mme|Mlle|Monsieur|"
    "Madame|Signora?|Sig|Dott|Señora?|Sra|Srta|Pani|Dhr|Mevrouw"
)
_NAME = "(?:[A-ZÀ-ÖØ-ÞĀŁŚŻŽČŠŐŰ](?:'|’)?|Mc|Mac)[A-ZÀ-ÖØ-ÞĀŁŚŻŽČŠŐŰ]?[a-zß-öø-ÿĀ-ž]{1,30}"
_PARTICLE = r"(?:(?:med|dent|phil|jur)\. ){0,1}(?:(?:van|von|ter)(?: de[rn]?)? ){0,1}"
_MORE_NAMES = re.compile(rf"(?: (?:[A-Z]\. ){{0,2}}{_PARTICLE}{_NAME}|-{_NAME}){{1,3}}")
# What follows a title in names of products, works and occupations.
_NO_PERSON = frozenset(
    [
        "Pepper",
        "Scholl",
        "Martens",
        "Clean",
        "Bronner",
        "Oetker",
        "Coffee",
        "Bean",
        "Potato",
        "Universe",
        "America",
        "World",
        "Practitioner",
        "Assistant",
        "Manager",
        "Midwife",
        "Anesthetist",
        "Anaesthetist",
        "Educator",
        "Aide",
        "Coordinator",
        "Specialist",
        "Consultant",
        "Leader",
        "Supervisor",
        "Technician",
        "Navigator",
        "Informaticist",
        "Emeritus",
        "Access",
        "Office",
        "Word",
        "Excel",
        "Windows",
        "Teams",
        "Research",
        "Station",
        "Staff",
        "Call",
        "Home",
        "Line",
        "Unit",
    ]
)


@dataclass(frozen=True, kw_only=True)
class TextKind:
    """A kind of identifier that is searched for in text.

    Attributes:
        name: Name in errors and findings, one word.
        what: Description, as in the documentation.
        patterns: Forms of the identifier.
        always: Whether it stops every release. Otherwise only releases under `clean_text`.
    """

    name: str
    what: str
    patterns: tuple[Pattern, ...]
    always: bool = True


def _coded(least: int) -> Check:
    """Return a check for a word and a code after it: at least five characters, some of them digits."""

    def found(text: str, span: Span) -> Span | None:
        code = re.search(r"[A-Z0-9](?:[-/. ]?[A-Z0-9])*$", text[slice(*span)])
        plain = re.sub(r"[^A-Z0-9]", "", code[0]) if code else ""
        return span if len(plain) >= 5 and sum(map(str.isdigit, plain)) >= least else None

    return found


def _word(kind: str, words: str, *, sure: str = "", least: int = 3) -> tuple[Pattern, ...]:
    """Return patterns for a number after a word. Some words need a mark in between, such as `no.` or `#`."""
    forms = [rf"\b(?i:{words})\b{_SEP}{_CODE}"] + ([rf"\b(?i:{sure})\b{_SURE}{_CODE}"] if sure else [])
    return tuple(Pattern(kind=kind, form=form, check=_coded(least)) for form in forms)


def _inside(text: str, span: Span) -> Span | None:
    """Accept a match that is neither part of a longer code nor the whole cell."""
    joined = re.search(r"[\w.:/-]$", text[: span[0]]) or re.match(r"[.:/-]?\w", text[span[1] :])
    return None if joined or span == (0, len(text)) else span


def _plate(text: str, span: Span) -> Span | None:
    code = re.search(r"[A-Z0-9]{1,8}(?:[ -][A-Z0-9]{1,4}){0,3}$", text[slice(*span)])
    plain = re.sub(r"[ -]", "", code[0]) if code else ""
    digits = sum(map(str.isdigit, plain))
    return span if 5 <= len(plain) <= 10 and 1 <= digits < len(plain) else None


_VALUES = dict(zip("ABCDEFGHJKLMNPRSTUVWXYZ", [*range(1, 9), *range(1, 6), 7, 9, *range(2, 10)], strict=True))
_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


def _vin(text: str, span: Span) -> Span | None:
    """Accept a vehicle's number (ISO 3779) with the right check digit, or with a European ending."""
    number = text[slice(*span)]
    if sum(map(str.isdigit, number)) < 5 or sum(map(str.isalpha, number)) < 3:
        return None
    total = sum(w * (int(c) if c.isdigit() else _VALUES[c]) for w, c in zip(_WEIGHTS, number, strict=True))
    right = "0123456789X"[total % 11] == number[8]
    return span if right or (number[0].isalpha() and number[-4:].isdigit()) else None


def _coordinates(text: str, span: Span) -> Span | None:
    """Accept a pair of degrees, but not two small numbers, which may be something else."""
    north, east = (abs(float(n)) for n in re.findall(r"-?[0-9]+\.[0-9]+", text[slice(*span)])[:2])
    return span if north <= 90 and east <= 180 and max(north, east) >= 10 else None


def _over_89(text: str, span: Span) -> Span | None:
    """Accept an age above 89, but not the group of people who are 90 or older."""
    number, after = re.search(r"[0-9]+", text[slice(*span)]), text[span[1] :]
    if number is None:
        return span
    group = number[0] == "90" and re.match(r"\+| ?(?:and|or|&) ?(?:over|older|above|more|up)", after)
    share = re.match(r" ?[%.,]\d| ?%| ?(?:mg|ml|g|kg|cm|mm)\b", after)
    return None if group or share else span


def _date(text: str, span: Span) -> Span | None:
    """Accept a date that is not part of a version or of a longer number."""
    before, after = text[: span[0]], text[span[1] :]
    joined = re.search(r"(?i)[\w.:/-]$|\bv(?:er|ersion)?\.? *$", before) or re.match(r"[.:/-]?\w", after)
    time = re.match(r"T\d", after)
    return None if joined and not time else span


def _person(text: str, span: Span) -> Span | None:
    """Accept a title and a name that are no occupation or product, and add the names that follow."""
    words, after = re.split(r"[ -]", text[slice(*span)]), text[span[1] :]
    if _NO_PERSON.intersection(words) or re.match(r"['’]s [A-Z]", after):
        return None
    more = _MORE_NAMES.match(after)
    return span[0], span[1] + (more.end() if more else 0)


def _luhn(text: str, span: Span) -> Span | None:
    digits = "".join(filter(str.isdigit, text[slice(*span)]))
    return _inside(text, span) if known.is_luhn(digits) else None


def _apart(text: str, span: Span) -> bool:
    """Return whether no group of digits is before or after the match."""
    return not (re.search(r"\d ?$", text[: span[0]]) or re.match(r" ?\d", text[span[1] :]))


def _many(least: int, most: int) -> Check:
    """Return a check for groups of digits with this many digits that are not part of a longer run."""
    counted = of_digits(lambda digits: least <= len(digits) <= most)
    return lambda text, span: counted(text, span) if _apart(text, span) else None


def _sin(text: str, span: Span) -> Span | None:
    """Accept three groups of digits with a check digit that are not part of a longer run."""
    return of_digits(known.is_luhn)(text, span) if _apart(text, span) else None


def _weighed(first: int, factors: range) -> Callable[[str], int]:
    return lambda digits: sum(int(d) * f for d, f in zip(digits[first:], factors, strict=False))


def _is_cpf(digits: str) -> bool:
    """Brazil: two check digits, mod 11."""
    one = _weighed(0, range(10, 1, -1))(digits) * 10 % 11 % 10
    two = _weighed(0, range(11, 1, -1))(digits) * 10 % 11 % 10
    return digits[9:] == f"{one}{two}"


def _is_ean(digits: str) -> bool:
    """Check the EAN-13 check digit, which Swiss numbers have."""
    return sum(int(d) * (1 + 2 * (i % 2)) for i, d in enumerate(digits)) % 10 == 0


def _form(kind: str, *forms: str, check: Check = found_everywhere) -> tuple[Pattern, ...]:
    return tuple(Pattern(kind=kind, form=form, check=check) for form in forms)


def _built_in(kind: str) -> tuple[Pattern, ...]:
    return tuple(p for p in known.all_known() if p.kind == kind)


def _contacts() -> tuple[TextKind, ...]:
    local, label = rf"(?:[A-Za-z0-9._%+'-]|{_ANY}){{1,64}}", rf"(?:[A-Za-z0-9-]|{_ANY}){{1,63}}"
    return (
        TextKind(
            name="email",
            what="addresses, also of other alphabets, and with *at* and *dot* in words",
            patterns=(
                *_form(
                    "email",
                    rf"{local}@{label}(?:\.{label}){{0,6}}\.(?:[A-Za-z]|{_ANY}){{2,24}}",
                    r"\b[A-Za-z0-9._%+-]{1,64} ?[\[(](?i:at)[\])] ?[A-Za-z0-9.-]{2,80}",
                    r"\b[A-Za-z0-9._-]{1,64} (?i:at) [A-Za-z0-9-]{2,63} (?i:dot) [A-Za-z]{2,6}\b",
                ),
            ),
        ),
        TextKind(
            name="phone",
            what="telephone and fax numbers: with a country code, after a word such as *tel*, "
            "and as written at "
            "home in Australia, Brazil, France, Germany, Japan, Korea, North America, the United Kingdom",
            patterns=(
                *_built_in("phone"),
                *_form("phone", r"\b0[0-9]{2,4}[ /-][0-9]{5,8}\b", check=_many(9, 12)),
                *_form(
                    "phone", r"\(0[0-9]{1,4}\)[ -]?[0-9]{2,4}(?:[ -]?[0-9]{2,4}){1,2}\b", check=_many(8, 12)
                ),
                *_form("phone", r"\b0[0-9]{1,4}(?: [0-9]{3,4}){2}\b", check=_many(9, 12)),
                *_form("phone", r"\b0[0-9]{2,4}/[0-9]{3,6}(?: [0-9]{2,4}){1,2}\b", check=_many(8, 13)),
                *_form("phone", r"\b0[0-9]{1,2}-[0-9]{3,4}-[0-9]{4}\b", check=_many(9, 11)),
                *_form("phone", r"\(?\b[1-9][0-9]\)? 9[0-9]{4}-[0-9]{4}\b", check=_many(11, 11)),
            ),
        ),
        TextKind(
            name="ip",
            what="IPv4 and IPv6, also with a port",
            patterns=(*_built_in("ip"), *_form("ip", r"::(?:[0-9A-Fa-f]{1,4}:){0,6}[0-9.]{7,15}\b")),
        ),
        TextKind(
            name="url",
            what="web addresses, also bare ones, and handles of social networks",
            always=False,
            patterns=_form(
                "url",
                r"(?i:\b(?:https?://|ftp://|www\.)[^ ])",
                rf"\b[a-z0-9-]{{2,63}}(?:\.[a-z0-9-]{{1,63}}){{0,3}}\.(?:{_HOSTS})\b",
                r"\b[A-Za-z0-9-]{1,63}\.[a-z]{2,6}/[A-Za-z0-9_.~-]{2,60}",
                r"(?:^|[ (:,;])@[A-Za-z][A-Za-z0-9_.]{0,29}[0-9_.][A-Za-z0-9_.]{0,29}",
                r"(?:^|[(:,;]|[a-z]:? )@[a-z][a-z0-9_.]{5,29}\b",
                rf"\b(?i:{_SITES})(?: handle| user)?(?::| ?@| ?= ?)[ @]{{0,2}}[A-Za-z][A-Za-z0-9_.]{{3,29}}",
            ),
        ),
    )


def _numbers() -> tuple[TextKind, ...]:
    return (
        TextKind(
            name="card",
            what="13 to 19 digits of an issuer whose check digit is right",
            patterns=_built_in("card"),
        ),
        TextKind(
            name="iban",
            what="bank accounts, by country, length and check digits",
            patterns=_built_in("iban"),
        ),
        TextKind(
            name="national_id",
            what="numbers of the United States, the United Kingdom, France, Spain, Italy, "
            "Germany, Poland, the "
            "Netherlands, Canada, Brazil, Switzerland, Finland, Korea, Mexico, Singapore, "
            "by form and check digits, "
            "and others after a word such as *SSN* or *tax id*; with the extra `text`, of "
            "Belgium, Czechia, Denmark, "
            "India, Sweden, too",
            patterns=(
                *_built_in("national_id"),
                *_word(
                    "national_id",
                    "ssn|social security|sin|nino|national insurance|nhs|tfn|cpf|ahv|hetu|"
                    "personnummer|cpr|rrn|curp|"
                    "nric|aadhaar|pps|nif|dni|nie|rut|c[eé]dula|tax id|steuer-?id|insee|national id|id card|"
                    "personalausweis|identity number",
                    least=6,
                ),
                *_form("national_id", r"\b[0-9]{3}[ -][0-9]{3}[ -][0-9]{3}\b", check=_sin),
                *_form("national_id", r"\b[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}\b", check=of_digits(_is_cpf)),
                *_form("national_id", r"\b756\.?[0-9]{4}\.?[0-9]{4}\.?[0-9]{2}\b", check=of_digits(_is_ean)),
                *_form(
                    "national_id", r"\b[0-3][0-9][01][0-9]{3}[-+A][0-9]{3}[0-9A-FHJ-NPR-Y]\b", check=_inside
                ),
                *_form("national_id", r"\b[0-9]{2}[01][0-9][0-3][0-9]-[1-4][0-9]{6}\b"),
                *_form("national_id", r"\b[A-Z]{4}[0-9]{6}[HM][A-Z]{5}[A-Z0-9][0-9]\b"),
                *_form("national_id", r"\b[STFG][0-9]{7}[A-Z]\b", check=_inside),
            ),
        ),
        TextKind(
            name="record",
            what="numbers of medical records, charts, patients, cases and specimens, after such a word",
            patterns=_word(
                "record",
                "mrn|medical record|med\\.? rec(?:ord)?|health record|unit record|chart|"
                "patient[ -]?(?:id|no|number)|"
                "hosp(?:ital|\\.)? (?:id|no|number)|nhi|fall-?(?:nummer|nr)|patientennummer|"
                "aktenzeichen|nhc|pid",
                sure="record|case|file|encounter|visit|accession|specimen|admission|subject|"
                "study|episode|dossier|akte",
            ),
        ),
        TextKind(
            name="account",
            what="numbers of accounts, members, policies and health plans, after such a word; "
            "those of Medicare",
            patterns=(
                *_word(
                    "account",
                    "acct|account|member|subscriber|beneficiary|policy|medicare|medicaid|"
                    "hicn|mbi|health plan|"
                    "insurance|(?:kranken)?versicherten-?(?:nummer|nr)|kvnr|mutuelle|"
                    "blue cross|aetna|cigna|kaiser",
                    sure="claim|group|plan|customer|invoice|loan|contract",
                    least=4,
                ),
                *_form(
                    "account",
                    r"\b[1-9][AC-HJ-NP-RT-Y][0-9AC-HJ-NP-RT-Y][0-9]-?[AC-HJ-NP-RT-Y][0-9AC-HJ-NP-RT-Y][0-9]-?"
                    r"[AC-HJ-NP-RT-Y]{2}[0-9]{2}\b",
                ),
            ),
        ),
        TextKind(
            name="licence",
            what="numbers of licences, passports and certificates, after such a word",
            patterns=_word(
                "licence",
                "driver'?s? licen[cs]e|driving licen[cs]e|licen[cs]e|passport|passeport|reisepass|pasaporte|"
                "f[uü]hrerschein|pass-(?:nummer|nr)|npi|dea",
                sure="dl|permit|certificate|cert|registration",
                least=4,
            ),
        ),
    )


def _things() -> tuple[TextKind, ...]:
    return (
        TextKind(
            name="device",
            what="serial numbers of devices after such a word, MAC addresses, IMEI, unique "
            "device identifiers",
            patterns=(
                *_word(
                    "device",
                    "serial|s/n|ser\\.? ?no|device id|udi|imei|meid|pacemaker",
                    sure="sn|device|implant",
                ),
                *_form("device", rf"\bSN[:#]{{1,2}} ?{_CODE}", check=_coded(3)),
                *_form("device", r"\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b", check=_inside_or_whole),
                *_form("device", r"\b[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\b", check=_inside),
                *_form("device", r"\b[0-9]{2}-?[0-9]{6}-?[0-9]{6}-?[0-9]\b", check=_luhn),
                *_form("device", r"\(01\) ?[0-9]{14}"),
            ),
        ),
        TextKind(
            name="vehicle",
            what="vehicle identification numbers, and plates after such a word or in the forms "
            "of Germany and France",
            patterns=(
                *_form("vehicle", r"\b[A-HJ-NPR-Z0-9]{17}\b", check=_vin),
                *_form(
                    "vehicle",
                    r"\b(?i:plates?|registration|reg|tag|kennzeichen|nummernschild|immatriculation|targa|"
                    r"matr[ií]cula|kenteken|rego)\b[ .:#=]{0,3}(?:(?i:no|nr|number|is)\b[ .:#=]{0,3})?"
                    r"[A-Z0-9]{1,8}(?:[ -][A-Z0-9]{1,4}){0,3}\b",
                    check=_plate,
                ),
                *_form(
                    "vehicle", r"\b[A-GI-ZÄÖÜ][A-ZÄÖÜ]{0,2}-[A-Z]{1,2} [1-9][0-9]{2,3}[EH]?\b", check=_inside
                ),
                *_form("vehicle", r"\b[A-HJ-NP-TV-Z]{2}-[0-9]{3}-[A-HJ-NP-TV-Z]{2}\b", check=_inside),
            ),
        ),
        TextKind(
            name="gps",
            what="degrees of latitude and longitude",
            patterns=(
                *_form(
                    "gps",
                    r"-?\b[0-9]{1,2}\.[0-9]{4,12} ?°? ?[NS]?[,;/ ]{1,3}-?[0-9]{1,3}\.[0-9]{4,12}",
                    r"\b[0-9]{1,2}\.[0-9]{3,12} ?°? ?[NS][, ]{0,2}[0-9]{1,3}\.[0-9]{3,12} ?°? ?[EWO]\b",
                    check=_coordinates,
                ),
                *_form(
                    "gps",
                    r"\b(?i:lat|lon|long|latitude|longitude|gps)[ .:=]{1,3}-?[0-9]{1,3}\.[0-9]{2,12}",
                    r"[0-9]{1,3} ?° ?[0-9]{1,2} ?['′’] ?(?:[0-9]{1,2}(?:\.[0-9]{1,6})? "
                    r"?(?:[\"″”]|'')? ?)?[NSEWO]\b",
                ),
            ),
        ),
    )


def _inside_or_whole(text: str, span: Span) -> Span | None:
    joined = re.search(r"[\w:-]$", text[: span[0]]) or re.match(r"[:-]?\w", text[span[1] :])
    return None if joined else span


def _people() -> tuple[TextKind, ...]:
    return (
        TextKind(
            name="address",
            what="streets with a number in six languages, post boxes, British postcodes",
            patterns=_built_in("address"),
        ),
        TextKind(
            name="name",
            what="after a title; before *MD*, *RN* and the like; a frequent given name before a "
            "capitalized word; "
            "most values of a column that is called *last name*, *Vorname*, ...",
            patterns=(
                *_built_in("name"),
                *_form("name", rf"\b(?:{_TITLES})\.? (?:[A-Z]\. ){{0,2}}{_PARTICLE}{_NAME}", check=_person),
                *_form("name", rf"\b[A-Z]\. ?{_NAME},? (?:MD|M\.D\.|RN|PhD|DO|NP|PA-C|DDS)\b"),
            ),
        ),
        TextKind(
            name="age",
            what="ages over 89, in digits and words; not the group of 90 and over",
            always=False,
            patterns=_form(
                "age",
                rf"\b{_OVER}[ -]?(?i:years?|yrs?)[ -](?i:olds?|of age)\b",
                rf"\b{_OVER}[ -]?(?i:y/?o\b|y\.o\.)",
                rf"\b(?i:aged?)[ :]{{1,2}}{_OVER}\b",
                rf"\b{_OVER}[ -]?(?i:jahre|jährig[a-z]{{0,2}}|ans|años|anni|jaar|lat)\b",
                rf"\b{_OLD}[ -](?i:years?|yrs?)[ -](?i:old|of age)\b",
                rf"\b(?i:aged?|turned|turning) {_OLD}\b",
                r"\b(?i:nonagenarian|(?:super)?centenarian)",
                r"\b(?i:(?:her|his|their) nineties)\b",
                check=_over_89,
            ),
        ),
        TextKind(
            name="date",
            what="days and months, in digits and in the words of seven languages; not single years",
            always=False,
            patterns=(
                *_form(
                    "date",
                    rf"\b{_DAY}\.{_TWO}\.(?:{_YEAR}|[0-9]{{2}})\b",
                    rf"\b{_DAY}/{_TWO}/(?:{_YEAR}|[0-9]{{2}})\b",
                    rf"\b{_TWO}/{_DAY}/(?:{_YEAR}|[0-9]{{2}})\b",
                    rf"\b{_DAY}-{_TWO}-{_YEAR}\b",
                    rf"\b{_TWO}-{_DAY}-{_YEAR}\b",
                    rf"\b{_YEAR}[-/.]{_TWO}[-/.]{_DAY}(?:T[0-9]|\b)",
                    rf"\b(?:0?[1-9]|1[0-2])/{_YEAR}\b",
                    check=_date,
                ),
                *_form("date", rf"\b{_YEAR}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])\b", check=_inside),
                *_form(
                    "date",
                    rf"\b{_MONTH} {_DAY}(?:st|nd|rd|th)?(?:,? {_YEAR})?\b",
                    rf"\b(?i:{_SHORT})\.? {_DAY}(?:st|nd|rd|th)?,? {_YEAR}\b",
                    rf"\b{_DAY}(?:st|nd|rd|th|\.)?[ -](?:of |de )?{_ANY_MONTH}(?:[ -](?:de )?{_YEAR})?\b",
                    rf"\b{_ANY_MONTH},? (?:of )?{_YEAR}\b",
                ),
            ),
        ),
    )


@cache
def kinds() -> tuple[TextKind, ...]:
    """All kinds, in the order of the documentation."""
    return (*_contacts(), *_numbers(), *_things(), *_people())


@cache
def patterns(*, always: bool = True) -> tuple[Pattern, ...]:
    """Return the patterns that stop every release, or else those that `clean_text` adds."""
    return tuple(pattern for kind in kinds() for pattern in kind.patterns if kind.always is always)


def every_pattern() -> tuple[Pattern, ...]:
    """Return the patterns of all kinds."""
    return (*patterns(), *patterns(always=False))


def found_in(text: str, among: tuple[Pattern, ...] | None = None) -> list[tuple[Span, str]]:
    """Return matches in a text with their kinds, from left to right. If two overlap, they are one.

    Args:
        text: Text of a cell.
        among: Patterns to search for. None: those of every release.
    """
    spans = sorted((span, p.kind) for p in (patterns() if among is None else among) for span in p.spans(text))
    kept: list[tuple[Span, str]] = []
    for span, kind in spans:
        if not kept or span[0] >= kept[-1][0][1]:
            kept.append((span, kind))
        elif span[1] > kept[-1][0][1]:
            (begin, _), first = kept[-1]
            kept[-1] = (begin, span[1]), first
    return kept
