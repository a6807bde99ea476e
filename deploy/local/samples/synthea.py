"""Patients and their encounters in the form of Synthea's tables, several records a person. No one is real.

Names and types of columns are Synthea's (https://synthetichealth.github.io/synthea), codes are of SNOMED CT,
towns of Massachusetts. The weights are rounded from public knowledge; no record of a file was used. Most
people have some dozens of encounters; a few, whose kidneys fail, have several hundred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    Days = npt.NDArray[np.float64]
    Codes = npt.NDArray[np.int64]

TODAY = "2025-04-22"  # fixed, so that a repeated run has equal bytes
YEAR = 365.25
FIRST: Mapping[str, Sequence[str]] = {
    "F": ("Abby", "Carmen", "Dora", "Elena", "Fay", "Gwen", "Hana", "Irene", "June", "Lucia", "Mei", "Nora"),
    "M": ("Adam", "Boris", "Carlos", "David", "Emil", "Felix", "Hugo", "Ivan", "Jonas", "Leo", "Omar", "Ray"),
}
LAST = ("Abbott", "Brown", "Costa", "Dietrich", "Evans", "Fischer", "Garcia", "Hill", "Ito", "Jensen", "Kaur",
        "Lopez", "Murphy", "Nguyen", "Olsen", "Price", "Quinn", "Rossi", "Silva", "Torres")  # fmt: skip
RACE = {"white": 80, "asian": 8, "black": 8, "other": 2, "native": 1, "hawaiian": 1}
ETHNICITY = {"nonhispanic": 90, "hispanic": 10}
MARITAL = {"M": 58, "S": 22, "D": 14, "W": 6}
STREETS = ("Avenue", "Bridge", "Grove", "Lane", "Park", "Road", "Street", "Way")


class Town(NamedTuple):
    """A town, and the number of its people in thousands."""

    name: str
    county: str
    fips: str
    zip: str
    latitude: float
    longitude: float
    people: float


TOWNS = (
    Town("Boston", "Suffolk County", "25025", "02111", 42.36, -71.06, 675),
    Town("Worcester", "Worcester County", "25027", "01602", 42.26, -71.80, 206),
    Town("Springfield", "Hampden County", "25013", "01103", 42.10, -72.59, 156),
    Town("Cambridge", "Middlesex County", "25017", "02138", 42.37, -71.11, 118),
    Town("Lowell", "Middlesex County", "25017", "01850", 42.63, -71.32, 115),
    Town("New Bedford", "Bristol County", "25005", "02740", 41.64, -70.93, 101),
    Town("Quincy", "Norfolk County", "25021", "02169", 42.25, -71.00, 101),
    Town("Lynn", "Essex County", "25009", "01902", 42.47, -70.95, 101),
    Town("Plymouth", "Plymouth County", "25023", "02360", 41.96, -70.67, 61),
    Town("Barnstable", "Barnstable County", "25001", "02601", 41.70, -70.30, 49),
    Town("Pittsfield", "Berkshire County", "25003", "01201", 42.45, -73.25, 44),
    Town("Northampton", "Hampshire County", "25015", "01060", 42.33, -72.63, 30),
    Town("Greenfield", "Franklin County", "25011", "01301", 42.59, -72.60, 18),
    Town("Tisbury", "Dukes County", "25007", "02568", 41.45, -70.61, 5),
)
NO_ZIP = 0.24  # share of the people in places for which Synthea has neither ZIP nor FIPS code

Reason = tuple[str | None, str | None]  # code and description
NO_REASON: Sequence[Reason] = ((None, None),)


class Visit(NamedTuple):
    """A kind of encounter.

    Attributes:
        kind: Synthea's class of encounters.
        weight: Frequency relative to all encounters except those for a failing kidney.
        cost: Base cost, without the procedures.
        minutes: Median duration in minutes.
        reasons: Possible reasons, as code and description; empty if encounters of this kind have no reason.
        code: SNOMED CT code of the encounter.
        description: Description of the code.
        women: Whether only women of 16 to 48 years have such encounters.
    """

    kind: str
    weight: float
    cost: float
    minutes: float
    reasons: Sequence[Reason]
    code: str
    description: str
    women: bool = False


SINUSITIS = ("444814009", "Viral sinusitis (disorder)")
HEART = ("88805009", "Chronic congestive heart failure (disorder)")
KIDNEYS = (
    ("431857002", "Chronic kidney disease stage 4 (disorder)"),
    ("46177005", "End-stage renal disease (disorder)"),
)
MINOR = (
    ("55822004", "Hyperlipidemia (disorder)"),
    ("103697008", "Patient referral for dental care (procedure)"),
    ("66383009", "Gingivitis (disorder)"),
)
COLDS = (
    SINUSITIS,
    ("195662009", "Acute viral pharyngitis (disorder)"),
    ("10509002", "Acute bronchitis (disorder)"),
)
LASTING = (("609328004", "Allergic disposition (finding)"), ("82423001", "Chronic pain (finding)"))
PREGNANT = (("72892002", "Normal pregnancy (finding)"),)
CONCUSSION = (("62106007", "Concussion with no loss of consciousness (disorder)"),)
CARE = (("1871000124103", "Transition from acute care to home-health care (finding)"),)


CHILD = Visit("wellness", 0, 136.8, 35, (), "410620009", "Well child visit (procedure)")
DEATH = Visit("wellness", 0, 136.8, 15, (), "308646001", "Death Certification")
KIDNEY = Visit("ambulatory", 0, 85.55, 180, KIDNEYS, "185347001", "Encounter for problem (procedure)")
VISITS = (
    Visit("wellness", 26, 136.8, 35, (), "162673000", "General examination of patient (procedure)"),
    Visit("outpatient", 14, 85.55, 30, (), "185349003", "Encounter for check up (procedure)"),
    Visit("urgentcare", 12, 142.58, 30, (), "702927004", "Urgent care clinic (environment)"),
    Visit("ambulatory", 13, 85.55, 40, MINOR, "185349003", "Encounter for check up (procedure)"),
    Visit("ambulatory", 6, 85.55, 15, COLDS, "185345009", "Encounter for symptom (procedure)"),
    Visit("ambulatory", 10, 85.55, 45, LASTING, "185347001", "Encounter for problem (procedure)"),
    Visit("ambulatory", 6, 142.58, 30, PREGNANT, "424619006", "Prenatal visit (regime/therapy)", women=True),
    Visit("outpatient", 4, 142.58, 30, (HEART,), "698314001", "Consultation for treatment (procedure)"),
    Visit("emergency", 4, 146.18, 60, CONCUSSION, "50849002", "Emergency room admission (procedure)"),
    Visit("inpatient", 1.5, 146.18, 2_900, (HEART,), "32485007", "Hospital admission (procedure)"),
    Visit("home", 2, 128.53, 15, CARE, "439708006", "Home visit (procedure)"),
    Visit("hospice", 0.3, 137.53, 30_000, (HEART,), "305336008", "Admission to hospice (procedure)"),
    Visit("snf", 0.2, 110.92, 20_000, (HEART,), "32485007", "Hospital admission (procedure)"),
    Visit("virtual", 0.3, 75, 60, (SINUSITIS,), "185347001", "Encounter for problem (procedure)"),
)
ALL_VISITS = (*VISITS, CHILD, DEATH, KIDNEY)
EXAMINATION, CHECK_UP = 0, 1  # in VISITS
OFFICES, PAYERS = 240, 10  # organizations, with one provider each; the last payer means none


def patients(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw ``n`` people, with the columns and types of Synthea's `patients`."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    age = rng.uniform(0, 110, n)
    life = np.clip(rng.normal(84, 13, n), 0, 109)
    born = np.datetime64(TODAY) - (age * YEAR).astype(np.int64).astype("timedelta64[D]")
    died = born + (life * YEAR).astype(np.int64).astype("timedelta64[D]")
    reached = np.minimum(age, life)
    gender, marital = _pick({"M": 50, "F": 50}, n, rng), _pick(MARITAL, n, rng)
    town = rng.choice(len(TOWNS), n, p=_shares([town.people for town in TOWNS]))
    birth_town = rng.choice(len(TOWNS), n, p=_shares([town.people for town in TOWNS]))
    city, county, fips, code = (
        np.array([getattr(t, field) for t in TOWNS])[town] for field in ("name", "county", "fips", "zip")
    )
    unknown = rng.random(n) < NO_ZIP
    first, middle = (
        np.where(gender == "F", _names(FIRST["F"], n, rng), _names(FIRST["M"], n, rng)) for _ in "12"
    )
    last, maiden, street = (_names(LAST, n, rng) for _ in range(3))
    married = (reached >= 30) & (marital != "S")
    numbers = rng.choice(810_000, n, replace=n > 810_000)
    flat = np.where(rng.random(n) < 0.4, [f" Unit {number}" for number in rng.integers(1, 99, n)], "")
    place = np.array([(t.latitude, t.longitude) for t in TOWNS])[town] + rng.normal(0, 0.03, (n, 2))
    title = np.where(gender == "M", "Mr.", np.where(married, "Mrs.", "Ms."))
    columns: dict[str, Any] = {
        "Id": _uuids(n, rng),
        "BIRTHDATE": born,
        "DEATHDATE": np.where(died <= np.datetime64(TODAY), died, np.datetime64("NaT", "D")),
        "SSN": [f"999-{10 + number // 9000}-{1000 + number % 9000}" for number in numbers],
        "DRIVERS": _known([f"S999{number:05d}" for number in rng.integers(0, 10**5, n)], reached >= 16),
        "PASSPORT": _known([f"X{number:08d}X" for number in rng.integers(0, 10**8, n)], reached >= 20),
        "PREFIX": _known(title, reached >= 18),
        "FIRST": first,
        "MIDDLE": _known(middle, rng.random(n) < 0.85),
        "LAST": last,
        "SUFFIX": _known(_pick({"MD": 1, "PhD": 1}, n, rng), (reached >= 30) & (rng.random(n) < 0.01)),
        "MAIDEN": _known(maiden, (gender == "F") & married & (rng.random(n) < 0.8)),
        "MARITAL": _known(marital, reached >= 30),
        "RACE": _pick(RACE, n, rng),
        "ETHNICITY": _pick(ETHNICITY, n, rng),
        "GENDER": gender,
        "BIRTHPLACE": [f"{TOWNS[number].name}  Massachusetts  US" for number in birth_town],
        "ADDRESS": [
            f"{number} {name} {kind}{unit}"
            for number, name, kind, unit in zip(
                rng.integers(100, 1_100, n), street, rng.choice(STREETS, n), flat, strict=True
            )
        ],
        "CITY": city,
        "STATE": np.full(n, "Massachusetts"),
        "COUNTY": county,
        "FIPS": _known(fips, ~unknown),
        "ZIP": np.where(unknown, "00000", code),
        "LAT": place[:, 0],
        "LON": place[:, 1],
        "HEALTHCARE_EXPENSES": np.round(rng.lognormal(11.2, 1.4, n), 2),
        "HEALTHCARE_COVERAGE": np.round(rng.lognormal(12, 1.5, n) * (rng.random(n) < 0.92), 2),
        "INCOME": rng.lognormal(11.1, 1.0, n).astype(np.int64),
    }
    dates = {
        name: pd.Series(pd.array(columns[name].tolist(), dtype=pd.ArrowDtype(pa.date32())))
        for name in ("BIRTHDATE", "DEATHDATE")
    }
    numeric = ("LAT", "LON", "HEALTHCARE_EXPENSES", "HEALTHCARE_COVERAGE", "INCOME")
    texts = {
        name: pd.Series(columns[name], dtype="str") for name in columns.keys() - dates.keys() - set(numeric)
    }
    return pd.DataFrame(columns | texts | dates)


def encounters(people: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Draw the encounters of these patients, with the columns and types of Synthea's `encounters`."""
    import numpy as np
    import pandas as pd

    born = pd.to_datetime(people["BIRTHDATE"]).to_numpy().astype("datetime64[D]")
    died = pd.to_datetime(people["DEATHDATE"]).to_numpy().astype("datetime64[D]")
    lived = (np.where(np.isnat(died), np.datetime64(TODAY), died) - born).astype(np.float64)
    who, visit, day = _visits(lived, ~np.isnat(died), (people["GENDER"] == "F").to_numpy(), rng)
    order = np.lexsort((day, who))
    who, visit, day = who[order], visit[order], day[order]
    n = len(who)

    def of_visit(field: str) -> Any:
        return np.array([getattr(kind, field) for kind in ALL_VISITS])[visit]

    start = born[who].astype("datetime64[s]") + (day * 86_400).astype(np.int64).astype("timedelta64[s]")
    minutes = np.maximum(15, of_visit("minutes") * rng.lognormal(0, 0.4, n))
    payer = _payers(day / YEAR, who, len(people), rng)
    office = rng.integers(0, OFFICES, (len(people), 3))[who, visit % 3]
    total = np.round(of_visit("cost") + rng.lognormal(6.3, 1.1, n), 2)
    share = np.where(payer == PAYERS - 1, 0, np.clip(rng.normal(0.8, 0.2, n), 0, 1))
    choices = [kind.reasons or NO_REASON for kind in ALL_VISITS]
    drawn = zip(visit, rng.integers(0, 6, n), strict=True)  # 6: 1, 2 or 3 reasons are equally likely
    reason = [choices[kind][number % len(choices[kind])] for kind, number in drawn]
    columns = {
        "Id": _uuids(n, rng),
        "START": start,
        "STOP": start + (minutes * 60).astype(np.int64).astype("timedelta64[s]"),
        "PATIENT": people["Id"].to_numpy()[who],
        "ORGANIZATION": np.array(_uuids(OFFICES, rng))[office],
        "PROVIDER": np.array(_uuids(OFFICES, rng))[office],
        "PAYER": np.array(_uuids(PAYERS, rng))[payer],
        "ENCOUNTERCLASS": of_visit("kind"),
        "CODE": of_visit("code"),
        "DESCRIPTION": of_visit("description"),
        "BASE_ENCOUNTER_COST": of_visit("cost"),
        "TOTAL_CLAIM_COST": total,
        "PAYER_COVERAGE": np.round(total * share, 2),
        "REASONCODE": [code for code, _ in reason],
        "REASONDESCRIPTION": [text for _, text in reason],
    }
    numeric = ("BASE_ENCOUNTER_COST", "TOTAL_CLAIM_COST", "PAYER_COVERAGE")
    return pd.DataFrame(
        {
            name: pd.Series(values).astype("datetime64[us]").dt.tz_localize("UTC")
            if name in ("START", "STOP")
            else pd.Series(values, dtype=None if name in numeric else "str")
            for name, values in columns.items()
        }
    )


