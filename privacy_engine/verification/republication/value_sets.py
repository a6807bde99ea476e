"""Sets of sensitive values of persons with several records, for someone who knows the values of classes.

The attacker knows the person of each record of a group of arrivals or departures, and how often each value
occurs among the records of each class, but not which record has which value. Two questions follow:

- How many sets of values remain possible for one person? Any assignment of the values of a class to its
  records explains what is seen. A person with r records in a class has the set S in some of them exactly if
  S has at most r values and these occur at least r times. If one set remains, it is known, however many
  persons and values the class has: of four records with x, x, y and y, three belong to one person, who has
  both.
- How many different sets do the persons of a group have at least? If all have the same one, it is enough
  to know that none of them has a value twice. For departures, the values of persons are not kept, so the
  answer is a bound that holds for every assignment of the values.

Both numbers never exceed those that a search of all assignments finds. Persons are counted as in one
release, see `privacy_engine.tables.persons`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, combinations
from math import comb

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
NO_LIMIT = int(np.iinfo(np.int64).max)


def fewest_sets(groups: Ints, people: Ints, of_values: tuple[Ints, Ints], size: int) -> Ints:
    """Bound from below the number of different sets of values that the persons of each group have.

    Args:
        groups: Group of each record, shape (n,), 0 .. size - 1.
        people: Person of each record, shape (n,).
        of_values: Group and code of each value that a record of the group has, (e,) each.
        size: Number of groups.

    >>> group, person = np.zeros(4, np.int64), np.array([7, 7, 8, 8])
    >>> fewest_sets(group, person, (group, np.array([0, 0, 1, 1])), 1).tolist()  # x and y both, it may be
    [1]
    >>> fewest_sets(group, person, (group, np.array([0, 0, 0, 1])), 1).tolist()
    [2]
    """
    found = np.zeros(size, dtype=np.int64)
    records = _grouped(groups, people)
    for group, counts in _grouped(*of_values).items():
        found[group] = _fewest(sorted(counts.values(), reverse=True), [*records.get(group, {}).values()])
    return found


def _fewest(values: Sequence[int], records: Sequence[int]) -> int:
    """The bound for one group.

    Args:
        values: How often each value occurs, descending.
        records: Number of records of each person.
    """
    if not records:
        return 0
    singles, most = sum(own == 1 for own in records), max(records)
    # Those with one record have one value each; the remaining values are in sets of at most `most` values.
    first = sum(before < singles for before in accumulate(values, initial=0)) if singles else 1
    covered = first if singles else min(records)
    found = first + max(-(-(len(values) - covered) // most), 0)
    # A value that not every person can have is in some sets but not in others.
    return max(found, 2) if len(values) > 1 and values[-1] < len(records) else found


def possible_sets(
    groups: Ints, classes: Ints, people: Ints, of_values: tuple[Ints, Ints], least: int, size: int
) -> Ints:
    """Count the sets of values that remain possible for a person, the fewest of each group.

    Args:
        groups: Group of each record, shape (n,), 0 .. size - 1.
        classes: Class of each record, shape (n,).
        people: Person of each record, shape (n,).
        of_values: Class and code of each value that a record of the group has there, (e,) each.
        least: Required number; the search stops there.
        size: Number of groups.

    Returns:
        (size,) int64, `NO_LIMIT` for a group in which no person has several records.
    """
    found = np.full(size, NO_LIMIT, dtype=np.int64)
    span = int(people.max(initial=0)) + 1
    pairs, pair_of, many = np.unique(groups * span + people, return_inverse=True, return_counts=True)
    several = many[pair_of] > 1
    if not several.any():
        return found
    values = _grouped(*of_values)
    known: dict[tuple[tuple[int, int], ...], int] = {}
    for pair, records in _grouped(pair_of[several], classes[several]).items():
        key = tuple(sorted(records.items()))
        if key not in known:
            known[key] = max(_ways_of(key, values, least))
        group = pairs[pair] // span
        found[group] = min(found[group], known[key])
    return found


def _ways_of(
    records: Sequence[tuple[int, int]], values: Mapping[int, Mapping[int, int]], least: int
) -> Iterator[int]:
    """Count the sets of one person if the values in one class vary and those in the others are fixed.

    Args:
        records: Each class of the person, and the number of records there.
        values: Class -> code -> how often it occurs.
        least: Required number of sets; the search stops there.
    """
    for label, number in records:
        fixed = {
            code for other, own in records if other != label for code in _most_frequent(values[other], own)
        }
        counts = values[label]
        free = sum(count for code, count in counts.items() if code in fixed)
        yield _ways([count for code, count in counts.items() if code not in fixed], free, number, least)


def _most_frequent(counts: Mapping[int, int], number: int) -> Iterator[int]:
    """Return the fewest values that a number of records can have."""
    for code, count in sorted(counts.items(), key=lambda own: (-own[1], own[0])):
        if number > 0:
            yield code
        number -= count


def _ways(counts: Sequence[int], free: int, number: int, least: int) -> int:
    """Count the sets of values that a number of records can add to the fixed ones, up to `least`.

    Args:
        counts: How often each value occurs that is not fixed.
        free: How often fixed values occur.
        number: Number of records, at least 1.
        least: Number at which counting stops.

    >>> _ways([2, 2], 0, 3, 9), _ways([5, 1], 0, 2, 9), _ways([1, 1, 1], 0, 2, 9), _ways([2, 1], 1, 1, 9)
    (1, 2, 3, 3)
    """
    counts, size = sorted(counts), len(counts)
    sums = list(accumulate(reversed(counts), initial=free))
    smallest = next((s for s, own in enumerate(sums) if own >= number), None)
    largest = min(number, size)
    if smallest is None or smallest > largest:
        return 0
    # Each set that contains the most frequent values.
    found, spare = 0, size - smallest
    for more in range(largest - smallest + 1):
        found += comb(spare, more)
        if found >= least:
            return least
    # Few values can be absent from a set.
    found = 0
    for absent in range(size - largest, spare + 1):
        for without in combinations(counts, absent):
            found += sums[-1] - sum(without) >= number
            if found >= least:
                return least
    return found


def _grouped(groups: Ints, items: Ints) -> dict[int, dict[int, int]]:
    """Group -> item -> how often it occurs there."""
    found: dict[int, dict[int, int]] = {}
    if len(groups):
        span = int(items.max()) + 1
        keys, counts = np.unique(groups * span + items, return_counts=True)
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            found.setdefault(key // span, {})[key % span] = count
    return found
