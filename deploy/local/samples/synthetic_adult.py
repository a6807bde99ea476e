"""Realistic records in the form of the UCI Adult data, for a machine without the data and a network.

A small Bayesian network written by hand: age, sex and race at the top; country, education and marital status
under them; then relationship, work class, occupation, hours and income. The weights are rounded from public
knowledge about the United States in the 1990s. No record of the real file was used, so none can be released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    Codes = npt.NDArray[np.int64]
    Weights = Sequence[Sequence[float]]

# Lowest ages of the bands, then their weights; the last band ends at 90.
AGE_FROM = (17, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80)
AGE_TO = (*(age - 1 for age in AGE_FROM[1:]), 90)
AGE_WEIGHTS = (5.1, 11.9, 13, 13.4, 12.9, 11.2, 9.6, 7.4, 5.3, 4.2, 2.5, 1.5, 0.8, 0.6)
# The tables below depend on life stages: 17-19, 20-24, 25-34, 35-49, 50-64, 65 and over.
STAGE_FROM = (20, 25, 35, 50, 65)

SEX = {"Male": 66.5, "Female": 33.5}
RACE = {"White": 85.5, "Black": 9.6, "Asian-Pac-Islander": 3.1, "Amer-Indian-Eskimo": 1, "Other": 0.8}
# One row per race, in RACE's order.
COUNTRY: tuple[Mapping[str, float], ...] = (
    {"United-States": 93.2, "Mexico": 2, "Germany": 0.45, "Canada": 0.45, "England": 0.3,
     "Cuba": 0.3, "Italy": 0.25, "Puerto-Rico": 0.35, "El-Salvador": 0.3, "Poland": 0.2,
     "Portugal": 0.12, "Columbia": 0.15, "Guatemala": 0.15, "Greece": 0.1, "France": 0.1,
     "Ireland": 0.08, "Iran": 0.12, "Yugoslavia": 0.05, "Hungary": 0.04, "Scotland": 0.04,
     "Dominican-Republic": 0.1, "Nicaragua": 0.08, "Peru": 0.07, "Ecuador": 0.06, "Honduras": 0.03,
     "Holand-Netherlands": 0.01, "India": 0.05},
    {"United-States": 94.5, "Jamaica": 2.2, "Haiti": 1.4, "Dominican-Republic": 0.5,
     "Trinadad&Tobago": 0.5, "England": 0.3, "Puerto-Rico": 0.3, "Outlying-US(Guam-USVI-etc)": 0.1,
     "Honduras": 0.05, "Cuba": 0.1},
    {"United-States": 34, "Philippines": 19, "India": 9, "China": 7.5, "South": 7.5, "Vietnam": 7,
     "Taiwan": 5, "Japan": 4.5, "Hong": 2, "Thailand": 1.8, "Cambodia": 1.8, "Laos": 1.8},
    {"United-States": 97.5, "Mexico": 1.5, "Columbia": 0.2},
    {"United-States": 46, "Mexico": 14, "Puerto-Rico": 11, "Dominican-Republic": 9,
     "El-Salvador": 5, "Columbia": 3, "Ecuador": 3, "Cuba": 2, "Guatemala": 2, "India": 2,
     "Peru": 1.5, "Iran": 0.7},
)  # fmt: skip

EDUCATION = ("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad",
             "Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school",
             "Doctorate")  # fmt: skip
# One row per life stage; the columns are education-num 1 to 16.
EDUCATION_WEIGHTS = (
    (0.1, 0.1, 0.3, 1, 3.5, 12, 25, 8, 27, 22.5, 0.3, 0.2, 0, 0, 0, 0),
    (0.1, 0.3, 0.8, 1, 1.7, 2.3, 4, 2.3, 33, 37, 3, 3, 11.2, 0.3, 0, 0),
    (0.1, 0.3, 0.8, 1, 1.3, 1.7, 2.8, 1.1, 34, 21, 5, 4, 21.5, 4, 1.2, 0.4),
    (0.15, 0.4, 0.9, 1.3, 1.2, 2, 2.2, 0.9, 31.5, 20.5, 5, 3.6, 18, 8, 2.4, 1.8),
    (0.3, 1, 1.7, 5, 2.4, 4, 2.7, 0.9, 34, 16.5, 3.7, 2.2, 14, 7.5, 2.5, 2.3),
    (0.5, 2, 2, 10, 3, 4, 2.5, 0.9, 31, 16, 2.5, 1.6, 13, 6, 3, 2.5),
)
SHORT_SCHOOLING = ("Mexico", "El-Salvador", "Guatemala", "Honduras", "Nicaragua",
                   "Dominican-Republic", "Portugal", "Haiti", "Cambodia", "Laos", "Puerto-Rico")  # fmt: skip
LONG_SCHOOLING = ("India", "China", "Taiwan", "Japan", "Philippines", "Iran", "France", "Hong")

MARITAL = ("Never-married", "Married-civ-spouse", "Divorced", "Separated", "Widowed",
           "Married-spouse-absent", "Married-AF-spouse")  # fmt: skip
# One row per sex and life stage.
MARITAL_WEIGHTS = (
    (97.5, 1.6, 0.2, 0.2, 0, 0.4, 0.1), (83, 13, 1.5, 1.2, 0, 1, 0.2), (41, 47, 8, 2, 0.1, 1.4, 0.1),
    (13, 69, 14, 2, 0.5, 1.2, 0.05), (6, 77, 11, 2, 2.5, 1.2, 0), (5, 76, 6, 1.5, 10.5, 1, 0),
    (95, 2.8, 0.5, 0.8, 0, 0.7, 0.2), (77, 13, 5, 3, 0.1, 1.4, 0.4), (42, 26, 21, 7, 0.8, 2, 0.2),
    (18, 31, 36, 8, 4.5, 2, 0.05), (10, 31, 35, 6, 16, 2, 0), (10, 21, 19, 3, 45, 2, 0),
)  # fmt: skip

RELATIONSHIP = ("Husband", "Wife", "Own-child", "Other-relative", "Unmarried", "Not-in-family")
SPOUSE_WEIGHTS = ((98, 0, 0.7, 1, 0, 0.3), (0, 92, 3.5, 4, 0.2, 0.3))  # per sex
SINGLE_WEIGHTS = (  # never married, per life stage
    (0, 0, 88, 5, 2, 5), (0, 0, 54, 6, 7, 33), (0, 0, 26, 6, 10, 58),
    (0, 0, 16, 5, 14, 65), (0, 0, 9, 6, 7, 78), (0, 0, 1, 10, 3, 86),
)  # fmt: skip
FORMERLY_WEIGHTS = ((0, 0, 8, 5, 15, 72), (0, 0, 6, 5, 42, 47))  # per sex

UNKNOWN = None
WORKCLASS = ("Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov",
             "Without-pay", "Never-worked", UNKNOWN)  # fmt: skip
WORKCLASS_WEIGHTS = (  # per life stage
    (82, 1.5, 0.4, 0.5, 2.5, 2, 0.2, 0.2, 11), (84, 2.2, 0.4, 1.1, 3, 4.5, 0.02, 0.06, 5),
    (78.5, 5.8, 1.9, 2.8, 5.6, 3.7, 0.01, 0.01, 2.5), (68.5, 9.5, 4.6, 4, 8.3, 4.3, 0.02, 0, 2),
    (61.5, 12.5, 6.2, 3.7, 8.3, 4.2, 0.07, 0, 5), (48, 18, 6, 1.7, 6, 3, 0.2, 0, 19),
)  # fmt: skip
DEGREE_TO_WORKCLASS = (0.85, 1, 1.4, 1.5, 1.9, 2, 0.3, 0, 0.7)  # from a bachelor's degree on

OCCUPATION = ("Adm-clerical", "Armed-Forces", "Craft-repair", "Exec-managerial", "Farming-fishing",
              "Handlers-cleaners", "Machine-op-inspct", "Other-service", "Priv-house-serv",
              "Prof-specialty", "Protective-serv", "Sales", "Tech-support", "Transport-moving")  # fmt: skip
SCHOOLING_FROM = (9, 10, 13, 14)  # education-num: below high school, high school, college, bachelor, above
OCCUPATION_WEIGHTS = (  # per sex and schooling
    (3, 0.02, 27, 3, 8, 11, 14, 12, 0.1, 1.2, 1.5, 6, 0.4, 13),
    (5.5, 0.05, 29, 7, 5.5, 8, 10.5, 6.5, 0.03, 1.8, 3, 9, 1.2, 13),
    (9, 0.05, 19, 14, 3, 5, 5, 6, 0.02, 7.5, 4.5, 14, 5.5, 6.5),
    (7.5, 0.03, 6.5, 29, 2, 1.5, 1.5, 2.5, 0.01, 23.5, 2.5, 18, 4, 1.5),
    (2.5, 0.02, 1.5, 24, 1, 0.4, 0.4, 0.8, 0.01, 60, 0.8, 7, 2, 0.5),
    (12, 0, 3, 3, 1, 4, 16, 36, 6, 1.2, 0.4, 15, 0.4, 1.3),
    (34, 0, 2.5, 9, 0.7, 2.5, 8, 21, 1.5, 2.2, 0.6, 13.5, 2, 1.2),
    (35, 0, 1.7, 14, 0.5, 1.2, 2.2, 13, 0.8, 11, 0.9, 13, 6, 0.6),
    (20, 0, 1, 24, 0.4, 0.4, 0.8, 4.5, 0.4, 33, 0.7, 11.5, 3, 0.2),
    (6, 0, 0.6, 20, 0.2, 0.1, 0.3, 1.5, 0.2, 67, 0.4, 2.5, 1.5, 0.1),
)
WORKCLASS_TO_OCCUPATION = (  # factors: private, two self-employed, three governments, unpaid
    (1, 0, 1, 1, 0.6, 1, 1, 1, 1, 0.8, 0.5, 1.1, 1, 1),
    (0.2, 0, 1.2, 1.8, 6, 0.2, 0.3, 0.7, 0, 1, 0.1, 1.6, 0.3, 0.8),
    (0.2, 0, 0.8, 2.5, 2, 0.1, 0.2, 0.4, 0, 1, 0.1, 2, 0.2, 0.4),
    (3, 60, 0.7, 1.4, 0.3, 0.4, 0.2, 0.4, 0, 1.3, 2.5, 0.1, 2, 0.4),
    (1.5, 0, 0.5, 0.9, 0.3, 0.3, 0.1, 1.4, 0, 2, 8, 0.05, 0.6, 1.2),
    (2, 0, 0.4, 1.2, 0.3, 0.2, 0.1, 1.2, 0, 2, 5, 0.1, 1.4, 0.4),
    (1, 0, 0.5, 0, 9, 1, 0.3, 0.5, 0, 0.2, 0, 0.3, 0, 0.3),
)

STAGE_TO_HOURS = (26, 38, 43, 45, 44, 31)
OCCUPATION_TO_HOURS = (-2, 0, 1, 3, 7, -2, 0, -5, -8, 1, 1, 0, -1, 3)
STAGE_TO_INCOME = (-4.0, -2.2, 0.0, 0.8, 0.9, 0.3)
OCCUPATION_TO_INCOME = (0, 0, 0.1, 0.8, -1, -0.7, -0.2, -0.9, -2, 0.6, 0.5, 0.3, 0.6, 0)


def synthetic_adult(n: int = 30_000, *, rng: np.random.Generator) -> pd.DataFrame:
    """Draw ``n`` records with Adult's columns, types, categories and unknown values.

    Args:
        n: Number of records, >= 0.
        rng: Random generator, the only source of randomness; an equal state gives equal records.

    Raises:
        ValueError: If ``n`` is negative.
    """
    import numpy as np
    import pandas as pd

    if n < 0:
        raise ValueError(f"n must be >= 0, got {n}")
    band = _draw([AGE_WEIGHTS], np.zeros(n, dtype=np.int64), rng)
    age = rng.integers(np.array(AGE_FROM)[band], np.array(AGE_TO)[band], endpoint=True)
    stage = np.searchsorted(STAGE_FROM, age, side="right")
    sex = _draw([list(SEX.values())], np.zeros(n, dtype=np.int64), rng)
    race = _draw([list(RACE.values())], np.zeros(n, dtype=np.int64), rng)
    countries = tuple(dict.fromkeys(name for row in COUNTRY for name in row))
    country = _draw([[row.get(name, 0) for name in countries] for row in COUNTRY], race, rng)
    education = _education(stage, _label(countries, country), rng)
    marital = _draw(MARITAL_WEIGHTS, sex * len(STAGE_TO_HOURS) + stage, rng)
    workclass = _workclass(stage, education, rng)
    occupation = _occupation(sex, education, workclass, rng)
    hours = _hours(stage, sex, occupation, rng)
    rich = _income(stage, sex, education, marital, occupation, hours, rng)
    idle = workclass >= WORKCLASS.index("Never-worked")
    return pd.DataFrame(
        {
            "age": age,
            "workclass": _label(WORKCLASS, workclass),
            "fnlwgt": np.clip(rng.lognormal(12.0, 0.55, n), 12_285, 1_484_705).astype(np.int64),
            "education": _label(EDUCATION, education),
            "education-num": education + 1,
            "marital-status": _label(MARITAL, marital),
            "occupation": _label(OCCUPATION, occupation).mask(idle),
            "relationship": _label(RELATIONSHIP, _relationship(stage, sex, marital, rng)),
            "race": _label(tuple(RACE), race),
            "sex": _label(tuple(SEX), sex),
            "capital-gain": _gain(rich, rng),
            "capital-loss": _loss(rich, rng),
            "hours-per-week": hours,
            "native-country": _label(countries, country).mask(rng.random(n) < 0.018),
            "salary-class": _label(("<=50K", ">50K"), rich),
        }
    )


def _draw(weights: Weights | npt.NDArray[np.float64], rows: Codes, rng: np.random.Generator) -> Codes:
    """Draw a category for each record, (n,), by the weights (rows x categories) of its row."""
    import numpy as np

    upper = np.cumsum(np.asarray(weights, dtype=np.float64), axis=1)
    upper /= upper[:, -1:]
    drawn: Codes = (rng.random(len(rows))[:, None] >= upper[rows]).sum(axis=1)
    return drawn


def _label(names: Sequence[str | None], codes: Codes) -> pd.Series[str]:
    import numpy as np
    import pandas as pd

    return pd.Series(np.array(names, dtype=object)[codes], dtype="str")


def _education(stage: Codes, country: pd.Series[str], rng: np.random.Generator) -> Codes:
    """Draw education-num - 1, (n,)."""
    import numpy as np

    factors = np.ones((3, len(EDUCATION)))
    factors[1, :6], factors[1, 9:] = 8, 0.35
    factors[2, 12:] = 2.5
    schooling = np.select([country.isin(SHORT_SCHOOLING), country.isin(LONG_SCHOOLING)], [1, 2], 0)
    weights = factors[:, None, :] * np.array(EDUCATION_WEIGHTS)
    return _draw(weights.reshape(-1, len(EDUCATION)), schooling * len(EDUCATION_WEIGHTS) + stage, rng)


def _workclass(stage: Codes, education: Codes, rng: np.random.Generator) -> Codes:
    import numpy as np

    weights = np.array(WORKCLASS_WEIGHTS)
    degree = (education >= EDUCATION.index("Bachelors")).astype(np.int64)
    return _draw(np.vstack([weights, weights * DEGREE_TO_WORKCLASS]), degree * len(weights) + stage, rng)


def _occupation(sex: Codes, education: Codes, workclass: Codes, rng: np.random.Generator) -> Codes:
    """Draw an occupation for each record, (n,); later masked if none or the work class is unknown."""
    import numpy as np

    schooling = np.searchsorted(SCHOOLING_FROM, education + 1, side="right")
    row = sex * (len(SCHOOLING_FROM) + 1) + schooling
    factors = np.array(WORKCLASS_TO_OCCUPATION)
    weights = np.array(OCCUPATION_WEIGHTS)[:, None, :] * factors
    column = np.minimum(workclass, len(factors) - 1)
    return _draw(weights.reshape(-1, len(OCCUPATION)), row * len(factors) + column, rng)


def _relationship(stage: Codes, sex: Codes, marital: Codes, rng: np.random.Generator) -> Codes:
    import numpy as np

    spouse = np.isin(marital, [MARITAL.index("Married-civ-spouse"), MARITAL.index("Married-AF-spouse")])
    single = marital == MARITAL.index("Never-married")
    first_single = len(SPOUSE_WEIGHTS)
    first_formerly = first_single + len(SINGLE_WEIGHTS)
    row = np.select([spouse, single], [sex, first_single + stage], first_formerly + sex)
    return _draw((*SPOUSE_WEIGHTS, *SINGLE_WEIGHTS, *FORMERLY_WEIGHTS), row, rng)


def _hours(stage: Codes, sex: Codes, occupation: Codes, rng: np.random.Generator) -> Codes:
    """Draw the hours of work per week, (n,), 1 to 99; half of the people report 40."""
    import numpy as np

    mean = np.array(STAGE_TO_HOURS)[stage] + np.array(OCCUPATION_TO_HOURS)[occupation] - 3.5 * sex
    free = np.clip(np.rint(rng.normal(mean, 11.0)), 1, 99).astype(np.int64)
    return np.where((rng.random(len(free)) < 0.5) & (mean > 32), 40, free)


def _income(stage: Codes, sex: Codes, education: Codes, marital: Codes, occupation: Codes, hours: Codes,
            rng: np.random.Generator) -> Codes:  # fmt: skip
    """Draw 1 for an income above 50,000, otherwise 0, (n,), by a logistic model."""
    import numpy as np

    married = marital == MARITAL.index("Married-civ-spouse")
    score = (
        -3.7
        + np.array(STAGE_TO_INCOME)[stage]
        + np.array(OCCUPATION_TO_INCOME)[occupation]
        + 0.33 * (education + 1 - 9)
        + 0.03 * (hours - 40)
        + 2.2 * married
        - 0.1 * sex
    )
    rich: Codes = (rng.random(len(score)) < 1 / (1 + np.exp(-score))).astype(np.int64)
    return rich


def _gain(rich: Codes, rng: np.random.Generator) -> Codes:
    import numpy as np

    amount = np.rint(rng.lognormal(np.where(rich == 1, 9.2, 8.1), 0.5))
    amount = np.where((rich == 1) & (rng.random(len(rich)) < 0.1), 99_999, np.minimum(amount, 41_310))
    return np.where(rng.random(len(rich)) < np.where(rich == 1, 0.21, 0.04), amount, 0).astype(np.int64)


def _loss(rich: Codes, rng: np.random.Generator) -> Codes:
    import numpy as np

    amount = np.clip(np.rint(rng.normal(np.where(rich == 1, 1_980, 1_760), 330)), 155, 4_356)
    return np.where(rng.random(len(rich)) < np.where(rich == 1, 0.1, 0.03), amount, 0).astype(np.int64)
