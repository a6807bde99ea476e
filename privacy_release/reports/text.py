"""The meaning of a release's numbers and guarantees, in plain words for its readers."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The explanation of a privacy model.

    Attributes:
        name: Name of the model in the field.
        rule: Condition on every class, with ``{parameter}`` in place of the model's parameters.
        protects: Attack that the model prevents.
        leaves: Risk that the model does not prevent.
        of_persons: Condition if persons may have several records. Empty: the same as `rule`.
    """

    name: str
    rule: str
    protects: str
    leaves: str
    of_persons: str = ""


PROMISES: Mapping[str, Explanation] = {
    "k_anonymity": Explanation(
        name="k-anonymity",
        rule="Every record shares its quasi-identifier values with at least {k} records, itself included.",
        protects="Someone who knows all quasi-identifiers of a person, and that the person is in the table, "
        "picks the right record with a chance of at most 1 in {k} (identity disclosure).",
        leaves="What the members of a class have in common is learned without picking a record "
        "(attribute disclosure): the model does not restrict sensitive values.",
        of_persons="Every record shares its quasi-identifier values with records of at least {k} persons, "
        "its own included.",
    ),
    "distinct_l_diversity": Explanation(
        name="distinct l-diversity",
        rule="Every class holds at least {l} distinct sensitive values.",
        protects="The class by itself never makes a sensitive value certain: all but one of at least {l} "
        "values would have to be ruled out first.",
        leaves="One value may be far likelier than the others in a class, and values that mean nearly the "
        "same count as different.",
        of_persons="Every class holds at least {l} distinct sensitive values, and persons with at least {l} "
        "distinct sets of them.",
    ),
    "entropy_l_diversity": Explanation(
        name="entropy l-diversity",
        rule="The sensitive values of every class are as uncertain as {l} equally likely ones.",
        protects="No sensitive value dominates a class: guessing stays as hard, on average, as among {l} "
        "values.",
        leaves="Values that mean nearly the same count as different, and a class may still differ clearly "
        "from the whole table.",
    ),
    "recursive_cl_diversity": Explanation(
        name="recursive (c, l)-diversity",
        rule="In every class the most frequent sensitive value is rarer than {c} times those from rank {l} "
        "on taken together.",
        protects="The commonest value cannot dominate a class, not even after l - 2 others are ruled out.",
        leaves="Values that mean nearly the same count as different, and rare values may be much likelier in "
        "a class than in the table.",
    ),
    "t_closeness": Explanation(
        name="t-closeness",
        rule="The sensitive values of every class are distributed within {t} of the whole table's "
        "({distance} earth mover's distance).",
        protects="Finding a person's class tells little more about the sensitive value than the table as a "
        "whole.",
        leaves="The certainty about a single, rare value in a class is not bounded, and what the whole table "
        "shows is learned about everyone.",
    ),
    "alpha_k_anonymity": Explanation(
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
    "beta_likeness": Explanation(
        name="beta-likeness",
        rule="No sensitive value's share in a class exceeds its share in the table by more than {beta} times "
        "that.",
        protects="Belief in any sensitive value, rare ones included, rises by a bounded factor when the "
        "class is known.",
        leaves="Shares may fall freely, so that a value can be ruled out for the members of a class.",
    ),
    "delta_disclosure": Explanation(
        name="delta-disclosure privacy",
        rule="In every class each sensitive value's share is within a factor exp({delta}) of its share in "
        "the table.",
        protects="Belief in any sensitive value neither rises nor falls by more than that factor when the "
        "class is known.",
        leaves="What the whole table shows is learned about everyone.",
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
        "The guarantees hold for this release only. Releases of the same people, in other versions or by "
        "other publishers, can be combined; guarantees of classes do not add up.",
    ),
    (
        "The choice of quasi-identifiers",
        "Only the columns with that role are protected against linking. A column with another role that "
        "others know can be linked freely.",
    ),
    (
        "The method itself",
        "A method that loses as little as possible reveals by its choices a little of what it would "
        "otherwise have hidden (minimality attack).",
    ),
)

# If a quasi-identifier may be null.
NULLS = (
    "Missing values",
    "Others may know that a value is missing, so null counts as a value: records are equal only "
    "if both have it. A class of only nulls shows null. A class of nulls and values says so: by "
    "'or null' behind an interval, by null in a set, by the root of a hierarchy, which covers null too, or "
    "in the column of the same name that ends in _null. Its records count as if they had lost everything.",
)

# For a release with many rows per person, before all others.
KNOWN_ROWS_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Several known rows of a person",
        "Classes are counted by persons, and nothing links the rows of one person. Anyone who knows several "
        "of them can still look for what their classes have in common. The values left to someone who knows "
        "all rows are given below, for persons with the same sensitive value in all rows.",
    ),
)

