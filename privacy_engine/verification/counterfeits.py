"""Counterfeit records: records of a release that belong to no person, and what can be inferred from them.

Xiao, X., Tao, Y.: m-Invariance: Towards Privacy Preserving Re-publication of Dynamic Datasets. SIGMOD 2007.
A class that lacks a sensitive value of its signature gets records that have it and belong to no person. Their
number in each class is published, so that readers who count records can correct for them. The way they are
made is published, too. Someone who knows both must not be able to find out which values of a class are made
up: otherwise these would count for no one, and the signature would be smaller than it looks.

A lacking value gets as many records as the least frequent of the others has. Someone who sees a class with u
values of that least frequency t, and t (u - v) counterfeits, knows that v of the u values are real, v >= 1,
but not which ones. Each value of the signature remains possible for each person of the class.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.columns import factorize
from privacy_engine.vocabulary import COUNTERFEITS, Kind, Meaning, Role

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def counterfeits_column() -> Attribute:
    """Return the released column with the number of counterfeits in each record's class."""
    return Attribute(name=COUNTERFEITS, role=Role.INSENSITIVE, kind=Kind.NUMERIC, meaning=Meaning.OTHER)


def without_person(persons: npt.NDArray[np.object_]) -> Bools:
    """(n,) which records belong to no person."""
    return np.asarray(pd.isna(persons), dtype=np.bool_)


def wrong_counts(labels: Ints, fake: Bools, claimed: pd.Series | None) -> Ints:
    """Return the classes that claim another number of counterfeits than they have.

    Args:
        labels: Class of each record, shape (n,), 0 .. c - 1.
        fake: Whether each record is a counterfeit, shape (n,).
        claimed: Number that each record claims, shape (n,); None: none is claimed.
    """
    have = np.bincount(labels[fake], minlength=int(labels.max(initial=-1)) + 1)[labels]
    if claimed is None:
        return np.unique(labels[have > 0])
    given = pd.to_numeric(claimed, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.unique(labels[given != have])


def recognisable(labels: Ints, column: pd.Series, fake: Bools) -> Bools:
    """(c,) classes in which someone who knows the number can find out which values are made up.

    Args:
        labels: Class of each record, shape (n,), 0 .. c - 1.
        column: Sensitive values, shape (n,).
        fake: Whether each record is a counterfeit, shape (n,).
    """
    classes = int(labels.max(initial=-1)) + 1
    if not fake.any():
        return np.zeros(classes, np.bool_)
    codes = factorize(column).codes + 1
    size = int(codes.max()) + 1
    pairs, which = np.unique(labels * size + codes, return_inverse=True)
    records, made_up = np.bincount(which), np.bincount(which[fake], minlength=len(pairs))
    of = pairs // size
    least = np.full(classes, len(labels) + 1)
    real = made_up == 0
    np.minimum.at(least, of[real], records[real])
    wrong = ~real & ((made_up < records) | (records != least[of]))
    # A real value must be among the least frequent ones; it is if the made-up values are as frequent.
    return np.bincount(of[wrong], minlength=classes) > 0


def lacking(counts: Ints) -> Ints:
    """(c, v) the number of counterfeits that each class needs of each value of its signature.

    Args:
        counts: Persons of the class with each value of the signature, shape (c, v), at least one per class.

    >>> lacking(np.array([[3, 2, 0], [4, 0, 0], [1, 1, 1]])).tolist()
    [[0, 0, 2], [0, 4, 4], [0, 0, 0]]
    """
    least = np.where(counts > 0, counts, counts.max(initial=0) + 1).min(axis=1, keepdims=True)
    return np.where(counts > 0, 0, least)


def texts_of_sets(labels: Ints, column: pd.Series, null: str) -> list[Sequence[str]]:
    """(c,) the sorted texts of the values in each class 0 .. c - 1."""
    coded = factorize(column)
    texts = [*coded.texts, null]
    pairs = np.unique(np.stack([labels, np.where(coded.codes < 0, len(texts) - 1, coded.codes)]), axis=1)
    parts = np.split(pairs[1], np.flatnonzero(np.diff(pairs[0])) + 1) if pairs.size else []
    # one step a class, of which there are n / k
    return [sorted(texts[code] for code in part) for part in parts]
