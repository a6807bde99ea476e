"""What the numbers and guarantees of a release mean, in plain words for its readers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A privacy model explained.

    Attributes:
        name: the model's name in the field.
        rule: what holds in every class; ``{parameter}`` stands for the model's parameters.
        protects: what an attacker cannot do.
        leaves: what it does not stop.
        of_persons: the rule where several records may be of one person; empty: it reads the same.
    """

    name: str
    rule: str
    protects: str
    leaves: str
    of_persons: str = ""


PROMISES: Mapping[str, Promise] = {
    "k_anonymity": Promise(
        name="k-anonymity",
        rule="Every record shares its quasi-identifier values with at least {k} records, itself included.",
        protects="Someone who knows all quasi-identifiers of a person, and that the person is in the table, "
        "picks the right record with a chance of at most 1 in {k} (identity disclosure).",
        leaves="What the members of a class have in common is learned without picking a record "
        "(attribute disclosure): it bounds nothing about sensitive values.",
        of_persons="Every record shares its quasi-identifier values with records of at least {k} persons, "
        "its own included.",
    ),
    "distinct_l_diversity": Promise(
        name="distinct l-diversity",
        rule="Every class holds at least {l} distinct sensitive values.",
        protects="Nobody's sensitive value is certain from the class alone: all but one of at least {l} "
        "values would have to be ruled out first.",
        leaves="One value may be far likelier than the others in a class, and values that mean nearly the "
        "same count as different.",
        of_persons="Every class holds at least {l} distinct sensitive values, and persons with at least {l} "
        "distinct sets of them.",
    ),
    "entropy_l_diversity": Promise(
        name="entropy l-diversity",
        rule="The sensitive values of every class are as uncertain as {l} equally likely ones.",
        protects="No sensitive value dominates a class: guessing stays as hard, on average, as among {l} "
        "values.",
        leaves="Values that mean nearly the same count as different, and a class may still differ clearly "
        "from the whole table.",
    ),
    "recursive_cl_diversity": Promise(
        name="recursive (c, l)-diversity",
        rule="In every class the most frequent sensitive value is rarer than {c} times those from rank {l} "
        "on taken together.",
        protects="The commonest value cannot dominate a class, not even after l - 2 others are ruled out.",
        leaves="Values that mean nearly the same count as different, and rare values may be much likelier in "
        "a class than in the table.",
    ),
    "t_closeness": Promise(
        name="t-closeness",
        rule="The sensitive values of every class are distributed within {t} of the whole table's "
        "({distance} earth mover's distance).",
        protects="Finding a person's class tells little more about the sensitive value than the table as a "
        "whole.",
        leaves="It does not bound how certain one single, rare value may become, and what the whole table "
        "shows is learned about everybody.",
    ),
    "alpha_k_anonymity": Promise(
        name="(alpha, k)-anonymity",
        rule="Every class has at least {k} records, and no sensitive value more than a share {alpha} of "
        "them.",
        protects="A record is picked with a chance of at most 1 in {k}, and a sensitive value is inferred "
        "from the class with a confidence of at most {alpha}.",
        leaves="Values that mean nearly the same count as different; a rare value may still become much "
        "likelier than in the table.",
        of_persons="Every class has records of at least {k} persons, and no more than a share {alpha} of "
        "them have the same sensitive value.",
    ),
    "beta_likeness": Promise(
        name="beta-likeness",
        rule="No sensitive value's share in a class exceeds its share in the table by more than {beta} times "
        "that.",
        protects="Belief in any sensitive value, rare ones included, rises by a bounded factor when the "
        "class is known.",
        leaves="Shares may fall freely, so that a value can be ruled out for the members of a class.",
    ),
    "delta_disclosure": Promise(
        name="delta-disclosure privacy",
        rule="In every class each sensitive value's share is within a factor exp({delta}) of its share in "
        "the table.",
        protects="Belief in any sensitive value neither rises nor falls by more than that factor when the "
        "class is known.",
        leaves="What the whole table shows is learned about everybody.",
    ),
}

LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Background knowledge",
        "Someone who knows other members of a class, or facts outside this table, may exclude records and "
        "conclude more than the guarantees say.",
    ),
    (
        "Other releases",
        "The guarantees hold for this release alone. Releases of the same people, in other versions or by "
        "other publishers, may be intersected; class guarantees do not add up.",
    ),
    (
        "The choice of quasi-identifiers",
        "Only the columns with that role are protected against linking. A column that is known to others but "
        "has another role links freely.",
    ),
    (
        "The method itself",
        "A method that loses as little as possible shows by its choices a little of what it would otherwise "
        "have lost (minimality attack).",
    ),
)

# Where a quasi-identifier may be null.
NULLS = (
    "Missing values",
    "That a value is missing can be known to others, so a null is a value of its own: records are equal only "
    "if both have one. A class of nulls alone shows them as null. A class of nulls and values says so: by "
    "'or null' behind an interval, by null in a set, by the root of a hierarchy, which covers null too, or "
    "in the column of the same name that ends in _null. Its records are charged as if all were lost.",
)

# Of a release with many rows a person, before all others.
KNOWN_ROWS_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Several known rows of a person",
        "Classes are counted by persons, and nothing links the rows of one. Whoever knows several of them "
        "can still look for what their classes have in common: the values left to who knows all rows are "
        "told below, where persons have the same sensitive value in all rows.",
    ),
)

# Of a release of several tables, before those of linked rows.
TABLES_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Several tables are one release",
        "A person has one pseudonym in all of them. A class is of persons whose rows have equal "
        "quasi-identifiers in every table, and who have as many in each. What is sensitive is measured by "
        "the rows of its own table; a class without rows there has nothing to tell.",
    ),
)

# Of a release in which a pseudonym links the rows of a person, before all others.
LINKED_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "The rows of a person are linked",
        "They carry the same random pseudonym, drawn anew for each release. A class is of persons whose rows "
        "have equal quasi-identifiers, all of them together: whoever knows each row of a person finds the "
        "class and no more. Figures of loss are of rows: a class there is one row of each of these persons.",
    ),
    (
        "One row of a person",
        "The models count all values of a person. In the rows of a class that have one place in its "
        "trajectories, the sensitive value may be the same. (alpha, k)-anonymity bounds how many share it: "
        "they are no more than the persons who have it in any row.",
    ),
    (
        "Rows without a match",
        "Rows of a person beyond those of the person with fewest in the class are suppressed. What is "
        "frequent with people of many rows is less so here.",
    ),
)

# Of a table that was anonymized in parts: what differs from one piece.
FRAGMENT_EFFECTS: tuple[tuple[str, str], ...] = (
    (
        "No class is made across fragments",
        "Records on two sides of a cut are never put into one class. So a little more is lost than in one "
        "piece, the more so the smaller the fragments. The guarantees were measured on all of them together.",
    ),
    (
        "What the method learns from the data",
        "Weights, clusters and orders that a method takes from the records are those of each fragment, and "
        "so is the utility it aims at. Domains, and the distribution of sensitive values that models compare "
        "with, are those of the whole table.",
    ),
    (
        "What is not measured",
        "Entropy loss and query error need the whole source beside the whole release: they are left out, "
        "which does not mean that they are small.",
    ),
)

# Of a table with pseudonyms, by their scope.
PSEUDONYM_LIMITS: Mapping[str, tuple[str, str]] = {
    "release": (
        "Pseudonyms of this release",
        "A pseudonym is a disguise, not a guarantee. It is the same in the tables of this release, so the "
        "records that it stands on are linked, and who has the key can tell whose it is.",
    ),
    "series": (
        "Pseudonyms of a series",
        "A pseudonym is a disguise, not a guarantee. It is the same in all releases of the series, so the "
        "records of a person are linked over time: what is known of them adds up, and no class of one "
        "release covers that. Who has the key can tell whose it is.",
    ),
}

# Of a table with shifted dates; columns and days are filled in.
SHIFT_LIMIT: tuple[str, str] = (
    "Shifted dates: {columns}",
    "All dates of a person are moved by the same number of days, at most {days} either way. That is a "
    "disguise, not a guarantee: who has the key, or knows one true date of a person, can tell them all, and "
    "the time between two of them is the true one.",
)

