"""Minimality: whoever knows that a release is no coarser than its rule asks for infers why it is so coarse.

Wong, Fu, Wang, Pei: Minimality attack in privacy preserving data publishing, VLDB 2007; Cormode, Srivastava,
Li, Li: Minimizing minimality and maximizing utility, VLDB 2010. The attacker knows the quasi-identifiers of
everybody in the release, and so each person's class; the sensitive values of a class; k; and the rules on
sensitive values that the release was made by. A class that a finer cut would have split into two sides of at
least k was not split: the cut would have broken a rule. So the values are not dealt to its people at random,
see `refusals`; a class of fewer than 2k people, or without such a cut, tells nothing.

Of each person the attacker says a value. Main is how often it is right; control, how often the same guess is
right of somebody who is taken at random from the people of the class, which is what the class tells without
minimality. Both are about the same people, all of them in the release: nobody outside has a class. If the
values of each class were dealt to its people at random, main would equal control on average, whatever the
guesses are, and spread no more than guesses that are independent of each other; and the control, a mean over
the class, spreads less than the sample that the interval takes it for. So the interval is wider than needed.

An attacker has several ways: to go by the one cut that tells most of a person, by all cuts of the attribute
that Mondrian would try first, or by all cuts, as if each told something by itself; to believe refusals more
or less; and to say the likeliest value, or the one whose chance rises most. The best is chosen on one half of
the people and judged on the other.

The planted leak is a release that a minimal algorithm could have made of other values, one that tries one
cut of each class: some classes are joined, and of the smaller side of a cut people have the same value, as
many of them as is fine in the class and breaks a rule behind the cut.

Limits: each record counts as a person; of several sensitive attributes each is attacked by its own rules;
other steps than cuts in two, such as the merges of a clustering, are not reversed; where classes overlap, the
attacker is wrong about the class of some people, see `natural_cuts`; there are at most `MOST_VALUES`; and of
a release of more than `natural_cuts.MOST_CLASSES` classes so many are looked at, drawn at random, and people
of these are attacked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pandas as pd

from privacy_engine.attacks.cells import Bools, Floats, Ints
from privacy_engine.attacks.inference import cross_fitted
from privacy_engine.attacks.natural_cuts import Cut, People, cuts_of
from privacy_engine.attacks.refusals import Rules, told_by
from privacy_engine.attacks.trial import Case, Rate, Tries
from privacy_engine.errors import SchemaError
from privacy_engine.tables.classes import EquivalenceClasses
from privacy_engine.tables.schema import Attribute, DataSchema
from privacy_engine.verification.models import AlphaKAnonymity, KAnonymity, PrivacyModel, SensitiveModel
from privacy_engine.vocabulary import released_as

SLIPS = (1e-6, 1e-2)  # chances that a cut is not made for another reason, of which an attacker believes one
MOST_VALUES = 200  # of a sensitive attribute
MOST_CUTS = 3_000  # whose refusal is looked into; of more, those of some classes
MOST_COUNTS = 45_000  # cuts times values that are looked into
LEAST_RISE = 1e-9  # of a chance, below which nothing is told
PLANTED = 100  # groups of classes that a leak is planted in
PLANTED_COUNTS = 3_000  # groups times values
PLANTED_SIDE = 0.2  # of a group's people behind the cut: of halves nobody could say which was refused
PLANTED_MARGIN = 0.25  # of a threshold, by which a group keeps the rules: else every cut might break them
STEPS = 20  # of the share of people who get the planted value


@dataclass(frozen=True, kw_only=True)
class Minimality:
    """Inferring sensitive values from the cuts that a release does not have."""

    name: ClassVar[str] = "minimality"

    def tries(self, case: Case, rng: np.random.Generator) -> Mapping[str, Tries]:
        """By sensitive attribute; none where no rule is about one, or the release does not tell it.

        Raises:
            SchemaError: if an attribute has more than `MOST_VALUES` values.
        """
        evidence = case.evidence
        asked = {
            a: rules
            for a in case.source.sensitive
            if released_as(a.name, evidence.release.columns) == (a.name,)
            and (rules := rules_on(a.name, evidence.rules))
        }
        if not asked or not case.source.quasi_identifiers:
            return {}
        people = People.of(evidence.release, evidence.people, case.source, rng)
        k = least_people(evidence.rules)
        return {a.name: _attacked(case, people, a, rules, k, rng) for a, rules in asked.items()}


def rules_on(attribute: str, rules: Sequence[PrivacyModel]) -> tuple[SensitiveModel, ...]:
    """The rules that speak of a sensitive attribute."""
    return tuple(r for r in rules if isinstance(r, SensitiveModel) and r.attribute in (None, attribute))


def least_people(rules: Sequence[PrivacyModel]) -> int:
    """The largest k that a rule asks for; 1 where none does."""
    return max((r.k for r in rules if isinstance(r, KAnonymity | AlphaKAnonymity)), default=1)


def _attacked(
    case: Case,
    people: People,
    attribute: Attribute,
    models: Sequence[SensitiveModel],
    k: int,
    rng: np.random.Generator,
) -> Tries:
    dealt = _dealt(case, people, attribute, models)
    if case.leak:
        dealt, told = _planted(dealt, people, case.targets, k, rng)
    else:
        told = _told(dealt, _cuts(dealt, people, k, rng), rng)
    targets = case.targets
    if case.leak or len(people.rows) < len(case.evidence.release):  # others are in no class that is looked at
        grouped = np.concatenate([*dealt.members, np.zeros(0, np.int64)])
        targets = rng.permutation(grouped)[: len(targets)]
    return _tried(targets, dealt, told)


@dataclass(frozen=True, kw_only=True)
class Dealt:
    """The sensitive values of classes, and whose they are.

    Attributes:
        rules: of the attribute.
        counts: (c, m) records of each class with each value: all that the release tells.
        members: of each class, its people.
        values: (n,) the true value of each person.
        losses: (c, q) what each class loses in each quasi-identifier.
    """

    rules: Rules
    counts: Ints
    members: Sequence[Ints]
    values: Ints
    losses: Floats


def _dealt(case: Case, people: People, attribute: Attribute, models: Sequence[SensitiveModel]) -> Dealt:
    columns = [case.evidence.release[[attribute.name]], case.evidence.people[[attribute.name]]]
    both = pd.concat(columns, ignore_index=True)
    column = EquivalenceClasses.of_table(both, DataSchema((attribute,))).sensitive[attribute.name]
    told, values = column.codes[: len(columns[0])], column.codes[len(columns[0]) :]
    if column.size > MOST_VALUES:
        raise SchemaError(
            f"{attribute.name}: minimality is tried on at most {MOST_VALUES} sensitive values, and it has "
            f"{column.size}; take the attack out of the policy, or release the attribute in fewer values"
        )
    classes = len(people.losses)
    counts = np.zeros((classes, column.size), np.int64)
    np.add.at(counts, (people.released, told[people.rows]), 1)
    total = np.bincount(told, minlength=column.size)
    order = np.argsort(people.labels, kind="stable")
    ends = np.searchsorted(people.labels[order], np.arange(classes + 1))
    return Dealt(
        rules=Rules(models=models, prior=total / max(int(total.sum()), 1), hierarchy=column.hierarchy),
        counts=counts,
        members=[order[first:last] for first, last in pairwise(ends.tolist())],
        values=values.astype(np.int64),
        losses=people.losses,
    )


@dataclass(frozen=True, kw_only=True)
class ToldOfClass:
    """What the refused cuts of a class tell.

    Attributes:
        cuts: its cuts.
        widest: (cuts,) whether a cut is of the attribute that Mondrian would try first.
        shares: by slip (cuts, 2, m) the chance of each value on the near and on the far side of each.
    """

    cuts: Sequence[Cut]
    widest: Bools
    shares: Mapping[float, Floats]

    def of(self, place: int, slip: float) -> Floats:
        """(cuts, m) of one of its people."""
        sides = [0 if cut.near[place] else 1 for cut in self.cuts]
        return self.shares[slip][np.arange(len(sides)), sides]


def _cuts(dealt: Dealt, people: People, k: int, rng: np.random.Generator) -> dict[int, list[Cut]]:
    """The cuts of the classes that have some, as many as are looked into."""
    most = min(MOST_CUTS, MOST_COUNTS // len(dealt.rules.prior))
    found, seen = dict[int, list[Cut]](), 0
    for c in rng.permutation(len(dealt.members)).tolist():  # some thousands
        cuts = cuts_of(people, dealt.members[c], k) if len(dealt.members[c]) >= 2 * k else []
        if cuts and seen + len(cuts) <= most:
            found[c] = cuts
            seen += len(cuts)
    return found


def _told(
    dealt: Dealt, of_class: Mapping[int, list[Cut]], rng: np.random.Generator
) -> dict[int, ToldOfClass]:
    """What the classes with cuts tell."""
    owner = np.array([c for c, cuts in of_class.items() for _ in cuts], np.int64)
    near = np.array([cut.size for cuts in of_class.values() for cut in cuts], np.int64)
    # Where not all people of a class were found, the others are on both sides in the same proportion.
    found = np.array([len(dealt.members[c]) for c in owner], np.int64)
    whole = dealt.counts[owner].sum(axis=1)
    near = np.clip(
        np.round(near * whole / np.maximum(found, 1)).astype(np.int64), 1, np.maximum(whole - 1, 1)
    )
    told = told_by(dealt.rules, dealt.counts[owner], near, rng)
    by_slip = {slip: told.shares(slip) for slip in SLIPS}
    ends = np.cumsum([0, *map(len, of_class.values())]).tolist()
    return {
        c: ToldOfClass(
            cuts=cuts,
            widest=_widest(cuts, dealt.losses[c]),
            shares={slip: shares[first:last] for slip, shares in by_slip.items()},
        )
        for (c, cuts), (first, last) in zip(of_class.items(), pairwise(ends), strict=True)
    }


def _widest(cuts: Sequence[Cut], losses: Floats) -> Bools:
    attributes = np.array([cut.attribute for cut in cuts])
    return np.asarray(attributes == attributes[np.argmax(losses[attributes])])


def _tried(targets: Ints, dealt: Dealt, told: Mapping[int, ToldOfClass]) -> Tries:
    """Main and control of the best way of guessing."""
    attacked = np.zeros(len(dealt.values), np.bool_)
    attacked[targets] = True
    right: dict[str, list[tuple[float, float]]] = {}
    for c, members in enumerate(dealt.members):
        usual = dealt.counts[c] / dealt.counts[c].sum()
        share = np.bincount(dealt.values[members], minlength=len(usual)) / max(len(members), 1)
        for place in np.flatnonzero(attacked[members]).tolist():  # some thousands
            truth = int(dealt.values[members[place]])
            for way, guess in _guesses(usual, told.get(c), place):
                right.setdefault(way, []).append((float(guess == truth), float(share[guess])))
    if not right:
        none = Rate(right=0.0, tries=0.0)
        return Tries(main=none, control=none, baseline=none)
    main, control = cross_fitted({way: tuple(np.array(both).T) for way, both in right.items()})
    return Tries(main=main, control=control, baseline=control)


def _guesses(usual: Floats, told: ToldOfClass | None, place: int) -> Iterator[tuple[str, int]]:
    """What is said of a person, by way."""
    for slip in SLIPS:
        ways = dict.fromkeys(("one cut", "widest attribute", "all cuts"), usual)
        if told is not None:
            each = told.of(place, slip)
            ways = {
                "one cut": each[np.argmax((each - usual).max(axis=1))],
                "widest attribute": _together(usual, each[told.widest]),
                "all cuts": _together(usual, each),
            }
        for way, chance in ways.items():
            rise = chance - usual
            for how, most in (("likeliest", chance), ("risen most", rise)):
                yield f"{way}, {how}, {slip}", int((most if rise.max() > LEAST_RISE else usual).argmax())


def _together(usual: Floats, each: Floats) -> Floats:
    """(m,) the chance of each value by several cuts (cuts, m), as if each told something by itself."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(usual > 0, np.log(np.maximum(each, 1e-9) / usual), 0.0).sum(axis=0)
    found = usual * np.exp(logs - logs.max())
    return np.asarray(found / found.sum(), np.float64)


