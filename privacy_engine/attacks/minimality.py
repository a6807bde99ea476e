"""Minimality: someone who knows that a release is no coarser than its rules require infers why it is coarse.

Wong, Fu, Wang, Pei: Minimality attack in privacy preserving data publishing, VLDB 2007; Cormode, Srivastava,
Li, Li: Minimizing minimality and maximizing utility, VLDB 2010. The attacker knows the quasi-identifiers of
everyone in the release, and so each person's class; the sensitive values of a class; k; and the rules on
sensitive values under which the release was made. If a class could be cut into two sides of at least k people
but was not, the cut would have broken a rule. So the values are not distributed among its people at random,
see `refusals`; a class of fewer than 2k people, or without such a cut, reveals nothing.

For each person the attacker guesses a value. Main is how often it is right; control, how often the same guess
is right about a random person of the class, which is what the class reveals without minimality. Both are
about the same people, all of them in the release: no one outside has a class. If the values of each class
were distributed at random, main would equal control on average, whatever the guesses are, and would vary no
more than independent guesses; and the control, a mean over the class, varies less than the sample that the
interval assumes. So the interval is wider than needed.

An attacker has several ways: to use the one cut that reveals most about a person, all cuts of the attribute
that Mondrian would try first, or all cuts, as if each were independent evidence; to trust refusals more or
less; and to guess the most likely value, or the one whose probability rises most. The best is chosen on one
half of the people and evaluated on the other.

The planted leak is a release that a minimal algorithm that tries one cut per class could have made from other
values: some classes are joined, and on the smaller side of a cut people have the same value, as many of them
as the class allows and the cut does not.

Limits: each record counts as a person; each of several sensitive attributes is attacked by its own rules;
other steps than cuts in two, such as the merges of a clustering, are not reversed; if classes overlap, the
attacker is wrong about the class of some people, see `natural_cuts`; at most `MOST_VALUES` values; and in a
release of more than `natural_cuts.MOST_CLASSES` classes, only a random sample of this size is analysed and
attacked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pandas as pd

from privacy_engine.attacks.cells import Bools, Floats, Ints
from privacy_engine.attacks.inference import cross_fitted
from privacy_engine.attacks.natural_cuts import Cut, ReleasedPeople, cuts_of
from privacy_engine.attacks.refusals import CutRules, inferred
from privacy_engine.attacks.trial import Case, Rate, Tries
from privacy_engine.errors import SchemaError
from privacy_engine.tables.attribute import Attribute
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.schema import DataSchema
from privacy_engine.verification.models import AlphaKAnonymity, KAnonymity, PrivacyModel, SensitiveModel
from privacy_engine.vocabulary import released_as

SLIPS = (
    1e-6,
    1e-2,
)  # probabilities that a cut is not made for another reason; an attacker assumes one of them
MOST_VALUES = 200  # most values of a sensitive attribute
MOST_CUTS = 3_000  # most cuts whose refusal is analysed; if there are more, those of some classes
MOST_COUNTS = 45_000  # most cuts times values that are analysed
LEAST_RISE = 1e-9  # rise of a probability below which nothing is inferred
PLANTED = 100  # groups of classes in which a leak is planted
PLANTED_COUNTS = 3_000  # groups times values
PLANTED_SIDE = (
    0.2  # share of a group's people behind the cut: with halves, no one could say which was refused
)
PLANTED_MARGIN = (
    0.25  # share of a threshold by which a group meets the rules: otherwise every cut might break them
)
STEPS = 20  # steps of the share of people who get the planted value


@dataclass(frozen=True, kw_only=True)
class Minimality:
    """Infer sensitive values from the cuts that a release does not have."""

    name: ClassVar[str] = "minimality"

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """Run by sensitive attribute; empty if no rule is about one, or it is not in the release.

        Raises:
            SchemaError: If an attribute has more than `MOST_VALUES` values.
        """
        evidence = case.evidence
        rules_of = {
            a: rules
            for a in case.source.sensitive
            if released_as(a.name, evidence.release.columns) == (a.name,)
            and (rules := rules_on(a.name, evidence.rules))
        }
        if not rules_of or not case.source.quasi_identifiers:
            return {}
        people = ReleasedPeople.of(evidence.release, evidence.people, case.source, rng)
        k = least_people(evidence.rules)
        return {a.name: _attacked(case, people, a, rules, k, rng) for a, rules in rules_of.items()}


def rules_on(attribute: str, rules: Sequence[PrivacyModel]) -> tuple[SensitiveModel, ...]:
    """Return the rules about a sensitive attribute."""
    return tuple(r for r in rules if isinstance(r, SensitiveModel) and r.attribute in (None, attribute))


def least_people(rules: Sequence[PrivacyModel]) -> int:
    """Return the largest k that a rule requires; 1 if none does."""
    return max((r.k for r in rules if isinstance(r, KAnonymity | AlphaKAnonymity)), default=1)


def _attacked(
    case: Case,
    people: ReleasedPeople,
    attribute: Attribute,
    models: Sequence[SensitiveModel],
    k: int,
    rng: np.random.Generator,
) -> Tries:
    dealt = _dealt(case, people, attribute, models)
    if case.leak:
        dealt, evidence = _planted(dealt, people, case.targets, k, rng)
    else:
        evidence = _evidence_of(dealt, _cuts(dealt, people, k, rng), rng)
    targets = case.targets
    if case.leak or len(people.rows) < len(case.evidence.release):  # others are in no class that is analysed
        grouped = np.concatenate([*dealt.members, np.zeros(0, np.int64)])
        targets = rng.permutation(grouped)[: len(targets)]
    return _tried(targets, dealt, evidence)


@dataclass(frozen=True, kw_only=True)
class Dealt:
    """The sensitive values of classes, and the people who have them.

    Attributes:
        rules: Rules of the attribute.
        counts: Records of each class with each value, shape (c, m): everything the release reveals.
        members: People of each class.
        values: True value of each person, shape (n,).
        losses: Loss of each class in each quasi-identifier, shape (c, q).
    """

    rules: CutRules
    counts: Ints
    members: Sequence[Ints]
    values: Ints
    losses: Floats


def _dealt(
    case: Case, people: ReleasedPeople, attribute: Attribute, models: Sequence[SensitiveModel]
) -> Dealt:
    columns = [case.evidence.release[[attribute.name]], case.evidence.people[[attribute.name]]]
    both = pd.concat(columns, ignore_index=True)
    column = EquivalenceClasses.of_table(both, DataSchema((attribute,))).sensitive[attribute.name]
    released, values = column.codes[: len(columns[0])], column.codes[len(columns[0]) :]
    if column.size > MOST_VALUES:
        raise SchemaError(
            f"{attribute.name}: minimality is tried on at most {MOST_VALUES} sensitive values, got "
            f"{column.size}. Remove the attack from the policy, or release the attribute with fewer values"
        )
    classes = len(people.losses)
    counts = np.zeros((classes, column.size), np.int64)
    np.add.at(counts, (people.released, released[people.rows]), 1)
    total = np.bincount(released, minlength=column.size)
    order = np.argsort(people.labels, kind="stable")
    ends = np.searchsorted(people.labels[order], np.arange(classes + 1))
    return Dealt(
        rules=CutRules(models=models, prior=total / max(int(total.sum()), 1), hierarchy=column.hierarchy),
        counts=counts,
        members=[order[first:last] for first, last in pairwise(ends.tolist())],
        values=values.astype(np.int64),
        losses=people.losses,
    )


@dataclass(frozen=True, kw_only=True)
class RefusedCuts:
    """What the refused cuts of a class reveal.

    Attributes:
        cuts: Cuts of the class.
        widest: Whether each cut is of the attribute that Mondrian would try first, shape (cuts,).
        shares: Slip -> (cuts, 2, m) probability of each value on the near and on the far side of each cut.
    """

    cuts: Sequence[Cut]
    widest: Bools
    shares: Mapping[float, Floats]

    def of(self, place: int, slip: float) -> Floats:
        """(cuts, m) the probability of each value of one of its people."""
        sides = [0 if cut.near[place] else 1 for cut in self.cuts]
        return self.shares[slip][np.arange(len(sides)), sides]


def _cuts(dealt: Dealt, people: ReleasedPeople, k: int, rng: np.random.Generator) -> dict[int, list[Cut]]:
    """Return the cuts of the classes that have some, as many as are analysed."""
    most = min(MOST_CUTS, MOST_COUNTS // len(dealt.rules.prior))
    found, seen = dict[int, list[Cut]](), 0
    for c in rng.permutation(len(dealt.members)).tolist():  # a few thousand
        cuts = cuts_of(people, dealt.members[c], k) if len(dealt.members[c]) >= 2 * k else []
        if cuts and seen + len(cuts) <= most:
            found[c] = cuts
            seen += len(cuts)
    return found


def _evidence_of(
    dealt: Dealt, of_class: Mapping[int, list[Cut]], rng: np.random.Generator
) -> dict[int, RefusedCuts]:
    """Return what the classes with cuts reveal."""
    owner = np.array([c for c, cuts in of_class.items() for _ in cuts], np.int64)
    near = np.array([cut.size for cuts in of_class.values() for cut in cuts], np.int64)
    # If not all people of a class were found, the others are split in the same proportion.
    found = np.array([len(dealt.members[c]) for c in owner], np.int64)
    whole = dealt.counts[owner].sum(axis=1)
    near = np.clip(
        np.round(near * whole / np.maximum(found, 1)).astype(np.int64), 1, np.maximum(whole - 1, 1)
    )
    refusal = inferred(dealt.rules, dealt.counts[owner], near, rng)
    by_slip = {slip: refusal.shares(slip) for slip in SLIPS}
    ends = np.cumsum([0, *map(len, of_class.values())]).tolist()
    return {
        c: RefusedCuts(
            cuts=cuts,
            widest=_widest(cuts, dealt.losses[c]),
            shares={slip: shares[first:last] for slip, shares in by_slip.items()},
        )
        for (c, cuts), (first, last) in zip(of_class.items(), pairwise(ends), strict=True)
    }


def _widest(cuts: Sequence[Cut], losses: Floats) -> Bools:
    attributes = np.array([cut.attribute for cut in cuts])
    return np.asarray(attributes == attributes[np.argmax(losses[attributes])])


def _tried(targets: Ints, dealt: Dealt, evidence: Mapping[int, RefusedCuts]) -> Tries:
    """Return main and control of the best way of guessing."""
    attacked = np.zeros(len(dealt.values), np.bool_)
    attacked[targets] = True
    right: dict[str, list[tuple[float, float]]] = {}
    for c, members in enumerate(dealt.members):
        usual = dealt.counts[c] / dealt.counts[c].sum()
        share = np.bincount(dealt.values[members], minlength=len(usual)) / max(len(members), 1)
        for place in np.flatnonzero(attacked[members]).tolist():  # a few thousand
            truth = int(dealt.values[members[place]])
            for way, guess in _guesses(usual, evidence.get(c), place):
                right.setdefault(way, []).append((float(guess == truth), float(share[guess])))
    if not right:
        none = Rate(right=0.0, tries=0.0)
        return Tries(main=none, control=none, baseline=none)
    main, control = cross_fitted({way: tuple(np.array(both).T) for way, both in right.items()})
    return Tries(main=main, control=control, baseline=control)


def _guesses(usual: Floats, evidence: RefusedCuts | None, place: int) -> Iterator[tuple[str, int]]:
    """Yield the guess about a person, by way."""
    for slip in SLIPS:
        ways = dict.fromkeys(("one cut", "widest attribute", "all cuts"), usual)
        if evidence is not None:
            each = evidence.of(place, slip)
            ways = {
                "one cut": each[np.argmax((each - usual).max(axis=1))],
                "widest attribute": _together(usual, each[evidence.widest]),
                "all cuts": _together(usual, each),
            }
        for way, chance in ways.items():
            rise = chance - usual
            for how, most in (("likeliest", chance), ("risen most", rise)):
                yield f"{way}, {how}, {slip}", int((most if rise.max() > LEAST_RISE else usual).argmax())


def _together(usual: Floats, each: Floats) -> Floats:
    """(m,) the probability of each value by several cuts (cuts, m), as if each were independent evidence."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(usual > 0, np.log(np.maximum(each, 1e-9) / usual), 0.0).sum(axis=0)
    found = usual * np.exp(logs - logs.max())
    return np.asarray(found / found.sum(), np.float64)


