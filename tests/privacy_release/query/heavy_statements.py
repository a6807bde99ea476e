"""Statements that take for ever, all memory or a whole disk of answer, by family, with varied parameters."""

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

Rng = np.random.Generator


def _many(rng: Rng, low: int = 6, high: int = 12) -> str:
    return f"1e{rng.integers(low, high)}::BIGINT"


def _comprehension(rng: Rng) -> str:
    step = rng.choice(["sqrt(x)", "x % 7 + 1"])
    numbers = f"range({_many(rng, 8, 12)})"
    if rng.random() < 0.5:
        return f"SELECT list_sum([{step} for x in {numbers}]) FROM people"
    return f"SELECT list_sum(list_transform({numbers}, lambda x: {step})) FROM people"


def _constant_list(rng: Rng) -> str:
    return f"SELECT len(list_sort(range({rng.integers(50, 900)}000000, 0, -1))) FROM people"


def _regexp(rng: Rng) -> str:
    text = f"repeat('a', {rng.integers(20, 90)}000000)"
    pattern = rng.choice(["(a?){200}b", "(a*)*b", "(a|aa)+$", "(.*)(.*)(.*)(.*)(.*)x"])
    call = rng.choice(["regexp_matches({0}, '{1}')", "len(regexp_replace({0}, '{1}', 'z', 'g'))"])
    return f"SELECT {call.format(text, pattern)} FROM people"


def _recursion(rng: Rng) -> str:
    step = rng.choice(["i + 1", "i + 0", "(i * 3 + 1) % 1000003", "-i"])
    return (
        f"WITH RECURSIVE n(i) AS (SELECT 1::BIGINT UNION ALL SELECT {step} FROM n WHERE i < {10**15}) "
        f"SELECT {rng.choice(['max(i)', 'count(*)', 'sum(i)'])} FROM n, people"
    )


def _growth(rng: Rng) -> str:
    return (
        "WITH RECURSIVE n(s) AS (SELECT 'ab' UNION ALL SELECT s || s FROM n) "
        f"SELECT max(length(s)) + {rng.integers(9)} FROM n, people"
    )


def _repeat(rng: Rng) -> str:
    call = rng.choice(["length(repeat({0}, {1}))", "md5(repeat({0}, {1}))", "reverse(repeat({0}, {1}))"])
    text = rng.choice(["illness", "'x'"])
    return f"SELECT {call.format(text, _many(rng, 8, 13))} FROM people"


def _cross_sort(rng: Rng) -> str:
    sides = ", ".join(f"range({rng.integers(2, 90)}00000) t{i}(a{i})" for i in range(rng.integers(2, 4)))
    order = rng.choice(["a0 * a1", "hash(a0 + a1)", "md5(a0::VARCHAR || a1::VARCHAR)"])
    return f"SELECT a0, a1 FROM people, {sides} ORDER BY {order} LIMIT 5 OFFSET {rng.integers(10**6, 10**9)}"


def _json(rng: Rng) -> str:
    depth = rng.integers(1, 9)
    return (
        f"SELECT count(*) FROM people, range({_many(rng, 8, 12)}) t(i) "
        f"WHERE json_extract('{'[' * depth}' || i || '{']' * depth}', '${'[0]' * depth}')::BIGINT = -1"
    )


def _json_text(rng: Rng) -> str:
    return (
        f"SELECT json_array_length('[' || repeat('[],', {rng.integers(50, 900)}000000) || '1]') FROM people"
    )


def _window(rng: Rng) -> str:
    over = rng.choice(["ORDER BY hash(i)", f"PARTITION BY i % {rng.integers(2, 50)} ORDER BY -i"])
    call = rng.choice(
        ["median(i)", "quantile_cont(i, 0.3)", "mode(i)", "list(i)", "string_agg(i::VARCHAR, ',')"]
    )
    rows = f"range({rng.integers(3, 90)}000000) t(i)"
    frame = f"ROWS BETWEEN {rng.integers(10, 900)}00 PRECEDING AND CURRENT ROW"
    return f"SELECT max(x) FROM (SELECT {call} OVER ({over} {frame}) AS x FROM people, {rows})"


def _range(rng: Rng) -> str:
    call = rng.choice(["sum(i)", "count(DISTINCT i)", "max(sin(i))", "approx_quantile(i, 0.5)", "list(i)"])
    source = rng.choice(["range", "generate_series"])
    if source == "range":
        return f"SELECT {call} FROM people, range({_many(rng, 10, 13)}) t(i)"
    return f"SELECT {call} FROM people, generate_series(1, {_many(rng, 10, 13)}) t(i)"