# For a release of several tables, before those for linked rows.
TABLES_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Several tables are one release",
        "A person has one pseudonym in all of them. A class consists of persons whose rows have equal "
        "quasi-identifiers in every table, and who have as many rows in each. Sensitive values are measured "
        "on the rows of their own table; a class without rows there reveals nothing.",
    ),
)

# For a release in which a pseudonym links the rows of a person, before all others.
LINKED_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "The rows of a person are linked",
        "They carry the same random pseudonym, which is drawn again for each release. A class consists of "
        "persons whose rows all have equal quasi-identifiers: someone who knows each row of "
        "a person finds the class and no more. Figures of loss count rows: a class there is one row of each.",
    ),
    (
        "One row of a person",
        "The models count all values of a person. Rows of a class at the same position in its "
        "trajectories may have the same sensitive value. (alpha, k)-anonymity bounds how many share it: "
        "they are no more than the persons who have it in any row.",
    ),
    (
        "Rows without a match",
        "If a person has more rows than the person with the fewest in the class, the surplus is suppressed. "
        "Values that are frequent among people with many rows are therefore less frequent here.",
    ),
)

# For a table that was anonymized in parts: the differences from one piece.
FRAGMENT_EFFECTS: tuple[tuple[str, str], ...] = (
    (
        "No class is made across fragments",
        "Records on two sides of a cut are never in one class. So a little more is lost than in one "
        "piece, and more with smaller fragments. The guarantees were measured on all fragments together.",
    ),
    (
        "What the method learns from the data",
        "Weights, clusters and orders that a method derives from the records are those of each fragment, and "
        "so is the utility that it optimizes. Domains, and the distribution of sensitive values that models "
        "compare with, are those of the whole table.",
    ),
    (
        "What is not measured",
        "Entropy loss and query error need the whole source and the whole release at once. They are omitted, "
        "which does not mean that they are small.",
    ),
)

# For a table with pseudonyms, by their scope.
PSEUDONYM_LIMITS: Mapping[str, tuple[str, str]] = {
    "release": (
        "Pseudonyms of this release",
        "A pseudonym is a disguise, not a guarantee. It is the same in the tables of this release, so the "
        "records with the same pseudonym are linked, and anyone with the key can identify the person.",
    ),
    "series": (
        "Pseudonyms of a series",
        "A pseudonym is a disguise, not a guarantee. It is the same in all releases of the series, so the "
        "records of a person are linked over time: knowledge about them adds up, and no class of one "
        "release covers that. Anyone with the key can identify the person.",
    ),
}

# For a table with shifted dates; columns and days are filled in.
SHIFT_LIMIT: tuple[str, str] = (
    "Shifted dates: {columns}",
    "All dates of a person are moved by the same number of days, at most {days} in either direction. That is "
    "a disguise, not a guarantee: anyone with the key, or with one true date of a person, can compute all "
    "of them, and the time between two dates is the true one.",
)

# For a structure file, whose records are invented.
STRUCTURE_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Anything true",
        "The file shows which columns and values the release of these data has. Its records and figures say "
        "nothing about people: do not publish results that were computed on it.",
    ),
)

# For every differentially private release.
PRIVATE_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Several records of one person, and groups",
        "The guarantee is for one record. For a person with m records, or for m people together, "
        "epsilon counts m times.",
    ),
    (
        "People in general",
        "What holds for many people, such as how attributes are related, is meant to be learned, and also "
        "applies to people who resemble them.",
    ),
    (
        "Other releases",
        "Releases of the same people add up their epsilons. A budget only bounds the sum over the releases "
        "that are booked in it.",
    ),
)

# For a differentially private release whose loss is about all rows of a person.
PERSON_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Groups of people",
        "The guarantee is for all rows of one person. For m people together epsilon counts m times.",
    ),
    *PRIVATE_LIMITS[1:],
)

# The meaning of records in such a release, by the parameter that bounds a person's contribution.
CONTRIBUTIONS: Mapping[str, tuple[str, str]] = {
    "max_rows": (
        "What a record stands for",
        "For each person, at most this number of rows was measured, chosen at random: persons with many rows "
        "count less than in the source. The number of records comes from a noisy count.",
    ),
    "weight": (
        "What a record stands for",
        "Each person has the same weight, however many rows they have: the records are like rows of the "
        "source that are found by first choosing a person and then one of their rows. Shares are of persons, "
        "and nothing shows how many rows there are.",
    ),
}

