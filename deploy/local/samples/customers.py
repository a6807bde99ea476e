"""Simulated bank-card customers, after Zhang and Tang (2007), section 7.1. No one is real.

The attributes are independent given the class, a customer's value (high, medium, low). The paper names them
but not their distributions, which are chosen here. Numbers are normal inside a class, clipped to bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

CLASS = "value"
CLASSES: Mapping[str, float] = {"high": 0.2, "medium": 0.45, "low": 0.35}
# Attribute -> category -> weight in each class, in the order of CLASSES.
LISTED: Mapping[str, Mapping[str, tuple[int, int, int]]] = {
    "education": {
        "primary": (5, 10, 22),
        "secondary": (15, 30, 40),
        "bachelor": (45, 42, 30),
        "master": (25, 14, 6),
        "doctor": (10, 4, 2),
    },
    "occupation": {
        "farmer": (4, 9, 18),
        "worker": (10, 22, 30),
        "clerk": (16, 24, 18),
        "teacher": (12, 15, 9),
        "manager": (32, 12, 4),
        "self-employed": (20, 12, 8),
        "retired": (6, 6, 13),
    },
    "marital-status": {"single": (25, 32, 40), "married": (65, 56, 44), "divorced": (10, 12, 16)},
    "income-level": {
        "lowest": (3, 10, 32),
        "low": (7, 22, 34),
        "middle": (20, 38, 22),
        "high": (35, 22, 9),
        "highest": (35, 8, 3),
    },
}
HABITS = ("swipes", "amount", "deposit", "loan")  # attributes that change from one delivery to the next
CHANGED = 20  # one in 20 customers has other habits in a delivery
SEED = 2007  # seed of the customers; fixed, so that a repeated run has equal bytes
PURPOSES = {  # purpose of a visit -> weight in each class, in the order of CLASSES
    "cash": (15, 30, 45),
    "deposit": (25, 30, 25),
    "loan": (15, 20, 20),
    "advice": (45, 20, 10),
}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
OFTEN = 1.0  # shape of the gamma distribution of visits: most people visit rarely, a few often
VISITS = 0.05  # visits of a person in a week, on average
# Attribute -> bounds, then mean and standard deviation in each class.
NUMBERS: Mapping[str, tuple[tuple[float, float], tuple[tuple[float, float], ...]]] = {
    "age": ((18, 90), ((47, 9), (41, 11), (36, 12))),
    "cards": ((0, 20), ((6, 2), (4.5, 1.8), (3, 1.5))),
    "swipes": ((0, 100), ((38, 10), (27, 9), (19, 8))),
    "amount": ((0, 40), ((14, 4), (9.5, 3.5), (7, 3))),
    "deposit": ((0, 200), ((80, 25), (55, 20), (42, 18))),
    "loan": ((0, 150), ((52, 18), (40, 16), (33, 15))),
}


def bank_customers(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw customers with their class, `value`, one row each."""
    import numpy as np
    import pandas as pd

    classes = rng.choice(len(CLASSES), size=rows, p=list(CLASSES.values()))
    columns: dict[str, Any] = {}
    for name, ((low, high), by_class) in NUMBERS.items():
        mean, deviation = np.array(by_class)[classes].T
        columns[name] = np.clip(rng.normal(mean, deviation), low, high)
    for name, weights in LISTED.items():
        shares = np.array(list(weights.values()), dtype=np.float64).T
        ends = (shares / shares.sum(axis=1, keepdims=True)).cumsum(axis=1)
        drawn = (rng.random(rows)[:, None] >= ends[classes, :-1]).sum(axis=1)
        columns[name] = np.array(list(weights))[drawn]
    columns[CLASS] = np.array(list(CLASSES))[classes]
    return pd.DataFrame(columns)


def delivery(rows: int, text: str | None = None, *, seed: int = SEED) -> pd.DataFrame:
    """Return the same customers each time, numbered in `customer`; a text changes the habits of some.

    Args:
        rows: Number of customers.
        text: Name of the delivery, such as a partition key; equal texts change the same customers.
        seed: Seed of the random generator that draws the customers.
    """
    import hashlib

    import numpy as np

    table = bank_customers(rows, np.random.default_rng(seed))
    table.insert(0, "customer", [f"C{seed}-{number:06d}" for number in range(rows)])
    if text is not None:
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()))
        some = rng.choice(rows, size=rows // CHANGED, replace=False)
        for name in HABITS:
            low, high = NUMBERS[name][0]
            column = table[name].to_numpy(copy=True)
            column[some] = np.clip(column[some] * rng.uniform(0.5, 1.5, len(some)), low, high)
            table[name] = column
    return table


def branch_visits(people: int, text: str, *, seed: int = SEED) -> pd.DataFrame:
    """Simulate a week's visits to the branches of a bank, one row each; some people visit more often.

    Args:
        people: Number of customers; a visitor has the number and the attributes of `delivery`.
        text: Name of the week, such as a partition key; equal texts give equal visits.
        seed: Seed of the random generator that draws the customers.
    """
    import hashlib

    import numpy as np

    known = delivery(people, seed=seed)[["customer", "age", "occupation", CLASS]]
    rates = np.random.default_rng(seed).gamma(OFTEN, VISITS / OFTEN, size=people)
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()))
    table = known.loc[np.repeat(np.arange(people), rng.poisson(rates))].reset_index(drop=True)
    shares = np.array(list(PURPOSES.values()), dtype=np.float64).T
    ends = (shares / shares.sum(axis=1, keepdims=True)).cumsum(axis=1)
    classes = table[CLASS].map({name: code for code, name in enumerate(CLASSES)}).to_numpy()
    drawn = (rng.random(len(table))[:, None] >= ends[classes, :-1]).sum(axis=1)
    return table.assign(
        purpose=np.array(list(PURPOSES))[drawn], day=np.array(DAYS)[rng.integers(len(DAYS), size=len(table))]
    )
