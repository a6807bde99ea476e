"""LatentClass on generated tables of eleven forms: wide ones and few records, next to independent columns."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.intervals import Mean
from benchmarks.report import Section, markdown_table, verdict
from benchmarks.tables import Table
from privacy_engine import DataSchema, load_method
from privacy_engine.dp.loss import Neighbours, PrivacyLoss
from privacy_engine.dp.mechanisms import split
from privacy_engine.dp.noise import Change, NoiseBudget
from privacy_engine.synthesizers.postprocess import likely_values
from privacy_engine.tables.domains import BinnedDomain, CodedTable, Storage, code_type, public_domains
from privacy_engine.tables.marginals import WeightedRecords, contingency

Ints = npt.NDArray[np.int64]
Codes = list[Ints]

REPORTED = 1_000  # seeds from here on are reported; settings are chosen on lower ones
TRIPLES = 600  # marginals of three attributes that are compared, at random where there are more
EPSILON, DELTA = 0.8, 1e-9
DELTAS = (0.0, DELTA)
RUNS = 20
TIMED = 3  # runs that make replicates, which double the time and do not change a release
NOTE = """Mean total variation distance of {triples:,} 3-way marginals (of all, if these are fewer), means of
runs, each with a separate table from a seed of {seed:,} or more; epsilon {epsilon:g} for one record replaced,
pure or with delta 1e-9. *Independent columns* are drawn from noisy counts of each attribute that spend the
same budget, *without noise* from the exact counts. The lead, with its 95 % interval, is paired by run, and
positive where LatentClass is nearer. CPU seconds, with replicates for intervals, are means of the first
{timed} runs. The settings were chosen on seeds below {seed:,}."""


@dataclass(frozen=True)
class Form:
    """A generated table: the numbers of values of its attributes, or of bins (negative), and its records."""

    sizes: Sequence[int]
    codes: Codes

    def coded(self) -> CodedTable:
        """The table in codes."""
        fields: dict[str, dict[str, object]] = {
            f"a{i}": {"kind": "numeric", "bounds": [0, -size], "bins": -size}
            if size < 0
            else {"categories": [f"{v:03}" for v in range(size)]}
            for i, size in enumerate(self.sizes)
        }
        schema = DataSchema.from_dict(fields)
        empty = pd.DataFrame(
            {f"a{i}": np.array([0.0] if size < 0 else ["000"]) for i, size in enumerate(self.sizes)}
        )
        storages = {a.name: Storage.of(empty[a.name], a) for a in schema.attributes}
        domains = public_domains(schema, storages, {})
        codes = np.array(self.codes, dtype=code_type(domains))
        return CodedTable(domains=domains, storages=storages, codes=codes)


def drawn(shares: npt.NDArray[np.float64], given: Ints, rng: np.random.Generator) -> Ints:
    """(n,) a value for each record, from the row of ``shares`` (groups, size) that is given."""
    return np.asarray((rng.random(len(given))[:, None] > shares.cumsum(axis=1)[given, :-1]).sum(axis=1))


def of_groups(
    rng: np.random.Generator, n: int, sizes: Sequence[int], groups: int, even: float = 0.7
) -> Codes:
    """Attributes that depend on each other by the group of a person only."""
    group = rng.integers(0, groups, n)
    return [drawn(rng.dirichlet(np.full(size, even), groups), group, rng) for size in sizes]


def independent(rng: np.random.Generator, n: int, d: int) -> Form:
    """No dependency at all."""
    sizes = rng.integers(2, 9, d).tolist()
    return Form(sizes, of_groups(rng, n, sizes, 1, 1.0))


def blocks(rng: np.random.Generator, n: int, d: int, width: int = 5) -> Form:
    """Blocks of five attributes of 2 to 6 values; each attribute copies its block's value or is its own."""
    sizes, codes = rng.integers(2, 7, d).tolist(), []
    for start in range(0, d, width):
        hidden = rng.integers(0, 6, n)
        for size in sizes[start : start + width]:
            own = drawn(rng.dirichlet(np.ones(size), 1), np.zeros(n, dtype=np.int64), rng)
            codes.append(np.where(rng.random(n) < 0.7, hidden % size, own))
    return Form(sizes, codes)