# For a table that was drawn from a differentially private model.
SYNTHETIC_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Likeness to the source",
        "Nothing here shows how close the records are to the source: that would be a figure of the people "
        "who are protected. Every count has noise, and attributes that the network does not connect are "
        "independent.",
    ),
    (
        "Records",
        "No record belongs to a person. One may equal a person's record by chance, like a guess, and that "
        "reveals nothing about that person.",
    ),
    *PRIVATE_LIMITS,
)

# The same if the loss is about all rows of a person.
SYNTHETIC_PERSON_LIMITS = (*SYNTHETIC_LIMITS[: -len(PRIVATE_LIMITS)], *PERSON_LIMITS)

# For a table whose values were randomized one by one.
RANDOMIZED_LIMITS: tuple[tuple[str, str], ...] = (
    (
        "Single records",
        "No record is the true record of a person, and none can be read individually: a value may be true or "
        "random. Only shares and means over many records are meaningful, with the given errors.",
    ),
    (
        "New values",
        "Each new value of a person is answered again and costs its epsilon again. If answers are "
        "memoised, a change itself shows: anyone who can tell which records of two releases belong to one "
        "person sees that an answer changed, and when. Epsilon does not cover that.",
    ),
    (
        "The secret",
        "Anyone with the secret of memoised answers can find out which of them are true. The publisher keeps "
        "it apart from the data.",
    ),
    (
        "Several records of one person, and groups",
        "The guarantee is for one record. For m people together epsilon counts m times.",
    ),
    (
        "Transformed numbers",
        "A number that was released as y = a x + b (TRR) has no differential privacy: the nearer it is to 0, "
        "the less noise it gets. The breach width applies to an average person and an attacker who knows "
        "nothing else.",
    ),
    (
        "Attributes released unchanged",
        "They can be linked to a person like any published column, and no epsilon covers them.",
    ),
)

# method of randomization -> its name, see `privacy_engine.randomizers.accounts`
CHANNELS: Mapping[str, str] = {
    "hiding": "partial hiding (ERRPH)",
    "channel": "a separate channel",
    "laplace": "bounded Laplace noise",
    "transformation": "y = a x + b (TRR)",
}

# mechanism -> (name, description)
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
        "Of all candidates, the one with the highest score after noise is chosen; the scores are not "
        "kept. On a secret sample of the records the same noise costs less.",
    ),
}