def _unnested_range(rng: Rng) -> str:
    return f"SELECT count(*) FROM (SELECT unnest(range({_many(rng, 9, 13)})) FROM people)"


def _in_list(rng: Rng) -> str:
    values = ", ".join(map(str, rng.integers(0, 10**6, 9_000)))
    return f"SELECT count(*) FROM people, range({_many(rng, 9, 12)}) t(i) WHERE i % 1000003 IN ({values})"


def _deep(rng: Rng) -> str:
    n = int(rng.integers(2_000, 30_000))
    text = [
        f"SELECT {'- ' * n}1 FROM people",
        f"SELECT {'NOT ' * n}true FROM people",
        f"SELECT {'(' * n}1{')' * n} FROM people",
        f"SELECT {'abs(' * n}1{')' * n} FROM people",
        f"SELECT 1{' + 1' * n} FROM people",
        f"SELECT 1{'::INT' * n} FROM people",
        f"SELECT {'[' * n}1{']' * n} FROM people",
        f"SELECT {'CASE WHEN true THEN ' * n}1{' END' * n} FROM people",
        f"SELECT age FROM people{' UNION ALL FROM people' * n}",
        f"SELECT true{' AND age = 1' * n} FROM people",
    ]
    return str(text[rng.integers(len(text))])[:99_000]


def _joins(rng: Rng) -> str:
    n = int(rng.integers(8, 90))
    tables = " ".join(f"JOIN people p{i} ON p{i}.age = p{i - 1}.age" for i in range(1, n))
    return f"SELECT count(*) FROM people p0 {tables}"


def _sets(rng: Rng) -> str:
    n = rng.integers(9, 15)
    columns = ", ".join(f"i % {k + 2} AS c{k}" for k in range(n))
    names = ", ".join(f"c{k}" for k in range(n))
    source = f"SELECT {columns} FROM people, range(100000) t(i)"
    return f"SELECT count(*) FROM (SELECT {names} FROM ({source}) GROUP BY CUBE ({names}))"


def _aggregate(rng: Rng) -> str:
    call = rng.choice(
        ["list(x)", "string_agg(x, '')", "histogram(x)", "count(DISTINCT x)", "first(x ORDER BY x)"]
    )
    rows = f"range({rng.integers(5, 90)}0000000) t(i)"
    return (
        f"SELECT {call} IS NULL FROM (SELECT repeat(i::VARCHAR, {rng.integers(3, 90)}) x FROM people, {rows})"
    )


def _distance(rng: Rng) -> str:
    call = rng.choice(["levenshtein", "jaro_winkler_similarity", "damerau_levenshtein"])
    n = rng.integers(100, 900)
    return f"SELECT {call}(repeat('ab', {n}000), repeat('ba', {n}000) || illness) FROM people"


def _number(rng: Rng) -> str:
    n = rng.integers(10, 300)
    whole = f"list_aggregate(list_distinct(range({n}000000)), 'sum')"
    return f"SELECT {whole}, bit_count(repeat('1', {n}000000)::BIT) FROM people"


def _pattern(rng: Rng) -> str:
    text = f"repeat('a', {rng.integers(10, 99)}000000)"
    return f"SELECT {text} LIKE '{'%a' * rng.integers(20, 90)}%b' FROM people"


def _answer(rng: Rng) -> str:
    rows = rng.integers(10, 99) * 100
    return str(
        rng.choice(
            [
                f"SELECT repeat('x', {rng.integers(1, 90)}00000) FROM people, range({rows})",
                f"SELECT range({rng.integers(1, 90)}00000) FROM people, range({rows})",
                f"SELECT * FROM people, range({_many(rng, 9, 12)})",
                f"SELECT list_resize([true], {rng.integers(5, 90)}00000, true) FROM people, range({rows})",
            ]
        )
    )


FAMILIES: tuple[Callable[[Rng], str], ...] = (
    _comprehension,
    _constant_list,
    _regexp,
    _recursion,
    _growth,
    _repeat,
    _cross_sort,
    _json,
    _json_text,
    _window,
    _range,
    _unnested_range,
    _in_list,
    _deep,
    _joins,
    _sets,
    _aggregate,
    _distance,
    _number,
    _pattern,
    _answer,
)


def heavy_statements(count: int, seed: int = 7) -> list[tuple[str, str]]:
    """As many statements, each with the name of its family; families take turns."""
    return list(islice(_all(np.random.default_rng(seed)), count))


def _all(rng: Rng) -> Iterator[tuple[str, str]]:
    while True:
        for family in FAMILIES:
            yield family.__name__.strip("_"), family(rng)