def sparse(rng: np.random.Generator, n: int, d: int) -> Form:
    """Binary attributes of which most are rare, in blocks of four that come together."""
    codes: Codes = []
    for _ in range(0, d, 4):
        ill, rate = rng.random(n) < rng.uniform(0.02, 0.3), rng.uniform(0.3, 0.9)
        codes += [(ill & (rng.random(n) < rate)) | (rng.random(n) < rng.uniform(0, 0.05)) for _ in range(4)]
    return Form([2] * d, [column.astype(np.int64) for column in codes[:d]])


def dense(rng: np.random.Generator, n: int, d: int) -> Form:
    """Attributes of three or four values of nearly equal share that depend on groups of people."""
    sizes = rng.integers(3, 5, d).tolist()
    return Form(sizes, of_groups(rng, n, sizes, 4, 4.0))


def groups(rng: np.random.Generator, n: int, d: int) -> Form:
    """Attributes of 2 to 12 values that depend on five groups of people."""
    sizes = rng.integers(2, 13, d).tolist()
    return Form(sizes, of_groups(rng, n, sizes, 5))


def chain(rng: np.random.Generator, n: int, d: int) -> Form:
    """Scales of 12 bins, each next to the one before it with a correlation of .8."""
    value, codes = rng.normal(size=n), []
    for _ in range(d):
        codes.append(np.clip((value + 3) * 2, 0, 11).astype(np.int64))
        value = 0.8 * value + 0.6 * rng.normal(size=n)
    return Form([-12] * d, codes)


def determined(rng: np.random.Generator, n: int, d: int) -> Form:
    """A code of 40 values, its area and its zone, which are functions of it; the rest by the zone."""
    code = rng.choice(40, n, p=rng.dirichlet(np.ones(40)))
    area = rng.integers(0, 8, 40)[code]
    zone = rng.integers(0, 3, 8)[area]
    sizes = rng.integers(2, 7, d - 3).tolist()
    codes = [drawn(rng.dirichlet(np.ones(size), 3), zone, rng) for size in sizes]
    return Form([40, 8, 3, *sizes], [code, area, zone, *codes])


def skewed(rng: np.random.Generator, n: int, d: int) -> Form:
    """Categories of 5 to 30 values by Zipf's law, every other one a noisy copy of the one before it."""
    sizes = rng.integers(5, 31, d).tolist()
    codes: Codes = []
    for i, size in enumerate(sizes):
        shares = 1 / np.arange(1, size + 1) ** 1.3
        own = rng.choice(size, n, p=shares / shares.sum())
        codes.append(np.where(rng.random(n) < 0.5, codes[-1] % size, own) if i % 2 else own)
    return Form(sizes, codes)


def mixed(rng: np.random.Generator, n: int, d: int) -> Form:
    """Categories and scales, each dependent on one earlier attribute: a random tree."""
    sizes = rng.choice([2, 2, 3, 5, 7, 9, 16, 30], d).tolist()
    codes: Codes = []
    for i, size in enumerate(sizes):
        parent = int(rng.integers(0, i)) if i else 0
        given = codes[parent] if i else np.zeros(n, dtype=np.int64)
        codes.append(drawn(rng.dirichlet(np.full(size, 0.6), sizes[parent] if i else 1), given, rng))
    return Form([-size if size == 16 else size for size in sizes], codes)


def pair(rng: np.random.Generator, n: int, d: int) -> Form:
    """Independent attributes but for one pair of equal ones."""
    form = independent(rng, n, d)
    sizes, codes = list(form.sizes), list(form.codes)
    sizes[1], codes[1] = sizes[0], codes[0]
    return Form(sizes, codes)