# Of every differentially private release.
PRIVATE_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Several records of one person, and groups",
        "The promise is for one record. For somebody with m records in the source, or for m people together, "
        "epsilon counts m times.",
    ),
    (
        "People in general",
        "What holds for many people, such as how two attributes go together, is meant to be learned, and is "
        "learned of those who resemble them.",
    ),
    (
        "Other releases",
        "Releases of the same people add up their epsilons. A budget bounds the sum over the releases that "
        "are booked in it, and no others.",
    ),
)

# Of a differentially private release whose loss is about all rows of a person.
PERSON_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Groups of people",
        "The promise is for all rows of one person. For m people together epsilon counts m times.",
    ),
    *PRIVATE_LIMITS[1:],
)

# What the records of such a release stand for, by the parameter that bounds what a person contributes.
CONTRIBUTIONS: Mapping[str, tuple[str, str]] = {
    "max_rows": (
        "What a record stands for",
        "Of each person so many rows at most were measured, chosen at random: persons with many rows count "
        "for less than in the source. The number of records comes from a noisy count.",
    ),
    "weight": (
        "What a record stands for",
        "Each person weighs the same, however many rows they have: the records are like rows of the source "
        "that are found by first choosing a person and then one of their rows. Shares are of persons, and "
        "nothing says how many rows there are.",
    ),
}

# Of a table that was drawn from a differentially private model.
SYNTHETIC_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Likeness to the source",
        "Nothing here says how near the records are to the people's: that would be a figure of the people, "
        "who are protected. Every count is off by noise, and what the network does not join is independent.",
    ),
    (
        "Records",
        "No record is a person's. One may equal a person's by chance, as a guess can, and that tells nothing "
        "of that person.",
    ),
    *PRIVATE_LIMITS,
)

# The same where its loss is about all rows of a person.
SYNTHETIC_PERSON_LIMITS = (*SYNTHETIC_LIMITS[: -len(PRIVATE_LIMITS)], *PERSON_LIMITS)

# Of a table whose values were randomized one by one.
RANDOMIZED_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Single records",
        "No record is a person's true one, and none is meant to be read alone: a value may be true or drawn "
        "at random. Only shares and means over many records say something, with the errors that are told.",
    ),
    (
        "New values",
        "Each new value of a person is answered anew and costs its epsilon again. Where answers are "
        "memoised, a change itself shows: whoever can tell which records of two releases are one person's "
        "sees that an answer changed, and when. Epsilon does not cover that.",
    ),
    (
        "The secret",
        "Whoever holds the secret of memoised answers can tell which of them are true. It is kept apart from "
        "the data, by whoever releases.",
    ),
    (
        "Several records of one person, and groups",
        "The promise is for one record. For m people together epsilon counts m times.",
    ),
    (
        "Transformed numbers",
        "A number that was released as y = a x + b (TRR) has no differential privacy: the nearer it is to 0, "
        "the less noise it gets. The breach width speaks of an average person who knows nothing else.",
    ),
    (
        "Attributes released as they are",
        "They can be linked to a person like any published column, and no epsilon is for them.",
    ),
)

# how an attribute was randomized, see `privacy_engine.randomizers.accounts`
CHANNELS: Mapping[str, str] = {
    "hiding": "partial hiding (ERRPH)",
    "channel": "a channel of its own",
    "laplace": "bounded Laplace noise",
    "transformation": "y = a x + b (TRR)",
}

# mechanism -> (name, what it did)
MECHANISMS: Mapping[str, tuple[str, str]] = {
    "discrete_laplace": (
        "Discrete Laplace noise",
        "Whole-number noise on every cell of a table of counts, before anything is read from it.",
    ),
    "discrete_gaussian": (
        "Discrete Gaussian noise",
        "Whole-number noise on every cell of a table of counts, before anything is read from it. Its cost is "
        "counted as rho (zero-concentrated differential privacy).",
    ),
    "noisy_max": (
        "Noisy maximum",
        "Of all candidates the one whose score is highest after noise is chosen; of the scores nothing is "
        "kept. On a secret sample of the records the same noise costs less.",
    ),
}