def _visits(
    lived: Days, dead: npt.NDArray[np.bool_], woman: npt.NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Codes, Codes, Days]:
    """Draw person, position in ALL_VISITS and day of life of each encounter, (m,); `lived` is in days."""
    import numpy as np

    usual = np.maximum(1, rng.lognormal(3.7, 0.55, len(lived)) * np.minimum(1, 0.3 + lived / (40 * YEAR)))
    who = np.repeat(np.arange(len(lived)), usual.astype(np.int64))
    day = rng.beta(1.6, 1.0, len(who)) * lived[who]  # later years have more encounters
    visit = rng.choice(len(VISITS), len(who), p=_shares([kind.weight for kind in VISITS]))
    age = day / YEAR
    fertile = woman[who] & (age >= 16) & (age < 48)
    visit = np.where(np.array([kind.women for kind in VISITS])[visit] & ~fertile, CHECK_UP, visit)
    visit = np.where((visit == EXAMINATION) & (age < 18), ALL_VISITS.index(CHILD), visit)
    # A failing kidney: an encounter every third day, for up to seven years.
    ill = (rng.random(len(lived)) < 0.2) & (lived > 40 * YEAR)
    often = np.where(ill, 60 + 740 * rng.beta(1, 1.5, len(lived)), 0).astype(np.int64)
    patient = np.repeat(np.arange(len(lived)), often)
    count = np.arange(len(patient)) - np.repeat(np.cumsum(often) - often, often)
    sick = lived[patient] - 3 * count - rng.uniform(0.2, 0.8, len(patient))
    gone = np.flatnonzero(dead)
    return (
        np.concatenate([who, patient, gone]),
        np.concatenate(
            [
                visit,
                np.full(len(patient), ALL_VISITS.index(KIDNEY)),
                np.full(len(gone), ALL_VISITS.index(DEATH)),
            ]
        ),
        np.concatenate([day, sick, lived[gone]]),
    )