def factor(rng: np.random.Generator, n: int, d: int) -> Form:
    """Binary attributes that depend on one thing, as the answers of a survey do: a normal factor."""
    hidden, codes = rng.normal(size=n), []
    for _ in range(d):
        loading, threshold = rng.uniform(0.5, 0.9), rng.uniform(0.0, 1.5)
        own = rng.normal(size=n)
        codes.append((loading * hidden + (1 - loading**2) ** 0.5 * own > threshold).astype(np.int64))
    return Form([2] * d, codes)


FORMS: Mapping[str, Callable[[np.random.Generator, int, int], Form]] = {
    "independent": independent,
    "blocks of five": blocks,
    "sparse": sparse,
    "dense": dense,
    "groups of people": groups,
    "chain of scales": chain,
    "a code and its area": determined,
    "skewed": skewed,
    "mixed": mixed,
    "one pair": pair,
    "one factor": factor,
}
# Records and attributes. Each form is a wide table and one of few records.
WIDE = ((50, 50_000), (100, 50_000), (200, 50_000))
FEW = ((12, 200), (12, 500), (12, 2_000))


def distance(real: CodedTable, codes: npt.NDArray[np.generic], marginals: Sequence[tuple[int, ...]]) -> float:
    """Mean total variation distance of some marginals to records (d, n) over the same domains."""
    sizes, one = np.array(real.sizes, dtype=np.int64), np.ones(codes.shape[1], dtype=np.int64)
    ours, theirs = (
        WeightedRecords(codes=np.ascontiguousarray(made.astype(real.codes.dtype)), weights=one, sizes=sizes)
        for made in (real.codes, codes)
    )
    apart = [np.abs(contingency(ours, m) - contingency(theirs, m)).sum() for m in marginals]
    return float(np.mean(apart)) / (2 * len(real))


def triples(d: int, rng: np.random.Generator, most: int = TRIPLES) -> list[tuple[int, ...]]:
    """Sets of three attributes: all, or at random."""
    total = d * (d - 1) * (d - 2) // 6
    found: set[tuple[int, ...]] = set()
    while len(found) < min(total, most):
        found.add(tuple(sorted(rng.choice(d, 3, replace=False).tolist())))
    return sorted(found)


def independent_columns(table: CodedTable, rng: np.random.Generator, *, epsilon: float, delta: float) -> Ints:
    """(d, n) records drawn from noisy counts of each attribute, which spend the budget of a release."""
    noise = NoiseBudget.of(PrivacyLoss.within(epsilon, delta, Neighbours.REPLACE_ONE))
    n, change, columns = len(table), Change.of_table(1), []
    parts = split(noise.whole, [size ** (noise.power / (noise.power + 1)) for size in table.sizes])
    for a, (domain, part) in enumerate(zip(table.domains, parts, strict=True)):
        noisy = noise.add(contingency(table, (a,)), part, change, target=domain.name)
        on_scale = domain.bins if isinstance(domain, BinnedDomain) else 0
        scale = noise.deviation(part, change) / 2**0.5
        likely = likely_values(noisy, n, scale=scale, on_scale=on_scale)
        columns.append(rng.choice(table.sizes[a], n, p=likely / likely.sum()))
    return np.stack(columns)


def shuffled(table: CodedTable, rng: np.random.Generator) -> npt.NDArray[np.generic]:
    """(d, n) the columns of the table, each in a random order."""
    return np.stack([rng.permutation(column) for column in table.codes])


@dataclass(frozen=True)
class Run:
    """Distances of one run, and how LatentClass made it.

    Attributes:
        ours: Distance of LatentClass.
        columns: Distance of independent columns that spend the same budget.
        exact: Distance of independent columns without noise.
        joint: Number of noisy tables of two attributes or more.
        cpu: CPU seconds of LatentClass.
    """

    ours: float
    columns: float
    exact: float
    joint: int
    cpu: float