def _planted(
    dealt: Dealt, people: ReleasedPeople, targets: Ints, k: int, rng: np.random.Generator
) -> tuple[Dealt, Mapping[int, RefusedCuts]]:
    """Return values and joined classes that a minimal algorithm could have released, and what they reveal.

    Classes are joined so that the expected rise is largest; the true values play no part in that choice.
    """
    best = (-1.0, dealt, dict[int, RefusedCuts]())
    joined = 1
    while joined <= max(len(dealt.members), 1):
        made, cuts = _with_leaks(_joined(dealt, people, targets, joined), people, k, rng)
        evidence = _evidence_of(made, cuts, rng)
        rise = sum(_rise(made, c, one) for c, one in evidence.items()) / max(sum(map(len, made.members)), 1)
        if rise > best[0]:
            best = rise, made, evidence
        if rise < best[0] / 4:  # larger groups reveal less and less
            break
        joined *= 2
    return best[1], best[2]


def _rise(dealt: Dealt, c: int, evidence: RefusedCuts) -> float:
    """Return how many more guesses about a class are right, by its best cut, if the evidence is right."""
    usual = dealt.counts[c] / dealt.counts[c].sum()
    near = np.array([[cut.size, len(dealt.members[c]) - cut.size] for cut in evidence.cuts])
    return float(((evidence.shares[SLIPS[0]] - usual).max(axis=2) * near).sum(axis=1).max())