def with_patients(encounters: pd.DataFrame, patients: pd.DataFrame) -> pd.DataFrame:
    """Return the encounters in their order, each with the columns of its patient."""
    people = patients.rename(columns={"Id": "PATIENT"})
    return encounters.merge(people, on="PATIENT", validate="many_to_one")


def _payers(age: Days, who: Codes, people: int, rng: np.random.Generator) -> Codes:
    """Draw the payer of each encounter, (m,): it changes at 18 and at 65, then mostly to the same for all."""
    import numpy as np

    own = rng.integers(1, PAYERS, (people, 3))
    own[rng.random(people) < 0.9, 2] = 0
    return own[who, np.searchsorted((18, 65), age, side="right")]


def _pick(weights: Mapping[str, float], n: int, rng: np.random.Generator) -> npt.NDArray[np.str_]:
    return rng.choice(list(weights), n, p=_shares(list(weights.values())))


def _shares(weights: Sequence[float]) -> Days:
    import numpy as np

    return np.array(weights, dtype=np.float64) / sum(weights)


def _names(of: Sequence[str], n: int, rng: np.random.Generator) -> npt.NDArray[np.str_]:
    """Draw names that end in a number, to show that they are not real."""
    import numpy as np

    drawn = zip(rng.choice(of, n), rng.integers(1, 1_000, n), strict=True)
    return np.array([f"{name}{number}" for name, number in drawn], dtype=np.str_)


def _known(values: Sequence[str] | npt.NDArray[Any], where: npt.NDArray[np.bool_]) -> npt.NDArray[np.object_]:
    import numpy as np

    known = np.array(values, dtype=object)
    known[~where] = None
    return known


def _uuids(n: int, rng: np.random.Generator) -> list[str]:
    digits = rng.bytes(16 * n).hex()
    cuts = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    return ["-".join(digits[32 * i + a : 32 * i + b] for a, b in cuts) for i in range(n)]