def measured(
    name: str, d: int, n: int, seed: int, *, delta: float, epsilon: float = EPSILON, **parameters: object
) -> Run:
    """One release of the table of a form from a seed."""
    rng = np.random.default_rng([44, seed, d, n])
    table = FORMS[name](rng, n, d).coded()
    marginals = triples(d, rng)
    method = load_method("latent_class", epsilon=epsilon, delta=delta, **parameters)
    before = time.process_time()
    model = method.measure_coded(table)
    cpu = time.process_time() - before
    ours = model.network.sample(n, rng)[: len(table.domains)]
    columns = independent_columns(table, rng, epsilon=epsilon, delta=delta)
    far = [distance(table, codes, marginals) for codes in (ours, columns, shuffled(table, rng))]
    # A figure of all attributes is no table of counts
    joint = sum(1 < len(spend.target.split(", ")) < d for spend in model.spends)
    return Run(*far, joint=joint, cpu=cpu)


@dataclass(frozen=True)
class Line:
    """What was measured of one form, shape and delta."""

    row: tuple[object, ...]
    shape: str
    leads: Sequence[float]

    @property
    def lead(self) -> Mean:
        """Mean lead over independent columns."""
        return Mean.of(self.leads)

    @property
    def is_further(self) -> bool:
        """Whether LatentClass is further from the tables by more than a standard error."""
        return self.lead.value < -float(np.std(self.leads, ddof=1)) / len(self.leads) ** 0.5


def lines(shapes: Iterable[tuple[int, int]], runs: int, seed: int = REPORTED) -> list[Line]:
    """One line for each shape, form and delta."""
    found = []
    for d, n in shapes:
        for name in FORMS:
            for delta in DELTAS:
                made = [
                    measured(
                        name,
                        d,
                        n,
                        seed + number,
                        delta=delta,
                        **({"replicates": 0} if number >= TIMED else {}),
                    )
                    for number in range(runs)
                ]
                leads = [run.columns - run.ours for run in made]
                means = [np.mean([getattr(run, of) for run in made]) for of in ("ours", "columns", "exact")]
                cpu, lead = f"{np.mean([run.cpu for run in made[:TIMED]]):.1f}", Mean.of(leads)
                shape = f"{name}, {d} attributes, {n:,} records"
                figures = [f"{mean:.4f}" for mean in means]
                row = (shape, "1e-9" if delta else "0", runs, *figures, lead.shown(4), cpu)
                found.append(Line(row, f"{shape}, {'with delta' if delta else 'pure'}", leads))
                print("[dp_forms]", *row, flush=True)
    return found


def judged(found: Sequence[Line], kind: str) -> list[str]:
    """Whether LatentClass is nowhere further from the tables than independent columns; none without lines."""
    if not found:
        return []
    runs = min(len(line.leads) for line in found)
    clearly = [line for line in found if line.lead.high < 0]
    further = [line for line in found if line.is_further] if runs > 1 else []
    claim = f"{kind}: LatentClass is nowhere clearly further from the table than independent columns"
    closer = f"{kind}: LatentClass is nowhere further than independent columns by more than a standard error"
    return [
        verdict(
            text,
            not missed,
            "; ".join(f"{line.shape}: {line.lead.shown(4)}" for line in missed) or f"{len(found)} cases",
            runs=runs,
        )
        for text, missed in ((claim, clearly), (closer, further))
    ]


def run(
    _: Table,
    *,
    runs: int = RUNS,
    wide: Sequence[tuple[int, int]] = WIDE,
    few: Sequence[tuple[int, int]] = FEW,
) -> Section:
    """Every form in every shape."""
    of_few, of_wide = lines(few, runs), lines(wide, runs)
    head = ("table", "delta", "runs", "LatentClass", "independent columns", "without noise", "lead", "CPU s")
    note = NOTE.format(triples=TRIPLES, seed=REPORTED, epsilon=EPSILON, timed=TIMED)
    verdicts = [*judged(of_few, "Few records"), *judged(of_wide, "Wide tables")]
    return Section(
        title="32. Wide tables and few records",
        blocks=(note, markdown_table(head, [line.row for line in (*of_few, *of_wide)]), "\n".join(verdicts)),
        source="Generated tables of eleven forms.",
    )