# figure -> (label, unit, what it says); unit: "share", "risk", "count", "number"
FIGURES: Mapping[str, tuple[str, str, str]] = {
    "gcp_lca": (
        "Global certainty penalty, by common ancestor",
        "share",
        "Mean loss of a quasi-identifier cell: width of its interval, or leaves under its node, over the "
        "domain. 0 keeps all, 1 keeps nothing.",
    ),
    "gcp_own": (
        "Global certainty penalty, by own values",
        "share",
        "The same, where several values of a tree are charged as the set of themselves. Compare only like "
        "with like.",
    ),
    "gcp_bound": (
        "No k-anonymous release can lose less than",
        "share",
        "A lower bound of the penalty by common ancestor, whatever the method, rounded down to two digits.",
    ),
    "non_uniform_entropy": (
        "Non-uniform entropy loss",
        "share",
        "Share of the quasi-identifiers' information that is gone, rare values weighing more.",
    ),
    "query_error": (
        "Median query error",
        "share",
        "How far counts over random regions of two quasi-identifiers are off when asked of the release.",
    ),
    "average_class_size": (
        "Average class size",
        "number",
        "Records that look alike. At best the promised k.",
    ),
    "discernibility": (
        "Discernibility penalty",
        "count",
        "Sum of the squared class sizes; a suppressed record counts the whole table.",
    ),
    "suppressed_records": (
        "Suppressed records",
        "count",
        "Records of the source that are not in the release.",
    ),
    "suppressed_cells": (
        "Changed cells",
        "count",
        "Quasi-identifier cells that do not show their original value.",
    ),
}

# What stands in the commit of each release, beside the figures of its manifest.
COUNTED: Mapping[str, tuple[str, str, str]] = {
    "rows": ("Records released", "count", ""),
    "k": ("k, measured", "number", "size of the smallest class"),
    "l": ("l, measured", "number", "sensitive values in the poorest class"),
    "t": ("t, measured", "number", "distance of the farthest class"),
    "epsilon": ("Epsilon spent", "number", ""),
}

# What verification counts on the bytes to be published, whatever the method.
ALONE: Mapping[str, tuple[str, str, str]] = {
    "not_sensitive": (
        "Unique in the columns that are not sensitive",
        "share",
        "Share of the records that no other equals in all released columns but the sensitive ones. Whoever "
        "knows these values finds the record.",
    ),
    "sensitive": (
        "Unique in the sensitive columns",
        "share",
        "Share of the records that no other equals in the sensitive columns together.",
    ),
}

RISKS: Mapping[str, tuple[str, str, str]] = {
    "prosecutor_max": (
        "Prosecutor risk, highest",
        "risk",
        "Chance of picking the right record for the most exposed person, known to be in the table.",
    ),
    "prosecutor_mean": ("Prosecutor risk, mean", "risk", "The same for the average record."),
    "share_at_risk": (
        "Records above a risk of 0.2",
        "share",
        "Share of the records in classes of fewer than five.",
    ),
    "journalist_max": (
        "Journalist risk, highest",
        "risk",
        "As above, when it is not known who is in the table; without a population table the prosecutor's "
        "risk is its upper bound.",
    ),
    "journalist_mean": ("Journalist risk, mean", "risk", "The same for the average record."),
    "marketer": (
        "Marketer risk",
        "share",
        "Share of the records that would be linked rightly if all were linked: classes over records.",
    ),
    "hasr": (
        "Classes with one sensitive value",
        "share",
        "In them the sensitive value of everybody is disclosed without picking a record.",
    ),
    "values_left": (
        "Values left, all rows known",
        "count",
        "Of a person with one sensitive value in all rows, to whoever knows which rows these are: the values "
        "that all their classes have in common; of the worst person.",
    ),
    "persons_below_l": (
        "Persons with fewer than l left",
        "count",
        "Persons of whom fewer than l values are left then. The policy model row_intersection bounds it.",
    ),
}

NOTES: Mapping[str, str] = {
    "distorted": "Share of the records whose sensitive value was exchanged for another (R_man). "
    "Where it is above 0 the table is not truthful record by record.",
    "clusters": "Clusters of alike sensitive values. A class is of one of them, but where it had too few "
    "values or could be improved.",
    "absorbed_values": "Sensitive values too rare to find l - 1 companions; they joined the nearest cluster.",
    "withheld": "Records left out since their people could not be kept safe together with earlier releases.",
    "counterfeits": "Records that are of nobody, added so that classes keep their sets of sensitive values. "
    "The column counterfeits says how many of a record's class they are: take that off when you count.",
    "breach": "Largest breach coefficient of an attribute: the share of its values that is released as it "
    "is, times the chance that such a one is recognised.",
}