def _joined(dealt: Dealt, people: ReleasedPeople, targets: Ints, size: int) -> Dealt:
    """Join neighbouring classes in groups, without counts; keep the groups of the first targets."""
    along = [c for c in people.along.tolist() if len(dealt.members[c])]
    groups = [along[i : i + size] for i in range(0, max(len(along) - size, 0) + 1, size)]
    rank = np.full(len(people.labels), len(targets), np.int64)
    rank[targets] = np.arange(len(targets))
    first = [min(int(rank[dealt.members[c]].min()) for c in group) for group in groups]
    most = min(PLANTED, PLANTED_COUNTS // len(dealt.rules.prior))
    chosen = [groups[i] for i in np.argsort(first, kind="stable")[:most]]
    members = [np.concatenate([dealt.members[c] for c in group]) for group in chosen]
    losses = np.array([people.losses[group].max(axis=0) for group in chosen])
    return replace(dealt, members=members, losses=losses)


def _with_leaks(
    dealt: Dealt, people: ReleasedPeople, k: int, rng: np.random.Generator
) -> tuple[Dealt, dict[int, list[Cut]]]:
    """Give each class the table's values, except one value on one side of a cut, the only cut that is tried.

    That value is given to as many people there as the class allows without breaking a rule, if the cut breaks
    one.
    """
    values, cuts = dealt.values.copy(), dict[int, list[Cut]]()
    upto = np.cumsum(dealt.rules.prior)
    for c, members in enumerate(dealt.members):
        quantiles = (np.arange(len(members)) + rng.random()) / len(members)
        spread = np.minimum(np.searchsorted(upto, quantiles, "right"), len(upto) - 1)
        values[members] = rng.permutation(spread)
        value = int(rng.choice(len(upto), p=dealt.rules.prior))
        found = cuts_of(people, members, k)
        if not found:
            continue
        cut = min(found, key=lambda cut: abs(cut.least / len(members) - PLANTED_SIDE))
        side = cut.near if cut.size == cut.least else ~cut.near
        who = rng.permutation(members[side])
        share = _most(dealt.rules, values[who], values[members[~side]], value)
        if share > 0:
            cuts[c] = [cut]
            values[who[: round(share * len(who))]] = value
    counts = [np.bincount(values[who], minlength=len(upto)) for who in dealt.members]
    return replace(dealt, values=values, counts=np.array(counts, np.int64).reshape(-1, len(upto))), cuts


def _most(rules: CutRules, side: Ints, others: Ints, value: int) -> float:
    """Return the largest share of a side that can get a value so that only the cut breaks a rule.

    Args:
        rules: Rules of the attribute.
        side: Values of the side, shape (a,), the first of which are changed.
        others: Values on the other side, shape (b,).
        value: Value to give.
    """
    m = len(rules.prior)
    shares = np.arange(1, STEPS + 1) / STEPS
    given = [round(share * len(side)) for share in shares]
    near = np.array([np.bincount(side[g:], minlength=m) for g in given], np.int64)
    near[:, value] += given
    whole = near + np.bincount(others, minlength=m)
    fine = (rules.margins(whole) >= PLANTED_MARGIN) & (rules.of_cuts(near, whole) < 0)
    return float(shares[fine].max(initial=0.0))