def _planted(
    dealt: Dealt, people: People, targets: Ints, k: int, rng: np.random.Generator
) -> tuple[Dealt, Mapping[int, ToldOfClass]]:
    """Values and joined classes that a minimal algorithm could have released, and what they tell.

    So many classes are joined that what is told rises most; the true values have no part in that choice.
    """
    best = (-1.0, dealt, dict[int, ToldOfClass]())
    joined = 1
    while joined <= max(len(dealt.members), 1):
        made, cuts = _with_leaks(_joined(dealt, people, targets, joined), people, k, rng)
        told = _told(made, cuts, rng)
        rise = sum(_rise(made, c, one) for c, one in told.items()) / max(sum(map(len, made.members)), 1)
        if rise > best[0]:
            best = rise, made, told
        if rise < best[0] / 4:  # larger groups tell less and less
            break
        joined *= 2
    return best[1], best[2]


def _rise(dealt: Dealt, c: int, told: ToldOfClass) -> float:
    """How many more guesses about a class are right, by its best cut, if what is told is true."""
    usual = dealt.counts[c] / dealt.counts[c].sum()
    near = np.array([[cut.size, len(dealt.members[c]) - cut.size] for cut in told.cuts])
    return float(((told.shares[SLIPS[0]] - usual).max(axis=2) * near).sum(axis=1).max())


def _joined(dealt: Dealt, people: People, targets: Ints, size: int) -> Dealt:
    """Neighbouring classes joined, so many to one, without counts; of these those of the first targets."""
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
    dealt: Dealt, people: People, k: int, rng: np.random.Generator
) -> tuple[Dealt, dict[int, list[Cut]]]:
    """Each class with the table's values, but for one of them on one side of a cut, which alone is tried.

    It is given to as many people there as the class may have without breaking a rule, if the cut breaks one.
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


def _most(rules: Rules, side: Ints, others: Ints, value: int) -> float:
    """The largest share of a side that can get a value so that the class keeps all rules, and the cut none.

    Args:
        rules: of the attribute.
        side: (a,) values there, of which the first are changed.
        others: (b,) values on the other side.
        value: that is given.
    """
    m = len(rules.prior)
    shares = np.arange(1, STEPS + 1) / STEPS
    given = [round(share * len(side)) for share in shares]
    near = np.array([np.bincount(side[g:], minlength=m) for g in given], np.int64)
    near[:, value] += given
    whole = near + np.bincount(others, minlength=m)
    fine = (rules.margins(whole) >= PLANTED_MARGIN) & (rules.of_cuts(near, whole) < 0)
    return float(shares[fine].max(initial=0.0))