NEIGHBOURS: Mapping[str, str] = {
    "add_remove": "with or without any one record",
    "replace_one": "with any one record exchanged for another; the number of records is public",
    "replace_person": "with all rows of any one person exchanged for another person's; the number of persons "
    "is public, the number of rows is not",
    "participants": "with all rows of any one person exchanged for another's, left out or added; neither "
    "the number of persons nor that of rows is public",
}


def neighbours_in_words(neighbours: str, *, participants: bool) -> str:
    """For what other tables a release is nearly as likely; `participants`: whether only some take part."""
    return NEIGHBOURS.get("participants" if participants else neighbours, neighbours)


def promise_in_words(told: Mapping[str, Any]) -> str:
    """What a schedule promises to each person, of what a manifest tells of it as `over_time`.

    >>> loss = {"epsilon": 1.6, "delta": 0.0}
    >>> promise_in_words({"releases_of_a_person": 4, "period": "total", "loss": loss})
    "Each person's loss is at most epsilon 1.6 in all, however many releases: nobody takes part in over 4."
    """
    loss, period = told["loss"], told["period"]
    delta = f" and delta {loss['delta']:g}" if loss["delta"] else ""
    when = "in all" if period == "total" else f"in any {period.removesuffix('d')} days"
    whole = f"Each person's loss is at most epsilon {loss['epsilon']:g}{delta} {when}"
    if "part" in told:
        return (
            f"{whole}, whoever is in every release: each of {told['releases']} releases spends an equal "
            f"part, epsilon {told['part']['epsilon']:.4g}, and the ledger refuses one more.{_opened(told)}"
        )
    return f"{whole}, however many releases: nobody takes part in over {told['releases_of_a_person']}."


def _opened(told: Mapping[str, Any]) -> str:
    """What was paid for beside a promise: the release that all others follow."""
    if "opening" not in told:
        return ""
    return (
        f" The schedule's first release, whose tables all later ones measure again, spends epsilon "
        f"{told['opening']['epsilon']:.4g} beside it, once."
    )


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A promise with its parameters filled in."""

    name: str
    rule: str
    protects: str
    leaves: str


def claim(fields: Mapping[str, Any], *, of_persons: bool = False) -> Claim:
    """A model's plain values (``model_to_dict``) in words; an unknown model is named and not explained.

    Args:
        fields: the model's name and parameters.
        of_persons: whether several records may be of one person.

    >>> claim({"model": "k_anonymity", "k": 5}).rule
    'Every record shares its quasi-identifier values with at least 5 records, itself included.'
    """
    promise = PROMISES.get(str(fields["model"]))
    if promise is None:
        return Claim(
            name=str(fields["model"]), rule="", protects="Not explained here.", leaves="Not explained here."
        )
    attribute = fields.get("attribute")
    return Claim(
        name=f"{promise.name} of {attribute}" if attribute is not None else promise.name,
        rule=((of_persons and promise.of_persons) or promise.rule).format_map(fields),
        protects=promise.protects.format_map(fields),
        leaves=promise.leaves.format_map(fields),
    )


def shown(value: float, unit: str) -> str:
    """A figure with its unit.

    >>> shown(0.03309, "share"), shown(0.2, "risk"), shown(150824.0, "count"), shown(5.25, "number")
    ('3.31 %', '0.200 (1 in 5.0)', '150,824', '5.25')
    """
    if unit == "share":
        return f"{100 * value:.3g} %"
    if unit == "risk":
        return f"{value:.3f} (1 in {1 / value:,.1f})" if value else "0"
    return f"{value:,.0f}" if unit == "count" else f"{value:,.4g}"


def signed(value: float, digits: int = 2) -> str:
    """A number that may be below 0; without a sign where it is rounded to 0.

    >>> signed(-0.001), signed(-0.013), signed(0.1234, 3)
    ('0.00', '-0.01', '0.123')
    """
    return f"{round(value, digits) + 0.0:.{digits}f}"