# figure -> (label, unit, description); unit: "share", "risk", "count", "number"
FIGURES: Mapping[str, tuple[str, str, str]] = {
    "gcp_lca": (
        "Detail lost (GCP), by common ancestor",
        "share",
        "How much coarser the released quasi-identifiers are than the source: 0 % keeps every value, 100 % "
        "keeps nothing. A cell counts as the share of the domain that its interval or its node in the "
        "hierarchy covers.",
    ),
    "gcp_own": (
        "Detail lost (GCP), by own values",
        "share",
        "The same, but several values of a hierarchy are charged as a set. Compare "
        "such figures only with each other.",
    ),
    "gcp_bound": (
        "Least detail that any k-anonymous release loses",
        "share",
        "A proven lower bound of the detail lost by common ancestor, whatever the method. It is rounded down "
        "to two digits.",
    ),
    "non_uniform_entropy": (
        "Information lost (non-uniform entropy)",
        "share",
        "Share of the quasi-identifiers' information that is gone, rare values weighing more.",
    ),
    "query_error": (
        "Median query error",
        "share",
        "By how much counts over random ranges of two quasi-identifiers are wrong if they are computed on "
        "the release, as a share of the true count. Half of the counts are closer.",
    ),
    "average_class_size": (
        "Average class size",
        "number",
        "Mean number of records that look alike. The smaller, the more detail is left.",
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

# Contents of each release's commit, next to the figures of its manifest.
COUNTED: Mapping[str, tuple[str, str, str]] = {
    "rows": ("Records released", "count", ""),
    "k": ("k, measured", "number", "size of the smallest class"),
    "l": ("l, measured", "number", "sensitive values in the poorest class"),
    "t": ("t, measured", "number", "distance of the farthest class"),
    "epsilon": ("Epsilon spent", "number", ""),
}

# Number that an approval compares with the last release -> (label, unit, description)
CHANGES: Mapping[str, tuple[str, str, str]] = {
    "rows": ("Records", "count", ""),
    "k": (
        "k: size of the smallest class",
        "number",
        "A class is a set of records that look the same in all quasi-identifiers.",
    ),
    "l": ("l: different sensitive values in the poorest class", "number", ""),
    "t": (
        "t: distance of the farthest class from the whole table",
        "number",
        "Of its sensitive values, from 0 (the same distribution) to 1.",
    ),
    "epsilon": (
        "Epsilon: privacy loss of the release",
        "number",
        "How much the release may depend on any one person. At 0 it would reveal nothing.",
    ),
    "gcp": (
        "Detail lost in quasi-identifiers (GCP)",
        "share",
        "0 % keeps every value, 100 % keeps nothing.",
    ),
    "suppressed": ("Share of records left out", "share", ""),
    "rules kept": ("Rules of the policy that passed", "count", ""),
}

# Figures that verification counts on the bytes to be published, for any method.
ALONE: Mapping[str, tuple[str, str, str]] = {
    "not_sensitive": (
        "Unique in the columns that are not sensitive",
        "share",
        "Share of the records that differ from all others in the columns that are not sensitive. Anyone who "
        "knows these values finds the record.",
    ),
    "sensitive": (
        "Unique in the sensitive columns",
        "share",
        "Share of the records that differ from all others in the sensitive columns together.",
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
        "Records with a risk above 20 %",
        "share",
        "Share of the records in classes of fewer than five.",
    ),
    "journalist_max": (
        "Journalist risk, highest",
        "risk",
        "The same chance if the attacker does not know who is in the table. Without data about the whole "
        "population, the prosecutor risk is given, which is its upper bound.",
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
        "Share of the classes in which all records have the same sensitive value. Anyone found in one of "
        "them has that value.",
    ),
    "values_left": (
        "Values left, all rows known",
        "count",
        "For a person with one sensitive value in all rows, and an attacker who knows which rows these are: "
        "the number of values that all their classes have in common, for the worst person.",
    ),
    "persons_below_l": (
        "Persons with fewer than l left",
        "count",
        "Persons for whom fewer than l values are left then. The policy model row_intersection bounds it.",
    ),
}

NOTES: Mapping[str, str] = {
    "distorted": "Share of the records whose sensitive value was exchanged for another (R_man). "
    "If it is above 0, the table is not truthful record by record.",
    "clusters": "Clusters of similar sensitive values. A class belongs to one of them unless it had too few "
    "values or could be improved.",
    "absorbed_values": "Sensitive values too rare to find l - 1 companions; they joined the nearest cluster.",
    "withheld": "Records omitted because their people could not be protected together with earlier releases.",
    "counterfeits": "Records that belong to no person, added so that classes keep their sets of sensitive "
    "values. The column counterfeits states how many are in a record's class: subtract them when you count.",
    "breach": "Largest breach coefficient of an attribute: the share of its values that is released "
    "unchanged, times the chance that such a value is recognised.",
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
    """Return for which other tables a release is nearly as likely. `participants`: if only some take part."""
    return NEIGHBOURS.get("participants" if participants else neighbours, neighbours)


def promise_in_words(promise: Mapping[str, Any]) -> str:
    """Return the guarantee of a schedule for each person, from the `over_time` section of a manifest.

    >>> loss = {"epsilon": 1.6, "delta": 0.0}
    >>> promise_in_words({"releases_of_a_person": 4, "period": "total", "loss": loss})
    "Each person's loss is at most epsilon 1.6 in all, however many releases: no one takes part in over 4."
    """
    loss, period = promise["loss"], promise["period"]
    delta = f" and delta {figure(loss['delta'])}" if loss["delta"] else ""
    when = "in all" if period == "total" else f"in any {period.removesuffix('d')} days"
    whole = f"Each person's loss is at most epsilon {figure(loss['epsilon'])}{delta} {when}"
    if "part" in promise:
        return (
            f"{whole}, even for a person in every release: each of {promise['releases']} releases spends "
            f"an equal part, epsilon {figure(promise['part']['epsilon'])}, and the ledger refuses more."
            f"{_opened(promise)}"
        )
    return f"{whole}, however many releases: no one takes part in over {promise['releases_of_a_person']}."


def _opened(promise: Mapping[str, Any]) -> str:
    """Return a sentence on the first release, which was paid in addition to the guarantee."""
    if "opening" not in promise:
        return ""
    return (
        f" The schedule's first release, whose tables all later ones measure again, spends epsilon "
        f"{figure(promise['opening']['epsilon'])} in addition, once."
    )


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The explanation of a model with its parameters filled in. `name` is `model` with the attribute."""

    model: str
    name: str
    rule: str
    protects: str
    leaves: str


def claim(fields: Mapping[str, Any], *, of_persons: bool = False) -> Claim:
    """Explain a model from its plain values (``model_to_dict``). An unknown model is named, not explained.

    Args:
        fields: Name and parameters of the model.
        of_persons: Whether persons may have several records.

    >>> claim({"model": "k_anonymity", "k": 5}).rule
    'Every record shares its quasi-identifier values with at least 5 records, itself included.'
    """
    promise = PROMISES.get(str(fields["model"]))
    if promise is None:
        model = str(fields["model"])
        return Claim(
            model=model, name=model, rule="", protects="Not explained here.", leaves="Not explained here."
        )
    attribute = fields.get("attribute")
    return Claim(
        model=promise.name,
        name=f"{promise.name} of {attribute}" if attribute is not None else promise.name,
        rule=((of_persons and promise.of_persons) or promise.rule).format_map(fields),
        protects=promise.protects.format_map(fields),
        leaves=promise.leaves.format_map(fields),
    )


def figure(value: float) -> str:
    """Format a number for readers: at most four significant digits, an exponent only for the very small.

    >>> figure(5.0), figure(0.25), figure(30162), figure(0.123456), figure(51234.5)
    ('5', '0.25', '30,162', '0.1235', '51,234')
    >>> figure(1e-9), figure(-7.555e-05), figure(math.inf)
    ('1e-9', '-7.6e-5', 'unlimited')
    """
    if not math.isfinite(value):
        return "unlimited" if value > 0 else str(value)
    if float(value).is_integer() or abs(value) >= 10_000:
        return f"{value:,.0f}"
    if abs(value) < 0.0001:
        return re.sub(r"e-0*", "e-", f"{value:.2g}")
    return f"{value:,.4g}"


def measured_in_words(finding: Mapping[str, Any]) -> str:
    """Return what the check of a rule measured.

    >>> measured_in_words({"rule": "k_anonymity(k=5)", "measured": 6.0, "passed": True})
    '6'
    >>> measured_in_words({"rule": "attack_risk(...)", "measured": -7.555e-05, "passed": True})
    '0.000'
    >>> measured_in_words(
    ...     {"rule": "k_anonymity(k=5)", "measured": None, "passed": True, "note": "Not applicable"}
    ... )
    'not applicable'
    """
    value = finding["measured"]
    if value is None:
        if str(finding.get("note") or "").startswith("Not applicable"):
            return "not applicable"
        return "tried" if finding["passed"] else "not measurable"
    if str(finding["rule"]).startswith("attack_risk"):
        return signed(value, 3)
    return shown(value, _unit_of(finding))


def limit_in_words(finding: Mapping[str, Any]) -> str:
    """Return the limit of a rule in the unit of what was measured.

    >>> (
    ...     limit_in_words({"rule": "max_gcp", "threshold": 0.12}),
    ...     limit_in_words({"rule": "k(k=5)", "threshold": 5}),
    ... )
    ('12 %', '5')
    """
    return shown(finding["threshold"], _unit_of(finding))


def _unit_of(finding: Mapping[str, Any]) -> str:
    return "share" if str(finding["rule"]).startswith(("max_gcp", "max_suppressed")) else "number"


def shown(value: float, unit: str) -> str:
    """Format a figure with its unit.

    >>> shown(0.03309, "share"), shown(0.2, "risk"), shown(150824.0, "count"), shown(5.25, "number")
    ('3.31 %', '20 % (1 in 5)', '150,824', '5.25')
    >>> shown(0.00000012, "share"), shown(0.9999, "share")
    ('below 0.01 %', '99.99 %')
    """
    if unit in ("share", "risk"):
        share = _percent(value)
        often = f"{1 / value:,.1f}".removesuffix(".0") if value else ""
        return f"{share} (1 in {often})" if unit == "risk" and value else share
    return f"{value:,.0f}" if unit == "count" else figure(value)


def _percent(value: float) -> str:
    if 0 < value < 0.0001:
        return "below 0.01 %"
    digits = 4 if 0.995 <= value < 1 else 3  # 99.97 % is not 100 %
    return f"{100 * value:.{digits}g} %"


def signed(value: float, digits: int = 2) -> str:
    """Format a number that may be negative, without a sign if it is rounded to 0.

    >>> signed(-0.001), signed(-0.013), signed(0.1234, 3)
    ('0.00', '-0.01', '0.123')
    """
    return f"{round(value, digits) + 0.0:.{digits}f}"
